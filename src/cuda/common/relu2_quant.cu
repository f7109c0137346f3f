// relu(x)^2, quantised.
#include "common/activations_quant.cuh"

AC4K_ACTIVATION_QUANT(relu2_quant, float, f32, ac4k::Relu2Source<float>)
AC4K_ACTIVATION_QUANT(relu2_quant, __half, f16, ac4k::Relu2Source<__half>)
AC4K_ACTIVATION_QUANT(relu2_quant, __nv_bfloat16, bf16, ac4k::Relu2Source<__nv_bfloat16>)
