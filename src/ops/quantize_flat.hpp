// Quantising a contiguous tensor by its own extent on sm90a, in one launch: by a cluster, or by a
// block on every SM (src/cuda/sm90a/quantize_tensor.cuh).
#pragma once

#include <algorithm>
#include <bit>

#include "cuda/driver/device.hpp"
#include "cuda/sm90a/quantize_tensor.h"
#include "ops/quantize.hpp"

namespace ac4k {

struct FlatPlan {
  bool found = false;
  bool in_cluster = false;
  int64_t share = 0;  // elements of a block of the grid
  cuda::LaunchConfig config = {};
};

// `units_an_item`: that a thread encodes together.
inline FlatPlan flat_plan(const cuda::DeviceProperties& device, int64_t num_elements,
                          int64_t units_an_item) {
  constexpr int64_t kMaxElements = int64_t{1} << 34;
  FlatPlan plan;
  const int64_t units = num_elements / kUnit;
  if (device.arch != "sm90a" || units == 0 || num_elements >= kMaxElements) return plan;
  plan.found = true;
  if (units <= int64_t{kMaxClusterBlocks} * kClusterTensorThreads * kClusterTensorUnits) {
    const int64_t items = units / units_an_item;
    const int64_t wanted = ceil_div(items, kClusterTensorThreads);
    const auto blocks = static_cast<uint32_t>(std::min<int64_t>(
        kMaxClusterBlocks, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)))));
    const int64_t threads =
        std::min<int64_t>(kClusterTensorThreads, ceil_div(items, 32 * blocks) * 32);
    plan.in_cluster = true;
    plan.config.grid.x = blocks;
    plan.config.block.x = static_cast<uint32_t>(threads);
    if (blocks > 1) plan.config.cluster = {blocks, 1, 1};
    return plan;
  }
  constexpr int64_t kShareElements = kShareUnits * kUnit;
  plan.share =
      ceil_div(ceil_div(num_elements, int64_t{device.sm_count}), kShareElements) * kShareElements;
  plan.config.grid.x = static_cast<uint32_t>(ceil_div(num_elements, plan.share));
  plan.config.block.x = kTileThreads;
  plan.config.shared_bytes = kTileStages * kTileBytes;
  plan.config.cooperative = true;
  return plan;
}

// `done` tells whether x could be quantised this way. x is `contiguous` and lies, as the codes do,
// at a multiple of what a thread handles at once.
template <typename Params>
Status quantize_flat_on_sm90a(const Call& call, cuda::Kernel& cluster, cuda::Kernel& grid,
                              const Params& params, float* scale, int64_t units_an_item,
                              bool contiguous, bool* done) {
  static constinit cuda::Kernel start{"sm90a/quantize_tensor", "start_grid"};
  *done = false;
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  const int64_t num_elements = params.num_rows * params.num_columns;
  FlatPlan plan = flat_plan(*device, num_elements, units_an_item);
  if (!plan.found || !contiguous) return AC4K_OK;
  const FlatParams<Params> flat{
      .quantize = params,
      .num_elements = num_elements,
      .share = plan.share,
      .blocks_a_row =
          fast_divisor(static_cast<uint32_t>(std::max<int64_t>(1, params.num_columns / kNvBlock)))};
  plan.config.dependent = cuda::dependent_launch();
  if (!plan.in_cluster) {
    const TensorStartParams begin{.slots = static_cast<ExtentSlot*>(params.codes),
                                  .num_slots = static_cast<int>(plan.config.grid.x),
                                  .scale = scale};
    AC4K_TRY(launch_1d(start, call, 1, 32, begin));
    plan.config.dependent = true;  // on a kernel of our own: whatever the user chose
  }
  status = cuda::launch(plan.in_cluster ? cluster : grid, plan.config, call.device.device_id,
                        call.stream, flat);
  // Where a process may use only some of the SMs: other kernels write what `start` has written.
  if (status == AC4K_UNSUPPORTED && plan.config.cooperative) return AC4K_OK;
  *done = true;
  return status;
}

}  // namespace ac4k
