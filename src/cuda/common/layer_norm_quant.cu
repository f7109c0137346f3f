// layer_norm with a quantised result.
// Spills allowed: four bytes of float16 rows of 8193 to 16384 numbers, whose weights and biases are
// all on their way at once.
#include "common/norm_quant.cuh"

AC4K_NORM_QUANT(layer_norm_quant, layer, float, f32, PlainNormQuantParams)
AC4K_NORM_QUANT(layer_norm_quant, layer, __half, f16, PlainNormQuantParams)
AC4K_NORM_QUANT(layer_norm_quant, layer, __nv_bfloat16, bf16, PlainNormQuantParams)
