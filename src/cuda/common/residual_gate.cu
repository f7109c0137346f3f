// out = x + gate * y, one gate for all tokens of a batch. Views that this kernel cannot take go
// through common/mul_add.cu.
#include "common/dependent_launch.cuh"
#include "common/half_vectors.h"
#include "common/residual_gate.h"
#include "common/types.cuh"

namespace ac4k {

// One vector, at its offset in x, y and out and at that of its gate.
template <typename T, int kBytes>
__device__ __forceinline__ void residual_gate_at(const ResidualGateParams& params, int64_t offset,
                                                 int64_t gate_offset) {
  using Vec = Vector<T, kBytes>;
  const Vec x = load(reinterpret_cast<const Vec*>(static_cast<const T*>(params.x) + offset));
  const Vec y = load(reinterpret_cast<const Vec*>(static_cast<const T*>(params.y) + offset));
  const Vec gate =
      load(reinterpret_cast<const Vec*>(static_cast<const T*>(params.gate) + gate_offset));
  Vec result;
#pragma unroll
  for (int j = 0; j < Vec::kSize; ++j) {
    result.values[j] =
        narrow<T>(fmaf(widen(gate.values[j]), widen(y.values[j]), widen(x.values[j])));
  }
  store(reinterpret_cast<Vec*>(static_cast<T*>(params.out) + offset), result);
}

// Block (bx, by), bx * by = 128 or 256: bx threads side by side cover bx vectors of a row, by of
// them stand over each other, one vector of each operand a thread. Grid: batches * token tiles *
// column tiles, columns fastest. Pointers and rows are aligned to 16 bytes. No shared memory.
// Roofline: HBM, 2 reads to 1 write; the gate comes from L2.
template <typename T>
__device__ __forceinline__ void residual_gate(const ResidualGateParams& params) {
  using Vec = Vector<T>;
  const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
  const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
  const unsigned batch = divide(row_tile, params.token_tiles);
  const int64_t token =
      static_cast<int64_t>(row_tile - batch * params.token_tiles.divisor) * blockDim.y +
      threadIdx.y;
  const int64_t column =
      (static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * Vec::kSize;
  if (column >= params.num_columns || token >= params.num_tokens) return;
  const int64_t offset = (batch * params.num_tokens + token) * params.num_columns + column;
  wait_for_previous_kernels();
  allow_next_kernel();
  residual_gate_at<T, kVectorBytes>(params, offset, batch * params.gate_stride + column);
}

// The same for small tensors (common/half_vectors.h), with strides of 32 bits. Grid: (column tiles,
// tokens, batches).
template <typename T>
__device__ __forceinline__ void residual_gate_half(const ResidualGateParams& params) {
  using Vec = Vector<T, kHalfVectorBytes>;
  const unsigned column = (blockIdx.x * kHalfVectorThreads + threadIdx.x) * Vec::kSize;
  const auto num_columns = static_cast<unsigned>(params.num_columns);
  if (column >= num_columns) return;
  const unsigned row = blockIdx.z * static_cast<unsigned>(params.num_tokens) + blockIdx.y;
  wait_for_previous_kernels();
  allow_next_kernel();
  residual_gate_at<T, kHalfVectorBytes>(
      params, row * num_columns + column,
      blockIdx.z * static_cast<int64_t>(static_cast<unsigned>(params.gate_stride)) + column);
}

}  // namespace ac4k

#define AC4K_RESIDUAL_GATE(T, suffix)                                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kResidualGateThreads) residual_gate_##suffix( \
      const __grid_constant__ ac4k::ResidualGateParams params) {                                   \
    ac4k::residual_gate<T>(params);                                                                \
  }                                                                                                \
  extern "C" __global__ void __launch_bounds__(ac4k::kHalfVectorThreads)                           \
  residual_gate_half_##suffix(const __grid_constant__ ac4k::ResidualGateParams params) {           \
    ac4k::residual_gate_half<T>(params);                                                           \
  }

AC4K_RESIDUAL_GATE(float, f32)
AC4K_RESIDUAL_GATE(__half, f16)
AC4K_RESIDUAL_GATE(__nv_bfloat16, bf16)
