// act(first half) * second half of each row, and relu(x)^2.
#include "common/activations.cuh"
#include "common/activations.h"
#include "common/dependent_launch.cuh"
#include "common/half_vectors.h"
#include "common/strided.cuh"
#include "common/types.cuh"

namespace ac4k {

// Where a thread of a block (bx, by) stands: bx threads side by side cover bx vectors of a row, by
// of them stand over each other. Grid: column tiles * row tiles, columns fastest; half vectors as
// common/half_vectors.h has them, with strides of 32 bits.
struct Place {
  int64_t x, out, column;  // of the first element, in elements
  bool inside;
};
template <typename Vec>
__device__ __forceinline__ Place place_of(const ActivationParams& params) {
  if constexpr (sizeof(Vec) == kHalfVectorBytes) {
    const auto num_columns = static_cast<unsigned>(params.num_columns);
    const auto stride = static_cast<unsigned>(params.row_stride);
    const unsigned column = (blockIdx.x * kHalfVectorThreads + threadIdx.x) * Vec::kSize;
    return {static_cast<int64_t>(blockIdx.y) * stride + column, blockIdx.y * num_columns + column,
            column, column < num_columns};
  }
  const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
  const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
  const int64_t row = static_cast<int64_t>(row_tile) * blockDim.y + threadIdx.y;
  const int64_t column =
      (static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * Vec::kSize;
  return {row * params.row_stride + column, row * params.num_columns + column, column,
          column < params.num_columns && row < params.num_rows};
}

// Block (bx, by), bx * by = 128 or 256, one vector of each half a thread. Rows of x and of out and
// both halves begin at multiples of 16 bytes. No shared memory. Roofline: HBM, 2 reads to 1 write;
// two special functions an element fill 40 % of their unit at that speed.
template <typename T, typename Act, int kBytes>
__device__ __forceinline__ void gated_vectors(const ActivationParams& params) {
  using Vec = Vector<T, kBytes>;
  const Place place = place_of<Vec>(params);
  if (!place.inside) return;
  const T* x = static_cast<const T*>(params.x) + place.x;
  T* out = static_cast<T*>(params.out) + place.out;
  wait_for_previous_kernels();
  allow_next_kernel();
  const Vec gate = load(reinterpret_cast<const Vec*>(x));
  const Vec factor = load(reinterpret_cast<const Vec*>(x + params.num_columns));
  Vec result;
#pragma unroll
  for (int j = 0; j < Vec::kSize; ++j) {
    result.values[j] = narrow<T>(Act::apply(widen(gate.values[j])) * widen(factor.values[j]));
  }
  store(reinterpret_cast<Vec*>(out), result);
}

// Grid: ceil(elements / threads). Any strides, any alignment.
template <typename T, typename Act>
__device__ __forceinline__ void gated_strided(const GatedStridedParams& params) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  wait_for_previous_kernels();
  allow_next_kernel();
  if (index >= params.num_elements) return;
  const auto offsets = offsets_of(params, index);
  static_cast<T*>(params.out)[index] =
      narrow<T>(Act::apply(widen(static_cast<const T*>(params.data[0])[offsets.values[0]])) *
                widen(static_cast<const T*>(params.data[1])[offsets.values[1]]));
}

// Block as above, one vector a thread. Rows begin at multiples of 16 bytes; a single row (any
// contiguous tensor is one) may have an odd end. Roofline: HBM, 1 read to 1 write.
template <typename T, int kBytes>
__device__ __forceinline__ void relu2_vectors(const ActivationParams& params) {
  using Vec = Vector<T, kBytes>;
  const Place place = place_of<Vec>(params);
  if (!place.inside) return;
  const T* x = static_cast<const T*>(params.x) + place.x;
  T* out = static_cast<T*>(params.out) + place.out;
  wait_for_previous_kernels();
  allow_next_kernel();
  if (place.column + Vec::kSize <= params.num_columns) {
    const Vec vector = load(reinterpret_cast<const Vec*>(x));
    Vec result;
#pragma unroll
    for (int j = 0; j < Vec::kSize; ++j) {
      result.values[j] = narrow<T>(relu2(widen(vector.values[j])));
    }
    store(reinterpret_cast<Vec*>(out), result);
  } else {  // the odd elements at the end
#pragma unroll 1
    for (int64_t j = 0; j < params.num_columns - place.column; ++j) {
      out[j] = narrow<T>(relu2(widen(x[j])));
    }
  }
}

template <typename T>
__device__ __forceinline__ void relu2_strided(const UnaryStridedParams& params) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  wait_for_previous_kernels();
  allow_next_kernel();
  if (index >= params.num_elements) return;
  const auto offsets = offsets_of(params, index);
  static_cast<T*>(params.out)[index] =
      narrow<T>(relu2(widen(static_cast<const T*>(params.data[0])[offsets.values[0]])));
}

}  // namespace ac4k

#define AC4K_GATED(T, suffix, act, Act)                                                          \
  extern "C" __global__ void __launch_bounds__(ac4k::kActivationThreads) act##_and_mul_##suffix( \
      const __grid_constant__ ac4k::ActivationParams params) {                                   \
    ac4k::gated_vectors<T, ac4k::Act<T>, ac4k::kVectorBytes>(params);                            \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kHalfVectorThreads)                         \
  act##_and_mul_half_##suffix(const __grid_constant__ ac4k::ActivationParams params) {           \
    ac4k::gated_vectors<T, ac4k::Act<T>, ac4k::kHalfVectorBytes>(params);                        \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kActivationThreads)                         \
  act##_and_mul_strided_##suffix(const __grid_constant__ ac4k::GatedStridedParams params) {      \
    ac4k::gated_strided<T, ac4k::Act<T>>(params);                                                \
  }
#define AC4K_ACTIVATIONS(T, suffix)                                                              \
  AC4K_GATED(T, suffix, silu, Silu)                                                              \
  AC4K_GATED(T, suffix, gelu_exact, GeluExact)                                                   \
  AC4K_GATED(T, suffix, gelu_tanh, GeluTanh)                                                     \
  extern "C" __global__ void __launch_bounds__(ac4k::kActivationThreads) relu2_##suffix(         \
      const __grid_constant__ ac4k::ActivationParams params) {                                   \
    ac4k::relu2_vectors<T, ac4k::kVectorBytes>(params);                                          \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kHalfVectorThreads) relu2_half_##suffix(    \
      const __grid_constant__ ac4k::ActivationParams params) {                                   \
    ac4k::relu2_vectors<T, ac4k::kHalfVectorBytes>(params);                                      \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kActivationThreads) relu2_strided_##suffix( \
      const __grid_constant__ ac4k::UnaryStridedParams params) {                                 \
    ac4k::relu2_strided<T>(params);                                                              \
  }

AC4K_ACTIVATIONS(float, f32)
AC4K_ACTIVATIONS(__half, f16)
AC4K_ACTIVATIONS(__nv_bfloat16, bf16)
