// Codes of packed weights as 16-bit weights, in the fragments of a matrix product.
#pragma once

#include "sm90a/mixed_offsets.cuh"

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

// What integers of each group are multiplied by, and what is added, as pairs of T for the rows r
// (0) and r + 8 (1), rounded to T.
template <typename T, typename Format>
class GroupFactors {
 public:
  __device__ __forceinline__ GroupFactors() {}
  explicit __device__ __forceinline__ GroupFactors(const typename Format::Scales& scales) {
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      words_[g][kScale] = pair_of<T>(scales.scale[0][g], scales.scale[1][g]);
      if constexpr (Format::kHasOffsets) {
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

  template <int kStep>
  __device__ __forceinline__ void make(const typename Format::Planes::Codes& codes,
                                       uint32_t (&a)[4]) const {
    Format::Planes::template fragment<T, kStep>(codes, a);
    constexpr int g = kStep * Format::kGroups / 4;
    a[0] = weights<g, 0>(a[0]);
    a[1] = weights<g, 1>(a[1]);
    a[2] = weights<g, 0>(a[2]);
    a[3] = weights<g, 1>(a[3]);
  }

 private:
  static constexpr int kScale = 0, kOffset = 1;
  static constexpr int kKinds = Format::kHasOffsets ? 2 : 1;

  template <int g, int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const auto pair = *reinterpret_cast<const typename PairOf<T>::type*>(&integers);
    const auto scale = twice<T, kRow>(words_[g][kScale]);
    if constexpr (Format::kHasOffsets) {
      return bits_of(__hfma2(pair, scale, twice<T, kRow>(words_[g][kOffset])));
    } else {
      return bits_of(__hmul2(pair, scale));
    }
  }

  uint32_t words_[Format::kGroups][kKinds];
};

// --- Weights of bfloat16 from tiny numbers ------------------------------------------------------

// Are weights exact in T? Then products of warps take them too, rather than integers, where each
// step has a scale of its own: fewer groups are fewer multiplications of sums than of weights.
template <typename Format, typename T>
inline constexpr bool kExactWeights = requires { Format::template ExactFactors<T>::kSumFactor; };
template <typename Format, typename T>
inline constexpr bool kWarpsTakeWeights = kExactWeights<Format, T> && Format::kGroups == 4;
// Or are they integers of a few bits, times a scale for all of a block? Those are multiplied then.
template <typename Format>
inline constexpr bool kHasBlockIntegers = requires { typename Format::Integers; };

template <typename Format, typename T>
inline constexpr bool kFromTiny =
    is_same<T, __nv_bfloat16> && Format::Planes::kTiny && !kExactWeights<Format, T>;

template <typename Format>
inline constexpr bool kScalesInT = requires { Format::kScalesInT; };

// Without offsets scales make up for what codes are too small by, all but 2^kTinyRest: a scale has
// to be a bfloat16. Sums of products are multiplied by it in the end.
template <typename Format>
inline constexpr int kTinyRest = 32;
template <typename Format>
  requires requires { Format::kTinyRest; }
inline constexpr int kTinyRest<Format> = Format::kTinyRest;
template <typename Format, typename T>
inline constexpr float kSumFactor =
    kFromTiny<Format, T> && (kScalesInT<Format> || !Format::kHasOffsets) ? 1ull << kTinyRest<Format>
                                                                         : 1;
template <typename Format, typename T>
  requires kExactWeights<Format, T>
inline constexpr float kSumFactor<Format, T> = Format::template ExactFactors<T>::kSumFactor;

// weight = scale * code + addend, rounded once: the addend is the scale times a power of two.
template <typename Format>
class TinyFactors {
 public:
  __device__ __forceinline__ TinyFactors() {}
  explicit __device__ __forceinline__ TinyFactors(const typename Format::Scales& scales) {
    constexpr int kExponent = -kTinyRest<Format> - kTinyExponent;
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      const uint32_t rounded = pair_of<__nv_bfloat16>(scales.scale[0][g], scales.scale[1][g]);
      scale_[g] = bits_of(__hmul2(bfloat_pair(rounded),
                                  powers_of_two<kExponent - Planes::template kTinyPlace<0>,
                                                kExponent - Planes::template kTinyPlace<1>>()));
    }
    add_addends();
  }
  template <int kLane>
  __device__ __forceinline__ TinyFactors of_lane() const {
    TinyFactors theirs;
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      theirs.scale_[g] = __shfl_sync(0xffffffffu, scale_[g], kLane, 4);
    }
    theirs.add_addends();
    return theirs;
  }

  template <int kStep>
  __device__ __forceinline__ void make(const typename Format::Planes::Codes& codes,
                                       uint32_t (&a)[4]) const {
    a[0] = weights<kStep, 0>(codes);
    a[1] = weights<kStep, 1>(codes);
    a[2] = weights<kStep, 2>(codes);
    a[3] = weights<kStep, 3>(codes);
  }

 private:
  using Planes = typename Format::Planes;

  __device__ __forceinline__ void add_addends() {
    constexpr int kExponent = Planes::kTinyZeroExponent + kTinyExponent;
    constexpr uint32_t kMinusZero = 0x80008000u |
                                    kPowerOfTwo<kExponent + Planes::template kTinyPlace<0>> |
                                    kPowerOfTwo<kExponent + Planes::template kTinyPlace<1>> << 16;
#pragma unroll
    for (int g = 0; g < Format::kGroups; ++g) {
      addend_[g] = bits_of(__hmul2(bfloat_pair(scale_[g]), bfloat_pair(kMinusZero)));
    }
  }
  template <int kStep, int i>
  __device__ __forceinline__ uint32_t weights(const typename Planes::Codes& codes) const {
    constexpr int g = kStep * Format::kGroups / 4;
    uint32_t low, high;
    Planes::template tiny_parts<kStep, i>(codes, low, high);
    __nv_bfloat162 code = bfloat_pair(low);
    if constexpr (Planes::kTinyHighBits > 0) {
      constexpr int kExponent = Planes::kTinyLowBits + Planes::template kTinyPlace<i> -
                                Planes::template kTinyHighPlace<kStep, i>;
      code = __hfma2(bfloat_pair(high), powers_of_two<kExponent>(), code);
    }
    return bits_of(__hfma2(code, twice<__nv_bfloat16, i % 2>(scale_[g]),
                           twice<__nv_bfloat16, i % 2>(addend_[g])));
  }

  uint32_t scale_[Format::kGroups], addend_[Format::kGroups];
};

