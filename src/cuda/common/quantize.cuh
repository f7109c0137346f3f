// The rule from the numbers of a group to its scale, and from a number to its code: float32,
// rounded to nearest even at every step. src/cpu/common/scale-inl.hpp is the same for the CPU.
//
//   amax = max |x| without NaN, at most FLT_MAX      scale = max(amax / qmax, 2^-120)
//   inverse = 1 / scale                              q = encode(x * inverse)
#pragma once

#include "common/formats.cuh"
#include "common/types.cuh"

namespace ac4k {

inline constexpr float kLargestFloat = 3.402823466e38f;
inline constexpr float kSmallestScale = 7.52316385e-37f;  // 2^-120

// amax may be infinite: it is clamped here.
__device__ __forceinline__ float scale_of(float amax, float qmax, bool pow2_scale) {
  const float scale = fmaxf(__fdiv_rn(fminf(amax, kLargestFloat), qmax), kSmallestScale);
  if (!pow2_scale) return scale;
  return __uint_as_float((__float_as_uint(scale) + 0x7fffffu) & 0x7f800000u);
}
__device__ __forceinline__ float inverse_of(float scale) { return __frcp_rn(scale); }

// int8 with a zero point, from low = min(x, 0) and high = max(x, 0).
struct ScaleAndZero {
  float scale, inverse;
  int zero;
};
__device__ __forceinline__ ScaleAndZero scale_and_zero_of(float low, float high) {
  low = fmaxf(low, -kLargestFloat), high = fminf(high, kLargestFloat);
  const float range = __fsub_rn(__fdiv_rn(high, 255.0f), __fdiv_rn(low, 255.0f));
  const float scale = fmaxf(range, kSmallestScale), inverse = inverse_of(scale);
  const float zero = rintf(__fsub_rn(-128.0f, __fmul_rn(low, inverse)));
  return {scale, inverse, static_cast<int>(fminf(fmaxf(zero, -128.0f), 127.0f))};
}

// NVFP4: the block scale of 16 numbers and what they are multiplied by; zero when it is zero.
struct BlockScale {
  uint32_t code;
  float factor;
};
__device__ __forceinline__ float nvfp4_global_scale(float amax) {
  amax = fminf(amax, kLargestFloat);
  return amax == 0.0f ? 1.0f : fminf(__fdiv_rn(448.0f * 6.0f, amax), kLargestFloat);
}
__device__ __forceinline__ BlockScale nvfp4_block_scale(float amax, float global_scale) {
  amax = fminf(amax, kLargestFloat);
  const float wanted = __fmul_rn(global_scale, __fdiv_rn(amax, 6.0f));
  const uint32_t code = E4M3::encode4(wanted, 0.0f, 0.0f, 0.0f) & 0xffu;
  float scale[4];
  E4M3::decode4(code, scale);
  return {code, scale[0] == 0.0f ? 0.0f : __fdiv_rn(global_scale, scale[0])};
}

// MX: the e8m0 scale 2^(floor(log2(amax)) - exponent of the largest number).
template <typename Format>
__device__ __forceinline__ BlockScale mx_block_scale(float amax) {
  const int exponent = static_cast<int>(__float_as_uint(fminf(amax, kLargestFloat)) >> 23);
  const uint32_t code = static_cast<uint32_t>(max(exponent - Format::kMaxExponent, 0));
  return {code, __uint_as_float((254u - code) << 23)};
}

// Where the scale of block k of a row lies in the "tiled" layout: tiles of 128 rows by 4 blocks,
// 512 bytes each, row after row of tiles.
__device__ __forceinline__ int64_t tiled_scale_offset(int64_t row, int k, int tiles_a_row) {
  const int r = static_cast<int>(row % 128);
  return (row / 128 * tiles_a_row + k / 4) * 512 + r % 32 * 16 + r / 32 * 4 + k % 4;
}

// Eight neighbours of a row: 16 bytes, or 32 of float.
inline constexpr int kUnit = 8;

template <typename T>
struct Unit {
  static constexpr int kVectors = kUnit * static_cast<int>(sizeof(T)) / kVectorBytes;
  Vector<T> vectors[kVectors];

