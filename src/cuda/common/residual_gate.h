// What the host hands to common/residual_gate.cu.
#pragma once

#include "fast_divisor.h"

namespace ac4k {

// x, y and out are [batches, tokens, columns] and contiguous, gate is [batches, columns] with one
// stride between batches.
struct ResidualGateParams {
  void* out;
  const void* x;
  const void* y;
  const void* gate;
  long long num_tokens;
  long long num_columns;  // a multiple of the vector size
  long long gate_stride;  // in elements
  FastDivisor column_tiles;
  FastDivisor token_tiles;
};

inline constexpr int kResidualGateThreads = 256;

}  // namespace ac4k
