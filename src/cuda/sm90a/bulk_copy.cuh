// Copies by the tensor memory accelerator, which complete on a barrier in shared memory.
#pragma once

#include "sm90a/mbarrier.cuh"
#include "sm90a/mixed.h"

namespace ac4k {

// Bytes in a row; addresses and size are multiples of 16.
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, uint32_t bytes,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// A box of a matrix; what lies outside the matrix becomes zeros.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, int column, int row,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
// A float to the shared memory of block `rank` of the cluster; four bytes on that block's barrier,
// which must be initialised.
__device__ __forceinline__ void send(uint32_t to, uint32_t barrier, uint32_t rank, float value) {
  uint32_t remote, remote_barrier;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(to), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_barrier) : "r"(barrier), "r"(rank));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
          remote),
      "r"(__float_as_uint(value)), "r"(remote_barrier)
      : "memory");
}

}  // namespace ac4k
