// The op table, its signature language, and calls through the C ABI.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "ac4k/ac4k.hpp"
#include "core/check.hpp"
#include "core/op.hpp"

namespace ac4k {
namespace {

Signature parsed(const char* text, const char* types = "T: f32 bf16") {
  Signature signature;
  EXPECT_EQ(Signature::parse(text, types, &signature), AC4K_OK) << ac4k_last_error();
  return signature;
}

TEST(Signature, EveryDeclarationParses) {
  ASSERT_GT(op_table().size(), 0u);
  for (const Op* op : op_table()) {
    Signature signature;
    EXPECT_EQ(Signature::parse(op->decl.signature, op->decl.types, &signature), AC4K_OK)
        << ac4k_last_error();
    EXPECT_TRUE(op->decl.cpu != nullptr) << signature.name << " has no CPU kernel";
    EXPECT_EQ(ac4k_find_op(signature.name.c_str()), op);
    EXPECT_STREQ(ac4k_op_name(op), signature.name.c_str());
  }
}

TEST(Signature, ReadsEveryPart) {
  const auto signature = parsed(
      "f(a: T[..., K] strided, q: u8[M, K/32, 18], b: T[M]? = None, *, eps: float = 1e-6, n: int,"
      " flip: bool = True, mode: {plain, fancy} = fancy) -> T[..., M], f32[M*2, 4]");
  ASSERT_EQ(signature.params.size(), 7u);
  EXPECT_TRUE(signature.params[0].tensor.leading);
  EXPECT_TRUE(signature.params[0].tensor.strided);
  EXPECT_EQ(signature.params[1].tensor.dims[1].divide, 32);
  EXPECT_EQ(signature.params[1].tensor.dims[2].multiply, 18);
  EXPECT_TRUE(signature.params[2].tensor.optional);
  EXPECT_TRUE(signature.params[3].keyword_only);
  EXPECT_DOUBLE_EQ(signature.params[3].default_real, 1e-6);
  EXPECT_EQ(signature.params[5].default_integer, 1);
  EXPECT_EQ(signature.params[6].default_integer, 1);
  ASSERT_EQ(signature.outputs.size(), 2u);
  EXPECT_EQ(signature.outputs[1].dims[0].multiply, 2);
}

TEST(Signature, SaysWhereItIsWrong) {
  for (const char* wrong : {"f(a T[M]) -> T[M]", "f(a: X[M]) -> T[M]", "f(a: T[M]", "f(a: T[M])",
                            "f(a: T[M, ...]) -> T[M]", "f(a: T[M]) -> T[M] more",
                            "f(a: {x, y} = z) -> T[M]", "f(a: T[M] = None) -> T[M]", ""}) {
    Signature signature;
    EXPECT_NE(Signature::parse(wrong, "T: f32", &signature), AC4K_OK) << wrong;
    EXPECT_NE(std::string(ac4k_last_error()).find("expected"), std::string::npos) << wrong;
  }
}

TEST(Call, ThroughTheCppWrapper) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 0, 1, 1, 1}, c(4, -1);
  gemm(TensorView(a.data(), {2, 3}), TensorView(b.data(), {3, 2}), TensorView(c.data(), {2, 2}));
  EXPECT_EQ(c, (std::vector<float>{4, 5, 10, 11}));
  // B transposed, by strides.
  gemm(TensorView(a.data(), {2, 3}), TensorView(a.data(), {3, 2}, {kDLCPU, 0}, {1, 3}),
       TensorView(c.data(), {2, 2}));
  EXPECT_EQ(c, (std::vector<float>{14, 32, 32, 77}));
}

TEST(Call, FailuresThrowWithTheirCodeAndWriteNothing) {
  std::vector<float> a(6, 1), c(4, -1);
  const TensorView view(a.data(), {2, 3}), out(c.data(), {2, 2});
  try {
    gemm(view, view, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), AC4K_INVALID_VALUE);
    EXPECT_STREQ(error.what(),
                 "gemm: argument 'B': expected shape [K, N] with K = 3, set by 'A', got [2, 3]");
  }
  EXPECT_EQ(c, std::vector<float>(4, -1));
}

