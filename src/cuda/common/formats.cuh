// The small formats on the device: float to code and back, in groups as wide as a register.
//
//   e4m3, e5m2  nearest even, saturating to the largest finite number, NaN to 0x7f: what the
//               conversion instructions of sm89 and later do
//   int8        nearest even, saturating to [-128, 127], NaN to 0
//   e2m1        nearest even, saturating to 6, NaN to 0; in ordinary arithmetic, because only some
//               architectures have an instruction for it
//   e8m0        2^(code - 127), 255 is NaN
// src/cpu/common/formats-inl.hpp gives the same codes bit by bit.
#pragma once

#include "common/types.cuh"

namespace ac4k {

// Tags of the one-byte formats. encode2, encode4: so many codes, the first in the lowest byte.
struct E4M3 {
  static constexpr int kMax = 448;
  static constexpr int kMaxExponent = 8;  // of kMax, for the MX scale

  static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
    uint32_t codes;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n"
        "}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return codes;
  }
  static __device__ __forceinline__ uint32_t encode2(float a, float b) {
    uint32_t codes;
    asm("{\n"
        ".reg .b16 low;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "mov.b32 %0, {low, 0};\n"
        "}"
        : "=r"(codes)
        : "f"(a), "f"(b));
    return codes;
  }
  static __device__ __forceinline__ uint32_t encode(float value) { return encode2(value, 0.0f); }
  static __device__ __forceinline__ void decode4(uint32_t codes, float (&values)[4]) {
    uint32_t low, high;
    asm("{\n"
        ".reg .b16 first, second;\n"
        "mov.b32 {first, second}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, first;\n"
        "cvt.rn.f16x2.e4m3x2 %1, second;\n"
        "}"
        : "=r"(low), "=r"(high)
        : "r"(codes));
    const float2 first = __half22float2(*reinterpret_cast<const __half2*>(&low));
    const float2 second = __half22float2(*reinterpret_cast<const __half2*>(&high));
    values[0] = first.x, values[1] = first.y, values[2] = second.x, values[3] = second.y;
  }
};

struct E5M2 {
  static constexpr int kMax = 57344;
  static constexpr int kMaxExponent = 15;

  static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
    uint32_t codes;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n"
        "}"
        : "=r"(codes)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return codes;
  }
  static __device__ __forceinline__ uint32_t encode2(float a, float b) {
    uint32_t codes;
    asm("{\n"
        ".reg .b16 low;\n"
        "cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n"
        "mov.b32 %0, {low, 0};\n"
        "}"
        : "=r"(codes)
        : "f"(a), "f"(b));
    return codes;
  }
  // The upper byte of a float16.
  static __device__ __forceinline__ void decode4(uint32_t codes, float (&values)[4]) {
    const uint32_t low = __byte_perm(codes, 0, 0x1404), high = __byte_perm(codes, 0, 0x3424);
    const float2 first = __half22float2(*reinterpret_cast<const __half2*>(&low));
    const float2 second = __half22float2(*reinterpret_cast<const __half2*>(&high));
    values[0] = first.x, values[1] = first.y, values[2] = second.x, values[3] = second.y;
  }
};

struct Int8 {
  static constexpr int kMax = 127;

  // Two and four integers, each saturated to a signed byte.
  static __device__ __forceinline__ uint32_t pack2(int a, int b) {
    uint32_t codes;
    asm("cvt.pack.sat.s8.s32.b32 %0, %2, %1, 0;" : "=r"(codes) : "r"(a), "r"(b));
    return codes;
  }
  static __device__ __forceinline__ uint32_t pack4(int a, int b, int c, int d) {
    uint32_t codes;
    asm("{\n"
        ".reg .b32 high;\n"
        "cvt.pack.sat.s8.s32.b32 high, %4, %3, 0;\n"
        "cvt.pack.sat.s8.s32.b32 %0, %2, %1, high;\n"
        "}"
        : "=r"(codes)
        : "r"(a), "r"(b), "r"(c), "r"(d));
    return codes;
  }
  // The conversion to int32 saturates, and gives 0 for NaN.
  static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d) {
    return pack4(__float2int_rn(a), __float2int_rn(b), __float2int_rn(c), __float2int_rn(d));
  }
  static __device__ __forceinline__ uint32_t encode2(float a, float b) {
    return pack2(__float2int_rn(a), __float2int_rn(b));
  }
  // With a zero point. NaN gives the zero point itself. Saturated to 16 bits first: past every
  // code, and no sum with a zero point overflows.
  static __device__ __forceinline__ int shifted(float value, int zero) {
    short rounded;
    asm("cvt.rni.s16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    return rounded + zero;
  }
  static __device__ __forceinline__ uint32_t encode4(float a, float b, float c, float d, int zero) {
    return pack4(shifted(a, zero), shifted(b, zero), shifted(c, zero), shifted(d, zero));
  }
  static __device__ __forceinline__ void decode4(uint32_t codes, float (&values)[4], int zero = 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = static_cast<float>(static_cast<signed char>(codes >> (8 * i)) - zero);
    }
  }
};

