// The product with packed weights on a GPU.
#pragma once

#include "core/op.hpp"
#include "core/weight_formats.hpp"
#include "ops/rows.hpp"

namespace ac4k {

struct QuantLinearArgs {
  WeightFormat format;
  int64_t N, K;
  const void* weight;
  const void* bias;  // [N], or null
  void* out;         // [tokens, N]
};

Status quant_linear_on_cuda(const Call& call, const RowView& x, const QuantLinearArgs& args);

}  // namespace ac4k
