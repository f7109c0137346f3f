// What the host hands to common/activations.cu.
#pragma once

#include "fast_divisor.h"
#include "strided.h"

namespace ac4k {

// Rows of x at one stride; `out` is contiguous.
struct ActivationParams {
  void* out;
  const void* x;
  long long num_rows;
  long long row_stride;   // of x, in elements
  long long num_columns;  // of out
  FastDivisor column_tiles;
};

// Gated: operand 0 is the first half of x, operand 1 the second.
using GatedStridedParams = StridedParams<2>;
using UnaryStridedParams = StridedParams<1>;

inline constexpr int kActivationThreads = 256;

}  // namespace ac4k
