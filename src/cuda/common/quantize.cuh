// The rule from the numbers of a group to its scale, and from a number to its code: float32,
// rounded to nearest even at every step. src/cpu/common/scale-inl.hpp is the same for the CPU.
//
//   amax = max |x| without NaN, at most FLT_MAX      scale = max(amax / qmax, 2^-120)
//   inverse = 1 / scale                              q = encode(x * inverse)
#pragma once

#include "common/formats.cuh"
#include "common/quantize.h"
#include "common/rows.cuh"
#include "common/types.cuh"

namespace ac4k {

inline constexpr float kLargestFloat = 3.402823466e38f;
inline constexpr float kSmallestScale = 7.52316385e-37f;  // 2^-120

// value / divisor without the general division's slow path, which costs registers: the quotient of
// the rounded reciprocal, put right by its remainder. Equal to the division for all floats where
// the divisor is odd, and for quotients of 2^-120 and more otherwise (all mantissas were tried).
__device__ __forceinline__ float divide_by(float value, float divisor, float reciprocal) {
  const float quotient = __fmul_rn(value, reciprocal);
  const float remainder = __fmaf_rn(-quotient, divisor, value);
  return __fmaf_rn(remainder, reciprocal, quotient);
}
template <int kDivisor>
__device__ __forceinline__ float divide_by(float value) {
  return divide_by(value, static_cast<float>(kDivisor), 1.0f / kDivisor);
}
// 1 / scale for scales from 2^-120 to 2^121, which scale_of gives: the first branch of __frcp_rn.
__device__ __forceinline__ float inverse_of_found(float scale) {
  float guess;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(guess) : "f"(scale));
  return __fmaf_rn(guess, -__fmaf_rn(scale, guess, -1.0f), guess);
}
// 1 / scale for scales of the caller's.
__device__ __forceinline__ float inverse_of(float scale) { return __frcp_rn(scale); }

// amax may be infinite: it is clamped here.
template <int kLargestCode>
__device__ __forceinline__ float scale_of(float amax, bool pow2_scale) {
  const float scale = fmaxf(divide_by<kLargestCode>(fminf(amax, kLargestFloat)), kSmallestScale);
  if (!pow2_scale) return scale;
  return __uint_as_float((__float_as_uint(scale) + 0x7fffffu) & 0x7f800000u);
}

