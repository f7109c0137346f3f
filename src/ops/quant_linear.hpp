// The product with packed weights on a GPU.
#pragma once

#include <string>
#include <vector>

#include "core/op.hpp"
#include "core/weight_formats.hpp"
#include "ops/rows.hpp"

namespace ac4k {

// out = activation(alpha * x W^T + bias) + residual
struct QuantLinearArgs {
  WeightFormat format;
  int64_t N, K;
  const void* weight;
  const void* bias;  // [N], or null
  void* out;         // [tokens, N]
  float alpha = 1.0f;
  int activation = 0;              // as MixedActivation counts them
  const void* residual = nullptr;  // [tokens, N], or null; may be `out`
  int64_t config = 0;              // a place in quant_linear_configs
};

Status quant_linear_on_cuda(const Call& call, const RowView& x, const QuantLinearArgs& args);

// The kernels that can multiply such tokens, by name; the first, "auto", leaves the choice to the
// launcher. Rows of x must be aligned for the others.
Status quant_linear_configs(int device_id, WeightFormat format, int64_t tokens, int64_t N,
                            int64_t K, std::vector<std::string>* names);

}  // namespace ac4k
