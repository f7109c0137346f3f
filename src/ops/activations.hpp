// What the launchers of activations share.
#pragma once

#include <bit>

#include "cuda/common/activations.h"
#include "ops/elementwise.hpp"

namespace ac4k {

// A type's column in tables of kernels for f32, f16 and bf16.
inline size_t activation_column(DType type) {
  return type == DType::f32 ? 0 : type == DType::f16 ? 1 : 2;
}

// Rows of a tensor whose last dim is contiguous, one stride between them.
struct SimpleRows {
  int64_t count = 0, stride = 0;  // in elements
};

// False where the leading dims need more than one stride, or the last dim is not contiguous.
inline bool as_simple_rows(const DLTensor& x, SimpleRows* rows) {
  const auto strides = strides_of(x);
  const auto last = static_cast<size_t>(x.ndim) - 1;
  if (x.shape[last] != 1 && strides[last] != 1) return false;
  const auto leading = collapse<1>({x.shape, last}, {strides});
  if (leading.ndim > 1 || leading.strides[0][0] < 0) return false;
  *rows = {1, x.shape[last]};
  if (leading.ndim == 1) *rows = {leading.shape[0], leading.strides[0][0]};
  return true;
}

// Threads of a block: as many side by side as a row has vectors, the rest over each other. Where
// little is to be done, blocks are half as large: twice as many SMs share the arithmetic (H200,
// silu_and_mul of one row of 4096: 1.36 us with 256 threads, 1.29 with 128).
struct BlockOfRows {
  uint32_t width, height;
  int64_t column_tiles;

  static constexpr int64_t kFewVectors = 1 << 16;

  BlockOfRows(int64_t vectors_per_row, int64_t num_rows, int threads)
      : BlockOfRows(vectors_per_row,
                    vectors_per_row * num_rows <= kFewVectors ? threads / 2 : threads) {}
  BlockOfRows(int64_t vectors_per_row, int threads)
      : width(static_cast<uint32_t>(std::bit_ceil(
            static_cast<uint64_t>(std::clamp<int64_t>(vectors_per_row, 1, threads))))),
        height(static_cast<uint32_t>(threads) / width),
        column_tiles(ceil_div(vectors_per_row, width)) {}
};

// One launch of a kernel of common/activations.cu, a vector or half of one a thread.
inline Status launch_rows(cuda::Kernel& kernel, cuda::Kernel& half, const Call& call,
                          ActivationParams params) {
  const HalfVectorGrid grid(params.num_columns * size_of(call.type()), params.num_rows);
  if (grid.is_small(params.row_stride)) return launch_half_vectors(half, call, grid, params);
  const int64_t vector_elements = kVectorBytes / size_of(call.type());
  const BlockOfRows block(ceil_div(params.num_columns, vector_elements), params.num_rows,
                          kActivationThreads);
  params.column_tiles = fast_divisor(static_cast<uint32_t>(block.column_tiles));
  return launch_1d(kernel, call, block.column_tiles * ceil_div(params.num_rows, block.height),
                   cuda::Dim3{block.width, block.height, 1}, params);
}

}  // namespace ac4k
