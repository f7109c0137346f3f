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

// The same with results quantised by the rule of common/scale-inl.hpp, after they were rounded to
// the dtype. `norm.out` is not used.
enum class Norm : uint8_t { rms, add_rms, layer };
enum class ScaleKind : uint8_t { per_token, per_tensor, group128 };

struct NormQuantArgs {
  NormArgs norm;
  DType code_type;     // f8e4m3, f8e5m2 or i8
  ScaleKind kind;      // per_tensor needs a given scale
  uint8_t* codes;      // [rows, columns]
  float* scales;       // [rows], [1] or [rows, ceil(columns / 128)]
  const float* given;  // the same, or null
};
Status norm_quant(Norm norm, const NormQuantArgs& args);

}  // namespace ac4k::cpu
