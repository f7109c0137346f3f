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
  EXPECT_TRUE(signature.params[0].tensor.shapes[0].leading);
  EXPECT_EQ(signature.params[0].tensor.layout, Layout::strided);
  EXPECT_EQ(signature.params[1].tensor.shapes[0].dims[1].divide, 32);
  EXPECT_EQ(signature.params[1].tensor.shapes[0].dims[2].multiply, 18);
  EXPECT_TRUE(signature.params[2].tensor.optional);
  EXPECT_TRUE(signature.params[3].keyword_only);
  EXPECT_DOUBLE_EQ(signature.params[3].default_real, 1e-6);
  EXPECT_EQ(signature.params[5].default_integer, 1);
  EXPECT_EQ(signature.params[6].default_integer, 1);
  ASSERT_EQ(signature.outputs.size(), 2u);
  EXPECT_EQ(signature.outputs[1].shapes[0].dims[0].multiply, 2);
}

TEST(Signature, ReadsWhatDependsOnArguments) {
  const auto signature = parsed(
      "f(x: T[..., N] row_strided, k: T[..., G]? = None, *, by: {a, b} = a, dtype: Q = u8,"
      " flip: bool = False) -> Q[..., N], f32[by: 1 | ceil(rows/2), ceil(N/64)*4], T[..., G] if k,"
      " i32[N] if not flip",
      "T: f32 bf16; Q: i8 u8");
  EXPECT_EQ(signature.params[0].tensor.layout, Layout::row_strided);
  EXPECT_EQ(signature.params[3].kind, ParamKind::dtype);
  EXPECT_EQ(signature.params[3].default_integer, 1);
  EXPECT_TRUE(signature.scalars_first);
  ASSERT_EQ(signature.outputs.size(), 4u);
  EXPECT_EQ(signature.outputs[1].chooser, 2);
  ASSERT_EQ(signature.outputs[1].shapes.size(), 2u);
  const Dim& padded = signature.outputs[1].shapes[1].dims[1];
  EXPECT_EQ(padded.extent(65), 8);
  EXPECT_EQ(padded.text(signature.dim_names), "ceil(N/64)*4");
  EXPECT_EQ(signature.outputs[1].shapes[1].dims[0].symbol, Dim::kRows);
  EXPECT_EQ(signature.outputs[2].condition, 1);
  EXPECT_EQ(signature.outputs[2].may_be, 2u);
  EXPECT_TRUE(signature.outputs[3].negated);
  const auto writer = parsed("f(x: T[N], cache: T[N] mutable)");
  EXPECT_TRUE(writer.has_mutable);
  EXPECT_TRUE(writer.params[1].tensor.is_mutable);
  EXPECT_TRUE(writer.outputs.empty());
}

// Two ops that do nothing but say what they were called with.
Status write_marks(const Call& call) {
  for (size_t i = 0; i < call.op.signature.outputs.size(); ++i) {
    if (!call.has_output(static_cast<int>(i))) continue;
    *static_cast<uint8_t*>(data_of(call.output(static_cast<int>(i)))) = 42;
  }
  return AC4K_OK;
}
Status write_cache(const Call& call) {
  *static_cast<float*>(data_of(call.tensor(1))) = 42;
  return AC4K_OK;
}

class DeclaredCall : public testing::Test {
 protected:
  static DLTensor view(void* data, std::vector<int64_t>& shape, DLDataType dtype,
                       std::vector<int64_t>* strides = nullptr) {
    return {data,  {kDLCPU, 0},  static_cast<int32_t>(shape.size()),
            dtype, shape.data(), strides ? strides->data() : nullptr,
            0};
  }
  static constexpr DLDataType kF32{kDLFloat, 32, 1}, kU8{kDLUInt, 8, 1}, kI8{kDLInt, 8, 1};
};

