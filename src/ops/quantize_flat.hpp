// Quantising a contiguous tensor by its own extent on sm90a, in one launch: by a cluster, or by a
// block on every SM (src/cuda/sm90a/quantize_tensor.cuh).
#pragma once

#include <algorithm>

#include "cuda/driver/device.hpp"
#include "cuda/sm90a/quantize_tensor.h"
#include "ops/quantize.hpp"

namespace ac4k {

struct FlatPlan {
  bool found = false;
  bool in_cluster = false;
  int units_a_thread = 0;  // in a cluster
  int64_t share = 0;       // elements of a block of the grid
  cuda::LaunchConfig config = {};
};

// Units that one block encodes without a cluster, which would take longer to agree.
inline constexpr int64_t kAloneUnits = 2 * kClusterTensorThreads;
constexpr int64_t cluster_units(int blocks) {
  return int64_t{blocks} * kClusterTensorThreads * kClusterTensorUnits;
}

// `cluster_blocks`: the largest cluster.
FlatPlan flat_plan(const cuda::DeviceProperties& device, int64_t num_elements, int cluster_blocks);

// The largest cluster that the kernels of this file have on a device: kTensorClusterBlocks, or
// kMaxClusterBlocks where no part of the GPU is that large. Asked for once a device.
Status find_cluster_blocks(cuda::Kernel& kernel, const Call& call, int* blocks);

// `done` tells whether x could be quantised this way. x is `contiguous` and lies, as the codes do,
// at a multiple of what a thread handles at once.
template <typename Params>
Status quantize_flat_on_sm90a(const Call& call, cuda::Kernel& cluster, cuda::Kernel& grid,
                              const Params& params, bool contiguous, bool* done) {
  *done = false;
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  const int64_t num_elements = params.num_rows * params.num_columns;
  if (!contiguous || device->arch != "sm90a") return AC4K_OK;
  int cluster_blocks = kMaxClusterBlocks;
  if (num_elements <= cluster_units(kTensorClusterBlocks) * kUnit)
    AC4K_TRY(find_cluster_blocks(cluster, call, &cluster_blocks));
  FlatPlan plan = flat_plan(*device, num_elements, cluster_blocks);
  if (!plan.found) return AC4K_OK;
  const FlatParams<Params> flat{
      .quantize = params,
      .num_elements = num_elements,
      .share = plan.share,
      .units_a_thread = plan.units_a_thread,
      .blocks_a_row =
          fast_divisor(static_cast<uint32_t>(std::max<int64_t>(1, params.num_columns / kNvBlock)))};
  plan.config.dependent = cuda::dependent_launch();
  status = cuda::launch(plan.in_cluster ? cluster : grid, plan.config, call.device.device_id,
                        call.stream, flat);
  // Where a process may use only some of the SMs, other kernels do it.
  if (status == AC4K_UNSUPPORTED && plan.config.cooperative) return AC4K_OK;
  *done = true;
  return status;
}

}  // namespace ac4k
