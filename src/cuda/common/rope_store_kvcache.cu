// rope_store_kvcache: rope on q and k; rotated keys and values go to the slots of a paged cache.
#include "common/formats.cuh"
#include "common/kvcache.cuh"
#include "common/quantize.cuh"
#include "common/rope.cuh"
#include "common/rope_store_kvcache.h"

namespace ac4k {

struct SameFormat {};  // the cache has the tokens' type

// A slot's runs as codes of x / scale in a head of the cache.
template <typename Format, typename T, int kPairs, bool kNeox, bool kVector>
__device__ __forceinline__ void store_codes(
    const Slot<T, kPairs, kNeox, kVector>& slot,
    const typename Slot<T, kPairs, kNeox, kVector>::Values& values, unsigned char* head,
    float scale) {
  using S = Slot<T, kPairs, kNeox, kVector>;
  const float inverse = inverse_of(scale);
#pragma unroll
  for (int r = 0; r < S::kRuns; ++r) {
    unsigned char* codes = head + slot.starts[r];
    float elements[S::kRun];
    widen(reinterpret_cast<const typename S::Run*>(values.runs)[r], elements);
#pragma unroll
    for (float& element : elements) element = __fmul_rn(element, inverse);
    if constexpr (!kVector) {
#pragma unroll
      for (int i = 0; i < S::kRun; ++i) {
        if (slot.starts[r] + i < slot.head_dim)
          codes[i] = static_cast<unsigned char>(Format::encode4(elements[i], 0.0f, 0.0f, 0.0f));
      }
    } else if (slot.starts[r] < slot.head_dim) {
      if constexpr (S::kRun == 2) {
        *reinterpret_cast<unsigned short*>(codes) =
            static_cast<unsigned short>(Format::encode2(elements[0], elements[1]));
      } else {
#pragma unroll
        for (int i = 0; i < S::kRun; i += 4) {
          *reinterpret_cast<uint32_t*>(codes + i) =
              Format::encode4(elements[i], elements[i + 1], elements[i + 2], elements[i + 3]);
        }
      }
    }
  }
}

// As rotate_heads of rope.cuh, with keys and values going to the cache. An item is a group of heads
// of q, of k or of the values of one token. Roofline: HBM, 1 read to 1 write (fp8 caches less).
template <typename T, typename Format, int kPairs, int kHeads, bool kNeox, bool kVector>
__device__ __forceinline__ void rope_store(const RopeStoreParams& params) {
  using Slot = Slot<T, kPairs, kNeox, kVector>;
  using Index = typename IndexType<kVector>::type;
  const RopeHeads& heads = params.rope.heads;
  const Index item = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (item >= heads.num_items) return;
  const Index token = quotient(item, heads.num_groups);
  wait_for_previous_kernels();
  allow_next_kernel();
  // First of all: a position has to be there before its row of the table can be asked for.
  const auto position = TablePositions::place_of(params.rope, token);
  int group = static_cast<int>(item - token * heads.num_groups.divisor);
  const int key_groups = heads.tensors[1].num_groups;
  const bool is_value = group >= heads.tensors[0].num_groups + key_groups;
  if (is_value) group -= key_groups;
  const bool is_query = group < heads.tensors[0].num_groups;
  HeadGroup<T> part(heads, token, group);
  if (is_value) {
    part.in = static_cast<const T*>(params.values) + token * params.value_token_stride +
              part.first * params.value_head_stride;
    part.in_step = part.step * params.value_head_stride;
  }
  const KvCachePart& cache = params.cache.parts[is_value];

  ComingInteger coming_slot{0, -1};
  if (!is_query && token < params.cache.num_tokens) coming_slot = slot_of(params.cache, token);
  for (int index = threadIdx.x; index < heads.num_slots; index += blockDim.x) {
    const Slot slot(index, TablePositions::rotary_pairs(params.rope), heads.head_dim);
    typename Slot::Values values[kHeads];
    const T* in = part.in;
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      find_now(in);
      if (part.has(i)) values[i] = slot.load(in);
      in += part.in_step;
    }
    const bool rotated = slot.pair >= 0 && !is_value;
    Angles<float, kPairs> angles;
    if (rotated) {
      angles = TablePositions::load<kPairs, kVector>(params.rope, position, slot.pair);
    }
    // Only now: whether there is a slot need not be known before everything else is on its way.
    int64_t place = 0;
    if (!is_query) {
      const int cache_slot = coming_slot.below(params.cache.num_slots);
      if (cache_slot < 0) return;
      place = cache_offset(params.cache, cache, cache_slot, 0);
    }
    if (rotated) {
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        if (part.has(i)) Slot::rotate_all(values[i], angles);
      }
    }
    if (is_query || is_same<Format, SameFormat>) {
      T* out = part.out;
      int64_t step = part.out_step;
      if (!is_query) {
        out = static_cast<T*>(cache.cache) + place + part.first * cache.cache_head_stride;
        step = part.step * cache.cache_head_stride;
      }
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        find_now(out);
        if (part.has(i)) slot.store(out, values[i]);
        out += step;
      }
    } else if constexpr (!is_same<Format, SameFormat>) {
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        if (!part.has(i)) break;
        const int head = part.first + i * part.step;
        store_codes<Format>(
            slot, values[i],
            static_cast<unsigned char*>(cache.cache) + place + head * cache.cache_head_stride,
            scale_at(cache, static_cast<unsigned>(head)));
      }
    }
    if constexpr (kVector) return;
  }
}

