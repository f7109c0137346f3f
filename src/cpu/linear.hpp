// Products with packed weights: out = activation(alpha * x W^T + bias) + residual.
#pragma once

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "core/weight_formats.hpp"
#include "cpu/rows.hpp"

namespace ac4k::cpu {

enum class LinearActivation : uint8_t { none, silu, gelu, gelu_tanh };

// Ways to multiply; results differ in their last places.
enum class LinearPath : uint8_t {
  automatic,    // by the number of tokens
  few_tokens,   // fixed-point activations, weights are streamed
  many_tokens,  // weights widened in cache, the fastest products of the CPU
  float32,      // the same, in float32 whatever the CPU has
};

struct LinearArgs {
  const char* op;  // for messages
  WeightFormat format;
  DType type;  // of x, bias and out: f32, f16 or bf16
  int64_t num_tokens, N, K;
  Rows x;                 // [num_tokens, K]
  const uint8_t* weight;  // packed (docs/packed_weights.md)
  const void* bias;       // [N], or null
  void* out;              // [num_tokens, N], contiguous
  float alpha = 1;
  LinearActivation activation = LinearActivation::none;
  const void* residual = nullptr;  // [num_tokens, N], or null; may be `out`
  LinearPath path = LinearPath::automatic;
};

// Weights have the values of their blocks and sums are kept in float32. Few tokens are rounded to
// 16 bits of fixed point for each 256 columns, outliers apart: about 2^-20 of the square of the
// result, whichever 16 of the columns a row of weights leaves out as zeros; bf16 tokens, where
// there are many and the CPU multiplies bf16, meet weights rounded to bf16. Results do not depend
// on the number of threads.
Status linear(const LinearArgs& args);

// What `automatic` stands for, with finite activations.
LinearPath path_for(DType type, WeightFormat format, int64_t num_tokens);

}  // namespace ac4k::cpu
