// One scale for everything ("per_tensor").
#include "sm90a/quantize_tensor.cuh"

#define AC4K_TENSOR_FORMATS(T, suffix)                                          \
  AC4K_TENSOR_KERNELS(quantize_tensor, e4m3_##suffix, ByteCodes<T, ac4k::E4M3>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, e5m2_##suffix, ByteCodes<T, ac4k::E5M2>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, int8_##suffix, ByteCodes<T, ac4k::Int8>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, int8_zero_##suffix, ByteCodes<T, ac4k::Int8Zero>)

AC4K_TENSOR_FORMATS(float, f32)
AC4K_TENSOR_FORMATS(__half, f16)
AC4K_TENSOR_FORMATS(__nv_bfloat16, bf16)
