// What the host hands to the kernels of norms with quantised results.
#pragma once

#include "norm.h"

namespace ac4k {

enum class OutputFormat : int { e4m3, e5m2, int8 };
enum class ScaleKind : int { per_token, per_tensor, group128 };

inline constexpr int kScaleGroup = 128;  // columns that share a scale of ScaleKind::group128

// `Norm` is NormParams or AddNormParams, whose `out` is not used.
template <typename Norm>
struct NormQuantParams {
  Norm norm;
  unsigned char* codes;       // [rows, columns], contiguous
  float* scales;              // [rows], [1] or [rows, ceil(columns / 128)]
  const float* given_scales;  // the same, or null: from the largest number of each
  OutputFormat format;
  ScaleKind kind;
};
using PlainNormQuantParams = NormQuantParams<NormParams>;
using AddNormQuantParams = NormQuantParams<AddNormParams>;

}  // namespace ac4k