// int8 with a zero point, from low = min(x, 0) and high = max(x, 0).
struct ScaleAndZero {
  float scale, inverse;
  int zero;
};
__device__ __forceinline__ ScaleAndZero scale_and_zero_of(float low, float high) {
  low = fmaxf(low, -kLargestFloat), high = fminf(high, kLargestFloat);
  const float range = __fsub_rn(divide_by<255>(high), divide_by<255>(low));
  const float scale = fmaxf(range, kSmallestScale), inverse = inverse_of_found(scale);
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
// Both divisions as divide_by() makes them, where has_plain_divisions() says so. `sixth`: of the
// amax; known before the global scale is.
template <bool kPlainDivisions>
__device__ __forceinline__ BlockScale nvfp4_scale_of_sixth(float sixth, float global_scale) {
  const uint32_t code = E4M3::encode(__fmul_rn(global_scale, sixth));
  float scale[4];
  E4M3::decode4(code, scale);
  if (scale[0] == 0.0f) return {code, 0.0f};
  if constexpr (kPlainDivisions) {
    return {code, divide_by(global_scale, scale[0], inverse_of_found(scale[0]))};
  } else {
    return {code, __fdiv_rn(global_scale, scale[0])};
  }
}
template <bool kPlainDivisions>
__device__ __forceinline__ BlockScale nvfp4_block_scale(float amax, float global_scale) {
  const float sixth = kPlainDivisions ? divide_by<6>(amax) : __fdiv_rn(amax, 6.0f);
  return nvfp4_scale_of_sixth<kPlainDivisions>(sixth, global_scale);
}
// No quotient is or comes from a denormal or infinity: of amax / 6, and of both.
__device__ __forceinline__ bool has_plain_sixth(float amax) {
  return amax == 0.0f | amax >= 6.0f * kSmallestScale;
}
__device__ __forceinline__ bool has_plain_divisions(float amax, float global_scale) {
  constexpr float kTiny = 7.88860905e-31f, kHuge = 1.2676506e30f;  // 2^-100, 2^100
  return has_plain_sixth(amax) & global_scale >= kTiny & global_scale <= kHuge;
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

// The larger and smaller of two numbers, or of two pairs of 16-bit ones. NaN gives the other; with
// kKeepNaN it gives NaN.
template <bool kKeepNaN>
__device__ __forceinline__ float larger(float a, float b) {
  if constexpr (!kKeepNaN) return fmaxf(a, b);
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
template <typename T, bool kKeepNaN = false>
__device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (is_same<T, __half> && kKeepNaN) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else if constexpr (is_same<T, __half>) {
    asm("max.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else if constexpr (kKeepNaN) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
// The larger magnitudes; signs have no meaning.
template <typename T, bool kKeepNaN = false>
__device__ __forceinline__ uint32_t larger_magnitudes(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (is_same<T, __half> && kKeepNaN) {
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else if constexpr (is_same<T, __half>) {
    asm("max.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else if constexpr (kKeepNaN) {
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
template <typename T>
__device__ __forceinline__ uint32_t smaller_pair(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (is_same<T, __half>) {
    asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
template <typename T>
__device__ __forceinline__ float2 widen_pair(uint32_t pair) {
  if constexpr (is_same<T, __half>) return __half22float2(*reinterpret_cast<__half2*>(&pair));
  return float2{__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

template <typename T>
__device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
  if constexpr (is_same<T, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}
// Neighbours of a row, an even number of them. Eight, if not said otherwise: 16 bytes, or 32 of
// float. Held in words: the compiler would take 16-bit elements apart wherever a unit is chosen or
// set to zero.
template <typename T, int kCount = kUnit>
struct Unit {
  static constexpr bool kPairs = sizeof(T) == 2;
  static constexpr int kWords = kCount * static_cast<int>(sizeof(T)) / 4;
  uint32_t words[kWords];

  static __device__ __forceinline__ Unit zero() { return Unit{}; }
  static __device__ __forceinline__ Unit load(const T* address) {
    Unit unit;
    if constexpr (kWords == 1) {
      unit.words[0] = __ldca(reinterpret_cast<const uint32_t*>(address));
    } else if constexpr (kWords == 2) {
      const uint2 two = __ldca(reinterpret_cast<const uint2*>(address));
      unit.words[0] = two.x, unit.words[1] = two.y;
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        const uint4 four = __ldca(reinterpret_cast<const uint4*>(address) + i / 4);
        unit.words[i] = four.x, unit.words[i + 1] = four.y;
        unit.words[i + 2] = four.z, unit.words[i + 3] = four.w;
      }
    }
    return unit;
  }
  static __device__ __forceinline__ Unit load_from_shared(const void* address) {
    Unit unit;
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = static_cast<const uint4*>(address)[i / 4];
      unit.words[i] = four.x, unit.words[i + 1] = four.y;
      unit.words[i + 2] = four.z, unit.words[i + 3] = four.w;
    }
    return unit;
  }
  // `count` elements at any address, zeros behind them.
  static __device__ __forceinline__ Unit gather(const T* address, int count = kCount) {
    using Bits = typename BitsOf<sizeof(T)>::type;
    const Bits* bits = reinterpret_cast<const Bits*>(address);
    Unit unit = zero();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) {
        unit.words[kPairs ? i / 2 : i] |= static_cast<uint32_t>(bits[i])
                                          << (kPairs ? i % 2 * 16 : 0);
      }
    }
    return unit;
  }
  static __device__ __forceinline__ Unit narrowed(const float (&values)[kCount]) {
    Unit unit;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPairs) {
        unit.words[i] = narrow_pair<T>(values[2 * i], values[2 * i + 1]);
      } else {
        unit.words[i] = __float_as_uint(values[i]);
      }
    }
    return unit;
  }
  __device__ __forceinline__ void store(T* address) const {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      __stwb(reinterpret_cast<uint4*>(address) + i / 4,
             uint4{words[i], words[i + 1], words[i + 2], words[i + 3]});
    }
  }
  __device__ __forceinline__ void widen(float (&values)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPairs) {
        const float2 pair = widen_pair<T>(words[i]);
        values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
      } else {
        values[i] = __uint_as_float(words[i]);
      }
    }
  }
  // The upper 16 bits of numbers 2i and 2i + 1.
  __device__ __forceinline__ uint32_t tops(int i) const {
    return kPairs ? words[i] : __byte_perm(words[2 * i], words[2 * i + 1], 0x7632);
  }
  __device__ __forceinline__ Unit shuffled(int lane_mask) const {
    Unit unit;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      unit.words[i] = __shfl_xor_sync(0xffffffffu, words[i], lane_mask);
    return unit;
  }
  // Pairs only: what is larger in magnitude, whose sign has no meaning then.
  __device__ __forceinline__ void raise_in_magnitude(const Unit& other) {
    static_assert(kPairs);
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = larger_magnitudes<T>(words[i], other.words[i]);
  }
  // Element by element: |other| where that is larger, and the extremes. NaN counts for nothing.
  __device__ __forceinline__ void raise_to_magnitude(const Unit& other) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPairs) {
        words[i] = larger_pair<T>(words[i], other.words[i] & 0x7fff7fffu);
      } else {
        words[i] = __float_as_uint(
            fmaxf(__uint_as_float(words[i]), fabsf(__uint_as_float(other.words[i]))));
      }
    }
  }
  __device__ __forceinline__ void raise(const Unit& other) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPairs) {
        words[i] = larger_pair<T>(words[i], other.words[i]);
      } else {
        words[i] =
            __float_as_uint(fmaxf(__uint_as_float(words[i]), __uint_as_float(other.words[i])));
      }
    }
  }
  __device__ __forceinline__ void lower(const Unit& other) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPairs) {
        words[i] = smaller_pair<T>(words[i], other.words[i]);
      } else {
        words[i] =
            __float_as_uint(fminf(__uint_as_float(words[i]), __uint_as_float(other.words[i])));
      }
    }
  }
  // max |x|, at least 0. kKeepNaN: NaN if there is one.
  __device__ __forceinline__ float amax() const {
    const Unit units[] = {*this};
    return amax(units);
  }
  template <bool kKeepNaN = false, int kUnits>
  static __device__ __forceinline__ float amax(const Unit (&units)[kUnits]) {
    if constexpr (kPairs) {
      const float2 pair = widen_pair<T>(amax_pair<kKeepNaN>(units));
      return larger<kKeepNaN>(larger<kKeepNaN>(pair.x, pair.y), 0.0f);
    } else {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kUnits * kWords; ++i) {
        largest =
            larger<kKeepNaN>(largest, fabsf(__uint_as_float(units[i / kWords].words[i % kWords])));
      }
      return largest;
    }
  }
  // Of pairs both halves are looked at in one sum: what lies past infinity reaches the sign.
  template <int kUnits>
  static __device__ __forceinline__ bool has_nan(const Unit (&units)[kUnits]) {
    if constexpr (!kPairs) return isnan(amax<true>(units));
    constexpr uint32_t kPastInfinity = is_same<T, __half> ? 0x03ff03ffu : 0x007f007fu;
    return ((amax_pair<true>(units) + kPastInfinity) & 0x80008000u) != 0;
  }
  __device__ __forceinline__ void range(float* low, float* high) const {
    if constexpr (kPairs) {
      uint32_t most = words[0], least = words[0];
#pragma unroll
      for (int i = 1; i < kWords; ++i) {
        most = larger_pair<T>(most, words[i]);
        least = smaller_pair<T>(least, words[i]);
      }
      const float2 above = widen_pair<T>(most), below = widen_pair<T>(least);
      *high = fmaxf(fmaxf(above.x, above.y), *high);
      *low = fminf(fminf(below.x, below.y), *low);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float value = __uint_as_float(words[i]);
        *low = fminf(*low, value), *high = fmaxf(*high, value);
      }
    }
  }

 private:
  // max |x| of the even and of the odd ones.
  template <bool kKeepNaN, int kUnits>
  static __device__ __forceinline__ uint32_t amax_pair(const Unit (&units)[kUnits]) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kUnits * kWords; ++i) {
      const uint32_t pair = units[i / kWords].words[i % kWords];
      largest = i == 0 ? pair : larger_magnitudes<T, kKeepNaN>(largest, pair);
    }
    return largest & 0x7fff7fffu;
  }

  template <int kBytes, int = 0>
  struct BitsOf {
    using type = uint32_t;
  };
  template <int kUnused>
  struct BitsOf<2, kUnused> {
    using type = unsigned short;
  };
};

