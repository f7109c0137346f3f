// silu(first half) * second half of each row, quantised.
#include "common/activations_quant.cuh"

AC4K_ACTIVATION_QUANT(silu_and_mul_quant, float, f32, ac4k::GatedSource<float, ac4k::Silu<float>>)
AC4K_ACTIVATION_QUANT(silu_and_mul_quant, __half, f16,
                      ac4k::GatedSource<__half, ac4k::Silu<__half>>)
AC4K_ACTIVATION_QUANT(silu_and_mul_quant, __nv_bfloat16, bf16,
                      ac4k::GatedSource<__nv_bfloat16, ac4k::Silu<__nv_bfloat16>>)
