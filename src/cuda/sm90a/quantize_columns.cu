// One scale a column ("per_channel"), for columns that fill clusters: x is read once from HBM, by
// clusters that stay and load the next stripe while they encode this one.
#include "common/cluster.cuh"
#include "common/quantize_columns.cuh"
#include "common/quantize_kernels.cuh"
#include "sm90a/kept_tiles.cuh"
#include "sm90a/quantize_columns.h"

namespace ac4k {

using StripeTiles = KeptTiles<kStripeStages, kStripeTilesKept>;

template <typename T, typename Format>
struct Stripe {
  static constexpr int kUnits = kStripeColumns / kUnit;  // side by side
  static constexpr int kRows = kTileBytes / (kStripeColumns * static_cast<int>(sizeof(T)));
  static constexpr int kRowsAtOnce = kTileConsumers / kUnits;
  static constexpr int kExtents = has_zero<Format> ? 2 : 1;
  static constexpr int kExtentWords = kUnits * Unit<T>::kWords;
  static constexpr int kWords = kExtents * kExtentWords;
  static_assert(kRows % kRowsAtOnce == 0 && kUnits <= 32);
};

// Shared memory. Extents are those of x's own type, the high ones first.
template <typename T, typename Format>
struct ColumnRingShared {
  static constexpr int kWords = Stripe<T, Format>::kWords;
  unsigned char tiles[StripeTiles::kBytes];
  uint32_t of_warps[kTileWarps][kWords];
  StripeTiles::Barriers barriers;
  uint64_t received[2];

  // Behind all this, in two turns: another block may send those of its next stripe while this one
  // still reads. It cannot send the ones after that, for which it needs what this block sends then.
  __device__ __forceinline__ uint32_t* of_block(uint32_t turn, uint32_t block) {
    return reinterpret_cast<uint32_t*>(this + 1) + (turn * cluster_size() + block) * kWords;
  }
};

template <typename T, typename Format>
__device__ __forceinline__ void store_extents(const ColumnExtents<T, Format>& extents, int unit,
                                              uint32_t* words) {
  using Shape = Stripe<T, Format>;
#pragma unroll
  for (int i = 0; i < Unit<T>::kWords; ++i) {
    words[unit * Unit<T>::kWords + i] = extents.high.words[i];
    if constexpr (has_zero<Format>)
      words[Shape::kExtentWords + unit * Unit<T>::kWords + i] = extents.low.words[i];
  }
}
template <typename T, typename Format>
__device__ __forceinline__ ColumnExtents<T, Format> load_extents(int unit, const uint32_t* words) {
  using Shape = Stripe<T, Format>;
  ColumnExtents<T, Format> extents;
  extents.high = Unit<T>::load_from_shared(words + unit * Unit<T>::kWords);
  if constexpr (has_zero<Format>)
    extents.low = Unit<T>::load_from_shared(words + Shape::kExtentWords + unit * Unit<T>::kWords);
  return extents;
}
// The extents of a stripe's columns over all blocks of the cluster: each block sends its own to all
// of them. `round` counts stripes.
template <typename T, typename Format>
__device__ __forceinline__ ColumnExtents<T, Format> cluster_extents(
    ColumnExtents<T, Format> found, uint32_t round, ColumnRingShared<T, Format>& shared) {
  using Shape = Stripe<T, Format>;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const uint32_t num_blocks = cluster_size(), rank = cluster_rank();
  const uint32_t turn = round % 2, received = shared_address(shared.received + turn);
#pragma unroll
  for (int mask = 16; mask >= Shape::kUnits; mask /= 2) found.include(found.shuffled(mask));
  if (lane < Shape::kUnits) store_extents(found, lane, shared.of_warps[warp]);
  if (thread == 0)
    arrive_and_expect(received, num_blocks * Shape::kWords * static_cast<uint32_t>(sizeof(float)));
  synchronise<1, kTileConsumers>();
  for (uint32_t i = thread; i < num_blocks * Shape::kWords; i += kTileConsumers) {
    const uint32_t to = i / Shape::kWords, word = i % Shape::kWords;
    const bool high = word < Shape::kExtentWords;
    uint32_t extreme = shared.of_warps[0][word];
#pragma unroll
    for (int w = 1; w < kTileWarps; ++w)
      extreme = extreme_word<T>(extreme, shared.of_warps[w][word], high);
    send(shared_address(shared.of_block(turn, rank) + word), received, to,
         __uint_as_float(extreme));
  }
  wait_for(received, round / 2 % 2);
  synchronise<1, kTileConsumers>();  // of_warps may be written again
  const int unit = thread % Shape::kUnits;
  ColumnExtents<T, Format> all;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    all.include(load_extents<T, Format>(unit, shared.of_block(turn, block)));
  }
  return all;
}