TEST_F(DeclaredCall, ShapesDtypesAndOutputsFollowTheArguments) {
  const Op op({.signature = "f(x: T[..., N] row_strided, k: T[..., G]? = None, *, by: {a, b} = a,"
                            " dtype: Q = u8) -> Q[..., N],"
                            " f32[by: 1 | ceil(rows/2), ceil(N/64)*4], T[..., G] if k",
               .types = "T: f32 bf16; Q: i8 u8",
               .doc = "",
               .formula = "",
               .example = "",
               .tolerance = 0,
               .cpu = write_marks});
  std::vector<float> memory(200), k(9), scale(64);
  std::vector<uint8_t> codes(64);
  std::vector<int64_t> x_shape{3, 5}, k_shape{3, 3}, strides{7, 1}, scale_shape{2, 4}, one{1};
  const DLTensor x = view(memory.data(), x_shape, kF32, &strides);
  const DLTensor given_k = view(k.data(), k_shape, kF32);
  ac4k_arg args[] = {{AC4K_ARG_TENSOR, {.tensor = &x}},
                     {AC4K_ARG_NONE, {}},
                     {AC4K_ARG_STRING, {.string = "b"}},
                     {AC4K_ARG_STRING, {.string = "int8"}}};
  ac4k_tensor_spec specs[3];
  ASSERT_EQ(ac4k_infer(&op, args, 4, specs, 3), AC4K_OK) << ac4k_last_error();
  EXPECT_EQ(word_of(specs[0].dtype), word_of(kI8));
  EXPECT_EQ(shape_text(specs[1].ndim, specs[1].shape), "[2, 4]");
  EXPECT_EQ(specs[2].ndim, AC4K_NO_OUTPUT);
  const DLTensor q = view(codes.data(), x_shape, kI8), s = view(scale.data(), scale_shape, kF32);
  const DLTensor* outputs[] = {&q, &s, nullptr};
  EXPECT_EQ(ac4k_call(&op, args, 4, outputs, 3, nullptr), AC4K_OK) << ac4k_last_error();
  EXPECT_EQ(codes[0], 42);
  outputs[2] = &given_k;
  EXPECT_EQ(ac4k_call(&op, args, 4, outputs, 3, nullptr), AC4K_INVALID_TYPE);
  args[1] = {AC4K_ARG_TENSOR, {.tensor = &given_k}};
  ASSERT_EQ(ac4k_infer(&op, args, 4, specs, 3), AC4K_OK);
  EXPECT_EQ(shape_text(specs[2].ndim, specs[2].shape), "[3, 3]");
  outputs[2] = nullptr;
  EXPECT_EQ(ac4k_call(&op, args, 4, outputs, 3, nullptr), AC4K_INVALID_TYPE);
  args[1].kind = AC4K_ARG_NONE;
  args[3].value.string = "float64";
  EXPECT_EQ(ac4k_infer(&op, args, 4, specs, 3), AC4K_INVALID_VALUE);
  args[3].value.string = "u8";
  EXPECT_EQ(ac4k_infer(&op, args, 2, specs, 3), AC4K_OK);
  EXPECT_EQ(shape_text(specs[1].ndim, specs[1].shape), "[1]");
  strides[1] = 2;  // the last dim is no longer contiguous
  EXPECT_EQ(ac4k_infer(&op, args, 4, specs, 3), AC4K_INVALID_VALUE);
  EXPECT_NE(std::string(ac4k_last_error()).find("contiguous last dim"), std::string::npos);
}

TEST_F(DeclaredCall, WritesIntoArgumentsThatCanBeWritten) {
  const Op op({.signature = "f(x: T[N], cache: T[N] strided mutable)",
               .types = "T: f32",
               .doc = "",
               .formula = "",
               .example = "",
               .tolerance = 0,
               .cpu = write_cache});
  std::vector<float> memory(20), x(3);
  std::vector<int64_t> shape{3}, strides{2};
  const DLTensor input = view(x.data(), shape, kF32);
  const DLTensor cache = view(memory.data(), shape, kF32, &strides);
  ac4k_arg args[] = {{AC4K_ARG_TENSOR, {.tensor = &input}}, {AC4K_ARG_TENSOR, {.tensor = &cache}}};
  EXPECT_EQ(ac4k_call(&op, args, 2, nullptr, 0, nullptr), AC4K_OK) << ac4k_last_error();
  EXPECT_EQ(memory[0], 42);
  const DLTensor backwards = {&memory[19], {kDLCPU, 0}, 1, kF32, shape.data(), strides.data(), 0};
  strides[0] = -2;
  args[1].value.tensor = &backwards;
  EXPECT_EQ(ac4k_call(&op, args, 2, nullptr, 0, nullptr), AC4K_OK) << ac4k_last_error();
  EXPECT_EQ(memory[19], 42);
  args[1].value.tensor = &cache;
  strides[0] = 0;
  EXPECT_EQ(ac4k_call(&op, args, 2, nullptr, 0, nullptr), AC4K_INVALID_VALUE);
  EXPECT_NE(std::string(ac4k_last_error()).find("do not overlap"), std::string::npos);
  args[1].value.tensor = &input;
  EXPECT_EQ(ac4k_call(&op, args, 2, nullptr, 0, nullptr), AC4K_INVALID_VALUE);
}

