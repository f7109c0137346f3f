// One scale a column ("per_channel").
#include "common/cluster.cuh"
#include "common/quantize_columns.cuh"
#include "common/quantize_kernels.cuh"

namespace ac4k {

// The extent of a stripe's columns over all blocks of the cluster, and from it their rules.
template <typename Format>
struct ColumnShared {
  static constexpr int kColumns = kColumnUnits * kUnit;
  Extent<Format> warps[kColumnThreads / 32][kColumns];
  Extent<Format> blocks[kMaxClusterBlocks][kColumns];
  float inverse[kColumns];
  int zero[kColumns];
};

// Needs a cluster_announce before it.
template <typename T, typename Format>
__device__ __forceinline__ void find_rules(const QuantizeParams& params,
                                           const ColumnExtents<T, Format>& found,
                                           int64_t first_column, ColumnShared<Format>& shared) {
  Extent<Format> extents[kUnit];
  found.widen(extents);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;
#pragma unroll
  for (int j = 0; j < kUnit; ++j) {
#pragma unroll
    for (int mask = 16; mask >= kColumnUnits; mask /= 2) {
      extents[j].include(extents[j].shuffled(mask));
    }
    if (lane < kColumnUnits) shared.warps[warp][lane * kUnit + j] = extents[j];
  }
  __syncthreads();
  cluster_wait();  // all blocks have started
  if (thread < shared.kColumns) {
    Extent<Format> extent = shared.warps[0][thread];
#pragma unroll
    for (int w = 1; w < kColumnThreads / 32; ++w) extent.include(shared.warps[w][thread]);
    Extent<Format>* place = &shared.blocks[cluster_rank()][thread];
    for (uint32_t rank = 0; rank < cluster_size(); ++rank) {
      store_to_cluster(&place->high, rank, extent.high);
      if constexpr (has_zero<Format>) store_to_cluster(&place->low, rank, extent.low);
    }
  }
  cluster_arrive();
  cluster_wait();
  if (thread < shared.kColumns) {
    Extent<Format> extent{};
#pragma unroll
    for (uint32_t rank = 0; rank < kMaxClusterBlocks; ++rank) {
      if (rank < cluster_size()) extent.include(shared.blocks[rank][thread]);
    }
    const ScaleAndZero rule = extent.scale(params.pow2_scale);
    shared.inverse[thread] = rule.inverse;
    shared.zero[thread] = rule.zero;
    if (cluster_rank() == 0 && first_column + thread < params.num_columns) {
      params.scale[first_column + thread] = rule.scale;
      if constexpr (has_zero<Format>) params.zero[first_column + thread] = rule.zero;
    }
  }
  __syncthreads();
}

// A cluster for each stripe of 32 columns; its blocks share the rows. Block: 4 units side by side,
// 128 rows over each other, kUnits times: the stripe stays in registers. Grid: stripes * blocks of
// a cluster. Rows of x lie at multiples of 16 bytes, one stride apart, and are whole units.
// Roofline: HBM.
template <typename T, typename Format, int kUnits>
__device__ __forceinline__ void quantize_columns(const QuantizeParams& params) {
  __shared__ ColumnShared<Format> shared;
  const int num_rows = static_cast<int>(params.num_rows);
  const int64_t stripe = static_cast<int64_t>(blockIdx.x / cluster_size()) * shared.kColumns;
  const int in_stripe = threadIdx.x % kColumnUnits * kUnit;
  const bool inside = stripe + in_stripe < params.num_columns;
  const int first_row =
      static_cast<int>(cluster_rank() * (kUnits * kColumnRows) + threadIdx.x / kColumnUnits);
  cluster_announce();
  wait_for_previous_kernels();
  Unit<T> units[kUnits];
  const T* x =
      static_cast<const T*>(params.x) + first_row * params.rows.stride + stripe + in_stripe;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const bool loads = inside && first_row + i * kColumnRows < num_rows;
    units[i] = loads ? Unit<T>::load(x) : Unit<T>::zero();
    x += kColumnRows * params.rows.stride;
  }
  allow_next_kernel();
  ColumnExtents<T, Format> extents;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) extents.include(units[i]);
  find_rules(params, extents, stripe, shared);
  unsigned char* codes = static_cast<unsigned char*>(params.codes) +
                         first_row * params.num_columns + stripe + in_stripe;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (inside && first_row + i * kColumnRows < num_rows) {
      float x[kUnit];
      units[i].widen(x);
      *reinterpret_cast<uint2*>(codes) =
          encode_columns<Format>(x, shared.inverse + in_stripe, shared.zero + in_stripe);
    }
    codes += kColumnRows * params.num_columns;
  }
}

