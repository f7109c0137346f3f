// One scale for 128 columns of a row ("group128").
#include "common/quantize_kernels.cuh"

namespace ac4k {

// Block and grid: tiles (quantize.cuh); 16 neighbouring lanes hold a group, and bx is a multiple of
// 16. The last group of a row may be shorter. Rows of x lie at multiples of 16 bytes and are whole
// units. No shared memory. Roofline: HBM.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_groups(const QuantizeParams& params) {
  constexpr int kLanes = kGroupSize / kUnit;
  const TilePlace place = tile_place(params.column_tiles);
  const int64_t N = params.num_columns;
  const int64_t groups = (N + kGroupSize - 1) / kGroupSize;
  wait_for_previous_kernels();
  Unit<T> units[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    units[i] = Unit<T>::zero();
    if (row < params.num_rows) {
      const T* x = row_of_x<T>(params, row);
      units[i] = load_unit(x, place.column, N);
    }
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    Extent<Format> extent{};
    extent.include(units[i]);
    const ScaleAndZero rule = lanes_extent<kLanes>(extent).scale(params.pow2_scale);
    if (row < params.num_rows && place.column < N) {
      unsigned char* codes = static_cast<unsigned char*>(params.codes) + row * N;
      store_codes(encode_unit<Format>(units[i], rule.inverse, rule.zero), codes, place.column, N);
      if (threadIdx.x % kLanes == 0) {
        const int64_t group = row * groups + place.column / kGroupSize;
        params.scale[group] = rule.scale;
        if constexpr (has_zero<Format>) params.zero[group] = rule.zero;
      }
    }
  }
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_groups, ac4k::kQuantizeThreads)
