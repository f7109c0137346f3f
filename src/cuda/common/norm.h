// What the host hands to the kernels of the norms.
#pragma once

#include "rows.h"

namespace ac4k {

// Rows of one tensor to normalise. weight and bias may be null.
struct NormPart {
  const void* x;
  void* out;
  const void* weight;
  const void* bias;
  RowOffsets x_rows;
  RowOffsets out_rows;
  long long num_columns;
  float inverse_columns;
  unsigned num_rows;
  // All threads that share a row have all their vectors, rows of every tensor are one stride apart,
  // weight and layer norm's bias are given, quantised results have a scale that is found for each
  // row: kernels need not ask.
  bool plain;
};

// One tensor, or two in one launch: blocks from `second_block` on belong to the second, or (kernels
// for pairs) each block has a row of both.
struct NormParams {
  NormPart parts[2];
  unsigned second_block;
  float eps;
  bool cast_first;  // round to the dtype before the weight comes in
};

// The row variant that has a kernel for pairs: longer rows keep a block busy alone, shorter ones
// share it anyway.
inline constexpr int kNormPairVariant = 2;
inline constexpr int kNormPairBlocks = 4;  // on an SM

// sum = x + residual, out = norm of sum.
struct AddNormParams {
  NormPart part;
  const void* residual;
  void* sum;
  RowOffsets residual_rows;
  RowOffsets sum_rows;
  float eps;
  bool cast_first;
};

}  // namespace ac4k
