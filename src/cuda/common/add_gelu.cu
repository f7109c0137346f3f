// out = gelu(x + bias), bias over the last dim.
#include "common/add_gelu.h"
#include "common/dependent_launch.cuh"
#include "common/gelu.cuh"
#include "common/half_vectors.h"
#include "common/strided.cuh"
#include "common/types.cuh"

namespace ac4k {

// Block (bx, by), bx * by = 128: bx threads side by side cover bx vectors of a row, by of them
// stand over each other; every thread handles kAddGeluRows rows, so the bias is read once for all
// of them. Grid: column tiles * row tiles, columns fastest, so that neighbours share DRAM pages. x,
// bias and out are aligned to 16 bytes and so are their rows. No shared memory. Roofline: HBM, 1
// read to 1 write. Small blocks and at least 12 of them on an SM hide the arithmetic best.
template <typename T, bool kTanh>
__device__ __forceinline__ void add_gelu_vectors(const AddGeluParams& params) {
  using Vec = Vector<T>;
  const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
  const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
  const int64_t column =
      (static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * Vec::kSize;
  if (column >= params.num_columns) return;
  const int64_t first_row =
      static_cast<int64_t>(row_tile) * (blockDim.y * kAddGeluRows) + threadIdx.y;
  const T* x = static_cast<const T*>(params.x) + column;
  T* out = static_cast<T*>(params.out) + column;

  wait_for_previous_kernels();
  const Vec bias = *reinterpret_cast<const Vec*>(static_cast<const T*>(params.bias) + column);
  Vec vectors[kAddGeluRows];
#pragma unroll
  for (int i = 0; i < kAddGeluRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    if (row < params.num_rows) {
      vectors[i] = load(reinterpret_cast<const Vec*>(x + row * params.row_stride));
    }
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kAddGeluRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    if (row >= params.num_rows) return;
    Vec result;
#pragma unroll
    for (int j = 0; j < Vec::kSize; ++j) {
      result.values[j] =
          narrow<T>(gelu<T, kTanh>(widen(vectors[i].values[j]) + widen(bias.values[j])));
    }
    store(reinterpret_cast<Vec*>(out + row * params.num_columns), result);
  }
}

// The same for small tensors, one row a thread (common/half_vectors.h), with strides of 32 bits.
template <typename T, bool kTanh>
__device__ __forceinline__ void add_gelu_half_vectors(const AddGeluParams& params) {
  using Vec = Vector<T, kHalfVectorBytes>;
  const unsigned column = (blockIdx.x * kHalfVectorThreads + threadIdx.x) * Vec::kSize;
  const auto num_columns = static_cast<unsigned>(params.num_columns);
  if (column >= num_columns) return;
  const int64_t row = blockIdx.y;
  const T* x =
      static_cast<const T*>(params.x) + (row * static_cast<unsigned>(params.row_stride) + column);
  wait_for_previous_kernels();
  allow_next_kernel();
  const Vec vector = load(reinterpret_cast<const Vec*>(x));
  const Vec bias = load(reinterpret_cast<const Vec*>(static_cast<const T*>(params.bias) + column));
  Vec result;
#pragma unroll
  for (int j = 0; j < Vec::kSize; ++j) {
    result.values[j] = narrow<T>(gelu<T, kTanh>(widen(vector.values[j]) + widen(bias.values[j])));
  }
  T* out = static_cast<T*>(params.out) + (blockIdx.y * num_columns + column);
  store(reinterpret_cast<Vec*>(out), result);
}

// Grid: ceil(elements / threads). Any strides, any alignment.
template <typename T, bool kTanh>
__device__ __forceinline__ void add_gelu_strided(const AddGeluStridedParams& params) {
  wait_for_previous_kernels();
  allow_next_kernel();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= params.num_elements) return;
  const auto offsets = offsets_of(params, index);
  static_cast<T*>(params.out)[index] =
      narrow<T>(gelu<T, kTanh>(widen(static_cast<const T*>(params.data[0])[offsets.values[0]]) +
                               widen(static_cast<const T*>(params.data[1])[offsets.values[1]])));
}

}  // namespace ac4k

#define AC4K_ADD_GELU_VARIANT(T, suffix, variant, is_tanh)                                     \
  extern "C" __global__ void __launch_bounds__(ac4k::kAddGeluThreads, sizeof(T) == 8 ? 8 : 12) \
  add_gelu_##variant##_##suffix(const __grid_constant__ ac4k::AddGeluParams params) {          \
    ac4k::add_gelu_vectors<T, is_tanh>(params);                                                \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(ac4k::kHalfVectorThreads)                       \
  add_gelu_half_##variant##_##suffix(const __grid_constant__ ac4k::AddGeluParams params) {     \
    ac4k::add_gelu_half_vectors<T, is_tanh>(params);                                           \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(ac4k::kAddGeluThreads)                          \
  add_gelu_strided_##variant##_##suffix(const                                                  \
                                        __grid_constant__ ac4k::AddGeluStridedParams params) { \
    ac4k::add_gelu_strided<T, is_tanh>(params);                                                \
  }
#define AC4K_ADD_GELU(T, suffix)                 \
  AC4K_ADD_GELU_VARIANT(T, suffix, exact, false) \
  AC4K_ADD_GELU_VARIANT(T, suffix, tanh, true)

AC4K_ADD_GELU(float, f32)
AC4K_ADD_GELU(double, f64)
AC4K_ADD_GELU(__half, f16)
AC4K_ADD_GELU(__nv_bfloat16, bf16)
