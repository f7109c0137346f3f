// Activations with a quantised result on the CPU. Arguments were checked by the caller.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "cpu/common/table.hpp"
#include "cpu/rows.hpp"

namespace ac4k::cpu {

// What makes y of a row of x; the gated ones take x of twice the columns, add_gelu a bias.
enum class Activation : uint8_t {
  silu_and_mul,
  gelu_exact_and_mul,
  gelu_tanh_and_mul,
  relu2,
  add_gelu_exact,
  add_gelu_tanh,
};

struct ActivationQuantArgs {
  const char* op;
  DType type;
  Activation activation;
  CodeFormat format;
  Rows x;
  const void* bias;
  int64_t num_rows, num_columns;  // of y
  int64_t scale_columns;          // columns that share a scale: all of a row, or a group
  bool one_scale;                 // a given one, for the tensor
  const float* given;             // null: scales are found
  uint8_t* codes;
  float* scale;
};
// y is rounded to `type` and then quantised, as the two ops one after another would.
Status activation_quant(const ActivationQuantArgs& args);

}  // namespace ac4k::cpu
