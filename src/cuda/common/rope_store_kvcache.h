// What the host hands to common/rope_store_kvcache.cu.
#pragma once

#include "kvcache.h"
#include "rope.h"

namespace ac4k {

// rope.heads: q, and k without an output. Groups of a token: those of q, of k, then of the values,
// of which there are as many as of k.
struct RopeStoreParams {
  RopeParams rope;
  const void* values;
  long long value_token_stride, value_head_stride;
  KvCacheParams cache;  // parts: where keys and values go; strides in elements
};

// Few heads and a cache of their type whose blocks follow each other like slots; q is in[0],
// keys in[1]. 32-bit strides in elements.
struct FewRopeStoreParams : FewRopeParams {
  const void* values;
  void* caches[2];
  const void* slots;
  int value_token_stride, value_head_stride;
  int slot_stride[2], cache_head_stride[2];
  int num_slots;
  int num_stored;  // tokens that have a slot
  bool wide_slots;
};

}  // namespace ac4k
