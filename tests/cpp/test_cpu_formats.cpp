// The small formats on every instruction-set level of this machine: each code and each rounding
// against a search through the format's numbers in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu/common/scale-inl.hpp"
#include "cpu/common/table.hpp"
#include "cpu/kernels.hpp"

namespace ac4k::cpu {
namespace {

struct Format {
  const char* name;
  int exponent_bits, mantissa_bits;
  int num_finite;  // codes of one sign
};
constexpr Format kE4M3Format{"e4m3", 4, 3, 127}, kE5M2Format{"e5m2", 5, 2, 124},
    kE2M1Format{"e2m1", 2, 1, 8};

double value_of(const Format& format, int code) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = code >> format.mantissa_bits;
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  const int whole = exponent ? mantissa + (1 << format.mantissa_bits) : mantissa;
  return std::ldexp(whole, (exponent ? exponent : 1) - bias - format.mantissa_bits);
}

// The nearest finite number's code, an even one of two; no code for NaN.
int nearest(const Format& format, float x) {
  if (std::isnan(x)) return format.num_finite == 8 ? 0 : 0x7f;
  const double magnitude = std::fabs(static_cast<double>(x));
  int low = 0, high = format.num_finite - 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (value_of(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value_of(format, low);
  const double above = value_of(format, high) - magnitude;
  const int code = above < below || (above == below && low % 2 == 1) ? high : low;
  const int sign = format.num_finite == 8 ? 8 : 0x80;
  return code | (std::signbit(x) ? sign : 0);
}

int nearest_int8(float x) {
  if (std::isnan(x)) return 0;
  return static_cast<int>(std::nearbyint(std::fmin(std::fmax(x, -128.0f), 127.0f)));
}

// Every tie of two neighbours, their numbers, and the floats on both sides; all bf16 patterns.
std::vector<float> probes() {
  std::vector<float> values;
  const auto around = [&](double at) {
    const float x = static_cast<float>(at);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float v : {x, std::nextafterf(x, infinity), std::nextafterf(x, -infinity)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  };
  for (const Format& format : {kE4M3Format, kE5M2Format, kE2M1Format}) {
    for (int code = 0; code < format.num_finite; ++code) {
      around(value_of(format, code));
      around((value_of(format, code) + value_of(format, code + 1)) / 2);
    }
  }
  for (int i = -300; i <= 300; ++i) around(i / 2.0);
  for (uint32_t bits = 0; bits < 65536; ++bits) values.push_back(std::bit_cast<float>(bits << 16));
  uint32_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(std::bit_cast<float>(state));
    values.push_back(std::ldexp(static_cast<float>(state), -24 - static_cast<int>(state % 20)));
  }
  return values;
}

class Formats : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (set_isa(GetParam()) != AC4K_OK) GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  void TearDown() override { (void)set_isa("auto"); }
};

TEST_P(Formats, EncodeToNearest) {
  const std::vector<float> x = probes();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint8_t> codes(x.size());
  const QuantizeKernels& table = *kernels().quantize;
  for (const auto& [index, format] : {std::pair{kE4M3, kE4M3Format}, {kE5M2, kE5M2Format}}) {
    table.codes[index].encode[kF32](x.data(), 1.0f, 0, codes.data(), n);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(codes[i], nearest(format, x[i])) << format.name << " of " << x[i];
    }
  }
  table.codes[kInt8].encode[kF32](x.data(), 1.0f, 0, codes.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(static_cast<int8_t>(codes[i]), nearest_int8(x[i])) << "int8 of " << x[i];
  }
}

// A block that starts with 4 has the scale 2^0.
TEST_P(Formats, EncodeE2M1ToNearest) {
  std::vector<float> x;
  size_t blocks = 0;
  for (const float value : probes()) {
    if (std::fabs(value) >= 8.0f) continue;
    if (x.size() % 32 == 0) {
      x.push_back(4.0f);
      ++blocks;
    }
    x.push_back(value);
  }
  x.resize(blocks * 32, 0.0f);
  std::vector<uint8_t> codes(x.size() / 2), scales(blocks);
  kernels().quantize->mx[kMxE2M1].encode[kF32](x.data(), codes.data(), scales.data(),
                                               static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(scales[i / 32], 127);
    ASSERT_EQ((codes[i / 2] >> (i % 2 * 4)) & 15, nearest(kE2M1Format, x[i])) << x[i];
  }
}

TEST_P(Formats, DecodeEveryCode) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  std::vector<float> out(256);
  const QuantizeKernels& table = *kernels().quantize;
  for (const auto& [index, format] : {std::pair{kE4M3, kE4M3Format}, {kE5M2, kE5M2Format}}) {
    table.codes[index].decode[kF32](codes.data(), 1.0f, 0, out.data(), 256);
    for (int i = 0; i < 256; ++i) {
      const int magnitude = i & 0x7f;
      const float got = out[static_cast<size_t>(i)];
      if (magnitude < format.num_finite) {
        ASSERT_EQ(got, (i & 0x80 ? -1 : 1) * value_of(format, magnitude)) << format.name << i;
        ASSERT_EQ(std::signbit(got), i >= 0x80);
      } else if (index == kE5M2 && magnitude == 0x7c) {
        ASSERT_TRUE(std::isinf(got) && std::signbit(got) == (i >= 0x80));
      } else {
        ASSERT_TRUE(std::isnan(got)) << format.name << i;
      }
    }
  }
  table.codes[kInt8].decode[kF32](codes.data(), 1.0f, 3, out.data(), 256);
  for (int i = 0; i < 256; ++i) {
    ASSERT_EQ(out[static_cast<size_t>(i)], static_cast<int8_t>(i) - 3);
  }
}

