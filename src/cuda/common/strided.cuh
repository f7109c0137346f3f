// Index arithmetic for views with any strides: the slow path that makes every view work.
#pragma once

#include "common/strided.h"
#include "common/types.cuh"

namespace ac4k {

template <int kOperands>
struct StridedOffsets {
  int64_t values[kOperands];
};

template <int kOperands>
__device__ __forceinline__ StridedOffsets<kOperands> offsets_of(
    const StridedParams<kOperands>& params, int64_t index) {
  StridedOffsets<kOperands> offsets = {};
  for (int d = params.ndim - 1; d >= 0; --d) {
    const int64_t rest = index / params.shape[d];
    const int64_t coordinate = index - rest * params.shape[d];
#pragma unroll
    for (int i = 0; i < kOperands; ++i) {
      offsets.values[i] += coordinate * params.strides[i][d];
    }
    index = rest;
  }
  return offsets;
}

}  // namespace ac4k
