// Dense matrix product with any strides: plain shared-memory tiles and CUDA cores, for every dtype
// and architecture. Tensor-core kernels belong to the architecture folders.
#include "common/dependent_launch.cuh"
#include "common/gemm.h"
#include "common/types.cuh"

namespace ac4k {

inline constexpr int kDepth = 16;                  // of K per step
inline constexpr int kPerThread = kGemmTile / 16;  // 16 x 16 threads, 4 x 4 results each
inline constexpr int kPaddedTile = kGemmTile + 4;  // rows of 4 more words: fewer bank conflicts

// Grid: column tiles of 64 times row tiles of 64, columns fastest. Static shared memory: two tiles
// of 16 x 68 compute elements. Sums run over K in order in float (double for double), so results do
// not depend on the grid.
template <typename T>
__device__ __forceinline__ void gemm_tile(const GemmParams& params) {
  using Compute = compute_t<T>;
  __shared__ Compute tile_a[kDepth][kPaddedTile];
  __shared__ Compute tile_b[kDepth][kPaddedTile];
  const auto column_tiles = static_cast<unsigned>((params.N + kGemmTile - 1) / kGemmTile);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x / column_tiles) * kGemmTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x % column_tiles) * kGemmTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const T* a = static_cast<const T*>(params.a);
  const T* b = static_cast<const T*>(params.b);
  // Neighbouring threads walk the dimension whose stride is one.
  const bool a_by_row = params.a_row_stride == 1;
  const bool b_by_row = params.b_row_stride == 1 && params.b_column_stride != 1;

  wait_for_previous_kernels();
  Compute sums[kPerThread][kPerThread] = {};
  for (int64_t k0 = 0; k0 < params.K; k0 += kDepth) {
#pragma unroll
    for (int i = 0; i < kDepth * kGemmTile / kGemmThreads; ++i) {
      const int linear = i * kGemmThreads + threadIdx.x;
      const int a_row = a_by_row ? linear % kGemmTile : linear / kDepth;
      const int a_k = a_by_row ? linear / kGemmTile : linear % kDepth;
      const bool a_inside = row0 + a_row < params.M && k0 + a_k < params.K;
      tile_a[a_k][a_row] =
          a_inside
              ? widen(a[(row0 + a_row) * params.a_row_stride + (k0 + a_k) * params.a_column_stride])
              : Compute(0);
      const int b_column = b_by_row ? linear / kDepth : linear % kGemmTile;
      const int b_k = b_by_row ? linear % kDepth : linear / kGemmTile;
      const bool b_inside = column0 + b_column < params.N && k0 + b_k < params.K;
      tile_b[b_k][b_column] = b_inside ? widen(b[(k0 + b_k) * params.b_row_stride +
                                                 (column0 + b_column) * params.b_column_stride])
                                       : Compute(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      Compute fragment_a[kPerThread], fragment_b[kPerThread];
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        fragment_a[i] = tile_a[k][ty * kPerThread + i];
        fragment_b[i] = tile_b[k][tx * kPerThread + i];
      }
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
          sums[i][j] = fma(fragment_a[i], fragment_b[j], sums[i][j]);
        }
      }
    }
    __syncthreads();
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t row = row0 + ty * kPerThread + i;
    if (row >= params.M) return;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int64_t column = column0 + tx * kPerThread + j;
      if (column < params.N) {
        static_cast<T*>(params.c)[row * params.N + column] = narrow<T>(sums[i][j]);
      }
    }
  }
}

}  // namespace ac4k

#define AC4K_GEMM(T, suffix)                                                      \
  extern "C" __global__ void __launch_bounds__(ac4k::kGemmThreads) gemm_##suffix( \
      const __grid_constant__ ac4k::GemmParams params) {                          \
    ac4k::gemm_tile<T>(params);                                                   \
  }

AC4K_GEMM(float, f32)
AC4K_GEMM(double, f64)
AC4K_GEMM(__half, f16)
AC4K_GEMM(__nv_bfloat16, bf16)
