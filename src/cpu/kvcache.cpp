// Tokens to the slots of a paged KV cache, and back: a copy or a conversion for each head.
#include "cpu/kvcache.hpp"

#include <cstring>

namespace ac4k::cpu {
Status store_kvcache(const KvCacheArgs& args) {
  KvCachePlan plan(args);
  AC4K_TRY(plan.find("store_kvcache"));
  plan.for_each_token([&](const KvCachePart& part, int64_t token, int64_t slot) {
    if (!plan.has(slot)) return;
    for (int64_t head = 0; head < args.num_heads; ++head) {
      plan.store(part, head, plan.token_head(part, token, head), plan.cache_head(part, slot, head));
    }
  });
  return AC4K_OK;
}

Status gather_kvcache(const KvCacheArgs& args) {
  KvCachePlan plan(args);
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
        plan.codes->decode[plan.element](from, KvCachePlan::scale(part, head), 0, to,
                                         args.head_dim);
      }
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