  static __device__ __forceinline__ Unit zero() {
    Unit unit;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) *reinterpret_cast<uint4*>(&unit.vectors[i]) = uint4{};
    return unit;
  }
  static __device__ __forceinline__ Unit load(const T* address) {
    Unit unit;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      unit.vectors[i] = ac4k::load(reinterpret_cast<const Vector<T>*>(address) + i);
    }
    return unit;
  }
  // `count` elements, at any address; the rest is zero.
  static __device__ __forceinline__ Unit load_slowly(const T* address, int count) {
    Unit unit = zero();
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (i < count) unit.at(i) = address[i];
    }
    return unit;
  }
  __device__ __forceinline__ T& at(int i) {
    return vectors[i / Vector<T>::kSize].values[i % Vector<T>::kSize];
  }
  __device__ __forceinline__ T at(int i) const {
    return vectors[i / Vector<T>::kSize].values[i % Vector<T>::kSize];
  }
  __device__ __forceinline__ void widen(float (&values)[kUnit]) const {
    if constexpr (is_same<T, __nv_bfloat16>) {  // a shift and a mask for two
      const uint32_t* words = reinterpret_cast<const uint32_t*>(vectors);
#pragma unroll
      for (int i = 0; i < kUnit / 2; ++i) {
        values[2 * i] = __uint_as_float(words[i] << 16);
        values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) values[i] = ac4k::widen(at(i));
    }
  }
  // max |x|; NaN counts for nothing. 16-bit types compare in pairs.
  __device__ __forceinline__ float amax() const {
    if constexpr (sizeof(T) == 2) {
      using Pair = typename PairOf<T>::type;
      const Pair* pairs = reinterpret_cast<const Pair*>(vectors);
      const Pair largest = __hmax2(__hmax2(__habs2(pairs[0]), __habs2(pairs[1])),
                                   __hmax2(__habs2(pairs[2]), __habs2(pairs[3])));
      return fmaxf(fmaxf(ac4k::widen(largest.x), ac4k::widen(largest.y)), 0.0f);
    } else {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kUnit; ++i) largest = fmaxf(largest, fabsf(ac4k::widen(at(i))));
      return largest;
    }
  }
  __device__ __forceinline__ void range(float* low, float* high) const {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      const float value = ac4k::widen(at(i));
      *low = fminf(*low, value), *high = fmaxf(*high, value);
    }
  }

 private:
  template <typename S>
  struct PairOf {
    using type = __half2;
  };
};
template <>
template <>
struct Unit<__nv_bfloat16>::PairOf<__nv_bfloat16> {
  using type = __nv_bfloat162;
};

// Eight one-byte codes of x * inverse.
template <typename Format>
__device__ __forceinline__ uint2 encode_unit(const float (&x)[kUnit], float inverse) {
  float v[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) v[i] = __fmul_rn(x[i], inverse);
  return uint2{Format::encode4(v[0], v[1], v[2], v[3]), Format::encode4(v[4], v[5], v[6], v[7])};
}
template <typename Format, typename T>
__device__ __forceinline__ uint2 encode_unit(const Unit<T>& unit, float inverse) {
  float x[kUnit];
  unit.widen(x);
  return encode_unit<Format>(x, inverse);
}
template <typename T>
__device__ __forceinline__ uint2 encode_unit(const Unit<T>& unit, float inverse, int zero) {
  float v[kUnit];
  unit.widen(v);
#pragma unroll
  for (int i = 0; i < kUnit; ++i) v[i] = __fmul_rn(v[i], inverse);
  return uint2{Int8::encode4(v[0], v[1], v[2], v[3], zero),
               Int8::encode4(v[4], v[5], v[6], v[7], zero)};
}

}  // namespace ac4k
