// Tokens to the slots of a paged KV cache, and back: a copy or a conversion for each head.
#include <algorithm>
#include <cstring>

#include "cpu/element.hpp"
#include "cpu/kernels.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kElementsPerThread = 32 * 1024;

// Sizes and kernels of a call.
struct Plan {
  const KvCacheArgs& args;
  Element element = kF32;
  int64_t token_bytes = 0, cache_bytes = 0;  // an element
  const CodeRuns* codes = nullptr;           // null: a plain copy

  explicit Plan(const KvCacheArgs& call_args) : args(call_args) {}

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

  // body(part, token, slot) for every token of both parts.
  template <class Body>
  void for_each_token(const Body& body) const {
    const int64_t elements = 2 * args.num_tokens * args.num_heads * args.head_dim;
    const int threads = threads_for(static_cast<double>(elements), kElementsPerThread);
    run_threads(threads, [&](int thread) {
      const int64_t last = args.num_tokens * (thread + 1) / threads;
      for (int64_t token = args.num_tokens * thread / threads; token < last; ++token) {
        for (const KvCachePart& part : args.parts) body(part, token, slot(token));
      }
    });
  }
};

}  // namespace

Status store_kvcache(const KvCacheArgs& args) {
  Plan plan(args);
  AC4K_TRY(plan.find("store_kvcache"));
  const auto bytes = static_cast<std::size_t>(args.head_dim * plan.token_bytes);
  plan.for_each_token([&](const KvCachePart& part, int64_t token, int64_t slot) {
    if (!plan.has(slot)) return;
    for (int64_t head = 0; head < args.num_heads; ++head) {
      const char* from = plan.token_head(part, token, head);
      char* to = plan.cache_head(part, slot, head);
      if (plan.codes == nullptr) {
        std::memcpy(to, from, bytes);
      } else {
        const float inverse = 1.0f / Plan::scale(part, head);
        plan.codes->encode[plan.element](from, inverse, 0, reinterpret_cast<uint8_t*>(to),
                                         args.head_dim);
      }
    }
  });
  return AC4K_OK;
}

Status gather_kvcache(const KvCacheArgs& args) {
  Plan plan(args);
  AC4K_TRY(plan.find("gather_kvcache"));
  const auto bytes = static_cast<std::size_t>(args.head_dim * plan.token_bytes);
  plan.for_each_token([&](const KvCachePart& part, int64_t token, int64_t slot) {
    for (int64_t head = 0; head < args.num_heads; ++head) {
      char* to = plan.token_head(part, token, head);
      if (!plan.has(slot)) {
        std::memset(to, 0, bytes);
      } else if (plan.codes == nullptr) {
        std::memcpy(to, plan.cache_head(part, slot, head), bytes);
      } else {
        const auto* from = reinterpret_cast<const uint8_t*>(plan.cache_head(part, slot, head));
        plan.codes->decode[plan.element](from, Plan::scale(part, head), 0, to, args.head_dim);
      }
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
