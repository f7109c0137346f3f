// Raw GGUF blocks between global and shared memory, and unaligned words of them.
#pragma once

#include "common/types.cuh"

namespace ac4k {

// `count` bytes to shared memory by all threads of the block; 16 at a time when `aligned`.
__device__ __forceinline__ void bytes_to_shared(const unsigned char* from, unsigned char* to,
                                                int count, bool aligned) {
  int done = 0;
  if (aligned) {
    done = count & ~15;
    for (int i = 16 * threadIdx.x; i < done; i += 16 * blockDim.x) {
      *reinterpret_cast<uint4*>(to + i) = __ldca(reinterpret_cast<const uint4*>(from + i));
    }
  }
  for (int i = done + threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}
__device__ __forceinline__ void bytes_from_shared(const unsigned char* from, unsigned char* to,
                                                  int count, bool aligned) {
  int done = 0;
  if (aligned) {
    done = count & ~15;
    for (int i = 16 * threadIdx.x; i < done; i += 16 * blockDim.x) {
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    }
  }
  for (int i = done + threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

// Eight bytes of shared memory from any address: three aligned words, shifted. The words around
// them must be readable.
__device__ __forceinline__ uint2 load_eight(const unsigned char* from) {
  const uint32_t shift = static_cast<uint32_t>(__cvta_generic_to_shared(from)) & 3u;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(from - shift);
  const uint32_t first = words[0], second = words[1], third = words[2];
  return uint2{__funnelshift_r(first, second, 8 * shift),
               __funnelshift_r(second, third, 8 * shift)};
}

}  // namespace ac4k
