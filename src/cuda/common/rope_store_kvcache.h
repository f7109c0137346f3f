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

}  // namespace ac4k
