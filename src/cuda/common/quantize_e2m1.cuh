// Codes of four bits: units, and the blocks of MXFP4 and NVFP4. Nearly all blocks have no NaN and
// no number that leaves the format by much; the others take the long way.
#pragma once

#include "common/quantize.cuh"

namespace ac4k {

__device__ __forceinline__ unsigned long long join(uint32_t low, uint32_t high) {
  return static_cast<unsigned long long>(high) << 32 | low;
}

// The eight codes of x * factor, in float32. kUpTo8: no product is larger than 8, and none is NaN.
template <bool kUpTo8, typename T>
__device__ __forceinline__ uint32_t encode_e2m1(const Unit<T>& unit, float factor) {
  float v[kUnit];
  unit.widen(v);
  uint32_t codes[kUnit], signs[kUnit / 2];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    v[i] = __fmul_rn(v[i], factor);
    codes[i] = E2M1::magnitude<kUpTo8>(v[i]);
  }
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) signs[i] = unit.tops(i);
  uint32_t word = E2M1::pack8(codes, signs);
  if constexpr (!kUpTo8) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (v[i] != v[i]) word &= ~(15u << (4 * i));
    }
  }
  return word;
}

// The long way is rare: inlined it would cost registers.
template <typename T>
__device__ __noinline__ uint32_t encode_e2m1_any(Unit<T> unit, float factor) {
  return encode_e2m1<false>(unit, factor);
}

// The same for a power of two and 16-bit numbers, two at a time: their products up to 8 are exact,
// or so small that they do not matter. E2M1::magnitude() says why these lines.
template <typename T>
__device__ __forceinline__ uint32_t encode_e2m1_pairs(const Unit<T>& unit, float factor) {
  constexpr bool kHalf = is_same<T, __half>;
  constexpr uint32_t kTwo = 0x40004000u, kOne = kHalf ? 0x3c003c00u : 0x3f803f80u;
  constexpr uint32_t kRounder = kHalf ? 0x64006400u : 0x43004300u;  // 2^10, 2^7
  constexpr uint32_t kSlope = kHalf ? 0x34cc34ccu : 0x3e993e99u;
  const uint32_t factors = narrow_pair<T>(factor, factor);
  uint32_t codes[kUnit / 2];
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const uint32_t v = fma_pair<T>(unit.words[i] & 0x7fff7fffu, factors, 0u);
    codes[i] = smaller_pair<T>(smaller_pair<T>(fma_pair<T>(v, kTwo, kRounder),
                                               fma_pair<T>(v, kOne, kRounder + 0x00020002u)),
                               fma_pair<T>(v, kSlope, kRounder + 0x00050005u));
  }
  return E2M1::pack8(codes, unit.words);
}

// Rows of MXFP4 with the amax and the scales of their blocks. All go the long way if one has to.
template <typename T, int kRows, int kUnits>
__device__ __forceinline__ void encode_mxfp4(const Unit<T> (&units)[kRows][kUnits],
                                             const float (&amax)[kRows],
                                             const BlockScale (&scales)[kRows],
                                             uint32_t (&codes)[kRows][2]) {
  // Float16 has no factor above 2^15, which blocks below 2^-13 need.
  constexpr float kLargestFactor = 32768.0f;
  bool is_ordinary = true;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    is_ordinary &= amax[i] <= kLargestFloat;
    is_ordinary &= !is_same<T, __half> || scales[i].factor <= kLargestFactor;
    is_ordinary &= !Unit<T>::has_nan(units[i]);
  }
  if (is_ordinary) {
#pragma unroll
    for (int i = 0; i < kRows * kUnits; ++i) {
      const Unit<T>& unit = units[i / kUnits][i % kUnits];
      const float factor = scales[i / kUnits].factor;
      if constexpr (Unit<T>::kPairs) {
        codes[i / kUnits][i % kUnits] = encode_e2m1_pairs(unit, factor);
      } else {
        codes[i / kUnits][i % kUnits] = encode_e2m1<true>(unit, factor);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRows * kUnits; ++i) {
      codes[i / kUnits][i % kUnits] =
          encode_e2m1_any(units[i / kUnits][i % kUnits], scales[i / kUnits].factor);
    }
  }
}

// A block of 16 with its scale.
struct Nvfp4Block {
  unsigned long long codes;
  unsigned char scale;
};
template <typename T>
__device__ __noinline__ Nvfp4Block encode_nvfp4_any(Unit<T> first, Unit<T> second,
                                                    float global_scale) {
  const float amax = fminf(fmaxf(first.amax(), second.amax()), kLargestFloat);
  const BlockScale scale = nvfp4_block_scale<false>(amax, global_scale);
  if (scale.factor == 0.0f) return {0, static_cast<unsigned char>(scale.code)};
  return {join(encode_e2m1<false>(first, scale.factor), encode_e2m1<false>(second, scale.factor)),
          static_cast<unsigned char>(scale.code)};
}
// What blocks need to know of their scales. `is_plain`: what `of` gives is right.
struct Nvfp4Scales {
  float global_scale;

