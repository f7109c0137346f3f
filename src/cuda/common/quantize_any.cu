// Rows, groups and blocks of any alignment and length: right for everything, fast for nothing.
#include "common/quantize_kernels.cuh"

namespace ac4k {

// A block for each region of region_rows x region_columns, which has one scale; grid: column
// regions * row regions, columns fastest. x is read twice, a number a thread at a time.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_any(const QuantizeParams& params) {
  __shared__ Extent<Format> shared[32];
  const int64_t row_region = divide(blockIdx.x, params.column_tiles);
  const int64_t column_region = blockIdx.x - row_region * params.column_tiles.divisor;
  const int64_t N = params.num_columns;
  const int64_t first_row = row_region * params.region_rows;
  const int64_t first_column = column_region * params.region_columns;
  const int64_t last_row = min(first_row + params.region_rows, params.num_rows);
  const int64_t last_column = min(first_column + params.region_columns, N);
  wait_for_previous_kernels();
  allow_next_kernel();
  Extent<Format> extent{};
  for (int64_t row = first_row; row < last_row; ++row) {
    const T* x = row_of_x<T>(params, row);
    for (int64_t column = first_column + threadIdx.x; column < last_column; column += blockDim.x) {
      extent.include(widen(x[column]));
    }
  }
  const ScaleAndZero rule = block_extent(extent, shared).scale(params.pow2_scale);
  for (int64_t row = first_row; row < last_row; ++row) {
    const T* x = row_of_x<T>(params, row);
    unsigned char* codes = static_cast<unsigned char*>(params.codes) + row * N;
    for (int64_t column = first_column + threadIdx.x; column < last_column; column += blockDim.x) {
      codes[column] = encode_one<Format>(widen(x[column]), rule.inverse, rule.zero);
    }
  }
  if (threadIdx.x == 0) {
    params.scale[blockIdx.x] = rule.scale;
    if constexpr (has_zero<Format>) params.zero[blockIdx.x] = rule.zero;
  }
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_any, ac4k::kAnyThreads)
