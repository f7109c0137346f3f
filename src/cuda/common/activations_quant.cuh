// Activations whose result is quantised: y is computed in float32, rounded to T and then encoded,
// as the two ops one after another would. x is read once, where rows are aligned.
#pragma once

#include "common/activations.cuh"
#include "common/activations_quant.h"
#include "common/dependent_launch.cuh"
#include "common/quantize.cuh"
#include "common/rows.cuh"

namespace ac4k {

// Sources: how eight neighbours of y are made of x. `load` issues the loads, `y` computes;
// `one` is for any alignment.
template <typename T, typename Act>
struct GatedSource {
  Unit<T> gate, factor;

  __device__ __forceinline__ void load(const ActivationQuantParams& params, const T* row,
                                       int64_t column) {
    gate = Unit<T>::load(row + column);
    factor = Unit<T>::load(row + params.num_columns + column);
  }
  __device__ __forceinline__ Unit<T> y() const {
    float a[kUnit], b[kUnit];
    gate.widen(a);
    factor.widen(b);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) a[i] = Act::apply(a[i]) * b[i];
    return Unit<T>::narrowed(a);
  }
  static __device__ __forceinline__ float one(const ActivationQuantParams& params, const T* row,
                                              int64_t column) {
    return Act::apply(widen(row[column])) * widen(row[params.num_columns + column]);
  }
};

template <typename T>
struct Relu2Source {
  Unit<T> x;

  __device__ __forceinline__ void load(const ActivationQuantParams&, const T* row, int64_t column) {
    x = Unit<T>::load(row + column);
  }
  __device__ __forceinline__ Unit<T> y() const {
    float a[kUnit];
    x.widen(a);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) a[i] = relu2(a[i]);
    return Unit<T>::narrowed(a);
  }
  static __device__ __forceinline__ float one(const ActivationQuantParams&, const T* row,
                                              int64_t column) {
    return relu2(widen(row[column]));
  }
};

template <typename T, bool kTanh>
struct AddGeluSource {
  Unit<T> x, bias;

  __device__ __forceinline__ void load(const ActivationQuantParams& params, const T* row,
                                       int64_t column) {
    x = Unit<T>::load(row + column);
    bias = Unit<T>::load(static_cast<const T*>(params.bias) + column);
  }
  __device__ __forceinline__ Unit<T> y() const {
    float a[kUnit], b[kUnit];
    x.widen(a);
    bias.widen(b);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) a[i] = gelu<T, kTanh>(a[i] + b[i]);
    return Unit<T>::narrowed(a);
  }
  static __device__ __forceinline__ float one(const ActivationQuantParams& params, const T* row,
                                              int64_t column) {
    return gelu<T, kTanh>(widen(row[column]) + widen(static_cast<const T*>(params.bias)[column]));
  }
};

// The format is the same for all threads: a branch costs less than three times the kernels.
__device__ __forceinline__ float scale_for(int format, float amax) {
  return format == kFormatE4M3   ? scale_of<E4M3::kMax>(amax, false)
         : format == kFormatE5M2 ? scale_of<E5M2::kMax>(amax, false)
                                 : scale_of<Int8::kMax>(amax, false);
}
template <typename T>
__device__ __forceinline__ void store_unit(int format, const Unit<T>& y, float inverse,
                                           unsigned char* to) {
  uint2 codes;
  if (format == kFormatE4M3) {
    codes = encode_unit<E4M3>(y, inverse);
  } else if (format == kFormatE5M2) {
    codes = encode_unit<E5M2>(y, inverse);
  } else {
    codes = encode_unit<Int8>(y, inverse);
  }
  *reinterpret_cast<uint2*>(to) = codes;
}

template <typename T>
__device__ __forceinline__ const T* x_row(const ActivationQuantParams& params, int64_t row) {
  return static_cast<const T*>(params.x) + offset_of_row(params.rows, static_cast<uint32_t>(row));
}

// The largest of a block's values, in each thread. Called once; 128 bytes of shared memory.
__device__ __forceinline__ float block_max(float value) {
  __shared__ float parts[32];
  const unsigned thread = threadIdx.x, warps = (blockDim.x + 31) / 32;
  float values[1] = {value};
  reduce_lanes<Max>(values, 32);
  if (thread % 32 == 0) parts[thread / 32] = values[0];
  __syncthreads();
  values[0] = thread % 32 < warps ? parts[thread % 32] : 0.0f;
  reduce_lanes<Max>(values, 32);
  return values[0];
}

// One scale a row. Block (bx, by): bx threads a row, each with kUnits units of y in registers; by
// rows, only when a row has one warp or less (bx divides 32). Grid: ceil(rows / by). Rows of x and
// codes are whole units, x aligned to 16 bytes. Roofline: HBM.
template <typename T, typename Source, int kUnits>
__device__ __forceinline__ void activation_quant_rows(const ActivationQuantParams& params) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool inside = row < params.num_rows;
  const T* x = x_row<T>(params, inside ? row : 0);
  const int end = inside ? static_cast<int>(params.num_columns) : 0;
  wait_for_previous_kernels();
  Source sources[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
    if (column < end) sources[i].load(params, x, column);
  }
  allow_next_kernel();
  Unit<T> y[kUnits];
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
    y[i] = Unit<T>::zero();
    if (column < end) y[i] = sources[i].y();
    amax = fmaxf(amax, y[i].amax());
  }
  if (blockDim.x > 32) {
    amax = block_max(amax);
  } else {
    float values[1] = {amax};
    reduce_lanes<Max>(values, blockDim.x);
    amax = values[0];
  }
  const float scale = scale_for(params.format, amax), inverse = inverse_of(scale);
  unsigned char* codes = params.codes + row * params.num_columns;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
    if (column < end) store_unit(params.format, y[i], inverse, codes + column);
  }
  if (threadIdx.x == 0 && inside) params.scale[row] = scale;
}

