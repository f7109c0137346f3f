// What the quantise and dequantise ops share: tiles of rows, and kernels by type and format.
#pragma once

#include <algorithm>
#include <bit>

#include "core/op.hpp"
#include "cpu/quantize.hpp"
#include "cuda/common/quantize.h"
#include "cuda/driver/launch.hpp"
#include "ops/rows.hpp"

namespace ac4k {

inline bool is_multiple(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Whether rows follow each other without gaps.
inline bool is_contiguous(const RowOffsets& rows, int64_t num_rows, int64_t num_columns) {
  return num_rows == 1 || (rows.num_inner == 0 && rows.stride == num_columns);
}

// A block of `threads`: as many side by side as leave few of them idle at the end of a row, at
// least `min_width`; the rest over each other.
struct Tiling {
  uint32_t width, height;
  int64_t column_tiles;
};
inline Tiling tile_rows(int64_t items, int64_t threads, int64_t min_width) {
  const auto most = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(items)));
  int64_t width = std::clamp(most, min_width, threads);
  while (width > std::max<int64_t>(min_width, 32) &&
         ceil_div(items, width) * width - items > items / 16) {
    width /= 2;
  }
  return {static_cast<uint32_t>(width), static_cast<uint32_t>(threads / width),
          ceil_div(items, width)};
}
// The grid of small tensors that are decoded, if one is that.
inline HalfVectorGrid few_codes_grid(int64_t rows, int64_t columns) {
  return {columns / kFewCodes * kHalfVectorBytes, rows};
}
// Blocks of `block` numbers have a scale each.
inline FewDequantizeParams few_params(const BlockDequantizeParams& params, unsigned block) {
  const auto columns = static_cast<unsigned>(params.num_columns);
  return {.codes = params.codes,
          .scales = params.scales,
          .global_scale = params.global_scale,
          .out = params.out,
          .num_columns = columns,
          .scale_stride = columns / block,
          .row_shift = 0,
          .column_shift = static_cast<unsigned>(std::countr_zero(block))};
}
// For kernels. Where there are no tiles there is no launch either.
inline FastDivisor tile_divisor(int64_t column_tiles) {
  return fast_divisor(static_cast<uint32_t>(std::max<int64_t>(column_tiles, 1)));
}

// Columns of kernel tables: T is f32, f16 or bf16.
inline size_t type_column(DType type) {
  return type == DType::f32 ? 0 : type == DType::f16 ? 1 : 2;
}

// The GPU side of quantize_fp8 and quantize_int8; `format` as in cpu::QuantizeArgs.
Status quantize_on_cuda(const Call& call, const RowView& x, const cpu::QuantizeArgs& args);
Status dequantize_on_cuda(const Call& call, const cpu::DequantizeArgs& args);
// Long columns on sm90a; `done` tells whether the call was one of those. Rows of x lie at multiples
// of 16 bytes and are whole units; `type` and `format` as in the tables of kernels.
Status quantize_columns_on_sm90a(const Call& call, const QuantizeParams& params, size_t type,
                                 size_t format, bool dependent, bool* done);
// Leaves minus the amax of x at args.scale.
Status amax_on_cuda(const Call& call, const RowView& x, const cpu::QuantizeArgs& args);

}  // namespace ac4k

// The kernels of one kind by element type and format: AC4K_KERNELS("module", "name").
#define AC4K_FORMAT_KERNELS(module, name, suffix)                   \
  {                                                                 \
    {module, name "_e4m3_" suffix}, {module, name "_e5m2_" suffix}, \
        {module, name "_int8_" suffix}, {                           \
      module, name "_int8_zero_" suffix                             \
    }                                                               \
  }
#define AC4K_QUANTIZE_KERNELS(module, name)                                            \
  {AC4K_FORMAT_KERNELS(module, name, "f32"), AC4K_FORMAT_KERNELS(module, name, "f16"), \
   AC4K_FORMAT_KERNELS(module, name, "bf16")}
#define AC4K_TYPE_KERNELS(module, name) \
  {{module, name "_f32"}, {module, name "_f16"}, {module, name "_bf16"}}
