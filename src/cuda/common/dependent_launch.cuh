// Programmatic dependent launch: a kernel may start while the one before it still runs, as long as
// it waits before it touches what that one writes or reads. Without the launch attribute both are
// no-ops.
#pragma once

namespace ac4k {

// After this, everything the kernels before this one wrote is visible.
__device__ __forceinline__ void wait_for_previous_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may be scheduled; its own wait still holds it back until this one is done.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ac4k
