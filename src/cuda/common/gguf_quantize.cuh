// What the kernels that make GGUF blocks share: numbers from rows of x, cleaned.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/gguf.h"
#include "common/gguf_bytes.cuh"
#include "common/gguf_pack.h"
#include "common/rows.cuh"

namespace ac4k {

// Where the numbers of a block begin.
template <int kValues, typename T>
__device__ __forceinline__ const T* numbers_of_block(const GgufQuantizeParams& params,
                                                     int64_t block) {
  const T* x = static_cast<const T*>(params.x);
  if (params.x_contiguous) return x + block * kValues;
  const int64_t row = block / params.blocks_per_row;
  return x + offset_of_row(params.rows, static_cast<uint32_t>(row)) +
         (block - row * params.blocks_per_row) * kValues;
}

// kCount neighbours, which begin at a multiple of 16 bytes when `aligned`.
template <int kCount, typename T>
__device__ __forceinline__ void load_cleaned(const T* from, bool aligned, float (&values)[kCount]) {
  constexpr int kSize = Vector<T>::kSize;
  static_assert(kCount % kSize == 0);
  if (aligned) {
#pragma unroll
    for (int part = 0; part < kCount / kSize; ++part) {
      float some[kSize];
      widen(load(reinterpret_cast<const Vector<T>*>(from) + part), some);
#pragma unroll
      for (int i = 0; i < kSize; ++i) values[part * kSize + i] = some[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = widen(from[i]);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = gguf::cleaned(values[i]);
}

}  // namespace ac4k

#define AC4K_QUANTIZE(T, suffix, Format, name, kernel, threads)                          \
  extern "C" __global__ void __launch_bounds__(threads) gguf_quantize_##name##_##suffix( \
      const __grid_constant__ ac4k::GgufQuantizeParams params) {                         \
    ac4k::kernel<T, ac4k::Format>(params);                                               \
  }
#define AC4K_QUANTIZE_TYPES(Format, name, kernel, threads)  \
  AC4K_QUANTIZE(float, f32, Format, name, kernel, threads)  \
  AC4K_QUANTIZE(__half, f16, Format, name, kernel, threads) \
  AC4K_QUANTIZE(__nv_bfloat16, bf16, Format, name, kernel, threads)
