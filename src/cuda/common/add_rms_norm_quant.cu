// add_rms_norm with a quantised result.
#include "common/norm_quant.cuh"

AC4K_NORM_QUANT(add_rms_norm_quant, rms, float, f32, AddNormQuantParams)
AC4K_NORM_QUANT(add_rms_norm_quant, rms, __half, f16, AddNormQuantParams)
AC4K_NORM_QUANT(add_rms_norm_quant, rms, __nv_bfloat16, bf16, AddNormQuantParams)
