// Copies from global to shared memory that run beside the thread (cp.async), in groups.
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ uint32_t address_in_shared(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
// The same value, of which the compiler does not know how it came about.
__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm("" : "+r"(value));
  return value;
}
__device__ __forceinline__ const unsigned char* opaque(const unsigned char* value) {
  asm("" : "+l"(value));
  return value;
}

// 4 or 16 bytes to an address aligned to them, zeros where not `valid`.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  static_assert(kBytes == 4 || kBytes == 16);
  const uint32_t address = address_in_shared(to);
  const int count = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(count)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(count)
                 : "memory");
  }
}

__device__ __forceinline__ void copy_16_async(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// This thread's copies since the last call become a group, which may be empty.
__device__ __forceinline__ void close_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
inline constexpr int kMaxPendingGroups = 6;
// Until at most `pending` of this thread's groups, the newest, are under way.
__device__ __forceinline__ void wait_for_copies(int pending) {
  switch (pending) {
    case 0:
      return wait_for_copies<0>();
    case 1:
      return wait_for_copies<1>();
    case 2:
      return wait_for_copies<2>();
    case 3:
      return wait_for_copies<3>();
    case 4:
      return wait_for_copies<4>();
    case 5:
      return wait_for_copies<5>();
    default:
      return wait_for_copies<kMaxPendingGroups>();
  }
}

}  // namespace ac4k