  __device__ __forceinline__ BlockScale of(float amax) const {
    return nvfp4_block_scale<true>(amax, global_scale);
  }
  __device__ __forceinline__ bool is_plain(float amax) const {
    return has_plain_divisions(amax, global_scale);
  }
};
// The same with what belongs to each code of a scale, found before.
struct Nvfp4Factors {
  static constexpr int kCodes = 128;  // NaN is the last
  float factors[kCodes];

  __device__ __forceinline__ void find(uint32_t code, float global_scale) {
    float scale[4];
    E4M3::decode4(code, scale);
    factors[code] = scale[0] > 0.0f ? __fdiv_rn(global_scale, scale[0]) : 0.0f;
  }
};
struct Nvfp4KnownScales {
  float global_scale;
  const Nvfp4Factors& known;

  __device__ __forceinline__ BlockScale of(float amax) const {
    const uint32_t code = E4M3::encode(__fmul_rn(global_scale, divide_by<6>(amax)));
    return {code, known.factors[code]};
  }
  __device__ __forceinline__ bool is_plain(float amax) const { return has_plain_sixth(amax); }
};

// Several blocks, all the long way if one has to.
template <int kBlocks, typename T, typename Scales>
__device__ __forceinline__ void encode_nvfp4(const Unit<T> (&blocks)[kBlocks][2],
                                             const Scales& scales_of,
                                             Nvfp4Block (&encoded)[kBlocks]) {
  BlockScale scales[kBlocks];
  bool is_ordinary = true;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    const float amax = Unit<T>::template amax<true>(blocks[i]);
    scales[i] = scales_of.of(amax);
    // Not with NaN either.
    is_ordinary &= scales_of.is_plain(amax) & __fmul_rn(amax, scales[i].factor) <= 8.0f;
  }
  if (is_ordinary) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const float factor = scales[i].factor;
      const auto codes =
          join(encode_e2m1<true>(blocks[i][0], factor), encode_e2m1<true>(blocks[i][1], factor));
      encoded[i] = {factor == 0.0f ? 0 : codes, static_cast<unsigned char>(scales[i].code)};
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      encoded[i] = encode_nvfp4_any(blocks[i][0], blocks[i][1], scales_of.global_scale);
  }
}

// The same by two neighbouring lanes, a unit each. What they know before the global scale is there:
struct Nvfp4Pair {
  float amax, sixth;
};
// All lanes of a warp.
template <typename T>
__device__ __forceinline__ Nvfp4Pair nvfp4_pair(const Unit<T>& half) {
  const Unit<T> units[] = {half};
  const float own = Unit<T>::template amax<true>(units);
  const float amax = larger<true>(own, __shfl_xor_sync(0xffffffffu, own, 1));
  return {amax, divide_by<6>(amax)};
}
struct Nvfp4Half {
  uint32_t codes;
  unsigned char scale;
};
template <typename T>
__device__ __noinline__ Nvfp4Half encode_nvfp4_half_any(Unit<T> half, float global_scale) {
  const uint32_t pair = 3u << (threadIdx.x % 32 / 2 * 2);
  const float own = half.amax();
  const float amax = fminf(fmaxf(own, __shfl_xor_sync(pair, own, 1)), kLargestFloat);
  const BlockScale scale = nvfp4_block_scale<false>(amax, global_scale);
  if (scale.factor == 0.0f) return {0, static_cast<unsigned char>(scale.code)};
  return {encode_e2m1<false>(half, scale.factor), static_cast<unsigned char>(scale.code)};
}
// Several such halves of a lane, all the long way if one has to: both lanes of a pair, in blocks of
// threads with one dimension.
template <int kHalves, typename T>
__device__ __forceinline__ void encode_nvfp4_halves(const Unit<T> (&halves)[kHalves],
                                                    const Nvfp4Pair (&pairs)[kHalves],
                                                    float global_scale,
                                                    Nvfp4Half (&encoded)[kHalves]) {
  BlockScale scales[kHalves];
  bool is_ordinary = true;
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
    scales[i] = nvfp4_scale_of_sixth<true>(pairs[i].sixth, global_scale);
    is_ordinary &= has_plain_divisions(pairs[i].amax, global_scale) &
                   __fmul_rn(pairs[i].amax, scales[i].factor) <= 8.0f;
  }
  if (is_ordinary) {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) {
      const uint32_t codes = encode_e2m1<true>(halves[i], scales[i].factor);
      encoded[i] = {scales[i].factor == 0.0f ? 0 : codes,
                    static_cast<unsigned char>(scales[i].code)};
    }
  } else {
#pragma unroll
    for (int i = 0; i < kHalves; ++i) encoded[i] = encode_nvfp4_half_any(halves[i], global_scale);
  }
}

}  // namespace ac4k
