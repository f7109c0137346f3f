// out = a * b + c, one rounding.
#include "common/mul_add.h"

#include "common/dependent_launch.cuh"
#include "common/strided.cuh"
#include "common/types.cuh"

namespace ac4k {

template <typename T>
__device__ __forceinline__ T mul_add(T a, T b, T c) {
  return narrow<T>(fma(widen(a), widen(b), widen(c)));
}

// Grid: ceil(elements / (threads * vectors * elements of a vector)); a block handles one
// contiguous tile, thread t its vectors t, t + 256, ... so that a warp reads 512 bytes in a row.
// Pointers are aligned to 16 bytes. No shared memory. Roofline: HBM, 3 reads to 1 write.
template <typename T>
__device__ __forceinline__ void mul_add_vectors(const MulAddParams& params) {
  using Vec = Vector<T>;
  constexpr int kTile = kMulAddThreads * kMulAddVectors;
  const int64_t num_vectors = params.num_elements / Vec::kSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  const auto* a = static_cast<const Vec*>(params.a);
  const auto* b = static_cast<const Vec*>(params.b);
  const auto* c = static_cast<const Vec*>(params.c);
  auto* out = static_cast<Vec*>(params.out);

  wait_for_previous_kernels();
  if (first - threadIdx.x + kTile <= num_vectors) {
    Vec va[kMulAddVectors], vb[kMulAddVectors], vc[kMulAddVectors];
#pragma unroll
    for (int i = 0; i < kMulAddVectors; ++i) {
      va[i] = load_streaming(a + first + i * kMulAddThreads);
      vb[i] = load_streaming(b + first + i * kMulAddThreads);
      vc[i] = load_streaming(c + first + i * kMulAddThreads);
    }
    allow_next_kernel();
#pragma unroll
    for (int i = 0; i < kMulAddVectors; ++i) {
      Vec result;
#pragma unroll
      for (int j = 0; j < Vec::kSize; ++j) {
        result.values[j] = mul_add(va[i].values[j], vb[i].values[j], vc[i].values[j]);
      }
      store_streaming(out + first + i * kMulAddThreads, result);
    }
    return;
  }
  // The last block: whole vectors and the odd elements behind them, one by one.
  const int64_t begin = (first - threadIdx.x) * Vec::kSize + threadIdx.x;
  for (int64_t i = begin; i < params.num_elements; i += kMulAddThreads) {
    static_cast<T*>(params.out)[i] =
        mul_add(static_cast<const T*>(params.a)[i], static_cast<const T*>(params.b)[i],
                static_cast<const T*>(params.c)[i]);
  }
}

// Grid: ceil(elements / threads). Any strides, any alignment.
template <typename T>
__device__ __forceinline__ void mul_add_strided(const MulAddStridedParams& params) {
  wait_for_previous_kernels();
  allow_next_kernel();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= params.num_elements) return;
  const auto offsets = offsets_of(params, index);
  static_cast<T*>(params.out)[index] =
      mul_add(static_cast<const T*>(params.data[0])[offsets.values[0]],
              static_cast<const T*>(params.data[1])[offsets.values[1]],
              static_cast<const T*>(params.data[2])[offsets.values[2]]);
}

}  // namespace ac4k

#define AC4K_MUL_ADD(T, suffix)                                                                    \
  extern "C" __global__ void __launch_bounds__(ac4k::kMulAddThreads)                               \
      mul_add_##suffix(const __grid_constant__ ac4k::MulAddParams params) {                        \
    ac4k::mul_add_vectors<T>(params);                                                              \
  }                                                                                                \
  extern "C" __global__ void __launch_bounds__(ac4k::kMulAddThreads)                               \
      mul_add_strided_##suffix(const __grid_constant__ ac4k::MulAddStridedParams params) {         \
    ac4k::mul_add_strided<T>(params);                                                              \
  }

AC4K_MUL_ADD(float, f32)
AC4K_MUL_ADD(double, f64)
AC4K_MUL_ADD(__half, f16)
AC4K_MUL_ADD(__nv_bfloat16, bf16)
