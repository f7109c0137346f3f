// Codes of packed weights as 16-bit weights, in the fragments of a matrix product.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

template <typename T>
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
  typename PairOf<T>::type pair;
  if constexpr (is_same<T, __half>) {
    pair = __floats2half2_rn(low, high);
  } else {
    pair = __floats2bfloat162_rn(low, high);
  }
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// One of two numbers, twice.
template <typename T, int kHigh>
__device__ __forceinline__ typename PairOf<T>::type twice(uint32_t bits) {
  const auto pair = *reinterpret_cast<const typename PairOf<T>::type*>(&bits);
  if constexpr (is_same<T, __half>) {
    return kHigh ? __high2half2(pair) : __low2half2(pair);
  } else {
    return kHigh ? __high2bfloat162(pair) : __low2bfloat162(pair);
  }
}

// What integers of each group are multiplied by, and what is added, as pairs of T for the rows r
// (0) and r + 8 (1). Scales are rounded to T: an error like that of rounding the weights. With
// offsets that would be too much for bfloat16: there the scale comes in two parts, and so much of
// an offset as are whole scales is added to the integers, exactly.
template <typename T, typename Format>
class GroupFactors {
 public:
  static constexpr bool kBiased = Format::kHasOffsets && is_same<T, __nv_bfloat16>;

  __device__ __forceinline__ GroupFactors() {}
  explicit __device__ __forceinline__ GroupFactors(const typename Format::Scales& scales) {
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      const float s0 = scales.scale[0][g], s1 = scales.scale[1][g];
      words_[g][kScale] = pair_of<T>(s0, s1);
      if constexpr (kBiased) {
        const float o0 = scales.offset[0][g], o1 = scales.offset[1][g];
        const float k0 = whole_scales(o0, s0), k1 = whole_scales(o1, s1);
        const float high_0 = __uint_as_float(words_[g][kScale] << 16),
                    high_1 = __uint_as_float(words_[g][kScale] & 0xffff0000u);
        words_[g][kRest] = pair_of<T>(s0 - high_0, s1 - high_1);
        words_[g][kOffset] = pair_of<T>(__fmaf_rn(-k0, s0, o0), __fmaf_rn(-k1, s1, o1));
        words_[g][kZero] = pair_of<T>(k0 - kBias, k1 - kBias);
      } else if constexpr (Format::kHasOffsets) {
        words_[g][kOffset] = pair_of<T>(scales.offset[0][g], scales.offset[1][g]);
      }
    }
  }

  // Those that lane `kLane` of the four lanes with the same rows has.
  template <int kLane>
  __device__ __forceinline__ GroupFactors of_lane() const {
    GroupFactors theirs;
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < kKinds; ++i) {
        theirs.words_[g][i] = __shfl_sync(0xffffffffu, words_[g][i], kLane, 4);
      }
    }
    return theirs;
  }

  template <int g, int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    auto pair = *reinterpret_cast<const typename PairOf<T>::type*>(&integers);
    const auto scale = twice<T, kRow>(words_[g][kScale]);
    if constexpr (kBiased) {
      pair = __hadd2(pair, twice<T, kRow>(words_[g][kZero]));
      pair = __hfma2(
          pair, scale,
          __hfma2(pair, twice<T, kRow>(words_[g][kRest]), twice<T, kRow>(words_[g][kOffset])));
    } else if constexpr (Format::kHasOffsets) {
      pair = __hfma2(pair, scale, twice<T, kRow>(words_[g][kOffset]));
    } else {
      pair = __hmul2(pair, scale);
    }
    return *reinterpret_cast<const uint32_t*>(&pair);
  }

 private:
  static constexpr int kScale = 0, kOffset = 1, kRest = 2, kZero = 3;
  static constexpr int kKinds = kBiased ? 4 : Format::kHasOffsets ? 2 : 1;
  static constexpr float kBias = 128.0f + Format::Planes::kZero;

  // Both this and the integers with it are exact in bfloat16; the lower bound is never left by a
  // minimum below which no weight lies.
  static __device__ __forceinline__ float whole_scales(float offset, float scale) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: has no bits for fractions
    const float k = __fadd_rn(__fadd_rn(__fdividef(offset, scale), kRound), -kRound);
    return fminf(fmaxf(k, kBias - 256.0f), kBias - 1.0f);
  }

  uint32_t words_[Format::kGroups][kKinds];
};

