// The W4A16 runner as C++ callers have it: products with bare pointers, and every misuse an error.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

#include "ac4k/w4a16.hpp"

namespace {

using Runner = ac4k::W4A16Runner;

uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float to_float(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// One product with its tensors.
struct Problem {
  static constexpr int64_t M = 3, N = 70, K = 256, kGroup = 64;
  explicit Problem(Runner::Quant quant)
      : runner(Runner::Type::bf16, quant), zeros_there(quant == Runner::Quant::group_zeros) {
    std::mt19937 random(1);
    for (auto& code : q) code = static_cast<uint8_t>(random() % 16);
    for (auto& each : scales) each = bf16_of(0.01f * static_cast<float>(1 + random() % 8));
    for (auto& each : zeros) each = bf16_of(static_cast<float>(random() % 16));
    for (auto& each : a) each = bf16_of(static_cast<float>(random() % 9) - 4);
    for (auto& each : bias) each = bf16_of(static_cast<float>(random() % 5));
    packed.resize(static_cast<size_t>(runner.packed_size(N, K, kGroup)));
    pack();
  }
  void pack() {
    runner.pack(q.data(), scales.data(), zeros_there ? zeros.data() : nullptr, N, K, kGroup,
                packed.data(), std::ssize(packed));
  }
  Runner::Product product() {
    return {a.data(),
            packed.data(),
            std::ssize(packed),
            bias.data(),
            nullptr,
            0.5f,
            AC4K_W4A16_NONE,
            c.data(),
            M,
            N,
            K,
            kGroup,
            0,
            nullptr,
            0,
            nullptr};
  }
  double expected(int64_t m, int64_t n) const {
    double sum = 0;
    for (int64_t k = 0; k < K; ++k) {
      const auto g = static_cast<size_t>(n * (K / kGroup) + k / kGroup);
      const double zero = zeros_there ? to_float(zeros[g]) : 8.0;
      sum += to_float(a[static_cast<size_t>(m * K + k)]) * double{to_float(scales[g])} *
             (q[static_cast<size_t>(n * K + k)] - zero);
    }
    return 0.5 * sum + to_float(bias[static_cast<size_t>(n)]);
  }

  Runner runner;
  bool zeros_there;
  std::vector<uint8_t> q = std::vector<uint8_t>(N * K);
  std::vector<uint16_t> scales = std::vector<uint16_t>(N * K / kGroup), zeros = scales;
  std::vector<uint16_t> a = std::vector<uint16_t>(M * K), bias = std::vector<uint16_t>(N);
  std::vector<uint16_t> c = std::vector<uint16_t>(M * N, 0xffff);
  std::vector<uint8_t> packed;
};

// The text of what `call` throws; empty when it throws nothing.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const ac4k::Error& error) {
    EXPECT_EQ(error.code(), AC4K_INVALID_VALUE) << error.what();
    return error.what();
  }
  return "";
}
#define EXPECT_REFUSED(call, text) \
  EXPECT_NE(error_of([&] { call; }).find(text), std::string::npos) << error_of([&] { call; })

TEST(W4A16Runner, EveryConfigMultiplies) {
  for (const auto quant : {Runner::Quant::group, Runner::Quant::group_zeros}) {
    Problem problem(quant);
    const auto names = problem.runner.configs(Problem::M, Problem::N, Problem::K);
    ASSERT_EQ(names.at(0), "auto");
    for (size_t config = 0; config < names.size(); ++config) {
      std::fill(problem.c.begin(), problem.c.end(), uint16_t{0xffff});  // NaN
      auto product = problem.product();
      product.config = static_cast<int64_t>(config);
      problem.runner.gemm(product);
      for (int64_t m = 0; m < Problem::M; ++m) {
        for (int64_t n = 0; n < Problem::N; ++n) {
          const double expected = problem.expected(m, n);
          EXPECT_NEAR(to_float(problem.c[static_cast<size_t>(m * Problem::N + n)]), expected,
                      0.05 + 0.01 * std::abs(expected))
              << names[config] << " " << m << " " << n;
        }
      }
    }
  }
}

TEST(W4A16Runner, TuningIsRemembered) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("ac4k_w4a16_" + std::to_string(std::random_device()()));
  const std::string before = ac4k_get("cache_dir");
  ASSERT_EQ(ac4k_set("cache_dir", folder.c_str()), AC4K_OK);
  Problem problem(Runner::Quant::group);
  std::vector<double> microseconds;
  const int64_t best = problem.runner.tune(problem.product(), 0.01, &microseconds);
  EXPECT_EQ(problem.runner.best_config(Problem::M, Problem::N, Problem::K, Problem::kGroup), best);
  for (const double time : microseconds) {
    EXPECT_GE(time, microseconds[static_cast<size_t>(best)]);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "w4a16_tuned.tsv"));
  ac4k_set("cache_dir", before.c_str());
  std::filesystem::remove_all(folder);
}

TEST(W4A16Runner, TuningRefusesToAddAgainAndAgain) {
  Problem problem(Runner::Quant::group);
  auto product = problem.product();
  product.residual = product.c;
  EXPECT_REFUSED(problem.runner.tune(product, 0.01), "argument 'residual'");
}

