// Tokens to the slots of a paged KV cache, and back.
//
// All kernels: block (bx, by), bx * by = 256: bx threads side by side cover bx units of a token
// (its heads one after another), by of them handle neighbouring tokens. Grid: (unit tiles * token
// tiles, 2), y = 0 for the keys and 1 for the values; copies have no y, a thread takes both, so
// that two loads are in flight behind the one of the slot. No shared memory. Roofline: HBM, 1 read
// to 1 write (fp8 caches: 2 or 4 to 1). A unit is a word of 16 bytes, or eight elements where
// numbers are converted; where alignment or odd sizes forbid that, one element.
#include "common/dependent_launch.cuh"
#include "common/half_vectors.h"
#include "common/kvcache.cuh"
#include "common/quantize.cuh"
#include "common/types.cuh"

namespace ac4k {

static_assert(kKvCacheUnit == kUnit);

struct KvPlace {
  int64_t token;
  unsigned head, unit;  // of the head
  bool inside;
};

__device__ __forceinline__ KvPlace kv_place(const KvCacheParams& params) {
  const unsigned token_tile = divide(blockIdx.x, params.unit_tiles);
  const unsigned unit_tile = blockIdx.x - token_tile * params.unit_tiles.divisor;
  const int64_t token = static_cast<int64_t>(token_tile) * blockDim.y + threadIdx.y;
  const unsigned unit = unit_tile * blockDim.x + threadIdx.x;
  const unsigned head = divide(unit, params.head_units);
  const unsigned in_head = unit - head * params.head_units.divisor;
  const bool inside = token < params.num_tokens && head < params.num_heads;
  return {token, head, in_head, inside};
}

__device__ __forceinline__ int64_t token_offset(const KvCachePart& part, const KvPlace& place) {
  return place.token * part.token_stride + static_cast<int64_t>(place.head) * part.head_stride;
}

// A cache of the tokens' own type. Word: what a thread copies; everything is aligned to it.
template <typename Word>
__device__ __forceinline__ Word* token_word(const KvCachePart& part, const KvPlace& place) {
  return static_cast<Word*>(part.tokens) + token_offset(part, place) + place.unit;
}
template <typename Word>
__device__ __forceinline__ Word* cache_word(const KvCacheParams& params, const KvCachePart& part,
                                            const KvPlace& place, int slot) {
  return static_cast<Word*>(part.cache) + cache_offset(params, part, slot, place.head) + place.unit;
}

template <typename Word>
__device__ __forceinline__ void store_copies(const KvCacheParams& params) {
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming = slot_of(params, place.token);
  const Word key = *token_word<Word>(params.parts[0], place);
  const Word value = *token_word<Word>(params.parts[1], place);
  const int slot = coming.below(params.num_slots);
  if (slot < 0) return;
  *cache_word<Word>(params, params.parts[0], place, slot) = key;
  *cache_word<Word>(params, params.parts[1], place, slot) = value;
}

template <typename Word>
__device__ __forceinline__ void gather_copies(const KvCacheParams& params) {
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming = slot_of(params, place.token);
  Word key{}, value{};
  const int slot = coming.below(params.num_slots);
  if (slot >= 0) {
    key = *cache_word<Word>(params, params.parts[0], place, slot);
    value = *cache_word<Word>(params, params.parts[1], place, slot);
  }
  *token_word<Word>(params.parts[0], place) = key;
  *token_word<Word>(params.parts[1], place) = value;
}

// The same of little, half a vector of keys or of values a thread (common/half_vectors.h). Grid:
// (word tiles, tokens, 2). Roofline: latency.
template <bool kStore>
__device__ __forceinline__ void copy_few(const FewKvCopyParams& params) {
  const unsigned word = blockIdx.x * kHalfVectorThreads + threadIdx.x, part = blockIdx.z;
  if (word >= params.num_words) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming =
      load_integer(params.slots, params.wide_slots, static_cast<int>(blockIdx.y));
  uint2* in_tokens = static_cast<uint2*>(params.tokens[part]) +
                     static_cast<int64_t>(blockIdx.y) * params.token_stride[part] + word;
  uint2 value{};
  if constexpr (kStore) value = *in_tokens;
  const int slot = coming.below(params.num_slots);
  uint2* in_cache = static_cast<uint2*>(params.cache[part]) +
                    static_cast<int64_t>(slot) * params.slot_stride[part] + word;
  if constexpr (kStore) {
    if (slot >= 0) *in_cache = value;
  } else {
    *in_tokens = slot >= 0 ? *in_cache : uint2{};
  }
}

// An fp8 cache: codes of x / scale. Tokens aligned to 16 bytes, the cache to 8.
template <typename T, typename Format>
__device__ __forceinline__ void store_codes(const KvCacheParams& params) {
  const KvCachePart& part = params.parts[blockIdx.y];
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const auto x = Unit<T>::load(static_cast<const T*>(part.tokens) + token_offset(part, place) +
                               place.unit * kKvCacheUnit);
  const ComingInteger coming = slot_of(params, place.token);
  const float inverse = inverse_of(scale_at(part, place.head));
  const int slot = coming.below(params.num_slots);
  if (slot < 0) return;
  unsigned char* codes =
      static_cast<unsigned char*>(part.cache) + cache_offset(params, part, slot, place.head);
  *reinterpret_cast<uint2*>(codes + place.unit * kKvCacheUnit) = encode_unit<Format>(x, inverse);
}

template <typename T, typename Format>
__device__ __forceinline__ void gather_codes(const KvCacheParams& params) {
  const KvCachePart& part = params.parts[blockIdx.y];
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming = slot_of(params, place.token);
  const float scale = scale_at(part, place.head);
  uint2 codes{};
  const int slot = coming.below(params.num_slots);
  if (slot >= 0) {
    codes = *reinterpret_cast<const uint2*>(static_cast<const unsigned char*>(part.cache) +
                                            cache_offset(params, part, slot, place.head) +
                                            place.unit * kKvCacheUnit);
  }
  float low[4], high[4], values[kUnit];
  Format::decode4(codes.x, low);
  Format::decode4(codes.y, high);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = low[i] * scale;
    values[i + 4] = high[i] * scale;
  }
  Unit<T>::narrowed(values).store(static_cast<T*>(part.tokens) + token_offset(part, place) +
                                  place.unit * kKvCacheUnit);
}

