// The extents of columns.
#pragma once

#include "common/quantize.cuh"

namespace ac4k {

// A thread's extents of some columns, in the elements' own type.
template <typename T, typename Format, int kCount = kUnit>
struct ColumnExtents {
  using Columns = Unit<T, kCount>;
  Columns high = Columns::zero(), low = Columns::zero();

  __device__ __forceinline__ void include(const Columns& unit) {
    if constexpr (has_zero<Format>) {
      high.raise(unit);
      low.lower(unit);
    } else {
      high.raise_to_magnitude(unit);
    }
  }
  __device__ __forceinline__ void include(const ColumnExtents& other) {
    high.raise(other.high);
    if constexpr (has_zero<Format>) low.lower(other.low);
  }
  __device__ __forceinline__ ColumnExtents shuffled(int lane_mask) const {
    ColumnExtents other;
    other.high = high.shuffled(lane_mask);
    if constexpr (has_zero<Format>) other.low = low.shuffled(lane_mask);
    return other;
  }
  __device__ __forceinline__ void widen(Extent<Format> (&extents)[kCount]) const {
    float values[kCount];
    high.widen(values);
#pragma unroll
    for (int j = 0; j < kCount; ++j) extents[j].high = values[j];
    if constexpr (has_zero<Format>) {
      low.widen(values);
#pragma unroll
      for (int j = 0; j < kCount; ++j) extents[j].low = values[j];
    }
  }
};

// One word of extents: two 16-bit numbers, or a float.
template <typename T>
__device__ __forceinline__ uint32_t extreme_word(uint32_t a, uint32_t b, bool high) {
  if constexpr (Unit<T>::kPairs) {
    return high ? larger_pair<T>(a, b) : smaller_pair<T>(a, b);
  } else {
    const float x = __uint_as_float(a), y = __uint_as_float(b);
    return __float_as_uint(high ? fmaxf(x, y) : fminf(x, y));
  }
}

}  // namespace ac4k
