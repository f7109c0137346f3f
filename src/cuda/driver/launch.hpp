// Launching a kernel on the caller's stream.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/status.hpp"
#include "cuda/driver/module.hpp"

namespace ac4k::cuda {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

struct LaunchConfig {
  Dim3 grid = {};
  Dim3 block = {};
  Dim3 cluster = {0, 0, 0};   // {0, 0, 0}: no clusters
  uint32_t shared_bytes = 0;  // dynamic shared memory
  // Programmatic dependent launch: may start before the kernel in front of it has ended, and waits
  // for its results itself (griddepcontrol.wait).
  bool dependent = false;
  // All blocks run at once, so that they may wait for each other, or the launch fails: with
  // AC4K_UNSUPPORTED where they do not fit on the SMs that this process may use.
  bool cooperative = false;
};

// Whether the library's own kernels are launched as dependent ones: the setting dependent_launch,
// off unless it is switched on.
void set_dependent_launch(bool on);
bool dependent_launch();

// Enqueues the kernel; never waits. `params` holds one pointer per kernel argument.
Status launch(Kernel& kernel, const LaunchConfig& config, int device, void* stream, void** params);

// How many clusters of such a launch run at once on a device that has nothing else to do; the grid
// does not matter.
Status max_active_clusters(Kernel& kernel, const LaunchConfig& config, int device, void* stream,
                           int* count);

// The form of AC4K's own kernels: one struct, `const __grid_constant__ Params params`.
template <typename Params>
  requires(std::is_class_v<Params> && std::is_trivially_copyable_v<Params>)
Status launch(Kernel& kernel, const LaunchConfig& config, int device, void* stream,
              const Params& params) {
  void* pointers[] = {const_cast<Params*>(&params)};
  return launch(kernel, config, device, stream, static_cast<void**>(pointers));
}

}  // namespace ac4k::cuda
