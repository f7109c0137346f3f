// The rule from the numbers of a group to its scale: float32, rounded to nearest even at every
// step. src/cuda/common/quantize.cuh says the same for the GPU; results are equal bit by bit.
#pragma once

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

inline constexpr float kLargestFloat = 0x1.fffffep127f;
inline constexpr float kSmallestScale = 0x1p-120f;
inline constexpr float kLargestE4M3 = 448.0f, kLargestE5M2 = 57344.0f, kLargestInt8 = 127.0f;

AC4K_INLINE float smaller(float a, float b) { return a < b ? a : b; }
AC4K_INLINE float larger(float a, float b) { return a > b ? a : b; }

// amax = max |x| without NaN; it may be infinite.
AC4K_INLINE float scale_of(float amax, float qmax, bool pow2_scale) {
  const float scale = larger(smaller(amax, kLargestFloat) / qmax, kSmallestScale);
  if (!pow2_scale) return scale;
  return bits_to_f32((f32_to_bits(scale) + 0x7fffffu) & 0x7f800000u);
}
AC4K_INLINE float inverse_of(float scale) { return 1.0f / scale; }

// int8 with a zero point, from low = min(x, 0) and high = max(x, 0).
struct ScaleAndZero {
  float scale, inverse;
  int32_t zero;
};
AC4K_INLINE ScaleAndZero scale_and_zero_of(float low, float high) {
  low = larger(low, -kLargestFloat), high = smaller(high, kLargestFloat);
  const float scale = larger(high / 255.0f - low / 255.0f, kSmallestScale);
  const float inverse = inverse_of(scale);
  // Rounded as a float product is; by way of double, so that no compiler fuses it with the sum.
  const float steps = static_cast<float>(static_cast<double>(low) * static_cast<double>(inverse));
  const float zero = smaller(larger(-128.0f - steps, -128.0f), 127.0f);
  constexpr float kRounder = 0x1.8p23f;
  return {scale, inverse,
          static_cast<int32_t>(f32_to_bits(zero + kRounder)) -
              static_cast<int32_t>(f32_to_bits(kRounder))};
}

// NVFP4's global scale from the largest number of the tensor.
AC4K_INLINE float nvfp4_global_scale(float amax) {
  amax = smaller(amax, kLargestFloat);
  return amax == 0.0f ? 1.0f : smaller(448.0f * 6.0f / amax, kLargestFloat);
}

// MX: 2^(floor(log2(amax)) - exponent of the format's largest number), as e8m0.
AC4K_INLINE uint32_t mx_scale_code(float amax, int max_exponent) {
  const int exponent = static_cast<int>(f32_to_bits(smaller(amax, kLargestFloat)) >> 23);
  return static_cast<uint32_t>(exponent > max_exponent ? exponent - max_exponent : 0);
}
// 1 / scale; the code is at most 253.
AC4K_INLINE float mx_inverse(uint32_t code) { return bits_to_f32((254u - code) << 23); }
AC4K_INLINE float decode_e8m0(uint32_t code) {
  if (code == 255) return bits_to_f32(0x7fc00000u);
  return bits_to_f32(code == 0 ? 0x00400000u : code << 23);  // 2^-127 is a denormal
}

}  // namespace
}  // namespace ac4k::cpu
