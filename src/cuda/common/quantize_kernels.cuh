// Names for the kernels of each element type and format: quantize_groups_e4m3_bf16. What follows a
// kernel's name are its launch bounds.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/quantize.cuh"
#include "common/quantize.h"

#define AC4K_QUANTIZE_KERNEL(Params, T, suffix, Format, name, kernel, ...)              \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) kernel##_##name##_##suffix( \
      const __grid_constant__ ac4k::Params params) {                                    \
    ac4k::kernel<T, ac4k::Format>(params);                                              \
  }
#define AC4K_QUANTIZE_FORMATS_WITH(Params, T, suffix, kernel, ...)         \
  AC4K_QUANTIZE_KERNEL(Params, T, suffix, E4M3, e4m3, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_KERNEL(Params, T, suffix, E5M2, e5m2, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_KERNEL(Params, T, suffix, Int8, int8, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_KERNEL(Params, T, suffix, Int8Zero, int8_zero, kernel, __VA_ARGS__)
#define AC4K_QUANTIZE_FORMATS(T, suffix, kernel, ...) \
  AC4K_QUANTIZE_FORMATS_WITH(QuantizeParams, T, suffix, kernel, __VA_ARGS__)
#define AC4K_QUANTIZE_KERNELS_WITH(Params, kernel, ...)                \
  AC4K_QUANTIZE_FORMATS_WITH(Params, float, f32, kernel, __VA_ARGS__)  \
  AC4K_QUANTIZE_FORMATS_WITH(Params, __half, f16, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_FORMATS_WITH(Params, __nv_bfloat16, bf16, kernel, __VA_ARGS__)
#define AC4K_QUANTIZE_KERNELS(kernel, ...) \
  AC4K_QUANTIZE_KERNELS_WITH(QuantizeParams, kernel, __VA_ARGS__)
// Where only the extent matters: formats without and with a zero point.
#define AC4K_QUANTIZE_EXTENTS(T, suffix, kernel, ...)                               \
  AC4K_QUANTIZE_KERNEL(QuantizeParams, T, suffix, Int8, plain, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_KERNEL(QuantizeParams, T, suffix, Int8Zero, zero, kernel, __VA_ARGS__)
#define AC4K_QUANTIZE_FORMATS_OF_EXTENT(kernel, ...)      \
  AC4K_QUANTIZE_EXTENTS(float, f32, kernel, __VA_ARGS__)  \
  AC4K_QUANTIZE_EXTENTS(__half, f16, kernel, __VA_ARGS__) \
  AC4K_QUANTIZE_EXTENTS(__nv_bfloat16, bf16, kernel, __VA_ARGS__)
