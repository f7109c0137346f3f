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
// Block and grid: tiles (quantize.cuh) of what a thread holds of a row, one or two units; two or
// four neighbouring lanes hold a block of 32. No shared memory. Roofline: HBM.
template <typename T, typename Format, bool kAligned>
__device__ __forceinline__ void quantize_mx(const BlockQuantizeParams& params) {
  constexpr int kUnits = is_same<Format, E2M1> && Unit<T>::kPairs ? kMxfp4Units : 1;
  constexpr int kLanes = kMxBlock / (kUnits * kUnit);
  const TilePlace place = tile_place<kUnits>(params.column_tiles);
  const bool inside = place.column < params.num_columns;
  bool is_there[kTileRows];
  wait_for_previous_kernels();
  Unit<T> units[kTileRows][kUnits];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    is_there[i] = inside && row < params.num_rows;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) units[i][u] = Unit<T>::zero();
    if (is_there[i]) {
      const T* x = row_of_x<T>(params, row) + place.column;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) units[i][u] = load_whole_unit<kAligned>(x + u * kUnit);
    }
  }
  allow_next_kernel();
  float amax[kTileRows];
  BlockScale scales[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    amax[i] = lanes_extent<kLanes>(Extent<E4M3>{Unit<T>::amax(units[i])}).high;
    scales[i] = mx_block_scale<Format>(amax[i]);
  }
  uint32_t codes[kTileRows][2] = {};
  if constexpr (is_same<Format, E2M1>) {
    encode_mxfp4(units, amax, scales, codes);
  } else {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const uint2 eight = encode_unit<Format>(units[i][0], scales[i].factor);
      codes[i][0] = eight.x, codes[i][1] = eight.y;
    }
  }
  const uint64_t first = place.first_row * params.num_columns + place.column;
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    if (!is_there[i]) continue;
    const uint64_t index = first + i * blockDim.y * params.num_columns;
    constexpr int kCodes = is_same<Format, E2M1> ? 2 : 1;  // in a byte
    store_word<kAligned, kUnits * kUnit / kCodes>(
        join(codes[i][0], codes[i][1]), static_cast<unsigned char*>(params.codes) + index / kCodes);
    if (threadIdx.x % kLanes == 0) {
      static_cast<unsigned char*>(params.scales)[index / kMxBlock] =
          static_cast<unsigned char>(scales[i].code);
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
  Nvfp4Block encoded[kTileRows];
  encode_nvfp4(units, Nvfp4Scales{global_scale}, encoded);
  unsigned char* scales = static_cast<unsigned char*>(params.scales);
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    const bool inside = row < params.num_rows && block < blocks;
    if (inside) {
      const int64_t index = row * blocks + block;
      store_word<kAligned, 8>(encoded[i].codes,
                              static_cast<unsigned char*>(params.codes) + index * 8);
      if (!params.tiled) scales[index] = encoded[i].scale;
    }
    const int64_t padded_rows =
        (params.num_rows + kScaleTileRows - 1) / kScaleTileRows * kScaleTileRows;
    if (params.tiled && row < padded_rows && block < scale_tiles * kScaleTileBlocks) {
      scales[tiled_scale_offset(row, block, scale_tiles)] = inside ? encoded[i].scale : 0;
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
