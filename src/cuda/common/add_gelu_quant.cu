// gelu(x + bias), quantised.
#include "common/activations_quant.cuh"

AC4K_ACTIVATION_QUANT(add_gelu_exact_quant, float, f32, ac4k::AddGeluSource<float, false>)
AC4K_ACTIVATION_QUANT(add_gelu_exact_quant, __half, f16, ac4k::AddGeluSource<__half, false>)
AC4K_ACTIVATION_QUANT(add_gelu_exact_quant, __nv_bfloat16, bf16,
                      ac4k::AddGeluSource<__nv_bfloat16, false>)
AC4K_ACTIVATION_QUANT(add_gelu_tanh_quant, float, f32, ac4k::AddGeluSource<float, true>)
AC4K_ACTIVATION_QUANT(add_gelu_tanh_quant, __half, f16, ac4k::AddGeluSource<__half, true>)
AC4K_ACTIVATION_QUANT(add_gelu_tanh_quant, __nv_bfloat16, bf16,
                      ac4k::AddGeluSource<__nv_bfloat16, true>)
