// Codes of packed weights as 16-bit weights, in the fragments of a matrix product.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

template <typename Format>
inline constexpr PackedBlock kPackedBlock{Format::kBytes, Format::kSubBlocks,
                                          Format::Planes::kTableBytes};

// The table of a format that has one, by kThreads threads.
template <typename Format, typename T, int kThreads>
__device__ __forceinline__ void fill_code_table(int thread) {
  if constexpr (Format::Planes::kTableBytes > 0) {
    Format::Planes::template fill_table<T, kThreads>(thread);
  }
}

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

// What makes weights with offsets in bfloat16, which has too few bits to round scale and offset
// each on its own: the scale in two parts, and so much of the offset as are whole scales as an
// integer, which is added to the codes exactly. What is left of it is smaller than a scale.
struct ShiftedFactors {
  float scale, scale_rest, offset_rest, zero;

  // Codes come with a bias; less than it, they are exact up to 256, and so is what is added.
  __device__ __forceinline__ ShiftedFactors(float s, float offset, float bias) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: has no bits for fractions
    scale = __uint_as_float(pair_of<__nv_bfloat16>(0.0f, s) & 0xffff0000u);
    scale_rest = s - scale;
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(s));
    const float whole = __fadd_rn(__fmaf_rn(offset, inverse, kRound), -kRound);
    zero = fminf(fmaxf(whole - bias, -256.0f), -1.0f);
    offset_rest = __fmaf_rn(-(zero + bias), s, offset);
  }
};

// What integers of each group are multiplied by, and what is added, as pairs of T for the rows r
// (0) and r + 8 (1), rounded to T.
template <typename T, typename Format>
class GroupFactors {
 public:
  static constexpr bool kBiased = Format::kHasOffsets && is_same<T, __nv_bfloat16>;

  __device__ __forceinline__ GroupFactors() {}
  explicit __device__ __forceinline__ GroupFactors(const typename Format::Scales& scales) {
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      const float s0 = scales.scale[0][g], s1 = scales.scale[1][g];
      if constexpr (kBiased) {
        constexpr float kBias = Format::Planes::template kBias<T>;
        const ShiftedFactors f0(s0, scales.offset[0][g], kBias);
        const ShiftedFactors f1(s1, scales.offset[1][g], kBias);
        words_[g][kScale] = pair_of<T>(f0.scale, f1.scale);
        words_[g][kRest] = pair_of<T>(f0.scale_rest, f1.scale_rest);
        words_[g][kOffset] = pair_of<T>(f0.offset_rest, f1.offset_rest);
        words_[g][kZero] = pair_of<T>(f0.zero, f1.zero);
      } else {
        words_[g][kScale] = pair_of<T>(s0, s1);
        if constexpr (Format::kHasOffsets) {
          words_[g][kOffset] = pair_of<T>(scales.offset[0][g], scales.offset[1][g]);
        }
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

  uint32_t words_[Format::kGroups][kKinds];
};

// The same where a sub-block has a header of its own, with two groups: each of the four lanes with
// the same rows makes the factors of one row and group.
template <typename Format>
class LaneFactors {
 public:
  static constexpr bool kBiased = true;

  __device__ __forceinline__ LaneFactors(uint32_t block, int thread) {
    const float2 both = halves(Format::lane_header(block, thread));
    constexpr float kBias = Format::Planes::template kBias<__nv_bfloat16>;
    const ShiftedFactors own(both.x, __fmaf_rn(both.x, Format::Planes::kZero, both.y), kBias);
    const uint32_t large = pair_of<__nv_bfloat16>(own.scale, own.zero);
    const uint32_t small = pair_of<__nv_bfloat16>(own.scale_rest, own.offset_rest);
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      large_[lane] = __shfl_sync(0xffffffffu, large, lane, 4);
      small_[lane] = __shfl_sync(0xffffffffu, small, lane, 4);
    }
  }
  template <int g, int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    constexpr int kLane = 2 * kRow + g;
    const uint32_t large = large_[kLane], small = small_[kLane];
    auto pair = *reinterpret_cast<const __nv_bfloat162*>(&integers);
    pair = __hadd2(pair, twice<__nv_bfloat16, 1>(large));
    pair = __hfma2(pair, twice<__nv_bfloat16, 0>(large),
                   __hfma2(pair, twice<__nv_bfloat16, 0>(small), twice<__nv_bfloat16, 1>(small)));
    return *reinterpret_cast<const uint32_t*>(&pair);
  }

 private:
  uint32_t large_[4], small_[4];  // scale and zero; rests of scale and offset
};

// How the weights of a format are made: with scales of type T as they are (kScalesInT), with
// factors that four lanes make together for a block (kSharedByLanes) or for a sub-block
// (kMadeByLanes), or with factors that each thread makes.
template <typename Format>
inline constexpr bool kScalesInT = requires { Format::kScalesInT; };
template <typename Format>
inline constexpr bool kSharedByLanes = requires { Format::kSharedByLanes; };
template <typename Format, typename T>
inline constexpr bool kMadeByLanes =
    is_same<T, __nv_bfloat16> && requires { Format::lane_header(0u, 0); };

// What all sub-blocks of a block share, and what one of them takes of it.
template <typename Format, typename T>
struct WeightScales {
  using Header = typename Format::Header;
  using Scales = GroupFactors<T, Format>;
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
  requires kMadeByLanes<Format, T>
struct WeightScales<Format, T> {
  using Header = LaneFactors<Format>;
  using Scales = LaneFactors<Format>;
};
template <typename Format, typename T>
using WeightHeader = typename WeightScales<Format, T>::Header;

template <typename Format, typename T>
__device__ __forceinline__ WeightHeader<Format, T> weight_header(uint32_t block, int thread) {
  if constexpr (kMadeByLanes<Format, T>) {
    return WeightHeader<Format, T>(block, thread);
  } else {
    return WeightHeader<Format, T>(Format::header(block, thread));
  }
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
    if constexpr (kScalesInT<Format>) {
      Planes::template fragment<T, kStep>(codes_, a);
      Format::template scale_step<kStep>(scales_, a);
    } else {
      constexpr int g = kStep * Format::kGroups / 4;
      if constexpr (Scales::kBiased) {
        Planes::template biased_fragment<T, kStep>(codes_, a);
      } else {
        Planes::template fragment<T, kStep>(codes_, a);
      }
      a[0] = scales_.template weights<g, 0>(a[0]);
      a[1] = scales_.template weights<g, 1>(a[1]);
      a[2] = scales_.template weights<g, 0>(a[2]);
      a[3] = scales_.template weights<g, 1>(a[3]);
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
    } else if constexpr (kMadeByLanes<Format, T>) {
      return header;
    } else {
      return Scales(Format::template scales<j>(header));
    }
  }

  typename Planes::Codes codes_;
  Scales scales_;
};

}  // namespace ac4k
