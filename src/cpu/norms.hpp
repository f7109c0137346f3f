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
  Rows out;
  const void* weight = nullptr;  // may be null
  const void* bias = nullptr;    // may be null
  float eps = 0.0f;
  bool cast_first = false;  // round to the dtype before the weight comes in
};

// x / sqrt(mean(x^2) + eps) * weight. `out` may be x.
Status rms_norm(const NormArgs& args);

}  // namespace ac4k::cpu
