// Which kernel quantises to GGUF blocks or back, and with how many blocks of threads.
#include "cuda/common/gguf.h"
#include "ops/gguf.hpp"
#include "ops/quantize.hpp"

namespace ac4k {
namespace {

bool searches(BlockFormat format) {
  return kBlockSizes[format].values == 256 || format == kBlock_iq4_nl;
}

}  // namespace

Status quantize_gguf_on_cuda(const Call& call, BlockFormat format, const DLTensor& x, int64_t K) {
#define AC4K_ROW(name, values, bytes)                                                           \
  AC4K_TYPE_KERNELS((kBlock_##name == kBlock_iq4_nl || values == 256) ? "common/gguf_search"    \
                                                                      : "common/gguf_quantize", \
                    "gguf_quantize_" #name),
  static constinit cuda::Kernel kernels[kNumBlockFormats][3] = {AC4K_BLOCK_FORMATS(AC4K_ROW)};
#undef AC4K_ROW
  const RowView rows(x);
  const int64_t num_rows = rows.num_rows(), blocks_per_row = K / kBlockSizes[format].values;
  AC4K_TRY(check_num_rows(call, num_rows));
  const int64_t num_blocks = num_rows * blocks_per_row;
  if (num_blocks == 0) return AC4K_OK;
  const GgufQuantizeParams params{rows.data(),       data_of(call.output()),
                                  rows.offsets(),    num_blocks,
                                  blocks_per_row,    is_contiguous(x),
                                  rows.is_aligned(), is_aligned(data_of(call.output()))};
  const int64_t values = num_blocks * kBlockSizes[format].values;
  cuda::Kernel& kernel = kernels[format][type_column(call.type())];
  if (!searches(format)) {
    return launch_1d(kernel, call, ceil_div(values, kGgufBlocks * 32), kGgufThreads, params);
  }
  const bool sixteen = format == kBlock_q2_k || format == kBlock_q3_k || format == kBlock_q6_k;
  return launch_1d(kernel, call, ceil_div(values, kGgufSearchThreads * (sixteen ? 16 : 32)),
                   kGgufSearchThreads, params);
}

Status dequantize_gguf_on_cuda(const Call& call, BlockFormat format, int64_t count) {
#define AC4K_ROW(name, values, bytes)                                                      \
  AC4K_TYPE_KERNELS(values == 256 ? "common/gguf_dequantize_k" : "common/gguf_dequantize", \
                    "gguf_dequantize_" #name),
  static constinit cuda::Kernel kernels[kNumBlockFormats][3] = {AC4K_BLOCK_FORMATS(AC4K_ROW)};
#undef AC4K_ROW
  if (count == 0) return AC4K_OK;
  const GgufDequantizeParams params{data_of(call.tensor(0)), data_of(call.output()), count,
                                    is_aligned(data_of(call.tensor(0))),
                                    is_aligned(data_of(call.output()))};
  return launch_1d(kernels[format][type_column(call.type())], call, ceil_div(count, kGgufTile),
                   kGgufThreads, params);
}

}  // namespace ac4k
