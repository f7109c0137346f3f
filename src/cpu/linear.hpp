// Products with packed weights: out = x W^T + bias.
#pragma once

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "core/weight_formats.hpp"
#include "cpu/rows.hpp"

namespace ac4k::cpu {

struct LinearArgs {
  WeightFormat format;
  DType type;  // of x, bias and out: f32, f16 or bf16
  int64_t num_tokens, N, K;
  Rows x;                 // [num_tokens, K]
  const uint8_t* weight;  // packed (docs/packed_weights.md)
  const void* bias;       // [N], or null
  void* out;              // [num_tokens, N], contiguous
};

// Weights have the values of their blocks and sums are kept in float32. Few tokens are rounded to
// 16 bits of fixed point for each 256 columns; bf16 tokens, where there are many and the CPU
// multiplies bf16, meet weights rounded to bf16. Results do not depend on the number of threads.
Status linear(const LinearArgs& args);

}  // namespace ac4k::cpu
