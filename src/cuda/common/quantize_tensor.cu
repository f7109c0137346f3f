// One scale for everything ("per_tensor"), and the amax that NVFP4's global scale comes from.
//
// A small tensor is done by one cluster. A large one takes start_tensor, amax_tensor and then
// quantize_given: the scale output holds minus the amax meanwhile, and with a zero point the zero
// output holds the bits of -min(x, 0), until finish_tensor makes scale and zero point of them.
#include "common/cluster.cuh"
#include "common/quantize_kernels.cuh"

namespace ac4k {

// One cluster, kTensorUnits units a thread in registers. Units are numbered through all rows.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_tensor(const QuantizeParams& params) {
  __shared__ Extent<Format> shared[32];
  __shared__ Extent<Format> of_blocks[kMaxClusterBlocks];
  const uint32_t in_row = static_cast<uint32_t>(params.num_columns) / kUnit;
  const uint32_t num_units = static_cast<uint32_t>(params.num_rows) * in_row;
  const uint32_t first = cluster_rank() * blockDim.x + threadIdx.x;
  const uint32_t step = cluster_size() * blockDim.x;
  cluster_announce();
  wait_for_previous_kernels();
  Unit<T> units[kTensorUnits];
#pragma unroll
  for (int i = 0; i < kTensorUnits; ++i) {
    const uint32_t unit = first + i * step;
    units[i] = Unit<T>::zero();
    if (unit < num_units) {
      const T* x = static_cast<const T*>(params.x);
      if (params.rows.num_inner == 0 && params.rows.stride == params.num_columns) {
        x += static_cast<int64_t>(unit) * kUnit;
      } else {
        const uint32_t row = unit / in_row;
        x = row_of_x<T>(params, row) + (unit - row * in_row) * kUnit;
      }
      units[i] = Unit<T>::load(x);
    }
  }
  allow_next_kernel();
  Extent<Format> extent{};
#pragma unroll
  for (int i = 0; i < kTensorUnits; ++i) extent.include(units[i]);
  extent = block_extent(extent, shared);
  cluster_wait();
  if (threadIdx.x < cluster_size()) {
    Extent<Format>* place = &of_blocks[cluster_rank()];
    store_to_cluster(&place->high, threadIdx.x, extent.high);
    if constexpr (has_zero<Format>) store_to_cluster(&place->low, threadIdx.x, extent.low);
  }
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (uint32_t rank = 0; rank < kMaxClusterBlocks; ++rank) {
    if (rank < cluster_size()) extent.include(of_blocks[rank]);
  }
  const ScaleAndZero rule = extent.scale(params.pow2_scale);
#pragma unroll
  for (int i = 0; i < kTensorUnits; ++i) {
    const uint32_t unit = first + i * step;
    if (unit < num_units) {
      static_cast<uint2*>(params.codes)[unit] =
          encode_unit<Format>(units[i], rule.inverse, rule.zero);
    }
  }
  if (first == 0) {
    *params.scale = rule.scale;
    if constexpr (has_zero<Format>) *params.zero = rule.zero;
  }
}

// Adds a block's extent to that of the tensor. Bits of floats that are not negative compare as the
// floats do; most blocks find that theirs changes nothing.
template <typename Format>
__device__ __forceinline__ void add_extent(const QuantizeParams& params,
                                           const Extent<Format>& extent) {
  constexpr uint32_t kNegative = 0x80000000u;
  const auto raise = [](volatile unsigned* place, uint32_t bits) {
    if (*place < bits) atomicMax(const_cast<unsigned*>(place), bits);
  };
  raise(reinterpret_cast<unsigned*>(params.scale), __float_as_uint(extent.high) | kNegative);
  if constexpr (has_zero<Format>) {
    raise(reinterpret_cast<unsigned*>(params.zero), __float_as_uint(-extent.low) & ~kNegative);
  }
}

// Block and grid: tiles of kAmaxUnits rows a thread. Rows of x lie at multiples of 16 bytes and are
// whole units. Roofline: HBM, reads.
template <typename T, typename Format>
__device__ __forceinline__ void amax_tensor(const QuantizeParams& params) {
  __shared__ Extent<Format> shared[32];
  const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
  const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
  const int64_t column = (static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x) * kUnit;
  const int64_t first_row =
      static_cast<int64_t>(row_tile) * (blockDim.y * kAmaxUnits) + threadIdx.y;
  wait_for_previous_kernels();
  Unit<T> units[kAmaxUnits];
#pragma unroll
  for (int i = 0; i < kAmaxUnits; ++i) {
    const int64_t row = first_row + i * blockDim.y;
    units[i] = Unit<T>::zero();
    if (row < params.num_rows) {
      const T* x = row_of_x<T>(params, row);
      units[i] = load_unit(x, column, params.num_columns);
    }
  }
  allow_next_kernel();
  Extent<Format> extent{};
#pragma unroll
  for (int i = 0; i < kAmaxUnits; ++i) extent.include(units[i]);
  extent = block_extent(extent, shared);
  if (threadIdx.x == 0 && threadIdx.y == 0) add_extent(params, extent);
}

// A block for each of kAnyRows rows' worth of numbers. Any alignment.
template <typename T, typename Format>
__device__ __forceinline__ void amax_tensor_any(const QuantizeParams& params) {
  __shared__ Extent<Format> shared[32];
  wait_for_previous_kernels();
  allow_next_kernel();
  const int64_t N = params.num_columns, total = params.num_rows * N;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  Extent<Format> extent{};
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < total;
       index += step) {
    const int64_t row = index / N;
    const T* x = row_of_x<T>(params, row);
    extent.include(widen(x[index - row * N]));
  }
  extent = block_extent(extent, shared);
  if (threadIdx.x == 0) add_extent(params, extent);
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS(quantize_tensor, ac4k::kTensorThreads)
AC4K_QUANTIZE_FORMATS_OF_EXTENT(amax_tensor, ac4k::kQuantizeThreads)
AC4K_QUANTIZE_FORMATS_OF_EXTENT(amax_tensor_any, ac4k::kAnyThreads)

// One thread. Nothing found yet.
extern "C" __global__ void __launch_bounds__(32) start_tensor(
    const __grid_constant__ ac4k::QuantizeParams params) {
  ac4k::wait_for_previous_kernels();
  ac4k::allow_next_kernel();
  *params.scale = -0.0f;
  if (params.zero != nullptr) *params.zero = 0;
}
// One thread. The extent becomes scale and zero point.
extern "C" __global__ void __launch_bounds__(32) finish_tensor(
    const __grid_constant__ ac4k::QuantizeParams params) {
  ac4k::wait_for_previous_kernels();
  ac4k::allow_next_kernel();
  const ac4k::ScaleAndZero rule =
      ac4k::scale_and_zero_of(-__int_as_float(*params.zero), -*params.scale);
  *params.scale = rule.scale;
  *params.zero = rule.zero;
}
