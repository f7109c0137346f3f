// The extents of columns.
#pragma once

#include "common/quantize.cuh"

namespace ac4k {

// A thread's extents of eight columns, in the elements' own type.
template <typename T, typename Format>
struct ColumnExtents {
  Unit<T> high = Unit<T>::zero(), low = Unit<T>::zero();

  __device__ __forceinline__ void include(const Unit<T>& unit) {
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
  __device__ __forceinline__ void widen(Extent<Format> (&extents)[kUnit]) const {
    float values[kUnit];
    high.widen(values);
#pragma unroll
    for (int j = 0; j < kUnit; ++j) extents[j].high = values[j];
    if constexpr (has_zero<Format>) {
      low.widen(values);
#pragma unroll
      for (int j = 0; j < kUnit; ++j) extents[j].low = values[j];
    }
  }
};

}  // namespace ac4k
