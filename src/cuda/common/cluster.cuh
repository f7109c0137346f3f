// Thread block clusters: neighbours on one GPC that see each other's shared memory. Where there are
// none a block is a cluster of its own.
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  return size;
}

// All threads of the cluster; what they wrote to shared memory is visible to all afterwards. The
// first barrier says that all blocks have started.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
// As the first barrier, which nothing but the start of the blocks and of their barriers (see
// publish_barriers) is known by: an arrival with release waits for all memory.
__device__ __forceinline__ void cluster_announce() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
  __syncthreads();
#endif
}

// Writes to *address as the block `rank` of the cluster has it, which must have started.
__device__ __forceinline__ void store_to_cluster(float* address, uint32_t rank, float value) {
#if __CUDA_ARCH__ >= 900
  const uint32_t own = static_cast<uint32_t>(__cvta_generic_to_shared(address));
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
#else
  *address = value;
#endif
}

// Four floats at an aligned address as the block `rank` of the cluster has them.
__device__ __forceinline__ float4 load_4_from_cluster(const float* address, uint32_t rank) {
#if __CUDA_ARCH__ >= 900
  const uint32_t own = static_cast<uint32_t>(__cvta_generic_to_shared(address));
  uint32_t remote;
  float4 value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(remote)
               : "memory");
  return value;
#else
  return *reinterpret_cast<const float4*>(address);
#endif
}

}  // namespace ac4k
