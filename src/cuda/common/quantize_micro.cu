// Blocks of 16 or 32 neighbours with a scale of one byte: NVFP4, MXFP4, MXFP8.
#include "common/dependent_launch.cuh"
#include "common/quantize_e2m1.cuh"

namespace ac4k {

// Aligned: x, its rows and the codes lie at multiples of what a thread reads or writes at once.
// Columns are whole units in any case.
template <bool kAligned, typename T>
__device__ __forceinline__ Unit<T> load_whole_unit(const T* from) {
  return kAligned ? Unit<T>::load(from) : Unit<T>::gather(from);
}
template <bool kAligned, int kBytes>
__device__ __forceinline__ void store_word(unsigned long long word, unsigned char* to) {
  if constexpr (kAligned && kBytes == 8) {
    *reinterpret_cast<unsigned long long*>(to) = word;
  } else if constexpr (kAligned) {
    *reinterpret_cast<uint32_t*>(to) = static_cast<uint32_t>(word);
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) to[i] = static_cast<unsigned char>(word >> (8 * i));
  }
}
// Block and grid: tiles (quantize.cuh); four neighbouring lanes hold a block of 32. No shared
// memory. Roofline: HBM.
template <typename T, typename Format, bool kAligned>
__device__ __forceinline__ void quantize_mx(const BlockQuantizeParams& params) {
  constexpr int kLanes = kMxBlock / kUnit;
  const TilePlace place = tile_place(params.column_tiles);
  const int64_t N = params.num_columns;
  const bool inside = place.column < N;
  wait_for_previous_kernels();
  Unit<T> units[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    units[i] = Unit<T>::zero();
    if (inside && row < params.num_rows) {
      const T* x = row_of_x<T>(params, row);
      units[i] = load_whole_unit<kAligned>(x + place.column);
    }
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    Extent<E4M3> extent{units[i].amax()};
    const BlockScale scale = mx_block_scale<Format>(lanes_extent<kLanes>(extent).high);
    if (!inside || row >= params.num_rows) continue;
    unsigned char* codes = static_cast<unsigned char*>(params.codes);
    const int64_t index = row * N + place.column;
    if constexpr (is_same<Format, E2M1>) {
      store_word<kAligned, 4>(encode_e2m1(units[i], scale.factor), codes + index / 2);
    } else {
      const uint2 words = encode_unit<Format>(units[i], scale.factor);
      store_word<kAligned, 8>(join(words.x, words.y), codes + index);
    }
    if (threadIdx.x % kLanes == 0) {
      static_cast<unsigned char*>(params.scales)[index / kMxBlock] =
          static_cast<unsigned char>(scale.code);
    }
  }
}

// Block (bx, by): a thread holds a whole block of 16, bx of them side by side, by rows over each
// other, kTileRows times: the two divisions of a block are made once. Grid: column tiles * row
// tiles, over the padding too where scales are tiled. No shared memory. Roofline: HBM.
template <typename T, bool kAligned>
__device__ __forceinline__ void quantize_nvfp4(const BlockQuantizeParams& params) {
  // Backwards behind the search for the amax: L2 has the end of x.
  const unsigned tile = params.pending ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const unsigned row_tile = divide(tile, params.column_tiles);
  const int block =
      static_cast<int>((tile - row_tile * params.column_tiles.divisor) * blockDim.x + threadIdx.x);
  const int64_t first_row = static_cast<int64_t>(row_tile) * (blockDim.y * kTileRows) + threadIdx.y;
  const int blocks = static_cast<int>(params.num_columns / kNvBlock);
  const int scale_tiles = (blocks + kScaleTileBlocks - 1) / kScaleTileBlocks;
  wait_for_previous_kernels();
  Unit<T> units[kTileRows][2];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    if (row < params.num_rows && block < blocks) {
      const T* x = row_of_x<T>(params, row) + static_cast<int64_t>(block) * kNvBlock;
      units[i][0] = load_whole_unit<kAligned>(x);
      units[i][1] = load_whole_unit<kAligned>(x + kUnit);
    } else {
      units[i][0] = units[i][1] = Unit<T>::zero();
    }
  }
  // Minus the amax of all becomes the scale in the hands of whoever sees it: all get the same.
  float global_scale = load_shared_by_all(params.given);
  if (params.pending && signbit(global_scale)) global_scale = nvfp4_global_scale(-global_scale);
  allow_next_kernel();
  if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) *params.global_scale = global_scale;
  unsigned char* scales = static_cast<unsigned char*>(params.scales);
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    const bool inside = row < params.num_rows && block < blocks;
    const Nvfp4Block encoded = encode_nvfp4(units[i], global_scale);
    if (inside) {
      const int64_t index = row * blocks + block;
      store_word<kAligned, 8>(encoded.codes, static_cast<unsigned char*>(params.codes) + index * 8);
      if (!params.tiled) scales[index] = encoded.scale;
    }
    const int64_t padded_rows =
        (params.num_rows + kScaleTileRows - 1) / kScaleTileRows * kScaleTileRows;
    if (params.tiled && row < padded_rows && block < scale_tiles * kScaleTileBlocks) {
      scales[tiled_scale_offset(row, block, scale_tiles)] = inside ? encoded.scale : 0;
    }
  }
}

}  // namespace ac4k

#define AC4K_MICRO(kernel, ...)                                                \
  extern "C" __global__ void __launch_bounds__(ac4k::kQuantizeThreads) kernel( \
      const __grid_constant__ ac4k::BlockQuantizeParams params) {              \
    ac4k::__VA_ARGS__(params);                                                 \
  }
#define AC4K_TYPE(T, suffix)                                                   \
  AC4K_MICRO(quantize_mx_e4m3_##suffix, quantize_mx<T, ac4k::E4M3, true>)      \
  AC4K_MICRO(quantize_mx_any_e4m3_##suffix, quantize_mx<T, ac4k::E4M3, false>) \
  AC4K_MICRO(quantize_mx_e5m2_##suffix, quantize_mx<T, ac4k::E5M2, true>)      \
  AC4K_MICRO(quantize_mx_any_e5m2_##suffix, quantize_mx<T, ac4k::E5M2, false>) \
  AC4K_MICRO(quantize_mx_e2m1_##suffix, quantize_mx<T, ac4k::E2M1, true>)      \
  AC4K_MICRO(quantize_mx_any_e2m1_##suffix, quantize_mx<T, ac4k::E2M1, false>) \
  AC4K_MICRO(quantize_nvfp4_##suffix, quantize_nvfp4<T, true>)                 \
  AC4K_MICRO(quantize_nvfp4_any_##suffix, quantize_nvfp4<T, false>)

AC4K_TYPE(float, f32)
AC4K_TYPE(__half, f16)
AC4K_TYPE(__nv_bfloat16, bf16)