TEST(Call, RefusesNonsenseFromC) {
  float value = 0;
  int64_t shape[] = {1};
  DLTensor tensor{&value, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const ac4k_op* op = ac4k_find_op("element_wise_mul_add");
  ac4k_arg args[4] = {};
  for (auto& arg : args) arg = {AC4K_ARG_TENSOR, {.tensor = &tensor}};
  const DLTensor* outputs[] = {&tensor};
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_OK);
  EXPECT_EQ(ac4k_call(nullptr, args, 3, outputs, 1, nullptr), AC4K_INVALID_TYPE);
  EXPECT_EQ(ac4k_call(op, args, 4, outputs, 1, nullptr), AC4K_INVALID_TYPE);
  EXPECT_EQ(ac4k_call(op, args, 2, outputs, 1, nullptr), AC4K_INVALID_TYPE);
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 0, nullptr), AC4K_INVALID_TYPE);
  const DLTensor* none[] = {nullptr};
  EXPECT_EQ(ac4k_call(op, args, 3, none, 1, nullptr), AC4K_INVALID_TYPE);
  args[1].value.tensor = nullptr;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_TYPE);
  args[1] = {99, {}};
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_TYPE);
  DLTensor bad = tensor;
  args[1] = {AC4K_ARG_TENSOR, {.tensor = &bad}};
  bad.ndim = -3;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  bad = tensor;
  bad.data = nullptr;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  bad = tensor;
  bad.byte_offset = 2;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  bad = tensor;
  int64_t negative[] = {-1};
  bad.shape = negative;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  bad = tensor;
  bad.device = {kDLVulkan, 0};
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  for (auto& arg : args) arg.value.tensor = &bad;
  const DLTensor* bad_outputs[] = {&bad};
  EXPECT_EQ(ac4k_call(op, args, 3, bad_outputs, 1, nullptr), AC4K_UNSUPPORTED);
}

TEST(Call, InferAndSettings) {
  float value = 0;
  int64_t shape[] = {5, 7};
  DLTensor tensor{&value, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  ac4k_arg args[] = {{AC4K_ARG_TENSOR, {.tensor = &tensor}},
                     {AC4K_ARG_TENSOR, {.tensor = &tensor}}};
  ac4k_tensor_spec spec;
  EXPECT_EQ(ac4k_infer(ac4k_find_op("gemm"), args, 2, &spec, 1), AC4K_INVALID_VALUE);
  shape[1] = 5;
  ASSERT_EQ(ac4k_infer(ac4k_find_op("gemm"), args, 2, &spec, 1), AC4K_OK);
  EXPECT_EQ(spec.ndim, 2);
  EXPECT_EQ(spec.shape[0], 5);
  EXPECT_EQ(ac4k_set("num_threads", "2"), AC4K_OK);
  EXPECT_STREQ(ac4k_get("num_threads"), "2");
  EXPECT_EQ(ac4k_set("num_threads", "two"), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_set("num_threads", "0"), AC4K_OK);
  EXPECT_EQ(ac4k_set("nonsense", "1"), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_get("nonsense"), nullptr);
  EXPECT_NE(std::string(ac4k_info_json()).find("\"cpu\""), std::string::npos);
  EXPECT_EQ(ac4k_find_op("nonsense"), nullptr);
  EXPECT_EQ(ac4k_op_at(100000), nullptr);
}

TEST(Call, ErrorsBelongToTheirThread) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const std::string name = "setting" + std::to_string(i);
      for (int j = 0; j < 1000; ++j) {
        ASSERT_EQ(ac4k_set(name.c_str(), "x"), AC4K_INVALID_VALUE);
        ASSERT_NE(std::string(ac4k_last_error()).find(name), std::string::npos);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace ac4k
