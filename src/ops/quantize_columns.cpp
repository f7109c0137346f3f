// Columns so long that clusters of sm90a read them only once (src/cuda/sm90a/quantize_columns.cu).
#include "cuda/sm90a/quantize_columns.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "ops/quantize.hpp"
#include "ops/tensor_boxes.hpp"

namespace ac4k {
namespace {

constexpr cuda::CUtensorMapDataType kMapTypes[] = {cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                                   cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                                   cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16};

struct Work {
  size_t type, format;
  int64_t row_tiles, stripes;
  bool dependent;

  int64_t element_bytes() const { return type == 0 ? 4 : 2; }
};

// The launch of a kernel in clusters of `blocks`.
cuda::LaunchConfig config_for(const Work& work, int blocks) {
  const int64_t extents = work.format == 3 ? 2 : 1;
  constexpr int64_t kBarrierBytes = 8 * (2 * kStripeStages + 2);
  // Extents of each warp, and of each block in two turns.
  const int64_t extent_bytes =
      kStripeColumns * work.element_bytes() * extents * (kTileWarps + 2 * int64_t{blocks});
  const auto size = static_cast<uint32_t>(blocks);
  return {.grid = {size, 1, 1},
          .block = {kTileThreads, 1, 1},
          .cluster = {size, 1, 1},
          .shared_bytes =
              static_cast<uint32_t>(kStripeStages * kTileBytes + extent_bytes + kBarrierBytes),
          .dependent = work.dependent};
}

// One block an SM, whichever kernel it is: asked for once a device and size, and kept as one more.
Status clusters_at_once(cuda::Kernel& kernel, const cuda::LaunchConfig& config, const Call& call,
                        int64_t* count) {
  static std::atomic<int> found[cuda::kMaxDevices][kMaxStripeBlocks + 1] = {};
  std::atomic<int>& slot = found[static_cast<size_t>(call.device.device_id)][config.cluster.x];
  int known = slot.load(std::memory_order_relaxed);
  if (known == 0) {
    int clusters = 0;
    AC4K_TRY(
        cuda::max_active_clusters(kernel, config, call.device.device_id, call.stream, &clusters));
    known = clusters + 1;
    slot.store(known, std::memory_order_relaxed);
  }
  *count = known - 1;
  return AC4K_OK;
}

// Microseconds for clusters of `blocks`, `at_once` of which run at a time, as measured on an H200:
// a start, and for each round an exchange and the tiles of a block, more of them the more SMs share
// the memory. Tiles that are not kept are read again.
double estimated_time(const Work& work, int64_t blocks, int64_t at_once) {
  constexpr double kStart = 3.2, kRound = 0.7, kTile = 0.79, kTileAgain = 0.5;
  constexpr double kAllSms = 132, kLeastShare = 0.45;
  const int64_t tiles = ceil_div(work.row_tiles, blocks);
  const double per_block =
      static_cast<double>(tiles) * kTile +
      static_cast<double>(std::max<int64_t>(tiles - kStripeTilesKept, 0)) * kTileAgain;
  const auto round = [&](int64_t clusters) {
    const double share = static_cast<double>(clusters * blocks) / kAllSms;
    return clusters == 0 ? 0.0 : kRound + per_block * std::max(share, kLeastShare);
  };
  return kStart + static_cast<double>(work.stripes / at_once) * round(at_once) +
         round(work.stripes % at_once);
}

// The fastest launch; `clusters` stays zero where there is none.
Status choose_config(cuda::Kernel& kernel, const Call& call, const Work& work,
                     int64_t shared_per_block, cuda::LaunchConfig* best, int64_t* clusters) {
  double best_time = std::numeric_limits<double>::infinity();
  for (int blocks = 2; blocks <= kMaxStripeBlocks; blocks *= 2) {
    const cuda::LaunchConfig config = config_for(work, blocks);
    if (int64_t{config.shared_bytes} > shared_per_block) break;
    int64_t at_once = 0;
    AC4K_TRY(clusters_at_once(kernel, config, call, &at_once));
    if (at_once == 0) break;
    const double time = estimated_time(work, blocks, at_once);
    if (time < best_time) *best = config, *clusters = at_once, best_time = time;
  }
  return AC4K_OK;
}

}  // namespace

Status quantize_columns_on_sm90a(const Call& call, const QuantizeParams& params, size_t type,
                                 size_t format, bool dependent, bool* done) {
  static constinit cuda::Kernel kernels[3][4] =
      AC4K_QUANTIZE_KERNELS("sm90a/quantize_columns", "quantize_columns_ring");
  constexpr int64_t kMinTiles = 4;  // fewer are faster in registers
  constexpr int64_t kMaxRows = int64_t{1} << 30;
  *done = false;
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  Work work{.type = type, .format = format, .row_tiles = 0, .stripes = 0, .dependent = dependent};
  const int64_t tile_rows = kTileBytes / (kStripeColumns * work.element_bytes());
  const int64_t stride_bytes = params.rows.stride * work.element_bytes();
  work.row_tiles = ceil_div(params.num_rows, tile_rows);
  work.stripes = ceil_div(params.num_columns, kStripeColumns);
  if (device->arch != "sm90a" || params.rows.num_inner != 0 ||
      params.rows.stride < params.num_columns || stride_bytes >= (int64_t{1} << 40) ||
      params.num_rows > kMaxRows || params.num_columns > kMaxRows || work.row_tiles < kMinTiles) {
    return AC4K_OK;
  }
  cuda::Kernel& kernel = kernels[type][format];
  cuda::LaunchConfig config;
  int64_t clusters = 0;
  AC4K_TRY(choose_config(kernel, call, work, device->shared_per_block, &config, &clusters));
  if (clusters == 0) return AC4K_OK;

  ColumnRingParams ring{
      .boxes = {}, .quantize = params, .num_stripes = static_cast<int>(work.stripes)};
  AC4K_TRY(describe_boxes(
      {.type = kMapTypes[type],
       .address = params.x,
       .rank = 2,
       .dims = {static_cast<uint64_t>(params.num_columns), static_cast<uint64_t>(params.num_rows)},
       .strides = {static_cast<uint64_t>(stride_bytes)},
       .box = {kStripeColumns, static_cast<uint32_t>(tile_rows)},
       .l2_promotion = cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
      &ring.boxes));
  config.grid.x = static_cast<uint32_t>(std::min(work.stripes, clusters)) * config.cluster.x;
  *done = true;
  return cuda::launch(kernel, config, call.device.device_id, call.stream, ring);
}

}  // namespace ac4k