// One scale for 128 columns, or scales that are given. Block (bx, by), bx * by = 128 or 256: bx
// units side by side (a multiple of 16 where groups need scales: 16 lanes hold one), by rows over
// each other, kActivationQuantRows times. Grid: column tiles * row tiles, columns fastest.
// Alignment as above, no shared memory. Roofline: HBM.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_tiles(const ActivationQuantParams& params) {
  constexpr int kLanes = kActivationGroup / kUnit;
  const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
  const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
  const int64_t N = params.num_columns;
  const int64_t column = (static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * kUnit;
  const int64_t first_row =
      static_cast<int64_t>(row_tile) * (blockDim.y * kActivationQuantRows) + threadIdx.y;
  wait_for_previous_kernels();
  Source sources[kActivationQuantRows];
#pragma unroll
  for (int i = 0; i < kActivationQuantRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    if (row < params.num_rows && column < N) sources[i].load(params, x_row<T>(params, row), column);
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kActivationQuantRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    const bool inside = row < params.num_rows && column < N;
    Unit<T> y = Unit<T>::zero();
    if (inside) y = sources[i].y();
    const int64_t index = params.scales == kScalePerToken    ? row
                          : params.scales == kScalePerTensor ? 0
                                                             : row * params.groups + column / 128;
    const bool first = params.scales == kScalePerToken    ? column == 0
                       : params.scales == kScalePerTensor ? row == 0 && column == 0
                                                          : column % kActivationGroup == 0;
    float scale = 1.0f;
    if (params.given != nullptr) {
      if (inside) scale = params.given[index];
    } else {
      float values[1] = {y.amax()};
      reduce_lanes<Max>(values, kLanes);
      scale = scale_for(params.format, values[0]);
    }
    if (!inside) continue;
    store_unit(params.format, y, inverse_of(scale), params.codes + row * N + column);
    if (first) params.scale[index] = scale;
  }
}

// Any size and alignment: a block for each region of a row that has a scale of its own (the row
// when one scale is given for all). Grid: regions, one at least. y is computed twice where the
// scale has to be found. Block: 256.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_any(const ActivationQuantParams& params) {
  const int64_t N = params.num_columns;
  const int64_t row = blockIdx.x / params.groups, group = blockIdx.x - row * params.groups;
  const int64_t first = params.scales == kScaleGroup128 ? group * kActivationGroup : 0;
  const int64_t last = params.scales == kScaleGroup128 && first + kActivationGroup < N
                           ? first + kActivationGroup
                           : N;
  const int64_t index = params.scales == kScalePerTensor ? 0 : blockIdx.x;
  const bool inside = row < params.num_rows;  // without rows, a given scale is passed on
  const T* x = inside ? x_row<T>(params, row) : nullptr;
  wait_for_previous_kernels();
  allow_next_kernel();
  float scale = 1.0f;
  if (params.given != nullptr) {
    scale = params.given[index];
  } else {
    float amax = 0.0f;
    for (int64_t column = first + threadIdx.x; inside && column < last; column += blockDim.x) {
      amax = fmaxf(amax, fabsf(widen(narrow<T>(Source::one(params, x, column)))));
    }
    scale = scale_for(params.format, block_max(amax));
  }
  const float inverse = inverse_of(scale);
  for (int64_t column = first + threadIdx.x; inside && column < last; column += blockDim.x) {
    const float v = __fmul_rn(widen(narrow<T>(Source::one(params, x, column))), inverse);
    uint32_t code;
    if (params.format == kFormatE4M3) {
      code = E4M3::encode4(v, 0.0f, 0.0f, 0.0f);
    } else if (params.format == kFormatE5M2) {
      code = E5M2::encode4(v, 0.0f, 0.0f, 0.0f);
    } else {
      code = Int8::encode4(v, 0.0f, 0.0f, 0.0f);
    }
    params.codes[row * N + column] = static_cast<unsigned char>(code);
  }
  if (threadIdx.x == 0 && (params.scales != kScalePerTensor || blockIdx.x == 0)) {
    params.scale[index] = scale;
  }
}

}  // namespace ac4k

#define AC4K_ACTIVATION_QUANT_KERNEL(name, threads, ...)            \
  extern "C" __global__ void __launch_bounds__(threads) name(       \
      const __grid_constant__ ac4k::ActivationQuantParams params) { \
    ac4k::__VA_ARGS__(params);                                      \
  }
// The kernels of one source: AC4K_ACTIVATION_QUANT(name, float, f32, GatedSource<...>).
#define AC4K_ACTIVATION_QUANT(name, T, suffix, ...)                                              \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_rows_1_##suffix, ac4k::kActivationQuantMaxThreads,         \
                               activation_quant_rows<T, __VA_ARGS__, 1>)                         \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_rows_2_##suffix, ac4k::kActivationQuantThreads,            \
                               activation_quant_rows<T, __VA_ARGS__, 2>)                         \
  AC4K_ACTIVATION_QUANT_KERNEL(                                                                  \
      name##_rows_4_##suffix,                                                                    \
      sizeof(T) == 4 ? ac4k::kActivationQuantLongThreadsF32 : ac4k::kActivationQuantLongThreads, \
      activation_quant_rows<T, __VA_ARGS__, 4>)                                                  \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_tiles_##suffix, ac4k::kActivationQuantThreads,             \
                               activation_quant_tiles<T, __VA_ARGS__>)                           \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_any_##suffix, ac4k::kActivationQuantThreads,               \
                               activation_quant_any<T, __VA_ARGS__>)
