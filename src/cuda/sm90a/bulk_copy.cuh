// Copies by the tensor memory accelerator, which complete on a barrier in shared memory.
#pragma once

#include "sm90a/mbarrier.cuh"
#include "sm90a/tensor_map.h"

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
// Boxes one after another, from box `first` on, of a matrix as [boxes of columns][rows][columns].
__device__ __forceinline__ void copy_boxes(uint32_t to, const TensorMap& map, int row, int first,
                                           uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(first), "r"(barrier)
      : "memory");
}
// An address of shared memory as block `rank` of the cluster has it.
__device__ __forceinline__ uint32_t address_in_block(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
// The same for bytes that are not read again: L2 keeps others rather than them.
__device__ __forceinline__ uint64_t evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void copy_bytes(uint32_t to, const void* from, uint32_t bytes,
                                           uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, int column, int row,
                                         uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
}

// A float to the shared memory of block `rank` of the cluster; four bytes on that block's barrier,
// which must be initialised. Only in launches with clusters: a block alone that sent to itself
// ended in an illegal instruction on an H200.
__device__ __forceinline__ void send(uint32_t to, uint32_t barrier, uint32_t rank, float value) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
          address_in_block(to, rank)),
      "r"(__float_as_uint(value)), "r"(address_in_block(barrier, rank))
      : "memory");
}
// The same for four floats, at multiples of 16 bytes.
__device__ __forceinline__ void send(uint32_t to, uint32_t barrier, uint32_t rank,
                                     const float (&values)[4]) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address_in_block(to, rank)),
      "r"(__float_as_uint(values[0])), "r"(__float_as_uint(values[1])),
      "r"(__float_as_uint(values[2])), "r"(__float_as_uint(values[3])),
      "r"(address_in_block(barrier, rank))
      : "memory");
}

}  // namespace ac4k
