// What the ops on a paged KV cache share.
#pragma once

#include "core/op.hpp"
#include "core/strided.hpp"
#include "cpu/kernels.hpp"

namespace ac4k {

// Where an op has its arguments: two caches, the slots, two scales.
struct KvCachePlaces {
  int caches, slots, scales, layout;
};
inline constexpr int kNHD = 0;  // the first layout

inline bool is_fp8(DType type) { return type == DType::f8e4m3 || type == DType::f8e5m2; }

Status check_scales(const Call& call, const KvCachePlaces& at, DType cache_type, int64_t num_heads);
// Whether the blocks of both caches follow each other like slots, so that nobody need find one.
bool blocks_follow(const cpu::KvCacheArgs& args);
// GPU kernels count slots in 32 bits.
Status check_num_slots(const Call& call, const cpu::KvCacheArgs& args);
// Keys (0) or values (1).
cpu::KvCachePart kv_cache_part(const Call& call, const KvCachePlaces& at, int index,
                               const DLTensor& tokens);

}  // namespace ac4k
