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
constexpr uint32_t kMaxPortableCluster = 8;

std::string text(const Dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

bool has_clusters(const Dim3& cluster) { return (cluster.x | cluster.y | cluster.z) != 0; }

Status check_config(const Kernel& kernel, const LaunchConfig& config) {
  const auto& [grid, block, cluster, shared_bytes, dependent, cooperative] = config;
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

// The attributes of a launch, and what the driver reads them from: lives as long as the call.
struct DriverConfig {
  CUlaunchAttribute attributes[3] = {};
  CUlaunchConfig config = {};

  DriverConfig(const LaunchConfig& from, CUstream stream) {
    unsigned int count = 0;
    if (has_clusters(from.cluster)) {
      CUlaunchAttribute& attribute = attributes[count++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim = {from.cluster.x, from.cluster.y, from.cluster.z};
    }
    if (from.dependent) {
      CUlaunchAttribute& attribute = attributes[count++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    if (from.cooperative) {
      CUlaunchAttribute& attribute = attributes[count++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      attribute.value.cooperative = 1;
    }
    config = {from.grid.x,  from.grid.y,       from.grid.z, from.block.x, from.block.y,
              from.block.z, from.shared_bytes, stream,      attributes,   count};
  }
  DriverConfig(const DriverConfig&) = delete;
  DriverConfig& operator=(const DriverConfig&) = delete;
};

// The kernel on this device, allowed what the config asks for.
Status prepare(Kernel& kernel, const LaunchConfig& config, int device, CUstream stream,
               CUfunction* function) {
  AC4K_TRY(check_config(kernel, config));
  CUkernel handle = nullptr;
  AC4K_TRY(kernel.get(device, stream, &handle));
  AC4K_TRY(kernel.allow_shared(device, config.shared_bytes));
  if (config.cluster.x * config.cluster.y * config.cluster.z > kMaxPortableCluster) {
    AC4K_TRY(kernel.allow_large_clusters(device));
  }
  // The driver takes a CUkernel where a CUfunction is asked for.
  *function = reinterpret_cast<CUfunction>(handle);
  return AC4K_OK;
}

}  // namespace

void set_dependent_launch(bool on) {
  dependent_launch_setting.store(on, std::memory_order_relaxed);
}
bool dependent_launch() { return dependent_launch_setting.load(std::memory_order_relaxed); }

Status launch(Kernel& kernel, const LaunchConfig& config, int device, void* stream, void** params) {
  const auto cu_stream = static_cast<CUstream>(stream);
  CUfunction function = nullptr;
  AC4K_TRY(prepare(kernel, config, device, cu_stream, &function));
  const DeviceGuard guard(device);
  AC4K_TRY(guard.status());

  const DriverConfig cu_config(config, cu_stream);
  const Driver& api = *driver();
  const CUresult result = api.cuLaunchKernelEx(&cu_config.config, function, params, nullptr);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    const Status status = check(api, result, "cuLaunchKernelEx");
    return fail(status, ac4k_last_error(), " of ", kernel.module(), ":", kernel.entry(), ", grid ",
                text(config.grid), ", block ", text(config.block), ", ", config.shared_bytes,
                " bytes of dynamic shared memory");
  }
  return AC4K_OK;
}

Status max_active_clusters(Kernel& kernel, const LaunchConfig& config, int device, void* stream,
                           int* count) {
  const auto cu_stream = static_cast<CUstream>(stream);
  CUfunction function = nullptr;
  AC4K_TRY(prepare(kernel, config, device, cu_stream, &function));
  const DeviceGuard guard(device);
  AC4K_TRY(guard.status());
  const DriverConfig cu_config(config, cu_stream);
  AC4K_CUDA_TRY(*driver(), cuOccupancyMaxActiveClusters, count, function, &cu_config.config);
  return AC4K_OK;
}

}  // namespace ac4k::cuda
