// out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over rows.
// Spills allowed: four bytes of float16 rows of 8193 to 16384 numbers, whose weights and biases are
// all on their way at once.
#include "common/norm.cuh"

AC4K_NORM(layer_norm, layer, float, f32, NormParams)
AC4K_NORM(layer_norm, layer, __half, f16, NormParams)
AC4K_NORM(layer_norm, layer, __nv_bfloat16, bf16, NormParams)