// e2m1: eight codes in a word, the first in the lowest four bits.
struct E2M1 {
  static constexpr int kMax = 6;
  static constexpr int kMaxExponent = 2;

  // The codes 0 to 7 of |v| up to 8 are round(min(2 |v|, |v| + 2, 0.3 |v| + 5)). The first two
  // lines have the two smaller spacings of the format; the third is to cross 6.5 at 5 and to stay
  // below 7.5, which it does at 8 already, so that numbers up to there need no limit. Its slope is
  // the largest number below 0.3: 5 itself then stays a 6, a tie to even as all others are, and the
  // next number becomes a 7. The rounding happens once, as a sum of 2^23 and more is formed, whose
  // last bits are the code. Integers compare as the sums do, and have a minimum of three.
  template <bool kUpTo8>
  static __device__ __forceinline__ uint32_t magnitude(float value) {
    constexpr float kRounder = 8388608.0f, kSlope = 0.29999998f;
    const float v = fabsf(value);
    const uint32_t sum = min(min(__float_as_uint(__fmaf_rn(v, 2.0f, kRounder)),
                                 __float_as_uint(__fadd_rn(v, kRounder + 2.0f))),
                             __float_as_uint(__fmaf_rn(v, kSlope, kRounder + 5.0f)));
    return kUpTo8 ? sum : min(sum, __float_as_uint(kRounder + 7.0f));
  }
  // Eight codes from what magnitude() gave: two of them become a byte, two bytes a half, by
  // products and sums, which leave the pipeline of logic free. The first bit of a half of `signs`
  // is a sign.
  static __device__ __forceinline__ uint32_t pack8(const uint32_t (&magnitudes)[8],
                                                   const uint32_t (&signs)[4]) {
    uint32_t halves[2];  // what stands above them does not matter
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t low = magnitudes[4 * i + 1] * 16 + magnitudes[4 * i];
      const uint32_t high = magnitudes[4 * i + 3] * 16 + magnitudes[4 * i + 2];
      halves[i] = high * 256 + low;
    }
    return __byte_perm(halves[0], halves[1], 0x5410) | (sign_bits(signs) & 0x88888888u);
  }
  // The same from four pairs of halves, whose last bytes are the codes without their signs.
  static __device__ __forceinline__ uint32_t pack8(const uint32_t (&magnitudes)[4],
                                                   const uint32_t (&signs)[4]) {
    uint32_t bytes[2];  // four codes each, in the upper halves of their bytes
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bytes[i] = __byte_perm(magnitudes[2 * i], magnitudes[2 * i + 1], 0x6420) << 4 |
                 (__byte_perm(signs[2 * i], signs[2 * i + 1], 0x7531) & 0x80808080u);
    }
    return __byte_perm(bytes[0], bytes[1], 0x6420) >> 4 | __byte_perm(bytes[0], bytes[1], 0x7531);
  }
  // Bits 1 to 3 of a code are a float16's, but for 2^14; nibbles i and i + 4 are done together.
  static __device__ __forceinline__ void decode8(uint32_t codes, float (&values)[8]) {
    const __half2 rebias = __float2half2_rn(16384.0f);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = codes >> (4 * i);
      const uint32_t bits = ((pair & 0x00070007u) << 9) | ((pair & 0x00080008u) << 12);
      const float2 both = __half22float2(__hmul2(*reinterpret_cast<const __half2*>(&bits), rebias));
      values[i] = both.x, values[i + 4] = both.y;
    }
  }

 private:
  // The first bits of eight halves as those of eight codes.
  static __device__ __forceinline__ uint32_t sign_bits(const uint32_t (&signs)[4]) {
    const uint32_t first = __byte_perm(signs[0], signs[1], 0x7531);
    const uint32_t second = __byte_perm(signs[2], signs[3], 0x7531);
    return (__byte_perm(first, second, 0x6420) >> 4 & 0x0f0f0f0fu) |
           (__byte_perm(first, second, 0x7531) & 0xf0f0f0f0u);
  }
};

__device__ __forceinline__ float decode_e8m0(uint32_t code) {
  if (code == 255) return __uint_as_float(0x7fc00000u);
  return __uint_as_float(code == 0 ? 0x00400000u : code << 23);  // 2^-127 is a denormal
}

}  // namespace ac4k
