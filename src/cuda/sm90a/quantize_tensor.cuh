// One extent for everything, then codes, in one launch: a cluster for a small tensor, a block on
// every SM for a large one. x is contiguous and lies at a multiple of 16 bytes.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "sm90a/grid_barrier.cuh"
#include "sm90a/kept_tiles.cuh"
#include "sm90a/tensor_codes.cuh"

namespace ac4k {

// Bits of a float that is not negative, or is -0.
__device__ __forceinline__ uint32_t magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// Extents that several warps or blocks leave for others.
template <typename Format, int kCount>
struct ExtentArray {
  static_assert(kCount <= 32);
  static constexpr int kParts = has_zero<Format> ? 2 : 1;
  float parts[kParts][kCount];

  __device__ __forceinline__ void store(uint32_t index, const Extent<Format>& extent) {
    parts[0][index] = extent.high;
    if constexpr (has_zero<Format>) parts[1][index] = extent.low;
  }
  // The extent of the first `count`, in each lane of a warp.
  __device__ __forceinline__ Extent<Format> extent_of(uint32_t count) const {
    Extent<Format> extent{};
    const uint32_t lane = threadIdx.x % 32;
    if (lane < count) {
      extent.high = parts[0][lane];
      if constexpr (has_zero<Format>) extent.low = parts[1][lane];
    }
    return warp_extent(extent);
  }
};

// Grid: one block, or as many clusters as a thread has units, but at most kTensorClusters. Each
// cluster reads all of x and agrees on the extent: registers hold x while each block sends its own
// to all others. Then each encodes its share of every thread's units. Of the barriers of the
// cluster only the one that says that all have started. Roofline: latency.
template <typename Codes, int kUnits>
__device__ __forceinline__ void quantize_in_cluster_of(const typename Codes::Params& params) {
  using T = typename Codes::Element;
  using Format = typename Codes::Format;
  using BlockExtents = ExtentArray<Format, kTensorClusterBlocks>;
  constexpr int kClusters = kUnits < kTensorClusters ? kUnits : kTensorClusters;
  constexpr int kOwnUnits = kUnits / kClusters;
  __shared__ ExtentArray<Format, kClusterTensorThreads / 32> of_warps;
  __shared__ BlockExtents of_blocks;
  __shared__ uint64_t received_barrier;
  const uint32_t received = shared_address(&received_barrier);
  // One block has no cluster that could be sent to, and few units.
  const bool alone = kUnits == kClusterTensorUnits / 4 && gridDim.x == 1;
  uint32_t clusters = kClusters;
  // Unlike the variant with as many clusters: what the compiler finds in both it does before it
  // asks which it is, and x has to wait.
  if constexpr (kOwnUnits > 1) asm volatile("" : "+r"(clusters));
  const uint32_t num_blocks = alone ? 1 : gridDim.x / clusters;
  const uint32_t rank = alone ? 0 : cluster_rank(), cluster = alone ? 0 : blockIdx.x / num_blocks;
  const auto num_units = static_cast<uint32_t>(params.num_elements) / kUnit;
  const uint32_t first = rank * blockDim.x + threadIdx.x, step = num_blocks * blockDim.x;
  if (!alone) {
    if (threadIdx.x == 0) {
      init_barrier(received, 1);
      publish_barriers();
    }
    cluster_announce();
  }
  wait_for_previous_kernels();
  Unit<T> units[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const uint32_t unit = first + i * step;
    units[i] = Unit<T>::zero();
    if (unit < num_units) {
      units[i] = Unit<T>::load(static_cast<const T*>(params.quantize.x) +
                               static_cast<int64_t>(unit) * kUnit);
    }
  }
  allow_next_kernel();
  Extent<Format> extent{};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) extent.include(units[i]);
  extent = warp_extent(extent);
  const uint32_t warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) of_warps.store(warp, extent);
  __syncthreads();
  if (!alone) {
    if (threadIdx.x == 0) {
      arrive_and_expect(received,
                        num_blocks * BlockExtents::kParts * static_cast<uint32_t>(sizeof(float)));
    }
    cluster_wait();  // all blocks have started, their barriers are initialised
    if (warp == 0) {
      extent = of_warps.extent_of(warps);
      if (lane < num_blocks) {
        send(shared_address(&of_blocks.parts[0][rank]), received, lane, extent.high);
        if constexpr (has_zero<Format>)
          send(shared_address(&of_blocks.parts[1][rank]), received, lane, extent.low);
      }
    }
  }
  if (alone) {
    typename Codes::Prepared prepared[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i) prepared[i] = Codes::prepare(units[i]);
    const typename Codes::Rule rule = Codes::rule_of(params, of_warps.extent_of(warps));
    Codes::encode_units(params, first, step, num_units, units, prepared, rule);
    if (first == 0) Codes::store_rule(params, rule);
    Codes::store_padding(params, first, step);
  } else {
    Unit<T> own[kOwnUnits];
    typename Codes::Prepared prepared[kOwnUnits];
#pragma unroll
    for (int i = 0; i < kOwnUnits; ++i) {
      own[i] = units[i * kClusters];
#pragma unroll
      for (int j = 1; j < kClusters; ++j) {
        if (cluster == j) own[i] = units[i * kClusters + j];
      }
      prepared[i] = Codes::prepare(own[i]);
    }
    wait_for(received, 0);
    const typename Codes::Rule rule = Codes::rule_of(params, of_blocks.extent_of(num_blocks));
    const uint32_t first_own = first + cluster * step, step_own = kClusters * step;
    Codes::encode_units(params, first_own, step_own, num_units, own, prepared, rule);
    if (blockIdx.x == 0 && threadIdx.x == 0) Codes::store_rule(params, rule);
    Codes::store_padding(params, first_own, step_own);
  }
}
template <typename Codes>
__device__ __forceinline__ void quantize_in_cluster(const typename Codes::Params& params) {
  if (params.units_a_thread == kClusterTensorUnits / 4) {
    quantize_in_cluster_of<Codes, kClusterTensorUnits / 4>(params);
  } else if (params.units_a_thread == kClusterTensorUnits / 2) {
    quantize_in_cluster_of<Codes, kClusterTensorUnits / 2>(params);
  } else {
    quantize_in_cluster_of<Codes, kClusterTensorUnits>(params);
  }
}