TEST(Signature, SaysWhereItIsWrong) {
  for (const char* wrong : {"f(a T[M]) -> T[M]", "f(a: X[M]) -> T[M]", "f(a: T[M]", "f(a: T[M])",
                            "f(a: T[M, ...]) -> T[M]", "f(a: T[M]) -> T[M] more",
                            "f(a: {x, y} = z) -> T[M]", "f(a: T[M] = None) -> T[M]", "",
                            "f(a: T[M]) -> T[M] if b", "f(a: T[b: M | 1], b: {x}) -> T[M]",
                            "f(a: T[ceil(M/2]) -> T[M]", "f(a: T[M]) -> T[M] if a"}) {
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
  bad.shape = nullptr;
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  EXPECT_STREQ(ac4k_last_error(),
               "element_wise_mul_add: argument 'b': expected a shape, got a null pointer");
  args[1].value.tensor = &tensor;
  const DLTensor* shapeless[] = {&bad};
  EXPECT_EQ(ac4k_call(op, args, 3, shapeless, 1, nullptr), AC4K_INVALID_VALUE);
  EXPECT_STREQ(ac4k_last_error(),
               "element_wise_mul_add: argument 'out': expected a shape, got a null pointer");
  args[1].value.tensor = &bad;
  bad = tensor;
  bad.device = {kDLVulkan, 0};
  EXPECT_EQ(ac4k_call(op, args, 3, outputs, 1, nullptr), AC4K_INVALID_VALUE);
  for (auto& arg : args) arg.value.tensor = &bad;
  const DLTensor* bad_outputs[] = {&bad};
  EXPECT_EQ(ac4k_call(op, args, 3, bad_outputs, 1, nullptr), AC4K_UNSUPPORTED);
}

TEST(Call, RefusesNullPointersAndWrongIndices) {
  float value = 0;
  int64_t shape[] = {1};
  DLTensor tensor{&value, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const ac4k_op* op = ac4k_find_op("relu2");
  const ac4k_arg arg = {AC4K_ARG_TENSOR, {.tensor = &tensor}};
  const DLTensor* outputs[] = {&tensor};
  ac4k_tensor_spec spec;
  const auto refused = [](ac4k_status status, const char* argument) {
    EXPECT_EQ(status, AC4K_INVALID_VALUE);
    EXPECT_EQ(ac4k_last_error(),
              "relu2: argument '" + std::string(argument) + "': expected a pointer, got null");
  };
  refused(ac4k_infer(op, nullptr, 1, &spec, 1), "args");
  refused(ac4k_infer(op, &arg, 1, nullptr, 1), "specs");
  refused(ac4k_call(op, nullptr, 1, outputs, 1, nullptr), "args");
  refused(ac4k_call(op, &arg, 1, nullptr, 1, nullptr), "outputs");
  EXPECT_EQ(ac4k_op_num_params(nullptr), 0u);
  EXPECT_EQ(ac4k_op_num_outputs(nullptr), 0u);
  EXPECT_EQ(ac4k_op_param(op, 99).name, nullptr);
  EXPECT_EQ(ac4k_op_param(nullptr, 0).name, nullptr);
  EXPECT_EQ(ac4k_op_choice(op, 99, 0), nullptr);
  EXPECT_EQ(ac4k_op_output_is_optional(op, 9), 0);
  EXPECT_EQ(ac4k_abi_version(), AC4K_ABI_VERSION);
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
