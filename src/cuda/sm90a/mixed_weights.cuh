// Codes of packed weights as 16-bit weights, in the fragments of a matrix product.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

// scale * integer + offset for the rows r (0) and r + 8 (1) of a group, with both rounded to T: an
// error like that of rounding the weights themselves.
template <typename T, bool kHasOffset>
class RowFactors {
 public:
  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float offset_0,
                                        float offset_1)
      : scales_(pair_of(scale_0, scale_1)) {
    if constexpr (kHasOffset) offsets_ = pair_of(offset_0, offset_1);
  }
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const Pair pair = *reinterpret_cast<const Pair*>(&integers);
    Pair result;
    if constexpr (kHasOffset) {
      result = __hfma2(pair, twice<kRow>(scales_), twice<kRow>(offsets_));
    } else {
      result = __hmul2(pair, twice<kRow>(scales_));
    }
    return *reinterpret_cast<const uint32_t*>(&result);
  }

 private:
  using Pair = typename PairOf<T>::type;
  static __device__ __forceinline__ Pair pair_of(float low, float high) {
    if constexpr (is_same<T, __half>) {
      return __floats2half2_rn(low, high);
    } else {
      return __floats2bfloat162_rn(low, high);
    }
  }
  template <int kRow>
  static __device__ __forceinline__ Pair twice(Pair rows) {
    if constexpr (is_same<T, __half>) {
      return kRow ? __high2half2(rows) : __low2half2(rows);
    } else {
      return kRow ? __high2bfloat162(rows) : __low2bfloat162(rows);
    }
  }

  Pair scales_, offsets_;  // of the two rows
};

// An offset may be larger than its weights: rounded to bfloat16, it would be off by more than them.
// In float it can take the bias of integers away as well.
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
    const __nv_bfloat162 result =
        __floats2bfloat162_rn(__fmaf_rn(low, scales_[kRow], offsets_[kRow]),
                              __fmaf_rn(high, scales_[kRow], offsets_[kRow]));
    return *reinterpret_cast<const uint32_t*>(&result);
  }

 private:
  float scales_[2], offsets_[2];
};

// What a format's scales are multiplied by as.
template <typename Format>
struct ScalesOf {
  using type = typename Format::Scales;
};
template <typename Format>
  requires Format::kScalesInT
struct ScalesOf<Format> {
  using type = typename Format::Pairs;
};

// Sub-block j on its way: the weights of one step after another, so that a product can take the
// first while the next are made. Formats with scales of type T multiply by them as they are.
template <typename Format, typename T, int j>
class SubBlockWeights {
 public:
  __device__ __forceinline__ SubBlockWeights(uint32_t block, const typename Format::Header& header,
                                             int thread)
      : codes_(Format::Planes::load(block, j, thread)), scales_(scales_of(header)) {}

  template <int kStep>
  __device__ __forceinline__ void make(uint32_t (&a)[4]) const {
    using Planes = typename Format::Planes;
    if constexpr (kScalesInT) {
      Planes::template fragment<T, kStep>(codes_, a);
      Format::template scale_step<kStep>(scales_, a);
    } else {
      constexpr int g = kStep * Format::kGroups / 4, o = Format::kHasOffsets ? g : 0;
      constexpr bool kBiased = Format::kHasOffsets && is_same<T, __nv_bfloat16>;
      float offset_0 = scales_.offset[0][o], offset_1 = scales_.offset[1][o];
      if constexpr (kBiased) {
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
  static constexpr bool kScalesInT = requires { Format::kScalesInT; };
  static __device__ __forceinline__ auto scales_of(const typename Format::Header& header) {
    if constexpr (kScalesInT) {
      return Format::pairs(header);
    } else {
      return Format::template scales<j>(header);
    }
  }

  typename Format::Planes::Codes codes_;
  typename ScalesOf<Format>::type scales_;
};

}  // namespace ac4k
