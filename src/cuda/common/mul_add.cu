// out = a * b + c, one rounding.
#include "common/dependent_launch.cuh"
#include "common/half_vectors.h"
#include "common/mul_add.h"
#include "common/strided.cuh"
#include "common/types.cuh"

namespace ac4k {

template <typename T>
__device__ __forceinline__ T mul_add(T a, T b, T c) {
  return narrow<T>(fma(widen(a), widen(b), widen(c)));
}

// Grid: ceil(elements / (threads * elements of a vector)), one vector of each operand a thread:
// more of them were slower at every size, half of one is better for small tensors. Pointers are
// aligned to 16 bytes. No shared memory. Roofline: HBM, 3 reads to 1 write; H200: 99 % of
// stream_bytes from 67 MB to 2.1 GB.
template <typename T, int kBytes>
__device__ __forceinline__ void mul_add_vectors(const MulAddParams& params) {
  using Vec = Vector<T, kBytes>;
  using Index = typename IndexType<kBytes == kHalfVectorBytes>::type;
  const Index index = static_cast<Index>(blockIdx.x) * kMulAddThreads + threadIdx.x;
  const Index first = index * Vec::kSize, end = static_cast<Index>(params.num_elements);
  wait_for_previous_kernels();
  allow_next_kernel();
  if (first + Vec::kSize <= end) {
    const Vec a = load(static_cast<const Vec*>(params.a) + index);
    const Vec b = load(static_cast<const Vec*>(params.b) + index);
    const Vec c = load(static_cast<const Vec*>(params.c) + index);
    Vec result;
#pragma unroll
    for (int j = 0; j < Vec::kSize; ++j) {
      result.values[j] = mul_add(a.values[j], b.values[j], c.values[j]);
    }
    store(static_cast<Vec*>(params.out) + index, result);
    return;
  }
#pragma unroll 1
  for (Index i = first; i < end; ++i) {  // the odd elements at the end
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

#define AC4K_MUL_ADD(T, suffix)                                                                \
  extern "C" __global__ void __launch_bounds__(ac4k::kMulAddThreads) mul_add_##suffix(         \
      const __grid_constant__ ac4k::MulAddParams params) {                                     \
    ac4k::mul_add_vectors<T, ac4k::kVectorBytes>(params);                                      \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(ac4k::kMulAddThreads) mul_add_half_##suffix(    \
      const __grid_constant__ ac4k::MulAddParams params) {                                     \
    ac4k::mul_add_vectors<T, ac4k::kHalfVectorBytes>(params);                                  \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(ac4k::kMulAddThreads) mul_add_strided_##suffix( \
      const __grid_constant__ ac4k::MulAddStridedParams params) {                              \
    ac4k::mul_add_strided<T>(params);                                                          \
  }

AC4K_MUL_ADD(float, f32)
AC4K_MUL_ADD(double, f64)
AC4K_MUL_ADD(__half, f16)
AC4K_MUL_ADD(__nv_bfloat16, bf16)