// As rotate_few of rope.cuh; heads of values come after those of k. Grid: (ceil(heads / y),
// tokens).
template <typename T, int kPairs, bool kNeox>
__device__ __forceinline__ void rope_store_few(const FewRopeStoreParams& params) {
  using Slot = Slot<T, kPairs, kNeox, true>;
  const int head = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  const int token = static_cast<int>(blockIdx.y);
  const int num_keys = params.num_heads - params.num_first_heads;
  if (head >= params.num_heads + num_keys) return;
  const bool is_query = head < params.num_first_heads, is_value = head >= params.num_heads;
  const int index = head - (is_query ? 0 : is_value ? params.num_heads : params.num_first_heads);
  const int token_stride = is_value ? params.value_token_stride : params.in_token_stride[!is_query];
  const int head_stride = is_value ? params.value_head_stride : params.in_head_stride[!is_query];
  const T* in = static_cast<const T*>(is_value ? params.values : params.in[!is_query]) +
                (token * token_stride + index * head_stride);
  const Slot slot(threadIdx.x, TablePositions::rotary_pairs(params), params.head_dim);

  wait_for_previous_kernels();
  allow_next_kernel();
  const auto position = TablePositions::place_of(params, token);
  ComingInteger coming_slot{0, -1};
  if (!is_query && token < params.num_stored) {
    coming_slot = load_integer(params.slots, params.wide_slots, token);
  }
  auto values = slot.load(in);
  if (slot.pair >= 0 && !is_value) {
    Slot::rotate_all(values, TablePositions::load<kPairs, true>(params, position, slot.pair));
  }
  T* out;
  if (is_query) {
    out = static_cast<T*>(params.out[0]) +
          (token * params.out_token_stride[0] + index * params.out_head_stride[0]);
  } else {
    const int cache_slot = coming_slot.below(params.num_slots);
    if (cache_slot < 0) return;
    out = static_cast<T*>(params.caches[is_value]) +
          static_cast<int64_t>(cache_slot) * params.slot_stride[is_value] +
          static_cast<int64_t>(index) * params.cache_head_stride[is_value];
  }
  slot.store(out, values);
}

}  // namespace ac4k

#define AC4K_ROPE_STORE_FEW(name, T, kNeox)                                   \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeTableThreads) name( \
      const __grid_constant__ ac4k::FewRopeStoreParams params) {              \
    ac4k::rope_store_few<T, 8 / sizeof(T), kNeox>(params);                    \
  }
#define AC4K_ROPE_STORE_KERNEL(name, T, Format, kPairs, kHeads, kNeox, kVector) \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeThreads) name(        \
      const __grid_constant__ ac4k::RopeStoreParams params) {                   \
    ac4k::rope_store<T, ac4k::Format, kPairs, kHeads, kNeox, kVector>(params);  \
  }
#define AC4K_ROPE_STORE_FORMAT(T, suffix, Format, format)                                         \
  AC4K_ROPE_STORE_KERNEL(rope_store_##format##_neox_##suffix, T, Format, 8 / sizeof(T), 4, true,  \
                         true)                                                                    \
  AC4K_ROPE_STORE_KERNEL(rope_store_##format##_interleaved_##suffix, T, Format, 8 / sizeof(T), 4, \
                         false, true)                                                             \
  AC4K_ROPE_STORE_KERNEL(rope_store_##format##_any_neox_##suffix, T, Format, 1, 1, true, false)   \
  AC4K_ROPE_STORE_KERNEL(rope_store_##format##_any_interleaved_##suffix, T, Format, 1, 1, false,  \
                         false)
#define AC4K_ROPE_STORE(T, suffix)                                   \
  AC4K_ROPE_STORE_FEW(rope_store_few_neox_##suffix, T, true)         \
  AC4K_ROPE_STORE_FEW(rope_store_few_interleaved_##suffix, T, false) \
  AC4K_ROPE_STORE_FORMAT(T, suffix, SameFormat, same)                \
  AC4K_ROPE_STORE_FORMAT(T, suffix, E4M3, e4m3)                      \
  AC4K_ROPE_STORE_FORMAT(T, suffix, E5M2, e5m2)

AC4K_ROPE_STORE(float, f32)
AC4K_ROPE_STORE(__half, f16)
AC4K_ROPE_STORE(__nv_bfloat16, bf16)