// An extent in one word, so that it is there as a whole or not at all: the sign, which neither part
// needs, says that it is.
template <typename Format>
__device__ __forceinline__ ExtentSlot slot_of(const Extent<Format>& extent) {
  uint32_t minus_low = 0;
  if constexpr (has_zero<Format>) minus_low = magnitude_bits(-extent.low);
  return join(minus_low, magnitude_bits(extent.high) | 0x80000000u);
}
template <typename Format>
__device__ __forceinline__ Extent<Format> extent_of(ExtentSlot slot) {
  Extent<Format> extent{};
  extent.high = __uint_as_float(static_cast<uint32_t>(slot >> 32) & 0x7fffffffu);
  if constexpr (has_zero<Format>) extent.low = -__uint_as_float(static_cast<uint32_t>(slot));
  return extent;
}

// By one warp of each block, with the block's extent: the rule of the grid, in its first lane.
template <typename Codes>
__device__ __forceinline__ typename Codes::Rule rule_of_grid(
    const typename Codes::Params& params, Extent<typename Codes::Format> extent) {
  using Format = typename Codes::Format;
  auto* slots = static_cast<ExtentSlot*>(params.quantize.codes);
  const bool first_lane = threadIdx.x % 32 == 0;
  if (blockIdx.x == 0) {
    for (uint32_t block = 1 + threadIdx.x % 32; block < gridDim.x; block += 32) {
      ExtentSlot slot = load_relaxed(slots + block);
      while (slot == 0) slot = load_relaxed(slots + block);
      extent.include(extent_of<Format>(slot));
    }
    const typename Codes::Rule rule = Codes::rule_of(params, warp_extent(extent));
    if (first_lane) Codes::publish_rule(params, rule);
    return rule;
  }
  if (!first_lane) return {};
  store_relaxed(slots + blockIdx.x, slot_of(extent));
  float scale = Codes::load_scale(params);
  while (signbit(scale)) scale = Codes::load_scale(params);
  return Codes::rule_with(params, scale);
}

