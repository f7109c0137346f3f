// Weights of bfloat16 from codes of formats with offsets.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

// bfloat16 has too few bits to round scale and offset as they are: as many whole scales of the
// offset as there are are added to the codes, exactly, and what is left is smaller than a scale. To
// that goes what the rounding of the scale does to codes in the middle of 2 * kHalf, so that it
// counts for what they are away from there: for no more than in formats without offsets. These sums
// are not tiny.
template <int kHalf>
struct ShiftedFactors {
  static constexpr int kExponent = -10;  // of the unit of codes
  float scale, zero, rest;

  __device__ __forceinline__ ShiftedFactors(float s, float offset) {
    constexpr float kUnit = 0x1p-10f, kMost = 128 * kUnit;  // all sums are exact, below 256
    constexpr float kRound = 0x1.8p23f * kUnit;             // has no bits for fractions of the unit
    const float whole_scale = s * (1 / kUnit);
    scale = __uint_as_float(pair_of<__nv_bfloat16>(0.0f, whole_scale) & 0xffff0000u);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(whole_scale));
    const float whole = __fadd_rn(__fmaf_rn(offset, inverse, kRound), -kRound);
    zero = fminf(fmaxf(whole, -kMost), kMost);
    rest = __fmaf_rn(-zero, whole_scale, offset);
    rest = __fmaf_rn(zero + (kHalf - 0.5f) * kUnit, whole_scale - scale, rest);
  }
};

// A step of 16 columns: weight = scale * (code + zero) + rest, where factors.scale<g, row>() and
// the like are pairs.
template <typename Format, int kStep, int i, typename Factors>
__device__ __forceinline__ uint32_t shifted_weights(const typename Format::Planes::Codes& codes,
                                                    const Factors& factors) {
  using Planes = typename Format::Planes;
  constexpr int g = kStep * Format::kGroups / 4, kRow = i % 2;
  constexpr int kUp = ShiftedFactors<Planes::kZero>::kExponent - kTinyExponent;
  uint32_t low, high;
  Planes::template tiny_parts<kStep, i>(codes, low, high);
  __nv_bfloat162 zero = factors.template zero<g, kRow>();
  if constexpr (Planes::kTinyHighBits > 0) {
    constexpr int kExponent =
        kUp + Planes::kTinyLowBits - Planes::template kTinyHighPlace<kStep, i>;
    zero = __hfma2(bfloat_pair(high), powers_of_two<kExponent>(), zero);
  }
  const __nv_bfloat162 code =
      __hfma2(bfloat_pair(low), powers_of_two<kUp - Planes::template kTinyPlace<i>>(), zero);
  return bits_of(
      __hfma2(code, factors.template scale<g, kRow>(), factors.template rest<g, kRow>()));
}
template <typename Format, int kStep, typename Factors>
__device__ __forceinline__ void make_shifted(const typename Format::Planes::Codes& codes,
                                             const Factors& factors, uint32_t (&a)[4]) {
  a[0] = shifted_weights<Format, kStep, 0>(codes, factors);
  a[1] = shifted_weights<Format, kStep, 1>(codes, factors);
  a[2] = shifted_weights<Format, kStep, 2>(codes, factors);
  a[3] = shifted_weights<Format, kStep, 3>(codes, factors);
}

// Of all groups, in pairs for the rows r and r + 8.
template <typename Format>
class ShiftedGroupFactors {
 public:
  __device__ __forceinline__ ShiftedGroupFactors() {}
  explicit __device__ __forceinline__ ShiftedGroupFactors(const typename Format::Scales& scales) {
    using Factors = ShiftedFactors<Format::Planes::kZero>;
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      const Factors f0(scales.scale[0][g], scales.offset[0][g]);
      const Factors f1(scales.scale[1][g], scales.offset[1][g]);
      words_[g][kScale] = pair_of<__nv_bfloat16>(f0.scale, f1.scale);
      words_[g][kZero] = pair_of<__nv_bfloat16>(f0.zero, f1.zero);
      words_[g][kRest] = pair_of<__nv_bfloat16>(f0.rest, f1.rest);
    }
  }
  template <int kLane>
  __device__ __forceinline__ ShiftedGroupFactors of_lane() const {
    ShiftedGroupFactors theirs;
#pragma unroll
    for (int i = 0; i < kWords * Format::kGroups; ++i) {
      theirs.words_[i / kWords][i % kWords] =
          __shfl_sync(0xffffffffu, words_[i / kWords][i % kWords], kLane, 4);
    }
    return theirs;
  }

  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 scale() const {
    return twice<__nv_bfloat16, kRow>(words_[g][kScale]);
  }
  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 zero() const {
    return twice<__nv_bfloat16, kRow>(words_[g][kZero]);
  }
  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 rest() const {
    return twice<__nv_bfloat16, kRow>(words_[g][kRest]);
  }
  template <int kStep>
  __device__ __forceinline__ void make(const typename Format::Planes::Codes& codes,
                                       uint32_t (&a)[4]) const {
    make_shifted<Format, kStep>(codes, *this, a);
  }

 private:
  static constexpr int kScale = 0, kZero = 1, kRest = 2, kWords = 3;

  uint32_t words_[Format::kGroups][kWords];
};

// The same where a sub-block has a header of its own, with two groups: each of the four lanes with
// the same rows makes the factors of one row and group.
template <typename Format>
struct LaneHeader {
  uint32_t large, rest;  // scale and zero; rest, twice

  __device__ __forceinline__ LaneHeader() {}
  explicit __device__ __forceinline__ LaneHeader(uint32_t header) {
    const float2 both = halves(header);
    const ShiftedFactors<Format::Planes::kZero> own(both.x, both.y);
    large = pair_of<__nv_bfloat16>(own.scale, own.zero);
    rest = pair_of<__nv_bfloat16>(own.rest, own.rest);
  }
};
template <typename Format>
class LaneFactors {
 public:
  explicit __device__ __forceinline__ LaneFactors(const LaneHeader<Format>& own) {
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      large_[lane] = __shfl_sync(0xffffffffu, own.large, lane, 4);
      rest_[lane] = __shfl_sync(0xffffffffu, own.rest, lane, 4);
    }
  }

  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 scale() const {
    return twice<__nv_bfloat16, 0>(large_[2 * kRow + g]);
  }
  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 zero() const {
    return twice<__nv_bfloat16, 1>(large_[2 * kRow + g]);
  }
  template <int g, int kRow>
  __device__ __forceinline__ __nv_bfloat162 rest() const {
    return bfloat_pair(rest_[2 * kRow + g]);
  }
  template <int kStep>
  __device__ __forceinline__ void make(const typename Format::Planes::Codes& codes,
                                       uint32_t (&a)[4]) const {
    make_shifted<Format, kStep>(codes, *this, a);
  }

 private:
  uint32_t large_[4], rest_[4];  // of the lanes
};

}  // namespace ac4k
