// Scales that are known: the caller's, or that of the whole tensor after its amax was found.
#include "common/quantize_kernels.cuh"

namespace ac4k {

// Where the scale of an element lies, and whether it is the first element with it.
struct ScalePlace {
  int64_t index;
  bool first;
};
__device__ __forceinline__ ScalePlace scale_place(const QuantizeParams& params, int64_t row,
                                                  int64_t column) {
  const int64_t groups = (params.num_columns + kGroupSize - 1) / kGroupSize;
  switch (params.granularity) {
    case kPerToken:
      return {row, column == 0};
    case kPerChannel:
      return {column, row == 0};
    case kGroup128:
      return {row * groups + column / kGroupSize, column % kGroupSize == 0};
    case kBlock128:
      return {row / kGroupSize * groups + column / kGroupSize,
              row % kGroupSize == 0 && column % kGroupSize == 0};
    default:
      return {0, row == 0 && column == 0};
  }
}

// A pending amax becomes a scale in the hands of whoever sees it first: all get the same.
template <typename Format>
__device__ __forceinline__ float scale_at(const QuantizeParams& params, int64_t index) {
  const float found = load_shared_by_all(params.given + index);
  if (!params.pending || !signbit(found)) return found;
  return scale_of<Format::kMax>(-found, params.pow2_scale);
}

// Block and grid: tiles (quantize.cuh). Rows of x lie at multiples of 16 bytes and are whole units.
// Roofline: HBM.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_given(const QuantizeParams& params) {
  const TilePlace place = tile_place(params.column_tiles, params.pending);
  const int64_t N = params.num_columns, column = place.column;
  wait_for_previous_kernels();
  Unit<T> units[kTileRows];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row < params.num_rows) {
      const T* x = row_of_x<T>(params, row);
      units[i] = load_unit(x, column, N);
    }
  }
  int zero = 0;
  if constexpr (has_zero<Format>) zero = *params.zero;  // made by finish_tensor
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = place.first_row + i * blockDim.y;
    if (row >= params.num_rows || column >= N) return;
    unsigned char* codes = static_cast<unsigned char*>(params.codes) + row * N;
    const ScalePlace at = scale_place(params, row, column);
    float x[kUnit];
    units[i].widen(x);
    float inverse = 1.0f;
    if (params.granularity == kPerChannel) {
#pragma unroll 1
      for (int j = 0; j < kUnit; ++j) {
        const float scale = params.given[column + j];
        const float own = inverse_of(scale);
#pragma unroll
        for (int k = 0; k < kUnit; ++k) x[k] = k == j ? __fmul_rn(x[k], own) : x[k];
        if (at.first) params.scale[column + j] = scale;
      }
    } else {
      const float scale = scale_at<Format>(params, at.index);
      inverse = inverse_of(scale);
      if (at.first) params.scale[at.index] = scale;
    }
    store_codes(encode_unit<Format>(x, inverse, zero), codes, column, N);
  }
}

// Grid: ceil(elements / threads). Any alignment.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_given_any(const QuantizeParams& params) {
  wait_for_previous_kernels();
  allow_next_kernel();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t row = index / params.num_columns, column = index - row * params.num_columns;
  if (row >= params.num_rows) return;
  const T* x = row_of_x<T>(params, row);
  const ScalePlace at = scale_place(params, row, column);
  const float scale = scale_at<Format>(params, at.index);
  int zero = 0;
  if constexpr (has_zero<Format>) zero = *params.zero;
  static_cast<unsigned char*>(params.codes)[index] =
      encode_one<Format>(widen(x[column]), inverse_of(scale), zero);
  if (at.first) params.scale[at.index] = scale;
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_given, ac4k::kQuantizeThreads)
AC4K_QUANTIZE_KERNELS(quantize_given_any, ac4k::kAnyThreads)

// Grid: ceil(scales / threads). For an x without elements, whose scales are copied all the same;
// num_columns is their number.
extern "C" __global__ void __launch_bounds__(ac4k::kAnyThreads) copy_scales(
    const __grid_constant__ ac4k::QuantizeParams params) {
  ac4k::wait_for_previous_kernels();
  ac4k::allow_next_kernel();
  const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index < params.num_columns) params.scale[index] = params.given[index];
}