// Grid: a block an SM, all at once; each has `share` elements. Block: 16 warps that compute, one
// that asks for copies. The first block sets the slots to 0 and the scale to a negative number
// before any other looks at them. Shared memory: 192 KB for tiles. Roofline: HBM, x read once where
// it fits into shared memory and L2.
template <typename Codes>
__device__ __forceinline__ void quantize_in_grid(const typename Codes::Params& params) {
  using T = typename Codes::Element;
  using Format = typename Codes::Format;
  using Tiles = KeptTiles<kTensorStages, kTensorStages>;
  constexpr int kUnitBytes = kUnit * static_cast<int>(sizeof(T));
  constexpr int kItemBytes = Codes::kUnits * kUnitBytes;
  // Several tiles are encoded at once, so that a thread has several items of each.
  constexpr int kTeams = Codes::kTeams, kTeamThreads = kTileConsumers / kTeams;
  constexpr int kItems = kTileBytes / (kTeamThreads * kItemBytes);
  extern __shared__ __align__(128) unsigned char tile_bytes[];
  __shared__ typename Tiles::Barriers barriers;
  __shared__ ExtentArray<Format, kTileWarps> extents;
  __shared__ typename Codes::Rule shared_rule;
  __shared__ typename Codes::Table table;
  Tiles tiles(tile_bytes, barriers);
  if (threadIdx.x == 0) {
    tiles.init_barriers();
    publish_barriers();
  }
  wait_for_previous_kernels();
  if (blockIdx.x == 0) {
    auto* slots = static_cast<ExtentSlot*>(params.quantize.codes);
    for (uint32_t block = threadIdx.x; block < gridDim.x; block += kTileThreads) slots[block] = 0;
    if (threadIdx.x == 0) *Codes::scale_of(params) = -0.0f;
  }
  __syncthreads();  // the barriers are initialised
  GridBarrier begun;
  if (threadIdx.x == 0) begun.arrive();
  const int64_t begin = blockIdx.x * params.share;
  const int64_t num_bytes =
      min(params.share, params.num_elements - begin) * static_cast<int64_t>(sizeof(T));
  const int num_tiles = static_cast<int>((num_bytes + kTileBytes - 1) / kTileBytes);
  const auto bytes_of_tile = [&](int tile) {
    return static_cast<int>(
        min(num_bytes - static_cast<int64_t>(tile) * kTileBytes, static_cast<int64_t>(kTileBytes)));
  };

  if (threadIdx.x >= kTileConsumers) {  // copies
    if (threadIdx.x == kTileConsumers) {
      const auto* x =
          reinterpret_cast<const unsigned char*>(static_cast<const T*>(params.quantize.x) + begin);
      const uint64_t last_use = evict_first();
      tiles.load(num_tiles, [&](int tile, uint32_t to, uint32_t barrier, bool is_last_use) {
        const auto bytes = static_cast<uint32_t>(bytes_of_tile(tile));
        const unsigned char* from = x + static_cast<int64_t>(tile) * kTileBytes;
        arrive_and_expect(barrier, bytes);
        if (is_last_use) {
          copy_bytes(to, from, bytes, barrier, last_use);
        } else {
          copy_bytes(to, from, bytes, barrier);
        }
      });
      allow_next_kernel();
    }
    return;
  }

  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  Extent<Format> extent{};
  tiles.first_pass(num_tiles, [&](int tile, const unsigned char* bytes) {
    if (tile == 0 && thread == 0) begun.wait();  // now, when nobody waits for this thread
    const int count = bytes_of_tile(tile);
#pragma unroll
    for (int i = 0; i < kTileBytes; i += kTileConsumers * kUnitBytes) {
      const int place = i + thread * kUnitBytes;
      if (place < count) extent.include(Unit<T>::load_from_shared(bytes + place));
    }
  });
  extent = warp_extent(extent);
  if (thread % 32 == 0) {
    extents.store(static_cast<uint32_t>(warp), extent);
  }
  synchronise<1, kTileConsumers>();
  if (warp == 0) {
    const typename Codes::Rule rule = rule_of_grid<Codes>(params, extents.extent_of(kTileWarps));
    if (thread == 0) shared_rule = rule;
  }
  synchronise<1, kTileConsumers>();
  const typename Codes::Rule rule = shared_rule;
  if constexpr (Codes::kHasTable) {
    Codes::fill_table(table, rule);
    synchronise<1, kTileConsumers>();
  }
  const auto first_item = static_cast<uint32_t>(begin / (Codes::kUnits * kUnit));
  const int member = thread % kTeamThreads;
  tiles.template second_pass_in_teams<kTeams>(num_tiles, [&](int tile, const unsigned char* bytes) {
    // Behind the end of x there is something or other, which is encoded but not stored.
    Unit<T> items[kItems][Codes::kUnits];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int u = 0; u < Codes::kUnits; ++u) {
        items[i][u] = Unit<T>::load_from_shared(bytes + (i * kTeamThreads + member) * kItemBytes +
                                                u * kUnitBytes);
      }
    }
    const uint32_t first = first_item + static_cast<uint32_t>(tile) * (kTileBytes / kItemBytes);
    const uint32_t end = first + static_cast<uint32_t>(bytes_of_tile(tile) / kItemBytes);
    Codes::encode(params, first + static_cast<uint32_t>(member), kTeamThreads, end, items, rule,
                  table);
  });
  Codes::store_padding(params, blockIdx.x * kTileConsumers + threadIdx.x,
                       gridDim.x * kTileConsumers);
}

}  // namespace ac4k

// Entry points <name>_cluster_<suffix> and <name>_grid_<suffix>; what follows are the codes.
#define AC4K_TENSOR_KERNELS(name, suffix, ...)                                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kClusterTensorThreads, 1)              \
  name##_cluster_##suffix(const __grid_constant__ ac4k::__VA_ARGS__::Params params) {       \
    ac4k::quantize_in_cluster<ac4k::__VA_ARGS__>(params);                                   \
  }                                                                                         \
  extern "C" __global__ void __launch_bounds__(ac4k::kTileThreads, 1) name##_grid_##suffix( \
      const __grid_constant__ ac4k::__VA_ARGS__::Params params) {                           \
    ac4k::quantize_in_grid<ac4k::__VA_ARGS__>(params);                                      \
  }
