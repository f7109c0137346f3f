// A barrier of all blocks of a grid, for kernels with a cooperative launch.
#pragma once

#include "common/types.cuh"

namespace ac4k {

// The one that the launch brings with it, kept where cooperative groups keep theirs: arrivals of
// all blocks turn its first bit. By one thread of each block.
class GridBarrier {
 public:
  // What the block has written before is seen by those who have waited.
  __device__ __forceinline__ void arrive() {
    const uint32_t last = gridDim.x - 1;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before_)
                 : "l"(address()), "r"(blockIdx.x == 0 ? 0x80000000u - last : 1u)
                 : "memory");
  }
  __device__ __forceinline__ void wait() const {
    uint32_t now;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(address()) : "memory");
    } while (((before_ ^ now) & 0x80000000u) == 0);
  }

 private:
  static __device__ __forceinline__ uint64_t address() {
    uint32_t low, high;
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    return (static_cast<uint64_t>(high) << 32 | low) + sizeof(uint32_t);
  }
  uint32_t before_ = 0;
};

}  // namespace ac4k
