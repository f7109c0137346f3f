// What the host hands to common/add_gelu.cu.
#pragma once

#include "fast_divisor.h"
#include "strided.h"

namespace ac4k {

struct AddGeluParams {
  void* out;
  const void* x;
  const void* bias;
  long long num_rows;
  long long row_stride;   // of x, in elements
  long long num_columns;  // N, a multiple of the vector size
  FastDivisor column_tiles;
};

// Operand 0 is x, operand 1 the bias with stride 0 everywhere but in the last dim.
using AddGeluStridedParams = StridedParams<2>;

inline constexpr int kAddGeluThreads = 128;
inline constexpr int kAddGeluRows = 2;  // rows a thread handles: loads in flight

}  // namespace ac4k
