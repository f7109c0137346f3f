// Numbers from codes: out = float(code) * scale, rounded once to the output's type.
#include "common/dependent_launch.cuh"
#include "common/half_vectors.h"
#include "common/quantize.cuh"
#include "common/quantize.h"

namespace ac4k {

template <bool kAligned>
__device__ __forceinline__ uint2 load_codes(const unsigned char* from, int count) {
  if constexpr (kAligned) return *reinterpret_cast<const uint2*>(from);
  uint32_t words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    if (i < count) words[i / 4] |= static_cast<uint32_t>(from[i]) << (8 * (i % 4));
  }
  return uint2{words[0], words[1]};
}
template <bool kAligned>
__device__ __forceinline__ uint32_t load_nibbles(const unsigned char* from) {
  if constexpr (kAligned) return *reinterpret_cast<const uint32_t*>(from);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(from[i]) << (8 * i);
  return word;
}
template <bool kAligned, typename T>
__device__ __forceinline__ void store_unit(const float (&values)[kUnit], T* to, int count) {
  if constexpr (kAligned) {
    Unit<T>::narrowed(values).store(to);
  } else {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (i < count) to[i] = narrow<T>(values[i]);
    }
  }
}

template <typename Format>
__device__ __forceinline__ void decode_unit(uint2 codes, float (&values)[kUnit]) {
  float low[4], high[4];
  Format::decode4(codes.x, low);
  Format::decode4(codes.y, high);
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = low[i], values[i + 4] = high[i];
}

// An int8 code less a zero point, which may be any integer: rounded once.
__device__ __forceinline__ float minus(float code, int zero) {
  return static_cast<float>(static_cast<int>(code) - zero);
}

// Block and grid: tiles (quantize.cuh). Aligned: rows are whole units. Roofline: HBM.
template <typename T, typename Format, bool kAligned>
__device__ __forceinline__ void dequantize(const DequantizeParams& params) {
  const TilePlace place = tile_place(params.column_tiles);
  const int64_t N = params.num_columns, column = place.column;
  const int64_t groups = (N + kGroupSize - 1) / kGroupSize;
  wait_for_previous_kernels();
  if (column >= N) return;
  const int count = static_cast<int>(min(N - column, static_cast<int64_t>(kUnit)));
  const bool by_column = params.granularity == kPerChannel;
  const bool has_zero = is_same<Format, Int8> && params.zero != nullptr;
  uint2 codes[kTileRows];
  float scales[kTileRows];
  int zeros[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row >= params.num_rows) break;
    codes[i] = load_codes<kAligned>(
        static_cast<const unsigned char*>(params.codes) + row * N + column, count);
    if (by_column) continue;
    const int64_t index = params.granularity == kPerToken   ? row
                          : params.granularity == kGroup128 ? row * groups + column / kGroupSize
                          : params.granularity == kBlock128
                              ? row / kGroupSize * groups + column / kGroupSize
                              : 0;
    scales[i] = params.scale[index];
    if (has_zero) zeros[i] = params.zero[index];
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row >= params.num_rows) return;
    float values[kUnit];
    decode_unit<Format>(codes[i], values);
    if (by_column) {
#pragma unroll
      for (int j = 0; j < kUnit; ++j) {
        const int64_t at = column + min(j, count - 1);
        if (has_zero) values[j] = minus(values[j], params.zero[at]);
        values[j] = __fmul_rn(values[j], params.scale[at]);
      }
    } else {
      if (has_zero) {
#pragma unroll
        for (float& value : values) value = minus(value, zeros[i]);
      }
#pragma unroll
      for (float& value : values) value = __fmul_rn(value, scales[i]);
    }
    store_unit<kAligned>(values, static_cast<T*>(params.out) + row * N + column, count);
  }
}

