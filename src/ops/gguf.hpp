// The GPU side of the GGUF ops.
#pragma once

#include "core/block_formats.hpp"
#include "core/op.hpp"

namespace ac4k {

// Rows of x, K long, to the blocks of output 0.
Status quantize_gguf_on_cuda(const Call& call, BlockFormat format, const DLTensor& x, int64_t K);
// The blocks of argument 0 to `count` numbers of output 0.
Status dequantize_gguf_on_cuda(const Call& call, BlockFormat format, int64_t count);

}  // namespace ac4k
