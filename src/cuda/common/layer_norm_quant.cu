// layer_norm with a quantised result.
#include "common/norm_quant.cuh"

AC4K_NORM_QUANT(layer_norm_quant, layer, float, f32, PlainNormQuantParams)
AC4K_NORM_QUANT(layer_norm_quant, layer, __half, f16, PlainNormQuantParams)
AC4K_NORM_QUANT(layer_norm_quant, layer, __nv_bfloat16, bf16, PlainNormQuantParams)