// Block and grid: tiles; a thread decodes half a block of 16. Roofline: HBM.
template <typename T, bool kAligned>
__device__ __forceinline__ void dequantize_nvfp4(const BlockDequantizeParams& params) {
  const TilePlace place = tile_place(params.column_tiles);
  const int64_t N = params.num_columns;
  const int block = static_cast<int>(place.column / kNvBlock);
  const int blocks = static_cast<int>(N / kNvBlock);
  wait_for_previous_kernels();
  allow_next_kernel();
  if (place.column >= N) return;
  const float global_scale = *params.global_scale;
  const unsigned char* codes = static_cast<const unsigned char*>(params.codes);
  const int scale_tiles = (blocks + kScaleTileBlocks - 1) / kScaleTileBlocks;
  uint32_t words[kTileRows], scales[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row < params.num_rows) {
      const int64_t at =
          params.tiled ? tiled_scale_offset(row, block, scale_tiles) : row * blocks + block;
      words[i] = load_nibbles<kAligned>(codes + (row * N + place.column) / 2);
      scales[i] = static_cast<const unsigned char*>(params.scales)[at];
    }
  }
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row >= params.num_rows) return;
    float scale[4], values[kUnit];
    E4M3::decode4(scales[i], scale);
    const float factor = __fdiv_rn(scale[0], global_scale);
    E2M1::decode8(words[i], values);
#pragma unroll
    for (int j = 0; j < kUnit; ++j) values[j] = __fmul_rn(values[j], factor);
    store_unit<kAligned>(values, static_cast<T*>(params.out) + row * N + place.column, kUnit);
  }
}

// Block and grid: tiles; a thread decodes a quarter of a block of 32. Roofline: HBM.
template <typename T, typename Format, bool kAligned>
__device__ __forceinline__ void dequantize_mx(const BlockDequantizeParams& params) {
  const TilePlace place = tile_place(params.column_tiles);
  const int64_t N = params.num_columns;
  wait_for_previous_kernels();
  allow_next_kernel();
  if (place.column >= N) return;
  const unsigned char* codes = static_cast<const unsigned char*>(params.codes);
  uint2 words[kTileRows];
  uint32_t scales[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row < params.num_rows) {
      const int64_t index = row * N + place.column;
      if constexpr (is_same<Format, E2M1>) {
        words[i].x = load_nibbles<kAligned>(codes + index / 2);
      } else {
        words[i] = load_codes<kAligned>(codes + index, kUnit);
      }
      scales[i] = static_cast<const unsigned char*>(params.scales)[index / kMxBlock];
    }
  }
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row >= params.num_rows) return;
    float values[kUnit];
    if constexpr (is_same<Format, E2M1>) {
      E2M1::decode8(words[i].x, values);
    } else {
      decode_unit<Format>(words[i], values);
    }
    const float scale = decode_e8m0(scales[i]);
#pragma unroll
    for (int j = 0; j < kUnit; ++j) values[j] = __fmul_rn(values[j], scale);
    store_unit<kAligned>(values, static_cast<T*>(params.out) + row * N + place.column, kUnit);
  }
}

// Scales as numbers, as powers of two, and as e4m3 over a global scale.
struct FloatScale {
  static __device__ __forceinline__ float at(const FewDequantizeParams& params, unsigned index) {
    return static_cast<const float*>(params.scales)[index];
  }
};
struct PowerScale {
  static __device__ __forceinline__ float at(const FewDequantizeParams& params, unsigned index) {
    return decode_e8m0(static_cast<const unsigned char*>(params.scales)[index]);
  }
};
struct GlobalScale {
  static __device__ __forceinline__ float at(const FewDequantizeParams& params, unsigned index) {
    float scale[4];
    E4M3::decode4(static_cast<const unsigned char*>(params.scales)[index], scale);
    return __fdiv_rn(scale[0], *params.global_scale);
  }
};

