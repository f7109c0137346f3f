// One scale for 128 rows by 128 columns ("block128").
#include "common/quantize_kernels.cuh"

namespace ac4k {

// A block of (16, 32) threads for a block of 128 x 128: 32 rows at once, four times; all of it
// stays in registers. Grid: column blocks * row blocks, columns fastest. Rows of x lie at multiples
// of 16 bytes and are whole units. Up to 256 bytes of shared memory. Roofline: HBM.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_blocks(const QuantizeParams& params) {
  constexpr int kRowsAtOnce = kBlockThreads * kUnit / kGroupSize;
  constexpr int kUnits = kGroupSize / kRowsAtOnce;
  __shared__ Extent<Format> shared[32];
  const unsigned row_block = divide(blockIdx.x, params.column_tiles);
  const unsigned column_block = blockIdx.x - row_block * params.column_tiles.divisor;
  const int64_t column = static_cast<int64_t>(column_block) * kGroupSize + threadIdx.x * kUnit;
  const int64_t first_row = static_cast<int64_t>(row_block) * kGroupSize + threadIdx.y;
  const int64_t N = params.num_columns;
  wait_for_previous_kernels();
  Unit<T> units[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t row = first_row + i * kRowsAtOnce;
    units[i] = Unit<T>::zero();
    if (row < params.num_rows) {
      const T* x = row_of_x<T>(params, row);
      units[i] = load_unit(x, column, N);
    }
  }
  allow_next_kernel();
  Extent<Format> extent{};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) extent.include(units[i]);
  const ScaleAndZero rule = block_extent(extent, shared).scale(params.pow2_scale);
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int64_t row = first_row + i * kRowsAtOnce;
    unsigned char* codes = static_cast<unsigned char*>(params.codes) + row * N;
    store_codes(encode_unit<Format>(units[i], rule.inverse, rule.zero), codes, column,
                row < params.num_rows ? N : 0);
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    params.scale[blockIdx.x] = rule.scale;
    if constexpr (has_zero<Format>) params.zero[blockIdx.x] = rule.zero;
  }
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_blocks, ac4k::kBlockThreads)
