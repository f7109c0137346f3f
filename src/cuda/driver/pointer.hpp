// Where memory lies, for interfaces that take bare pointers.
#pragma once

#include "core/status.hpp"

namespace ac4k::cuda {

inline constexpr int kHostMemory = -1;

// The GPU that a pointer is of, or kHostMemory. Asks only when this process has libcuda loaded: no
// pointer is a GPU's otherwise.
int device_of(const void* pointer);

}  // namespace ac4k::cuda
