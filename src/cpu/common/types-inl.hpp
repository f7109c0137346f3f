// 16-bit storage types and their scalar conversions. Everything is internal to the including file
// (see table.hpp on inline functions).
#pragma once

#include <cstdint>

#define AC4K_INLINE inline __attribute__((always_inline))

namespace ac4k::cpu {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

namespace {

AC4K_INLINE float bits_to_f32(uint32_t bits) { return __builtin_bit_cast(float, bits); }
AC4K_INLINE uint32_t f32_to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

AC4K_INLINE float to_acc(float value) { return value; }
AC4K_INLINE double to_acc(double value) { return value; }
AC4K_INLINE float to_acc(BFloat16 value) { return bits_to_f32(uint32_t{value.bits} << 16); }

// Exponent and mantissa move to f32's place; the exponent is then rebiased. Denormals are what is
// above the smallest normal number: none of f32, which a CPU may be told to flush.
AC4K_INLINE float to_acc(Half value) {
  const uint32_t magnitude = uint32_t{value.bits & 0x7fffu} << 13;
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t denormal = f32_to_bits(bits_to_f32(magnitude + 0x38800000u) - 0x1p-14f);
  const uint32_t special = magnitude | 0x7f800000u;  // inf and NaN
  const uint32_t rebiased = magnitude + 0x38000000u;
  return bits_to_f32((magnitude < 0x00800000u    ? denormal
                      : magnitude >= 0x0f800000u ? special
                                                 : rebiased) |
                     sign);
}

AC4K_INLINE void from_acc(float value, float* out) { *out = value; }
AC4K_INLINE void from_acc(double value, double* out) { *out = value; }

// Round to nearest even by adding just under half of the last kept place; NaN stays NaN.
AC4K_INLINE void from_acc(float value, BFloat16* out) {
  const uint32_t bits = f32_to_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  out->bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

AC4K_INLINE void from_acc(float value, Half* out) {
  const uint32_t bits = f32_to_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds at f16's denormal place
    half = f32_to_bits(bits_to_f32(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  out->bits = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
}

}  // namespace
}  // namespace ac4k::cpu
