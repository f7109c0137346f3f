// Where tokens and the slots of a paged KV cache lie, for the ops that store or gather them.
#pragma once

#include <cstring>

#include "cpu/element.hpp"
#include "cpu/kernels.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {

// Sizes and kernels of a call.
struct KvCachePlan {
  const KvCacheArgs& args;
  Element element = kF32;
  int64_t token_bytes = 0, cache_bytes = 0;  // an element
  const CodeRuns* codes = nullptr;           // null: a plain copy

  explicit KvCachePlan(const KvCacheArgs& call_args) : args(call_args) {}

  Status find(const char* op) {
    AC4K_TRY(find_element(op, args.type, &element));
    token_bytes = cache_bytes = element_bytes(element);
    if (args.cache_type != args.type) {
      codes = &kernels().quantize->codes[args.cache_type == DType::f8e4m3 ? kE4M3 : kE5M2];
      cache_bytes = 1;
    }
    return AC4K_OK;
  }

  int64_t slot(int64_t token) const {
    return args.slot_type == DType::i64 ? static_cast<const int64_t*>(args.slots)[token]
                                        : static_cast<const int32_t*>(args.slots)[token];
  }
  bool has(int64_t slot) const { return slot >= 0 && slot < args.num_blocks * args.block_size; }

  char* token_head(const KvCachePart& part, int64_t token, int64_t head) const {
    return static_cast<char*>(part.tokens) +
           (token * part.token_stride + head * part.head_stride) * token_bytes;
  }
  char* cache_head(const KvCachePart& part, int64_t slot, int64_t head) const {
    const int64_t block = slot / args.block_size, place = slot % args.block_size;
    return static_cast<char*>(part.cache) +
           (block * part.block_stride + place * part.slot_stride + head * part.cache_head_stride) *
               cache_bytes;
  }
  static float scale(const KvCachePart& part, int64_t head) {
    return part.scale == nullptr ? 1.0f : part.scale[head * part.scale_stride];
  }

  // One head, from the tokens' type to the cache's.
  void store(const KvCachePart& part, int64_t head, const void* from, char* to) const {
    if (codes == nullptr) {
      std::memcpy(to, from, static_cast<size_t>(args.head_dim * token_bytes));
    } else {
      codes->encode[element](from, 1.0f / scale(part, head), 0, reinterpret_cast<uint8_t*>(to),
                             args.head_dim);
    }
  }

  // body(part, token, slot) for every token of both parts.
  template <class Body>
  void for_each_token(const Body& body) const {
    const int64_t elements = 2 * args.num_tokens * args.num_heads * args.head_dim;
    constexpr double kElementsPerThread = 32 * 1024;
    const int threads = threads_for(static_cast<double>(elements), kElementsPerThread);
    run_threads(threads, [&](int thread) {
      const int64_t last = args.num_tokens * (thread + 1) / threads;
      for (int64_t token = args.num_tokens * thread / threads; token < last; ++token) {
        for (const KvCachePart& part : args.parts) body(part, token, slot(token));
      }
    });
  }
};

}  // namespace ac4k::cpu
