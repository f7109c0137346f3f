// Slots of a paged KV cache on the device.
#pragma once

#include "common/integers.cuh"
#include "common/kvcache.h"
#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ ComingInteger slot_of(const KvCacheParams& params, int64_t token) {
  return load_integer(params.slots, params.wide_slots, token);
}

// Where a head of a slot begins.
__device__ __forceinline__ int64_t cache_offset(const KvCacheParams& params,
                                                const KvCachePart& part, int slot, unsigned head) {
  const int64_t in_block = static_cast<int64_t>(head) * part.cache_head_stride;
  if (params.block_size.divisor == 0) return slot * part.slot_stride + in_block;
  const unsigned block = divide(static_cast<unsigned>(slot), params.block_size);
  const int offset = slot - static_cast<int>(block * params.block_size.divisor);
  return block * part.block_stride + offset * part.slot_stride + in_block;
}

__device__ __forceinline__ float scale_at(const KvCachePart& part, unsigned head) {
  return part.scale == nullptr ? 1.0f : part.scale[head * static_cast<unsigned>(part.scale_stride)];
}

}  // namespace ac4k
