// One scale a row ("per_token").
#include "common/quantize_kernels.cuh"

namespace ac4k {

// Block (bx, by): bx threads a row, each with kUnits units of it in registers, so that x is read
// once; by rows. Several rows share a block only when a row has one warp or less (bx divides 32).
// Grid: ceil(rows / by). Rows of x lie at multiples of 16 bytes and are whole units. Up to 256
// bytes of shared memory for the reduction. Roofline: HBM, N elements read to N bytes written.
template <typename T, typename Format, int kUnits>
__device__ __forceinline__ void quantize_rows(const QuantizeParams& params) {
  __shared__ Extent<Format> shared[32];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool inside = row < params.num_rows;
  const T* x = row_of_x<T>(params, inside ? row : 0);
  unsigned char* codes = static_cast<unsigned char*>(params.codes) + row * params.num_columns;
  const int end = inside ? static_cast<int>(params.num_columns) : 0;

  wait_for_previous_kernels();
  Unit<T> units[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    units[i] = load_unit(x, static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit, end);
  }
  allow_next_kernel();
  Extent<Format> extent{};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) extent.include(units[i]);
  if (blockDim.x > 32) {
    extent = block_extent(extent, shared);
  } else {
    for (unsigned mask = blockDim.x / 2; mask > 0; mask /= 2) {
      extent.include(extent.shuffled(static_cast<int>(mask)));
    }
  }
  const ScaleAndZero rule = extent.scale(params.pow2_scale);
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    store_codes(encode_unit<Format>(units[i], rule.inverse, rule.zero), codes,
                static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit, end);
  }
  if (threadIdx.x == 0 && inside) {
    params.scale[row] = rule.scale;
    if constexpr (has_zero<Format>) params.zero[row] = rule.zero;
  }
}

template <typename T, typename Format>
__device__ __forceinline__ void quantize_rows_1(const QuantizeParams& params) {
  quantize_rows<T, Format, 1>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_rows_2(const QuantizeParams& params) {
  quantize_rows<T, Format, 2>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_rows_4(const QuantizeParams& params) {
  quantize_rows<T, Format, 4>(params);
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_rows_1, ac4k::kRowMaxThreads)
AC4K_QUANTIZE_KERNELS(quantize_rows_2, ac4k::kQuantizeThreads)
AC4K_QUANTIZE_KERNELS(quantize_rows_4, ac4k::kRowMaxThreads)
