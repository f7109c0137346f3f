// gelu(first half) * second half of each row, quantised.
#include "common/activations_quant.cuh"

AC4K_ACTIVATION_QUANT(gelu_exact_and_mul_quant, float, f32,
                      ac4k::GatedSource<float, ac4k::GeluExact<float>>)
AC4K_ACTIVATION_QUANT(gelu_exact_and_mul_quant, __half, f16,
                      ac4k::GatedSource<__half, ac4k::GeluExact<__half>>)
AC4K_ACTIVATION_QUANT(gelu_exact_and_mul_quant, __nv_bfloat16, bf16,
                      ac4k::GatedSource<__nv_bfloat16, ac4k::GeluExact<__nv_bfloat16>>)
AC4K_ACTIVATION_QUANT(gelu_tanh_and_mul_quant, float, f32,
                      ac4k::GatedSource<float, ac4k::GeluTanh<float>>)
AC4K_ACTIVATION_QUANT(gelu_tanh_and_mul_quant, __half, f16,
                      ac4k::GatedSource<__half, ac4k::GeluTanh<__half>>)
AC4K_ACTIVATION_QUANT(gelu_tanh_and_mul_quant, __nv_bfloat16, bf16,
                      ac4k::GatedSource<__nv_bfloat16, ac4k::GeluTanh<__nv_bfloat16>>)
