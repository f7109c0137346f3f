// One scale for everything ("per_tensor").
#include "sm90a/quantize_tensor.cuh"

// One warp. Before a kernel with a grid: nothing is known.
extern "C" __global__ void __launch_bounds__(32) start_grid(
    const __grid_constant__ ac4k::TensorStartParams params) {
  ac4k::wait_for_previous_kernels();
  ac4k::allow_next_kernel();
  for (int i = threadIdx.x; i < params.num_slots; i += 32) params.slots[i] = 0;
  if (threadIdx.x == 0) *params.scale = -0.0f;
}

#define AC4K_TENSOR_FORMATS(T, suffix)                                          \
  AC4K_TENSOR_KERNELS(quantize_tensor, e4m3_##suffix, ByteCodes<T, ac4k::E4M3>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, e5m2_##suffix, ByteCodes<T, ac4k::E5M2>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, int8_##suffix, ByteCodes<T, ac4k::Int8>) \
  AC4K_TENSOR_KERNELS(quantize_tensor, int8_zero_##suffix, ByteCodes<T, ac4k::Int8Zero>)

AC4K_TENSOR_FORMATS(float, f32)
AC4K_TENSOR_FORMATS(__half, f16)
AC4K_TENSOR_FORMATS(__nv_bfloat16, bf16)
