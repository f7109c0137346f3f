// NVFP4 with a global scale that has to be found first.
#include "sm90a/quantize_tensor.cuh"

AC4K_TENSOR_KERNELS(quantize_nvfp4, f32, Nvfp4Codes<float>)
AC4K_TENSOR_KERNELS(quantize_nvfp4, f16, Nvfp4Codes<__half>)
AC4K_TENSOR_KERNELS(quantize_nvfp4, bf16, Nvfp4Codes<__nv_bfloat16>)
