// Checks of a launch, and the launch.
#include "cuda/driver/launch.hpp"

#include <atomic>
#include <string>

namespace ac4k::cuda {
namespace {

std::atomic<bool> dependent_launch_setting = false;

constexpr uint32_t kMaxGridX = 0x7fffffff;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint64_t kMaxThreads = 1024;
constexpr uint32_t kMaxBlockZ = 64;

std::string text(const Dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

bool has_clusters(const Dim3& cluster) { return (cluster.x | cluster.y | cluster.z) != 0; }

Status check_config(const Kernel& kernel, const LaunchConfig& config) {
  const auto& [grid, block, cluster, shared_bytes, dependent] = config;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMaxGridX || grid.y > kMaxGridYZ ||
      grid.z > kMaxGridYZ) {
    return fail(AC4K_INVALID_VALUE, "kernel ", kernel.entry(), ": a grid of ", text(grid),
                " blocks is not between 1 x 1 x 1 and 2147483647 x 65535 x 65535");
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || block.x > kMaxThreads || block.y > kMaxThreads || threads > kMaxThreads ||
      block.z > kMaxBlockZ) {
    return fail(AC4K_INVALID_VALUE, "kernel ", kernel.entry(), ": a block of ", text(block),
                " threads is not between 1 and 1024 (at most 64 in z)");
  }
  if (has_clusters(cluster) &&
      (cluster.x == 0 || cluster.y == 0 || cluster.z == 0 || grid.x % cluster.x != 0 ||
       grid.y % cluster.y != 0 || grid.z % cluster.z != 0)) {
    return fail(AC4K_INVALID_VALUE, "kernel ", kernel.entry(), ": clusters of ", text(cluster),
                " do not divide the grid of ", text(grid), " blocks");
  }
  return AC4K_OK;
}

}  // namespace

void set_dependent_launch(bool on) {
  dependent_launch_setting.store(on, std::memory_order_relaxed);
}
bool dependent_launch() { return dependent_launch_setting.load(std::memory_order_relaxed); }

Status launch(Kernel& kernel, const LaunchConfig& config, int device, void* stream, void** params) {
  AC4K_TRY(check_config(kernel, config));
  const auto cu_stream = static_cast<CUstream>(stream);
  CUkernel handle = nullptr;
  AC4K_TRY(kernel.get(device, cu_stream, &handle));
  AC4K_TRY(kernel.allow_shared(device, config.shared_bytes));
  const DeviceGuard guard(device);
  AC4K_TRY(guard.status());

  CUlaunchAttribute attributes[2] = {};
  unsigned int num_attributes = 0;
  if (has_clusters(config.cluster)) {
    CUlaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {config.cluster.x, config.cluster.y, config.cluster.z};
  }
  if (config.dependent) {
    CUlaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  const CUlaunchConfig cu_config = {
      config.grid.x,  config.grid.y,       config.grid.z, config.block.x, config.block.y,
      config.block.z, config.shared_bytes, cu_stream,     attributes,     num_attributes};
  const Driver& api = *driver();
  // The driver takes a CUkernel where a CUfunction is asked for.
  const CUresult result =
      api.cuLaunchKernelEx(&cu_config, reinterpret_cast<CUfunction>(handle), params, nullptr);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    const Status status = check(api, result, "cuLaunchKernelEx");
    return fail(status, ac4k_last_error(), " of ", kernel.module(), ":", kernel.entry(), ", grid ",
                text(config.grid), ", block ", text(config.block), ", ", config.shared_bytes,
                " bytes of dynamic shared memory");
  }
  return AC4K_OK;
}

}  // namespace ac4k::cuda
