// Barriers in shared memory that count arrivals of threads and bytes of copies.
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// One thread initialises, then publishes, then the block synchronises.
__device__ __forceinline__ void init_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier, uint32_t arrivals = 1) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
// Once for the warp, when all of its lanes are done with what they read or wrote before.
__device__ __forceinline__ void arrive_as_warp(uint32_t barrier) {
  __syncwarp();
  asm volatile(
      "{\n"
      ".reg .pred chosen;\n"
      "elect.sync _|chosen, 0xffffffff;\n"
      "@chosen mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(barrier)
      : "memory");
}
// Arrives, and lets the phase end only after that many bytes have been copied.
__device__ __forceinline__ void arrive_and_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Until the phase of this parity has ended; the phase "before the first" has parity 1.
__device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A place in a ring of `kStages`, and the parity of its present round.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void advance(int stages) {
    stage += stages;
    parity ^= static_cast<uint32_t>(stage / kStages) % 2;
    stage %= kStages;
  }
};

// Some threads of the block, whole warps. Barrier 0 is __syncthreads'.
template <int kBarrier, int kThreads>
__device__ __forceinline__ void synchronise() {
  static_assert(kBarrier > 0 && kBarrier < 16 && kThreads % 32 == 0);
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// The warps of a warpgroup.
__device__ __forceinline__ void synchronise_warpgroup(int barrier) {
  asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
}

}  // namespace ac4k
