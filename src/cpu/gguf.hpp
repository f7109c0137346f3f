// GGUF blocks on the CPU. Arguments were checked by the caller.
#pragma once

#include "core/block_formats.hpp"
#include "core/dtype.hpp"
#include "core/status.hpp"
#include "cpu/rows.hpp"

namespace ac4k::cpu {

struct GgufArgs {
  DType type;  // of the numbers: f32, f16 or bf16
  BlockFormat format;
  int64_t num_rows;
  int64_t num_columns;  // a multiple of the format's block
};
// Results depend neither on the number of threads nor on the level.
Status quantize_gguf(const GgufArgs& args, const Rows& x, uint8_t* blocks);
// `out` is contiguous.
Status dequantize_gguf(const GgufArgs& args, const uint8_t* blocks, void* out);

}  // namespace ac4k::cpu