// Grid: clusters that run at once; each takes stripe after stripe of 64 columns, its blocks take
// turns at tiles of 16 KB of them. Block: 16 warps that compute, one that asks for copies. Rows of
// x lie at multiples of 16 bytes, one stride apart, and are whole units. Shared memory: 208 KB for
// tiles, up to 16 KB for extents. Roofline: HBM, x read once; columns of more than 9 tiles a block
// come from L2 in part, when they are encoded.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_columns_ring(const ColumnRingParams& params) {
  using Shape = Stripe<T, Format>;
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<ColumnRingShared<T, Format>*>(shared_bytes);
  StripeTiles tiles(shared.tiles, shared.barriers);
  if (threadIdx.x == 0) {
    tiles.init_barriers();
    init_barrier(shared_address(shared.received), 1);
    init_barrier(shared_address(shared.received + 1), 1);
    publish_barriers();
  }
  cluster_announce();
  wait_for_previous_kernels();
  __syncthreads();  // the barriers are initialised
  const QuantizeParams& quantize = params.quantize;
  const int num_rows = static_cast<int>(quantize.num_rows);
  const int num_blocks = static_cast<int>(cluster_size()), rank = static_cast<int>(cluster_rank());
  const int row_tiles = (num_rows + Shape::kRows - 1) / Shape::kRows;
  const int num_tiles = (row_tiles - rank + num_blocks - 1) / num_blocks;  // of this block
  const int first_stripe = static_cast<int>(blockIdx.x) / num_blocks;
  const int num_clusters = static_cast<int>(gridDim.x) / num_blocks;
  const auto first_row = [&](int tile) { return (tile * num_blocks + rank) * Shape::kRows; };

  if (threadIdx.x >= kTileConsumers) {  // copies
    if (threadIdx.x == kTileConsumers) {
      const uint64_t last_use = evict_first();
#pragma unroll 1
      for (int stripe = first_stripe; stripe < params.num_stripes; stripe += num_clusters) {
        tiles.load(num_tiles, [&](int tile, uint32_t to, uint32_t barrier, bool is_last_use) {
          arrive_and_expect(barrier, kTileBytes);
          const int column = stripe * kStripeColumns;
          if (is_last_use) {
            copy_box(to, params.boxes, column, first_row(tile), barrier, last_use);
          } else {
            copy_box(to, params.boxes, column, first_row(tile), barrier);
          }
        });
      }
      allow_next_kernel();
    }
    cluster_wait();
    return;
  }

  const int unit = static_cast<int>(threadIdx.x) % Shape::kUnits;
  const int row_in_tile = static_cast<int>(threadIdx.x) / Shape::kUnits;
  constexpr int kRowBytes = kStripeColumns * static_cast<int>(sizeof(T));
  const int thread_offset = row_in_tile * kRowBytes + unit * kUnit * static_cast<int>(sizeof(T));
  cluster_wait();  // the barriers of all blocks are initialised
  uint32_t round = 0;
#pragma unroll 1
  for (int stripe = first_stripe; stripe < params.num_stripes; stripe += num_clusters, ++round) {
    const int64_t column = static_cast<int64_t>(stripe) * kStripeColumns + unit * kUnit;
    const bool inside = column < quantize.num_columns;
    // Extents; what lies outside x has become zeros.
    ColumnExtents<T, Format> found;
    tiles.first_pass(num_tiles, [&](int, const unsigned char* bytes) {
#pragma unroll
      for (int r = 0; r < Shape::kRows; r += Shape::kRowsAtOnce)
        found.include(Unit<T>::load_from_shared(bytes + thread_offset + r * kRowBytes));
    });
    // Rules.
    Extent<Format> extents[kUnit];
    cluster_extents(found, round, shared).widen(extents);
    float inverse[kUnit];
    int zero[kUnit];
#pragma unroll
    for (int j = 0; j < kUnit; ++j) {
      const ScaleAndZero rule = extents[j].scale(quantize.pow2_scale);
      inverse[j] = rule.inverse;
      zero[j] = rule.zero;
      if (rank == 0 && row_in_tile == 0 && inside) {
        quantize.scale[column + j] = rule.scale;
        if constexpr (has_zero<Format>) quantize.zero[column + j] = rule.zero;
      }
    }
    // Codes.
    tiles.second_pass(num_tiles, [&](int tile, const unsigned char* bytes) {
      const int row = first_row(tile) + row_in_tile;
      unsigned char* codes =
          static_cast<unsigned char*>(quantize.codes) + row * quantize.num_columns + column;
#pragma unroll
      for (int r = 0; r < Shape::kRows; r += Shape::kRowsAtOnce) {
        float x[kUnit];
        Unit<T>::load_from_shared(bytes + thread_offset + r * kRowBytes).widen(x);
        if (inside && row + r < num_rows) {
          *reinterpret_cast<uint2*>(codes + r * quantize.num_columns) =
              encode_columns<Format>(x, inverse, zero);
        }
      }
    });
  }
}

}  // namespace ac4k

#define AC4K_COLUMN_RING(T, suffix, Format, name)                                                  \
  extern "C" __global__ void __launch_bounds__(ac4k::kTileThreads, 1)                              \
  quantize_columns_ring_##name##_##suffix(const __grid_constant__ ac4k::ColumnRingParams params) { \
    ac4k::quantize_columns_ring<T, ac4k::Format>(params);                                          \
  }
#define AC4K_COLUMN_RINGS(T, suffix)      \
  AC4K_COLUMN_RING(T, suffix, E4M3, e4m3) \
  AC4K_COLUMN_RING(T, suffix, E5M2, e5m2) \
  AC4K_COLUMN_RING(T, suffix, Int8, int8) \
  AC4K_COLUMN_RING(T, suffix, Int8Zero, int8_zero)

AC4K_COLUMN_RINGS(float, f32)
AC4K_COLUMN_RINGS(__half, f16)
AC4K_COLUMN_RINGS(__nv_bfloat16, bf16)
