// AC4K from C++: views of memory you own go in, results are written where you say.
#include <ac4k/ac4k.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

using ac4k::TensorView;

std::vector<float> waves(int64_t size, double frequency) {
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = static_cast<float>(std::sin(frequency * (i + 1)));
  return values;
}

void expect_small(const char* what, double error, double tolerance) {
  std::printf("%-22s largest error %.1e (allowed %.1e)\n", what, error, tolerance);
  if (!(error <= tolerance)) throw std::logic_error(std::string(what) + ": wrong result");
}

int main() try {
  std::printf("AC4K %s\n", ac4k_version());
  const int64_t M = 33, N = 65, K = 127;

  // a * b + c, element by element.
  const std::vector<float> a = waves(M * K, 0.1), b = waves(M * K, 0.2), c = waves(M * K, 0.3);
  std::vector<float> sums(M * K);
  ac4k::element_wise_mul_add(TensorView(a.data(), {M, K}), TensorView(b.data(), {M, K}),
                             TensorView(c.data(), {M, K}), TensorView(sums.data(), {M, K}));
  double error = 0;
  for (int64_t i = 0; i < M * K; ++i) {
    error = std::fmax(error, std::fabs(sums[i] - (double{a[i]} * b[i] + c[i])));
  }
  expect_small("element_wise_mul_add", error, 2.5e-7);  // |values| <= 2, at most two roundings

  // A matrix product.
  const std::vector<float> w = waves(K * N, 0.4);
  std::vector<float> product(M * N);
  ac4k::gemm(TensorView(a.data(), {M, K}), TensorView(w.data(), {K, N}),
             TensorView(product.data(), {M, N}));
  error = 0;
  for (int64_t row = 0; row < M; ++row) {
    for (int64_t column = 0; column < N; ++column) {
      double expected = 0;
      for (int64_t k = 0; k < K; ++k) expected += double{a[row * K + k]} * w[k * N + column];
      error = std::fmax(error, std::fabs(product[row * N + column] - expected));
    }
  }
  expect_small("gemm", error, K * K * 6e-8);  // K sums, each at most K, rounded by 2^-24

  // 4-bit weights: packed once, then multiplied by a kernel of one's choice. In bits, 1 and 0.5.
  const uint16_t one = 0x3f80, half = 0x3f00;  // of bfloat16
  const std::vector<uint8_t> codes(N * 128, 9);
  const std::vector<uint16_t> scales(N, half), tokens(M * 128, one);
  const ac4k::W4A16Runner runner(ac4k::W4A16Runner::Type::bf16, ac4k::W4A16Runner::Quant::group);
  std::vector<uint8_t> packed(runner.packed_size(N, 128, 128));
  runner.pack(codes.data(), scales.data(), nullptr, N, 128, 128, packed.data(), packed.size());
  std::vector<uint16_t> products(M * N);
  runner.gemm(tokens.data(), packed.data(), packed.size(), nullptr, 1.0f, products.data(), M, N,
              128, 128, runner.best_config(M, N, 128, 128));
  error = 0;
  for (const uint16_t each : products) error = std::fmax(error, each != 0x4280);  // 128 * 0.5
  expect_small("W4A16Runner", error, 0);

  // A mistake is an exception that says what was expected, and nothing is written.
  try {
    ac4k::gemm(TensorView(a.data(), {M, K}), TensorView(b.data(), {M, K}),
               TensorView(product.data(), {M, N}));
    throw std::logic_error("a wrong shape was accepted");
  } catch (const ac4k::Error& mistake) {
    std::printf("as it should, this fails: %s\n", mistake.what());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