// Small tensors (common/half_vectors.h). Rows are whole units, codes and out aligned. Roofline:
// latency.
template <typename T, typename Format, typename Scale>
__device__ __forceinline__ void dequantize_few(const FewDequantizeParams& params) {
  using Numbers = Vector<T, kFewCodes* static_cast<int>(sizeof(T))>;
  const unsigned column = (blockIdx.x * kHalfVectorThreads + threadIdx.x) * kFewCodes;
  if (column >= params.num_columns) return;
  const unsigned index = blockIdx.y * params.num_columns + column;
  const unsigned scale_index =
      (blockIdx.y >> params.row_shift) * params.scale_stride + (column >> params.column_shift);
  wait_for_previous_kernels();
  allow_next_kernel();
  float values[kFewCodes];
  if constexpr (is_same<Format, E2M1>) {
    float eight[2 * kFewCodes];
    E2M1::decode8(static_cast<const unsigned short*>(params.codes)[index / kFewCodes], eight);
#pragma unroll
    for (int i = 0; i < kFewCodes; ++i) values[i] = eight[i];
  } else {
    Format::decode4(static_cast<const uint32_t*>(params.codes)[index / kFewCodes], values);
  }
  const float scale = Scale::at(params, scale_index);
  Numbers numbers;
#pragma unroll
  for (int i = 0; i < kFewCodes; ++i) numbers.values[i] = narrow<T>(__fmul_rn(values[i], scale));
  store(reinterpret_cast<Numbers*>(static_cast<T*>(params.out) + index), numbers);
}

}  // namespace ac4k

#define AC4K_KERNEL(kernel, Params, ...)                                       \
  extern "C" __global__ void __launch_bounds__(ac4k::kQuantizeThreads) kernel( \
      const __grid_constant__ ac4k::Params params) {                           \
    ac4k::__VA_ARGS__(params);                                                 \
  }
#define AC4K_FORMAT(T, suffix, Format, name)                                                     \
  AC4K_KERNEL(dequantize_few_##name##_##suffix, FewDequantizeParams,                             \
              dequantize_few<T, ac4k::Format, ac4k::FloatScale>)                                 \
  AC4K_KERNEL(dequantize_##name##_##suffix, DequantizeParams, dequantize<T, ac4k::Format, true>) \
  AC4K_KERNEL(dequantize_any_##name##_##suffix, DequantizeParams,                                \
              dequantize<T, ac4k::Format, false>)
#define AC4K_MX(T, suffix, Format, name)                                  \
  AC4K_KERNEL(dequantize_few_mx_##name##_##suffix, FewDequantizeParams,   \
              dequantize_few<T, ac4k::Format, ac4k::PowerScale>)          \
  AC4K_KERNEL(dequantize_mx_##name##_##suffix, BlockDequantizeParams,     \
              dequantize_mx<T, ac4k::Format, true>)                       \
  AC4K_KERNEL(dequantize_mx_any_##name##_##suffix, BlockDequantizeParams, \
              dequantize_mx<T, ac4k::Format, false>)
#define AC4K_TYPE(T, suffix)                                                               \
  AC4K_FORMAT(T, suffix, E4M3, e4m3)                                                       \
  AC4K_FORMAT(T, suffix, E5M2, e5m2)                                                       \
  AC4K_FORMAT(T, suffix, Int8, int8)                                                       \
  AC4K_MX(T, suffix, E4M3, e4m3)                                                           \
  AC4K_MX(T, suffix, E5M2, e5m2)                                                           \
  AC4K_MX(T, suffix, E2M1, e2m1)                                                           \
  AC4K_KERNEL(dequantize_few_nvfp4_##suffix, FewDequantizeParams,                          \
              dequantize_few<T, ac4k::E2M1, ac4k::GlobalScale>)                            \
  AC4K_KERNEL(dequantize_nvfp4_##suffix, BlockDequantizeParams, dequantize_nvfp4<T, true>) \
  AC4K_KERNEL(dequantize_nvfp4_any_##suffix, BlockDequantizeParams, dequantize_nvfp4<T, false>)

AC4K_TYPE(float, f32)
AC4K_TYPE(__half, f16)
AC4K_TYPE(__nv_bfloat16, bf16)
