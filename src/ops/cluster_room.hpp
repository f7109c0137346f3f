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

// Clusters of n blocks that run at once, a block an SM.
using ClusterRoom = std::array<int, kMaxSplits + 1>;

// Found once for each GPU, with the first kernel that asks: it depends on the GPU, and on little
// else. A block of the kernel has so many threads, and all of the dynamic shared memory that it can
// have: less than the GPU's where the kernel has tables in shared memory.
Status find_room(cuda::Kernel& kernel, int threads, int shared_bytes,
                 const cuda::DeviceProperties& device, void* stream, ClusterRoom* room);

}  // namespace ac4k