TEST(W4A16Runner, PackRefusesWhatDoesNotFit) {
  Problem plain(Runner::Quant::group), zeros(Runner::Quant::group_zeros);
  const auto pack = [](Problem& p, const uint8_t* q, const void* s, const void* z, int64_t group,
                       int64_t bytes) {
    p.runner.pack(q, s, z, Problem::N, Problem::K, group, p.packed.data(), bytes);
  };
  const int64_t bytes = std::ssize(plain.packed), more = std::ssize(zeros.packed);
  EXPECT_REFUSED(pack(plain, plain.q.data(), nullptr, nullptr, 64, bytes),
                 "W4A16Runner.pack: argument 'scales': expected a pointer, got null");
  EXPECT_REFUSED(pack(plain, nullptr, plain.scales.data(), nullptr, 64, bytes), "'q'");
  EXPECT_REFUSED(pack(plain, plain.q.data(), plain.scales.data(), plain.zeros.data(), 64, bytes),
                 "argument 'zeros': expected null for group");
  EXPECT_REFUSED(pack(zeros, zeros.q.data(), zeros.scales.data(), nullptr, 64, more),
                 "argument 'zeros': expected a pointer, got null");
  EXPECT_REFUSED(pack(plain, plain.q.data(), plain.scales.data(), nullptr, 48, bytes),
                 "argument 'group_size': expected a divisor of K = 256, got 48");
  EXPECT_REFUSED(pack(plain, plain.q.data(), plain.scales.data(), nullptr, 16, bytes),
                 "argument 'group_size': expected 32, 64, a multiple of 128 or K");
  EXPECT_REFUSED(pack(plain, plain.q.data(), plain.scales.data(), nullptr, 0, bytes),
                 "argument 'group_size'");
  EXPECT_REFUSED(pack(plain, plain.q.data(), plain.scales.data(), nullptr, 64, bytes - 1),
                 "argument 'packed_bytes'");
  const char* odd = reinterpret_cast<const char*>(plain.scales.data()) + 1;
  EXPECT_REFUSED(pack(plain, plain.q.data(), odd, nullptr, 64, bytes),
                 "argument 'scales': expected an address that is a multiple of 2");
  plain.q[5] = 16;
  EXPECT_REFUSED(plain.pack(), "argument 'q': expected codes of 0 to 15, got 16");
  const Runner per_channel(Runner::Type::f16, Runner::Quant::per_channel);
  EXPECT_REFUSED(per_channel.packed_size(64, 256, 128), "expected K = 256 for per_channel");
  EXPECT_EQ(per_channel.packed_size(64, 256, 256), 2 * 4224);
}

TEST(W4A16Runner, GemmRefusesMisuseAndWritesNothing) {
  Problem problem(Runner::Quant::group);
  const auto refused = [&](auto change, const char* text) {
    auto product = problem.product();
    change(product);
    EXPECT_REFUSED(problem.runner.gemm(product), text);
    EXPECT_REFUSED(problem.runner.gemm(product), "W4A16Runner.gemm: argument '");
  };
  using Product = Runner::Product;
  refused([](Product& p) { p.a = nullptr; }, "'a': expected a pointer, got null");
  refused([](Product& p) { p.b = nullptr; }, "'b': expected a pointer, got null");
  refused([](Product& p) { p.c = nullptr; }, "'c': expected a pointer, got null");
  refused([](Product& p) { p.b_bytes = p.N * p.K / 2; }, "as a packed weight [70, 256] has");
  refused([](Product& p) { p.b = static_cast<const char*>(p.b) + 8; }, "'b': expected an address");
  refused([](Product& p) { p.a = static_cast<const char*>(p.a) + 1; }, "'a': expected an address");
  refused([](Product& p) { p.bias = static_cast<const char*>(p.bias) + 1; }, "'bias': expected");
  refused([](Product& p) { p.config = 99; }, "'config': expected one of 0 to");
  refused([](Product& p) { p.config = -1; }, "'config': expected one of 0 to");
  refused([](Product& p) { p.workspace_bytes = -1; }, "'workspace_bytes': expected at least 0");
  refused([](Product& p) { p.activation = 9; }, "'activation': expected");
  refused([](Product& p) { p.group_size = 100; }, "'group_size': expected a divisor of K = 256");
  refused([](Product& p) { p.M = -1; }, "'M': expected a size");
  refused([](Product& p) { p.K = int64_t{1} << 40; }, "'K': expected a size");
  for (const uint16_t each : problem.c) EXPECT_EQ(each, 0xffff);
}

TEST(W4A16Runner, NullsAndDevices) {
  EXPECT_EQ(ac4k_w4a16_runner_gemm(nullptr, nullptr), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_w4a16_runner_create({kDLBfloat, 16, 1}, 1, {kDLCPU, 0}, nullptr),
            AC4K_INVALID_VALUE);
  ac4k_w4a16_runner* runner = nullptr;
  EXPECT_EQ(ac4k_w4a16_runner_create({kDLFloat, 32, 1}, 1, {kDLCPU, 0}, &runner),
            AC4K_INVALID_TYPE);
  EXPECT_EQ(ac4k_w4a16_runner_create({kDLFloat, 16, 1}, 7, {kDLCPU, 0}, &runner),
            AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_w4a16_runner_create({kDLFloat, 16, 1}, 1, {kDLMetal, 0}, &runner),
            AC4K_UNSUPPORTED);
  EXPECT_EQ(runner, nullptr);
  ac4k_w4a16_runner_destroy(nullptr);
  ASSERT_EQ(ac4k_w4a16_runner_create({kDLFloat, 16, 1}, 1, {kDLCPU, 0}, &runner), AC4K_OK);
  EXPECT_EQ(ac4k_w4a16_runner_gemm(runner, nullptr), AC4K_INVALID_VALUE);
  const char* name = nullptr;
  EXPECT_EQ(ac4k_w4a16_runner_config_name(runner, 1, 8, 128, 99, &name), AC4K_INVALID_VALUE);
  ac4k_w4a16_runner_destroy(runner);
}

}  // namespace
