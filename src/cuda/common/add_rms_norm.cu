// sum = x + residual, out = sum / sqrt(mean(sum^2) + eps) * weight, over rows.
#include "common/norm.cuh"

AC4K_NORM(add_rms_norm, rms, float, f32, AddNormParams)
AC4K_NORM(add_rms_norm, rms, __half, f16, AddNormParams)
AC4K_NORM(add_rms_norm, rms, __nv_bfloat16, bf16, AddNormParams)