// The same for one group, from float: where each thread has to make them for every sub-block, two
// parts would take longer than offsets in float, which take the bias of integers away as well.
template <typename T, bool kHasOffset>
class RowFactors {
 public:
  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float offset_0,
                                        float offset_1)
      : scales_(pair_of<T>(scale_0, scale_1)) {
    if constexpr (kHasOffset) offsets_ = pair_of<T>(offset_0, offset_1);
  }
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    auto pair = *reinterpret_cast<const typename PairOf<T>::type*>(&integers);
    if constexpr (kHasOffset) {
      pair = __hfma2(pair, twice<T, kRow>(scales_), twice<T, kRow>(offsets_));
    } else {
      pair = __hmul2(pair, twice<T, kRow>(scales_));
    }
    return *reinterpret_cast<const uint32_t*>(&pair);
  }

 private:
  uint32_t scales_, offsets_;  // of the two rows
};
template <>
class RowFactors<__nv_bfloat16, true> {
 public:
  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float offset_0,
                                        float offset_1)
      : scales_{scale_0, scale_1}, offsets_{offset_0, offset_1} {}
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const float low = __uint_as_float(integers << 16);
    const float high = __uint_as_float(integers & 0xffff0000u);
    return pair_of<__nv_bfloat16>(__fmaf_rn(low, scales_[kRow], offsets_[kRow]),
                                  __fmaf_rn(high, scales_[kRow], offsets_[kRow]));
  }

 private:
  float scales_[2], offsets_[2];
};

// How the weights of a format are made: with scales of type T as they are (kScalesInT), with
// factors that four lanes make together for a block (kSharedByLanes), or for each sub-block.
template <typename Format>
inline constexpr bool kScalesInT = requires { Format::kScalesInT; };
template <typename Format>
inline constexpr bool kSharedByLanes = requires { Format::kSharedByLanes; };

// What all sub-blocks of a block share, and what one of them takes of it.
template <typename Format, typename T>
struct WeightScales {
  using Header = typename Format::Header;
  using Scales = typename Format::Scales;
};
template <typename Format, typename T>
  requires kScalesInT<Format>
struct WeightScales<Format, T> {
  using Header = typename Format::Header;
  using Scales = typename Format::Pairs;
};
template <typename Format, typename T>
  requires kSharedByLanes<Format>
struct WeightScales<Format, T> {
  using Header = GroupFactors<T, Format>;
  using Scales = GroupFactors<T, Format>;
};
template <typename Format, typename T>
using WeightHeader = typename WeightScales<Format, T>::Header;

template <typename Format, typename T>
__device__ __forceinline__ WeightHeader<Format, T> weight_header(uint32_t block, int thread) {
  return WeightHeader<Format, T>(Format::header(block, thread));
}

// Sub-block j on its way: the weights of one step after another.
template <typename Format, typename T, int j>
class SubBlockWeights {
 public:
  __device__ __forceinline__ SubBlockWeights(uint32_t block, const WeightHeader<Format, T>& header,
                                             int thread)
      : codes_(Planes::load(block, j, thread)), scales_(scales_of(header)) {}

  template <int kStep>
  __device__ __forceinline__ void make(uint32_t (&a)[4]) const {
    constexpr int g = kStep * Format::kGroups / 4;
    if constexpr (kScalesInT<Format>) {
      Planes::template fragment<T, kStep>(codes_, a);
      Format::template scale_step<kStep>(scales_, a);
    } else if constexpr (kSharedByLanes<Format>) {
      if constexpr (Scales::kBiased) {
        Planes::template biased_fragment<T, kStep>(codes_, a);
      } else {
        Planes::template fragment<T, kStep>(codes_, a);
      }
      a[0] = scales_.template weights<g, 0>(a[0]);
      a[1] = scales_.template weights<g, 1>(a[1]);
      a[2] = scales_.template weights<g, 0>(a[2]);
      a[3] = scales_.template weights<g, 1>(a[3]);
    } else {
      constexpr int o = Format::kHasOffsets ? g : 0;
      float offset_0 = scales_.offset[0][o], offset_1 = scales_.offset[1][o];
      if constexpr (Format::kHasOffsets && is_same<T, __nv_bfloat16>) {
        Planes::template biased_fragment<T, kStep>(codes_, a);
        offset_0 = __fmaf_rn(scales_.scale[0][g], -Planes::template kBias<T>, offset_0);
        offset_1 = __fmaf_rn(scales_.scale[1][g], -Planes::template kBias<T>, offset_1);
      } else {
        Planes::template fragment<T, kStep>(codes_, a);
      }
      const RowFactors<T, Format::kHasOffsets> factors(scales_.scale[0][g], scales_.scale[1][g],
                                                       offset_0, offset_1);
      a[0] = factors.template weights<0>(a[0]);
      a[1] = factors.template weights<1>(a[1]);
      a[2] = factors.template weights<0>(a[2]);
      a[3] = factors.template weights<1>(a[3]);
    }
  }

 private:
  using Planes = typename Format::Planes;
  using Scales = typename WeightScales<Format, T>::Scales;
  static __device__ __forceinline__ Scales scales_of(const WeightHeader<Format, T>& header) {
    if constexpr (kScalesInT<Format>) {
      return Format::pairs(header);
    } else if constexpr (kSharedByLanes<Format>) {
      return header.template of_lane<j>();
    } else {
      return Format::template scales<j>(header);
    }
  }

  typename Planes::Codes codes_;
  Scales scales_;
};

}  // namespace ac4k
