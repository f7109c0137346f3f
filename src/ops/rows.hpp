// Tensors as rows: the last dim (or the last few) is a row, the leading dims say which. For ops
// whose tensors are `row_strided`: rows are contiguous, their places are arbitrary.
#pragma once

#include <bit>

#include "core/op.hpp"
#include "core/strided.hpp"
#include "cpu/rows.hpp"
#include "cuda/common/rows.h"
#include "ops/elementwise.hpp"

namespace ac4k {

// Whether 32 bits hold the offsets of so many rows, which are one stride apart: what kernels for
// small tensors take.
inline bool has_short_offsets(const RowOffsets& rows, int64_t num_rows) {
  const int64_t limit = (int64_t{1} << 30) / std::max<int64_t>(num_rows, 1);
  return rows.num_inner == 0 && rows.stride < limit && rows.stride > -limit;
}

// Where the rows of a tensor lie. `row_dims` trailing dims make a row.
class RowView {
 public:
  explicit RowView(const DLTensor& tensor, int row_dims = 1)
      : data_(data_of(tensor)), element_bytes_((tensor.dtype.bits + 7) / 8) {
    const auto leading = static_cast<size_t>(tensor.ndim - row_dims);
    views_ = collapse<1>({tensor.shape, leading}, {strides_of(tensor)});
    for (size_t d = 0; d < leading; ++d) num_rows_ *= tensor.shape[d];
  }

  int64_t num_rows() const { return num_rows_; }
  void* data() const { return data_; }

  // For kernels: rows are fewer than 2^31 (check_num_rows).
  RowOffsets offsets() const {
    RowOffsets offsets{};
    if (views_.ndim == 0 || num_rows_ == 0) return offsets;
    offsets.stride = views_.strides[0][0];
    offsets.num_inner = views_.ndim - 1;
    for (int i = 0; i < offsets.num_inner; ++i) {
      const auto d = static_cast<size_t>(views_.ndim - 1 - i);
      offsets.inner[i] = {views_.strides[0][d],
                          fast_divisor(static_cast<uint32_t>(views_.shape[d]))};
    }
    return offsets;
  }
  operator cpu::Rows() const {
    cpu::Rows rows;
    rows.data = static_cast<char*>(data_);
    rows.num_levels = std::max(views_.ndim, 1);
    for (int level = 0; level < views_.ndim; ++level) {
      const auto d = static_cast<size_t>(views_.ndim - 1 - level);
      rows.strides[level] = views_.strides[0][d] * element_bytes_;
      rows.sizes[level] = views_.shape[d];
    }
    return rows;
  }
  // Every row begins at a multiple of 16 bytes.
  bool is_aligned() const {
    bool aligned = ac4k::is_aligned(data_);
    for (size_t d = 0; d < static_cast<size_t>(views_.ndim); ++d) {
      aligned = aligned && views_.strides[0][d] * element_bytes_ % kVectorBytes == 0;
    }
    return aligned;
  }

 private:
  void* data_;
  int64_t element_bytes_;
  int64_t num_rows_ = 1;
  CollapsedViews<1> views_;
};

using RowVariants = RowVariant[kNumRowVariants];

// How a kernel of `variants` is launched for rows of `num_vectors`: the first variant that holds
// them, or kNumRowVariants when none does.
struct RowPlan {
  int variant = kNumRowVariants;
  cuda::Dim3 block = {};
  int64_t rows_per_block = 1;
  bool is_whole = false;  // every thread has all its vectors

  RowPlan(const RowVariants& variants, int64_t num_vectors) {
    for (variant = 0; variant < kNumRowVariants; ++variant) {
      if (num_vectors <= variants[variant].max_vectors) break;
    }
    if (variant == kNumRowVariants) return;
    const RowVariant& chosen = variants[variant];
    const auto threads = static_cast<uint32_t>(ceil_div(num_vectors, chosen.vectors_per_thread));
    if (chosen.whole_block) {
      block.x = static_cast<uint32_t>(ceil_div(threads, 32) * 32);
    } else {
      block.x = std::max(std::bit_ceil(threads), uint32_t{kMinRowLanes});
      block.y = kRowWarpThreads / block.x;
      rows_per_block = block.y * chosen.rows_per_thread;
    }
    is_whole = int64_t{block.x} * chosen.vectors_per_thread == num_vectors;
  }
};

// The block of a kernel with one row a block, read in steps.
inline cuda::Dim3 row_loop_block(int64_t num_steps) {
  constexpr int64_t kStepsPerThread = 4;
  const int64_t threads = ceil_div(ceil_div(num_steps, kStepsPerThread), 32) * 32;
  return {static_cast<uint32_t>(std::clamp<int64_t>(threads, 32, kRowLoopThreads)), 1, 1};
}

inline Status check_num_rows(const Call& call, int64_t num_rows) {
  constexpr int64_t kMaxRows = 0x7fffffff;
  if (num_rows <= kMaxRows) return AC4K_OK;
  return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected at most ", kMaxRows,
              " rows, got ", num_rows);
}

}  // namespace ac4k
