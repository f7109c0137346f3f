#include "ops/quantize_flat.hpp"

#include <atomic>
#include <bit>

namespace ac4k {

FlatPlan flat_plan(const cuda::DeviceProperties& device, int64_t num_elements, int cluster_blocks) {
  constexpr int64_t kMaxElements = int64_t{1} << 34;
  FlatPlan plan;
  const int64_t units = num_elements / kUnit;
  if (device.arch != "sm90a" || units == 0 || num_elements >= kMaxElements) return plan;
  plan.found = true;
  if (units <= cluster_units(cluster_blocks)) {
    constexpr int kFewest = kClusterTensorUnits / 4;
    const int64_t wanted = units <= kAloneUnits
                               ? 1
                               : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(
                                     ceil_div(units, int64_t{kClusterTensorThreads}))));
    const int64_t blocks = std::min<int64_t>(cluster_blocks, wanted);
    const int64_t share = ceil_div(units, blocks);
    plan.in_cluster = true;
    plan.units_a_thread = kFewest;
    while (int64_t{plan.units_a_thread} * kClusterTensorThreads < share) plan.units_a_thread *= 2;
    plan.config.grid.x = static_cast<uint32_t>(blocks);
    plan.config.block.x =
        static_cast<uint32_t>(ceil_div(share, int64_t{32} * plan.units_a_thread) * 32);
    if (blocks > 1) {
      plan.config.cluster = {static_cast<uint32_t>(blocks), 1, 1};
      plan.config.grid.x *= static_cast<uint32_t>(std::min(plan.units_a_thread, kTensorClusters));
    }
    return plan;
  }
  constexpr int64_t kShareElements = kShareUnits * kUnit;
  plan.share =
      ceil_div(ceil_div(num_elements, int64_t{device.sm_count}), kShareElements) * kShareElements;
  plan.config.grid.x = static_cast<uint32_t>(ceil_div(num_elements, plan.share));
  plan.config.block.x = kTileThreads;
  plan.config.shared_bytes = kTensorStages * kTileBytes;
  plan.config.cooperative = true;
  return plan;
}

Status find_cluster_blocks(cuda::Kernel& kernel, const Call& call, int* blocks) {
  static std::atomic<int> found[cuda::kMaxDevices] = {};
  std::atomic<int>& known = found[static_cast<size_t>(call.device.device_id)];
  *blocks = known.load(std::memory_order_relaxed);
  if (*blocks != 0) return AC4K_OK;
  int clusters = 0;
  AC4K_TRY(cuda::max_active_clusters(kernel,
                                     {.grid = {kTensorClusterBlocks, 1, 1},
                                      .block = {kClusterTensorThreads, 1, 1},
                                      .cluster = {kTensorClusterBlocks, 1, 1}},
                                     call.device.device_id, call.stream, &clusters));
  *blocks = clusters > 0 ? kTensorClusterBlocks : kMaxClusterBlocks;
  known.store(*blocks, std::memory_order_relaxed);
  return AC4K_OK;
}

}  // namespace ac4k
