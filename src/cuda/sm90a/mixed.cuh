// Names for the mixed-input kernels of a format: few_16_2_bf16 multiplies 16 columns and two row
// tiles, few_any_f32 takes tokens as they are, many_4_f16 has the fifth of kManyTiles.
#pragma once

#include "sm90a/mixed_few.cuh"
#include "sm90a/mixed_few_any.cuh"
#include "sm90a/mixed_many.cuh"

#define AC4K_MIXED_FEW(Format, T, suffix, columns, row_tiles)                                    \
  extern "C" __global__ void                                                                     \
      __launch_bounds__(ac4k::few_threads(columns, row_tiles, ac4k::kPackedBlock<ac4k::Format>), \
                        1)                                                                       \
      few_##columns##_##row_tiles##_##suffix(const __grid_constant__ ac4k::MixedParams params) { \
    ac4k::multiply_few_tokens<ac4k::Format, T, columns, row_tiles>(params);                      \
  }
#define AC4K_MIXED_FEW_ANY(Format, T, suffix)                                             \
  extern "C" __global__ void __launch_bounds__(ac4k::kFewAnyThreads, 1) few_any_##suffix( \
      const __grid_constant__ ac4k::MixedParams params) {                                 \
    ac4k::multiply_few_any<ac4k::Format, T, ac4k::kFewAnyColumns>(params);                \
  }
#define AC4K_MIXED_MANY(Format, T, suffix, tile)                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::many_threads(ac4k::kManyTiles[tile]), 1) \
  many_##tile##_##suffix(const __grid_constant__ ac4k::MixedParams params) {                  \
    ac4k::multiply_many_tokens<ac4k::Format, T, ac4k::kManyTiles[tile]>(params);              \
  }
#define AC4K_MIXED_TYPE(Format, T, suffix) \
  AC4K_MIXED_FEW(Format, T, suffix, 8, 1)  \
  AC4K_MIXED_FEW(Format, T, suffix, 16, 1) \
  AC4K_MIXED_FEW(Format, T, suffix, 32, 1) \
  AC4K_MIXED_FEW(Format, T, suffix, 8, 2)  \
  AC4K_MIXED_FEW(Format, T, suffix, 16, 2) \
  AC4K_MIXED_FEW(Format, T, suffix, 32, 2) \
  AC4K_MIXED_FEW_ANY(Format, T, suffix)    \
  AC4K_MIXED_MANY(Format, T, suffix, 0)    \
  AC4K_MIXED_MANY(Format, T, suffix, 1)    \
  AC4K_MIXED_MANY(Format, T, suffix, 2)    \
  AC4K_MIXED_MANY(Format, T, suffix, 3)    \
  AC4K_MIXED_MANY(Format, T, suffix, 4)
// Their blocks take few instructions: four row tiles are worth it, which GGUF's are not.
#define AC4K_MIXED_W4(Format, T, suffix)  \
  AC4K_MIXED_TYPE(Format, T, suffix)      \
  AC4K_MIXED_FEW(Format, T, suffix, 8, 4) \
  AC4K_MIXED_FEW(Format, T, suffix, 16, 4)
#define AC4K_MIXED(Format)                     \
  AC4K_MIXED_TYPE(Format, __half, f16)         \
  AC4K_MIXED_TYPE(Format, __nv_bfloat16, bf16) \
  AC4K_MIXED_FEW_ANY(Format, float, f32)
