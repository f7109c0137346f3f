// What the host hands to common/kvcache.cu.
#pragma once

#include "fast_divisor.h"

namespace ac4k {

// The keys or the values. Strides count elements, or words where whole words are copied.
struct KvCachePart {
  void* tokens;  // [num_tokens, num_heads, head_dim]; what gather writes
  void* cache;
  const float* scale;  // null: 1
  long long token_stride, head_stride;
  long long block_stride, slot_stride, cache_head_stride;
  int scale_stride;  // between heads: 0 or 1
};

struct KvCacheParams {
  KvCachePart parts[2];
  const void* slots;
  long long num_tokens;
  int num_slots;           // of the cache: others are skipped, or give zeros
  FastDivisor block_size;  // slots of a block; 0 when blocks follow each other like slots
  unsigned num_heads;
  FastDivisor head_units;  // units of one head: what a thread handles
  FastDivisor unit_tiles;
  int wide_slots;  // int64 instead of int32
};

// Small copies: tokens whose heads lie behind each other, in a cache whose blocks follow each other
// like slots; all of it counts in half vectors. The keys, then the values.
struct FewKvCopyParams {
  void* tokens[2];
  void* cache[2];
  const void* slots;
  unsigned token_stride[2], slot_stride[2];
  unsigned num_words;  // of a token
  int num_slots;
  int wide_slots;
};

inline constexpr int kKvCacheThreads = 256;
inline constexpr int kKvCacheUnit = 8;  // elements a thread encodes or decodes

}  // namespace ac4k