// Int8 with a zero point, as a format of its own.
struct Int8Zero : Int8 {};
template <typename Format>
inline constexpr bool has_zero = is_same<Format, Int8Zero>;

// What the scale of some numbers is made of: the largest magnitude, or the range with 0 in it.
template <typename Format>
struct Extent {
  float high;  // value-initialise: nothing yet

  __device__ __forceinline__ void include(float value) { high = fmaxf(high, fabsf(value)); }
  template <typename T, int kCount>
  __device__ __forceinline__ void include(const Unit<T, kCount>& unit) {
    high = fmaxf(high, unit.amax());
  }
  __device__ __forceinline__ void include(const Extent& other) { high = fmaxf(high, other.high); }
  __device__ __forceinline__ Extent shuffled(int lane_mask) const {
    return {__shfl_xor_sync(0xffffffffu, high, lane_mask)};
  }
  __device__ __forceinline__ ScaleAndZero scale(bool pow2_scale) const {
    const float scale = scale_of<Format::kMax>(high, pow2_scale);
    return {scale, inverse_of_found(scale), 0};
  }
};
template <>
struct Extent<Int8Zero> {
  float low, high;

  __device__ __forceinline__ void include(float value) {
    low = fminf(low, value), high = fmaxf(high, value);
  }
  template <typename T, int kCount>
  __device__ __forceinline__ void include(const Unit<T, kCount>& unit) {
    unit.range(&low, &high);
  }
  __device__ __forceinline__ void include(const Extent& other) {
    low = fminf(low, other.low), high = fmaxf(high, other.high);
  }
  __device__ __forceinline__ Extent shuffled(int lane_mask) const {
    return {__shfl_xor_sync(0xffffffffu, low, lane_mask),
            __shfl_xor_sync(0xffffffffu, high, lane_mask)};
  }
  __device__ __forceinline__ ScaleAndZero scale(bool) const { return scale_and_zero_of(low, high); }
};