// How the weights of a format are made: exactly (kExactWeights), with scales of type T as they are
// (kScalesInT), with factors that four lanes make together for a block (kSharedByLanes) or for a
// sub-block (kMadeByLanes), or with factors that each thread makes.
// One scale a row for a whole block, which its sums may get: integers are multiplied then.
template <typename Format>
inline constexpr bool kScalesSums = false;
template <typename Format>
  requires requires { Format::kScalesSums; }
inline constexpr bool kScalesSums<Format> = Format::kScalesSums;
template <typename Format>
inline constexpr bool kSharedByLanes = requires { Format::kSharedByLanes; };
template <typename Format, typename T>
inline constexpr bool kMadeByLanes =
    is_same<T, __nv_bfloat16> && requires { Format::lane_header(0u, 0); };

template <typename Format, typename T>
struct FactorsOf {
  using type = GroupFactors<T, Format>;
};
template <typename Format, typename T>
  requires(kFromTiny<Format, T> && !Format::kHasOffsets)
struct FactorsOf<Format, T> {
  using type = TinyFactors<Format>;
};
template <typename Format, typename T>
  requires(kFromTiny<Format, T> && Format::kHasOffsets && !kMadeByLanes<Format, T>)
struct FactorsOf<Format, T> {
  using type = ShiftedGroupFactors<Format>;
};
template <typename Format, typename T>
  requires kMadeByLanes<Format, T>
struct FactorsOf<Format, T> {
  using type = LaneFactors<Format>;
};
template <typename Format, typename T>
  requires kExactWeights<Format, T>
struct FactorsOf<Format, T> {
  using type = typename Format::template ExactFactors<T>;
};

// What all sub-blocks of a block share, and what one of them takes of it.
template <typename Format, typename T>
struct WeightScales {
  using Scales = typename FactorsOf<Format, T>::type;
  using Header = typename Format::Header;
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
  using Header = typename FactorsOf<Format, T>::type;
  using Scales = Header;
};
template <typename Format, typename T>
  requires kMadeByLanes<Format, T>
struct WeightScales<Format, T> {
  using Header = LaneHeader<Format>;
  using Scales = LaneFactors<Format>;
};
template <typename Format, typename T>
using WeightHeader = typename WeightScales<Format, T>::Header;

template <typename Format, typename T>
__device__ __forceinline__ WeightHeader<Format, T> weight_header(uint32_t block, int thread) {
  if constexpr (kMadeByLanes<Format, T>) {
    return LaneHeader<Format>(Format::lane_header(block, thread));
  } else if constexpr (kSharedByLanes<Format> && kFromTiny<Format, T>) {
    return WeightHeader<Format, T>(Format::decoded(block, thread));
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

  static constexpr bool kHasMinimums =
      requires(const typename WeightScales<Format, T>::Scales& scales, uint32_t (&m)[4]) {
        scales.template make_minimums<0>(m);
      };
  // What is taken away from each weight.
  template <int kStep>
  __device__ __forceinline__ void make_minimums(uint32_t (&m)[4]) const {
    scales_.template make_minimums<kStep>(m);
  }
  template <int kStep>
  __device__ __forceinline__ void make(uint32_t (&a)[4]) const {
    if constexpr (kScalesInT<Format>) {
      Format::template make<kStep>(codes_, scales_, a);
    } else {
      scales_.template make<kStep>(codes_, a);
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
    } else if constexpr (kExactWeights<Format, T>) {
      return Scales(header, j);
    } else if constexpr (kMadeByLanes<Format, T>) {
      return Scales(header);
    } else {
      return Scales(Format::template scales<j>(header));
    }
  }

  typename Planes::Codes codes_;
  Scales scales_;
};

}  // namespace ac4k
