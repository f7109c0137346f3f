// Norms over rows on the CPU. Arithmetic is float; sums over a row do not depend on the number of
// threads.
#pragma once

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "cpu/rows.hpp"

namespace ac4k::cpu {

struct NormArgs {
  const char* op;  // for errors
  DType type;
  int64_t num_rows;
  int64_t num_columns;
  Rows x;
  Rows out;  // may be x
  const void* weight = nullptr;
  const void* bias = nullptr;
  float eps = 0.0f;
  bool cast_first = false;  // round to the dtype before the weight comes in
  // With a residual.
  Rows residual = {};
  Rows sum = {};  // may be residual or x
};

// x / sqrt(mean(x^2) + eps) * weight. The weight may be null.
Status rms_norm(const NormArgs& args);
// The same of sum = x + residual.
Status add_rms_norm(const NormArgs& args);
// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias. Weight and bias may be null.
Status layer_norm(const NormArgs& args);

}  // namespace ac4k::cpu