// The same for more rows than fit into registers: they are read twice, the second time from L2
// where the stripes at work fit there.
template <typename T, typename Format, bool kAligned>
__device__ __forceinline__ void quantize_long_columns(const QuantizeParams& params) {
  __shared__ ColumnShared<Format> shared;
  const int64_t N = params.num_columns;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x / cluster_size()) * shared.kColumns;
  const int in_stripe = threadIdx.x % kColumnUnits * kUnit;
  const int64_t column = first_column + in_stripe;
  const int64_t first_row =
      static_cast<int64_t>(cluster_rank()) * kColumnRows + threadIdx.x / kColumnUnits;
  const int64_t step = static_cast<int64_t>(cluster_size()) * kColumnRows;
  const auto load_row = [&](int64_t row) {
    const T* from = row_of_x<T>(params, row);
    if constexpr (kAligned) return load_unit(from, column, N);
    return Unit<T>::gather(from + column, static_cast<int>(min(N - column, int64_t{kUnit})));
  };
  cluster_announce();
  wait_for_previous_kernels();
  allow_next_kernel();
  ColumnExtents<T, Format> extents;
  constexpr int kAtOnce = kAligned ? 16 / sizeof(T) : 1;  // loads in flight
  for (int64_t row = first_row; row < params.num_rows; row += kAtOnce * step) {
    Unit<T> units[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      units[i] = row + i * step < params.num_rows ? load_row(row + i * step) : Unit<T>::zero();
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) extents.include(units[i]);
  }
  find_rules(params, extents, first_column, shared);
  // Backwards: L2 has the last rows.
  const int64_t strides = (params.num_rows + kAtOnce * step - 1) / (kAtOnce * step);
  for (int64_t stride = strides - 1; stride >= 0; --stride) {
    const int64_t row = first_row + stride * kAtOnce * step;
    Unit<T> units[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      units[i] = row + i * step < params.num_rows ? load_row(row + i * step) : Unit<T>::zero();
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (row + i * step >= params.num_rows) break;
      float x[kUnit];
      units[i].widen(x);
      unsigned char* codes = static_cast<unsigned char*>(params.codes) + (row + i * step) * N;
      const uint2 result =
          encode_columns<Format>(x, shared.inverse + in_stripe, shared.zero + in_stripe);
      if constexpr (kAligned) {
        store_codes(result, codes, column, N);
      } else {
#pragma unroll
        for (int j = 0; j < kUnit; ++j) {
          const uint32_t word = j < 4 ? result.x : result.y;
          if (column + j < N) codes[column + j] = static_cast<unsigned char>(word >> (8 * (j % 4)));
        }
      }
    }
  }
}

template <typename T, typename Format>
__device__ __forceinline__ void quantize_columns_8(const QuantizeParams& params) {
  quantize_columns<T, Format, kColumnKept>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_columns_long(const QuantizeParams& params) {
  quantize_long_columns<T, Format, true>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_columns_any(const QuantizeParams& params) {
  quantize_long_columns<T, Format, false>(params);
}

}  // namespace ac4k

AC4K_QUANTIZE_FORMATS(float, f32, quantize_columns_8, ac4k::kColumnThreads)
AC4K_QUANTIZE_FORMATS(__half, f16, quantize_columns_8, ac4k::kColumnThreads, 2)
AC4K_QUANTIZE_FORMATS(__nv_bfloat16, bf16, quantize_columns_8, ac4k::kColumnThreads, 2)
AC4K_QUANTIZE_KERNELS(quantize_columns_long, ac4k::kColumnThreads)
AC4K_QUANTIZE_KERNELS(quantize_columns_any, ac4k::kColumnThreads)