// One element a thread: any size, any alignment.
template <typename T, typename Format>
__device__ __forceinline__ void store_codes_slowly(const KvCacheParams& params) {
  const KvCachePart& part = params.parts[blockIdx.y];
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming = slot_of(params, place.token);
  const int slot = coming.below(params.num_slots);
  if (slot < 0) return;
  const float x = widen(static_cast<const T*>(part.tokens)[token_offset(part, place) + place.unit]);
  const float inverse = inverse_of(scale_at(part, place.head));
  static_cast<unsigned char*>(
      part.cache)[cache_offset(params, part, slot, place.head) + place.unit] =
      static_cast<unsigned char>(Format::encode4(__fmul_rn(x, inverse), 0.0f, 0.0f, 0.0f));
}

template <typename T, typename Format>
__device__ __forceinline__ void gather_codes_slowly(const KvCacheParams& params) {
  const KvCachePart& part = params.parts[blockIdx.y];
  const KvPlace place = kv_place(params);
  if (!place.inside) return;
  wait_for_previous_kernels();
  allow_next_kernel();
  const ComingInteger coming = slot_of(params, place.token);
  uint32_t code = 0;
  const int slot = coming.below(params.num_slots);
  if (slot >= 0) {
    code = static_cast<const unsigned char*>(
        part.cache)[cache_offset(params, part, slot, place.head) + place.unit];
  }
  float values[4];
  Format::decode4(code, values);
  static_cast<T*>(part.tokens)[token_offset(part, place) + place.unit] =
      narrow<T>(values[0] * scale_at(part, place.head));
}

}  // namespace ac4k

#define AC4K_KV_KERNEL(name, ...)                                           \
  extern "C" __global__ void __launch_bounds__(ac4k::kKvCacheThreads) name( \
      const __grid_constant__ ac4k::KvCacheParams params) {                 \
    __VA_ARGS__(params);                                                    \
  }
#define AC4K_KV_FEW(name, store)                                               \
  extern "C" __global__ void __launch_bounds__(ac4k::kHalfVectorThreads) name( \
      const __grid_constant__ ac4k::FewKvCopyParams params) {                  \
    ac4k::copy_few<store>(params);                                             \
  }
#define AC4K_KV_COPY(Word, bytes)                                      \
  AC4K_KV_KERNEL(store_kvcache_copy_##bytes, ac4k::store_copies<Word>) \
  AC4K_KV_KERNEL(gather_kvcache_copy_##bytes, ac4k::gather_copies<Word>)
#define AC4K_KV_CODES(T, suffix, Format, format)                                          \
  AC4K_KV_KERNEL(store_kvcache_##format##_##suffix, ac4k::store_codes<T, ac4k::Format>)   \
  AC4K_KV_KERNEL(store_kvcache_slowly_##format##_##suffix,                                \
                 ac4k::store_codes_slowly<T, ac4k::Format>)                               \
  AC4K_KV_KERNEL(gather_kvcache_##format##_##suffix, ac4k::gather_codes<T, ac4k::Format>) \
  AC4K_KV_KERNEL(gather_kvcache_slowly_##format##_##suffix,                               \
                 ac4k::gather_codes_slowly<T, ac4k::Format>)
#define AC4K_KV_TYPES(T, suffix)       \
  AC4K_KV_CODES(T, suffix, E4M3, e4m3) \
  AC4K_KV_CODES(T, suffix, E5M2, e5m2)

AC4K_KV_FEW(store_kvcache_copy_few, true)
AC4K_KV_FEW(gather_kvcache_copy_few, false)
AC4K_KV_COPY(uint4, 16)
AC4K_KV_COPY(unsigned int, 4)
AC4K_KV_COPY(unsigned short, 2)
AC4K_KV_TYPES(float, f32)
AC4K_KV_TYPES(__half, f16)
AC4K_KV_TYPES(__nv_bfloat16, bf16)
