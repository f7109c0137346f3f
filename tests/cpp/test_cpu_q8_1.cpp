// Products of raw GGUF blocks on every level, against sums in double. Memory is of the exact size:
// the sanitizers' build sees a byte read or written beyond it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/q8_1.hpp"

namespace ac4k::cpu {
namespace {

struct Layout {
  const char* name;
  BlockProductFormat format;
  int bytes, codes_at, bits_at;  // of a block; fifth bits, if there are any
  int offset;                    // of codes; of formats with a minimum it is 0
};
constexpr Layout kLayouts[] = {{"q4_0", kRawQ4_0, 18, 2, 0, 8},
                               {"q4_1", kRawQ4_1, 20, 4, 0, 0},
                               {"q5_0", kRawQ5_0, 22, 6, 2, 16},
                               {"q5_1", kRawQ5_1, 24, 8, 4, 0},
                               {"q8_0", kRawQ8_0, 34, 2, 0, 128}};
constexpr int kQ81Bytes = 36;

// 2^-exponent as f16.
uint16_t power(int exponent) { return static_cast<uint16_t>((15 - exponent) << 10); }
double half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return std::ldexp(1.0, (bits >> 10) - 15);
}

std::vector<double> weights_of(const Layout& layout, const uint8_t* block) {
  std::vector<double> values(32);
  const uint8_t* p = block + layout.codes_at;
  for (int i = 0; i < 32; ++i) {
    int code = layout.offset == 128 ? static_cast<int8_t>(p[i]) + 128
               : i < 16             ? p[i] & 15
                                    : p[i - 16] >> 4;
    if (layout.bits_at > 0) code += (block[layout.bits_at + i / 8] >> i % 8 & 1) << 4;
    values[static_cast<size_t>(i)] = half_at(block) * (code - layout.offset);
    if (layout.offset == 0) values[static_cast<size_t>(i)] += half_at(block + 2);
  }
  return values;
}

class RawBlocks : public testing::TestWithParam<std::tuple<const char*, Layout>> {
 protected:
  void SetUp() override {
    const char* level = std::get<0>(GetParam());
    if (set_isa(level) != AC4K_OK) GTEST_SKIP() << "this CPU has no " << level;
  }
  void TearDown() override { (void)set_isa("auto"); }
};

TEST_P(RawBlocks, AgreeWithinTheirMemory) {
  const Layout layout = std::get<1>(GetParam());
  std::mt19937 random(3);
  // Leftovers of 16 rows; of 4 and 8 activations; of 2, 8, 16 and 64 blocks.
  constexpr int64_t kSizes[][3] = {{1, 1, 1}, {2, 3, 17}, {16, 4, 8}, {19, 13, 67}, {33, 6, 16}};
  for (const auto& [M, N, blocks] : kSizes) {
    const auto size = [](int64_t count) { return static_cast<size_t>(count); };
    const std::unique_ptr<uint8_t[]> w(new uint8_t[size(M * blocks * layout.bytes)]);
    const std::unique_ptr<uint8_t[]> a(new uint8_t[size(N * blocks * kQ81Bytes)]);
    const std::unique_ptr<float[]> out(new float[size(M * N)]);
    const auto fill = [&](uint8_t* block, int bytes, int scales) {
      for (int i = 0; i < bytes; ++i) block[i] = static_cast<uint8_t>(random());
      for (int i = 0; i < scales; ++i) {
        const uint16_t scale = power(static_cast<int>(random() % 2));
        std::memcpy(block + 2 * i, &scale, 2);
      }
    };
    for (int64_t b = 0; b < M * blocks; ++b) {
      fill(w.get() + b * layout.bytes, layout.bytes, layout.offset == 0 ? 2 : 1);
    }
    for (int64_t b = 0; b < N * blocks; ++b) fill(a.get() + b * kQ81Bytes, kQ81Bytes, 2);

    ASSERT_EQ(multiply_q8_1({.format = layout.format,
                             .weight = w.get(),
                             .activation = a.get(),
                             .M = M,
                             .N = N,
                             .num_blocks = blocks,
                             .weight_bytes = layout.bytes,
                             .out = out.get()}),
              AC4K_OK);
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t b = 0; b < blocks; ++b) {
          const std::vector<double> values =
              weights_of(layout, w.get() + (m * blocks + b) * layout.bytes);
          const uint8_t* x = a.get() + (n * blocks + b) * kQ81Bytes;
          for (int i = 0; i < 32; ++i) {
            sum += values[static_cast<size_t>(i)] * half_at(x) * static_cast<int8_t>(x[4 + i]);
          }
        }
        // With scales of 1 and 1/2 all sums are quarters below 2^22, which float32 has exactly.
        EXPECT_EQ(out[size(m * N + n)], sum)
            << M << " " << N << " " << blocks << " at " << m << ", " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RawBlocks,
                         testing::Combine(testing::Values("generic", "avx2", "avx512"),
                                          testing::ValuesIn(kLayouts)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace ac4k::cpu