TEST_P(Formats, ZeroPointsSaturateAndTakeNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0f,          1e30f, -1e30f, infinity, -infinity,
                                std::nanf(""), 2.5f,  3.5f,   -2.5f};
  std::vector<uint8_t> codes(x.size());
  for (const int zero : {-128, -5, 0, 5, 127}) {
    kernels().quantize->codes[kInt8].encode[kF32](x.data(), 1.0f, zero, codes.data(),
                                                  static_cast<int64_t>(x.size()));
    const int expected[] = {zero, 127, -128, 127, -128, zero, zero + 2, zero + 4, zero - 2};
    for (size_t i = 0; i < x.size(); ++i) {
      const int clamped = std::max(-128, std::min(127, expected[i]));
      ASSERT_EQ(static_cast<int8_t>(codes[i]), clamped) << x[i] << " at " << zero;
    }
  }
}

TEST_P(Formats, ExtentIgnoresNaNAndClampsInfinity) {
  for (int64_t n : {1, 3, 16, 17, 63, 64, 65, 257}) {
    std::vector<float> x(static_cast<size_t>(n), -0.5f);
    x[static_cast<size_t>(n / 2)] = -3.0f;
    EXPECT_EQ(kernels().quantize->amax[kF32](x.data(), n), 3.0f);
    float low = 1, high = 1;
    kernels().quantize->range[kF32](x.data(), n, &low, &high);
    EXPECT_EQ(low, -3.0f);
    EXPECT_EQ(high, 0.0f);
    x[0] = std::nanf("");
    EXPECT_EQ(kernels().quantize->amax[kF32](x.data(), n), n == 1 ? 0.0f : 3.0f);
    x[static_cast<size_t>(n - 1)] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(kernels().quantize->amax[kF32](x.data(), n), std::numeric_limits<float>::max());
    kernels().quantize->range[kF32](x.data(), n, &low, &high);
    EXPECT_EQ(high, std::numeric_limits<float>::max());
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Formats, testing::Values("generic", "avx2", "avx512"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ScaleRule, Edges) {
  EXPECT_EQ(scale_of(0.0f, kLargestE4M3, false), 0x1p-120f);
  EXPECT_EQ(scale_of(448.0f, kLargestE4M3, false), 1.0f);
  EXPECT_EQ(scale_of(448.0f, kLargestE4M3, true), 1.0f);
  EXPECT_EQ(scale_of(449.0f, kLargestE4M3, true), 2.0f);
  EXPECT_EQ(scale_of(0.0f, kLargestE4M3, true), 0x1p-120f);
  EXPECT_TRUE(std::isfinite(scale_of(std::numeric_limits<float>::infinity(), 127.0f, true)));
  const ScaleAndZero all = scale_and_zero_of(0.0f, 255.0f);
  EXPECT_EQ(all.scale, 1.0f);
  EXPECT_EQ(all.zero, -128);
  EXPECT_EQ(scale_and_zero_of(-255.0f, 0.0f).zero, 127);
  EXPECT_EQ(scale_and_zero_of(0.0f, 0.0f).zero, -128);
  EXPECT_EQ(nvfp4_global_scale(0.0f), 1.0f);
  EXPECT_TRUE(std::isfinite(nvfp4_global_scale(1e-45f)));
  EXPECT_EQ(mx_scale_code(0.0f, 2), 0u);
  EXPECT_EQ(mx_scale_code(6.0f, 2), 127u);
  EXPECT_EQ(mx_scale_code(1e-45f, 8), 0u);
  EXPECT_EQ(decode_e8m0(0), 0x1p-127f);
  EXPECT_EQ(decode_e8m0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

}  // namespace
}  // namespace ac4k::cpu