// The extent of `kLanes` neighbouring lanes, in each of them.
template <int kLanes, typename Format>
__device__ __forceinline__ Extent<Format> lanes_extent(Extent<Format> extent) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) extent.include(extent.shuffled(mask));
  return extent;
}
// The same for a warp, faster: magnitudes are in the order of their bits.
template <typename Format>
__device__ __forceinline__ Extent<Format> warp_extent(Extent<Format> extent) {
  const auto largest = [](float magnitude) {
    return __uint_as_float(__reduce_max_sync(kWholeWarp, __float_as_uint(magnitude)));
  };
  if constexpr (has_zero<Format>) {
    return {-largest(fabsf(extent.low)), largest(fabsf(extent.high))};
  } else {
    return {largest(extent.high)};
  }
}
// The extent of the block, in each thread. `shared` has 32 places; may be called once.
template <typename Format>
__device__ __forceinline__ Extent<Format> block_extent(Extent<Format> extent,
                                                       Extent<Format>* shared) {
  const int thread = threadIdx.x + threadIdx.y * blockDim.x;
  const int warps = (blockDim.x * blockDim.y + 31) / 32;
  extent = lanes_extent<32>(extent);
  if (thread % 32 == 0) shared[thread / 32] = extent;
  __syncthreads();
  extent = thread % 32 < warps ? shared[thread % 32] : Extent<Format>{};
  return lanes_extent<32>(extent);
}

