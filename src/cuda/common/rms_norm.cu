// out = x / sqrt(mean(x^2) + eps) * weight, over rows.
#include "common/norm.cuh"

AC4K_NORM(rms_norm, rms, float, f32, NormParams)
AC4K_NORM(rms_norm, rms, __half, f16, NormParams)
AC4K_NORM(rms_norm, rms, __nv_bfloat16, bf16, NormParams)

AC4K_NORM_PAIRS(rms_norm, float, f32)
AC4K_NORM_PAIRS(rms_norm, __half, f16)
AC4K_NORM_PAIRS(rms_norm, __nv_bfloat16, bf16)
