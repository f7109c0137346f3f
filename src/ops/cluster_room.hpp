// How many clusters of blocks a GPU runs at once.
#pragma once

#include <array>

#include "core/status.hpp"

namespace ac4k {
namespace cuda {
class Kernel;
struct DeviceProperties;
}  // namespace cuda

inline constexpr int kMaxSplits = 8;  // every GPU with clusters has clusters of this many blocks

// Clusters of n blocks that run at once, one block or two on an SM.
struct ClusterRoom {
  std::array<int, kMaxSplits + 1> one{}, two{};

  bool operator==(const ClusterRoom&) const = default;
};

// Found once for each GPU, with the first kernel that asks: it depends on the GPU, and on little
// else. Two blocks of the kernel, of so many threads, must fit on an SM.
Status find_room(cuda::Kernel& kernel, int threads, const cuda::DeviceProperties& device,
                 void* stream, ClusterRoom* room);

}  // namespace ac4k