// Eight one-byte codes of v, or of x * inverse.
template <typename Format>
__device__ __forceinline__ uint2 encode_eight(const float (&v)[kUnit], int zero = 0) {
  if constexpr (has_zero<Format>) {
    return uint2{Int8::encode4(v[0], v[1], v[2], v[3], zero),
                 Int8::encode4(v[4], v[5], v[6], v[7], zero)};
  } else {
    return uint2{Format::encode4(v[0], v[1], v[2], v[3]), Format::encode4(v[4], v[5], v[6], v[7])};
  }
}
template <typename Format>
__device__ __forceinline__ uint2 encode_unit(const float (&x)[kUnit], float inverse, int zero = 0) {
  float v[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) v[i] = __fmul_rn(x[i], inverse);
  return encode_eight<Format>(v, zero);
}
template <typename Format, typename T>
__device__ __forceinline__ uint2 encode_unit(const Unit<T>& unit, float inverse, int zero = 0) {
  float x[kUnit];
  unit.widen(x);
  return encode_unit<Format>(x, inverse, zero);
}

template <typename T, typename Params>
__device__ __forceinline__ const T* row_of_x(const Params& params, int64_t row) {
  return static_cast<const T*>(params.x) + offset_of_row(params.rows, static_cast<uint32_t>(row));
}

// The unit at a column of a row that consists of whole ones; zeros past its end.
template <typename T>
__device__ __forceinline__ Unit<T> load_unit(const T* row, int64_t column, int64_t num_columns) {
  return column < num_columns ? Unit<T>::load(row + column) : Unit<T>::zero();
}
__device__ __forceinline__ void store_codes(uint2 codes, unsigned char* row, int64_t column,
                                            int64_t num_columns) {
  if (column < num_columns) *reinterpret_cast<uint2*>(row + column) = codes;
}
// A scale and a zero point for each of the eight.
template <typename Format>
__device__ __forceinline__ uint2 encode_columns(const float (&x)[kUnit], const float* inverse,
                                                const int* zero) {
  float v[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) v[i] = __fmul_rn(x[i], inverse[i]);
  if constexpr (has_zero<Format>) {
    int n[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) n[i] = Int8::shifted(v[i], zero[i]);
    return uint2{Int8::pack4(n[0], n[1], n[2], n[3]), Int8::pack4(n[4], n[5], n[6], n[7])};
  } else {
    return encode_eight<Format>(v);
  }
}
// One number, one code.
template <typename Format>
__device__ __forceinline__ unsigned char encode_one(float x, float inverse, int zero = 0) {
  const float v = __fmul_rn(x, inverse);
  if constexpr (has_zero<Format>) {
    return static_cast<unsigned char>(Int8::encode4(v, 0.0f, 0.0f, 0.0f, zero));
  } else {
    return static_cast<unsigned char>(Format::encode4(v, 0.0f, 0.0f, 0.0f));
  }
}

// A float that a neighbour may be replacing by another one with the same meaning. It comes from L1:
// all threads of a large grid asking L2 for one address would take longer than their own data.
__device__ __forceinline__ float load_shared_by_all(const float* address) {
  float value;
  asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}

// A tile: blockDim.x units side by side, blockDim.y rows over each other, kTileRows times. Tiles of
// a row come first, so that neighbours share DRAM pages. Backwards: the last tile first, for what
// another kernel has just read from the front and L2 still has the end of.
struct TilePlace {
  int64_t column, first_row;
};
template <int kUnits = 1>
__device__ __forceinline__ TilePlace tile_place(const FastDivisor& column_tiles,
                                                bool backwards = false) {
  const unsigned tile = backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const unsigned row_tile = divide(tile, column_tiles);
  const unsigned column_tile = tile - row_tile * column_tiles.divisor;
  return {(static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * (kUnits * kUnit),
          static_cast<int64_t>(row_tile) * (blockDim.y * kTileRows) + threadIdx.y};
}

}  // namespace ac4k
