// Columns so long that clusters of sm90a read them only once (src/cuda/sm90a/quantize_columns.cu).
#include "cuda/sm90a/quantize_columns.h"

#include <atomic>
#include <cstring>

#include "cuda/driver/tensor_map.hpp"
#include "ops/quantize.hpp"

namespace ac4k {
namespace {

constexpr cuda::CUtensorMapDataType kMapTypes[] = {cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                                   cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                                   cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16};

// The launch of a kernel in clusters of `blocks`.
cuda::LaunchConfig config_for(size_t type, size_t format, int blocks, bool dependent) {
  const int64_t element_bytes = type == 0 ? 4 : 2;
  const int64_t extents = format == 3 ? 2 : 1;
  constexpr int64_t kBarrierBytes = 8 * (2 * kTileStages + 2);
  // Extents of each warp, and of each block in two turns.
  const int64_t extent_bytes =
      kStripeColumns * element_bytes * extents * (kTileWarps + 2 * int64_t{blocks});
  const auto size = static_cast<uint32_t>(blocks);
  return {.grid = {size, 1, 1},
          .block = {kTileThreads, 1, 1},
          .cluster = {size, 1, 1},
          .shared_bytes =
              static_cast<uint32_t>(kTileStages * kTileBytes + extent_bytes + kBarrierBytes),
          .dependent = dependent};
}

// One block an SM, whichever kernel it is: asked for once a device and size.
Status clusters_at_once(cuda::Kernel& kernel, const cuda::LaunchConfig& config, const Call& call,
                        int64_t* count) {
  static std::atomic<int> found[cuda::kMaxDevices][kMaxStripeBlocks + 1] = {};
  std::atomic<int>& slot = found[static_cast<size_t>(call.device.device_id)][config.cluster.x];
  int clusters = slot.load(std::memory_order_relaxed);
  if (clusters == 0) {
    AC4K_TRY(
        cuda::max_active_clusters(kernel, config, call.device.device_id, call.stream, &clusters));
    slot.store(clusters, std::memory_order_relaxed);
  }
  *count = clusters;
  return AC4K_OK;
}

}  // namespace

Status quantize_columns_on_sm90a(const Call& call, const QuantizeParams& params, size_t type,
                                 size_t format, bool dependent, bool* done) {
  static constinit cuda::Kernel kernels[3][4] =
      AC4K_QUANTIZE_KERNELS("sm90a/quantize_columns", "quantize_columns_ring");
  constexpr int64_t kMinTiles = 4;  // of a block: fewer would be done before the next have come
  constexpr int64_t kMaxRows = int64_t{1} << 30;
  *done = false;
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  const int64_t element_bytes = type == 0 ? 4 : 2;
  const int64_t tile_rows = kTileBytes / (kStripeColumns * element_bytes);
  const int64_t stride_bytes = params.rows.stride * element_bytes;
  const int64_t row_tiles = ceil_div(params.num_rows, tile_rows);
  const int64_t stripes = ceil_div(params.num_columns, kStripeColumns);
  if (device->arch != "sm90a" || params.rows.num_inner != 0 ||
      params.rows.stride < params.num_columns || stride_bytes >= (int64_t{1} << 40) ||
      params.num_rows > kMaxRows || params.num_columns > kMaxRows ||
      row_tiles < kMinTiles * kMaxClusterBlocks) {
    return AC4K_OK;
  }
  cuda::Kernel& kernel = kernels[type][format];
  // Columns that eight blocks cannot keep are better off with as many as there can be, although
  // fewer SMs then have work: 268 MB take 141 us instead of 161.
  cuda::LaunchConfig config;
  int64_t clusters = 0;
  if (row_tiles > int64_t{kMaxClusterBlocks} * kTilesKept) {
    config = config_for(type, format, kMaxStripeBlocks, dependent);
    if (int64_t{config.shared_bytes} <= device->shared_per_block) {
      AC4K_TRY(clusters_at_once(kernel, config, call, &clusters));
    }
  }
  if (clusters == 0) {
    config = config_for(type, format, kMaxClusterBlocks, dependent);
    AC4K_TRY(clusters_at_once(kernel, config, call, &clusters));
  }
  // With one stripe a cluster nothing is loaded meanwhile: columns in registers are as good, as
  // long as they fit there.
  const bool fits_registers =
      params.num_rows <= int64_t{kMaxClusterBlocks} * kColumnRows * kColumnKept;
  if (clusters == 0 || (fits_registers && stripes < 2 * clusters)) return AC4K_OK;

  ColumnRingParams ring{.boxes = {}, .quantize = params, .num_stripes = static_cast<int>(stripes)};
  cuda::CUtensorMap map;
  AC4K_TRY(cuda::make_tensor_map(&map, {.type = kMapTypes[type],
                                        .address = params.x,
                                        .rank = 2,
                                        .dims = {static_cast<uint64_t>(params.num_columns),
                                                 static_cast<uint64_t>(params.num_rows)},
                                        .strides = {static_cast<uint64_t>(stride_bytes)},
                                        .box = {kStripeColumns, static_cast<uint32_t>(tile_rows)},
                                        .l2_promotion = cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_128B}));
  static_assert(sizeof(map) == sizeof(ring.boxes));
  std::memcpy(&ring.boxes, &map, sizeof(map));
  config.grid.x = static_cast<uint32_t>(std::min(stripes, clusters)) * config.cluster.x;
  *done = true;
  return cuda::launch(kernel, config, call.device.device_id, call.stream, ring);
}

}  // namespace ac4k
