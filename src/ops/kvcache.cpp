// store_kvcache and gather_kvcache: tokens to the slots of a paged cache, and back.
#include "cuda/common/kvcache.h"

#include <algorithm>

#include "core/op.hpp"
#include "cpu/kernels.hpp"
#include "ops/activations.hpp"
#include "ops/kvcache.hpp"

namespace ac4k {

// One scale, or one for each head; and only where there is something to scale.
Status check_scales(const Call& call, const KvCachePlaces& at, DType cache_type,
                    int64_t num_heads) {
  for (int i = at.scales; i < at.scales + 2; ++i) {
    if (!call.has(i)) continue;
    const char* name = call.op.signature.params[static_cast<size_t>(i)].name.c_str();
    if (!is_fp8(cache_type)) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '", name,
                  "': expected None for a cache of ", display_name(cache_type), ", got a tensor");
    }
    const int64_t count = call.tensor(i).shape[0];
    if (count != 1 && count != num_heads) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '", name,
                  "': expected shape [1] or [", num_heads, "], one for each head, got [", count,
                  "]");
    }
  }
  return AC4K_OK;
}

bool blocks_follow(const cpu::KvCacheArgs& args) {
  if (args.num_blocks <= 1 || args.block_size == 0) return true;
  bool follow = true;
  for (const cpu::KvCachePart& part : args.parts) {
    follow = follow && part.block_stride == args.block_size * part.slot_stride;
  }
  return follow;
}

Status check_num_slots(const Call& call, const cpu::KvCacheArgs& args) {
  const int64_t most = INT32_MAX / std::max<int64_t>(args.block_size, 1);
  if (args.num_blocks <= most) return AC4K_OK;
  return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": argument 'k_cache': expected at most ",
              INT32_MAX, " slots on a GPU, got ", args.num_blocks, " blocks of ", args.block_size);
}

cpu::KvCachePart kv_cache_part(const Call& call, const KvCachePlaces& at, int index,
                               const DLTensor& tokens) {
  const DLTensor& cache = call.tensor(at.caches + index);
  const auto token_strides = strides_of(tokens), strides = strides_of(cache);
  const bool nhd = call.integer(at.layout) == kNHD;
  cpu::KvCachePart part{};
  part.tokens = data_of(tokens);
  part.cache = data_of(cache);
  part.token_stride = token_strides[0];
  part.head_stride = token_strides[1];
  part.block_stride = strides[0];
  part.slot_stride = strides[nhd ? 1 : 2];
  part.cache_head_stride = strides[nhd ? 2 : 1];
  if (call.has(at.scales + index)) {
    const DLTensor& scale = call.tensor(at.scales + index);
    part.scale = static_cast<const float*>(data_of(scale));
    part.scale_stride = scale.shape[0] == 1 ? 0 : 1;
  }
  return part;
}

namespace {

constexpr const char* kModule = "common/kvcache";

// The tokens of store are inputs, those of gather outputs.
constexpr KvCachePlaces kStore{2, 4, 5, 7}, kGather{0, 2, 3, 5};

constexpr const char* kTypes = "C: bf16 f16 f32 f8e4m3 f8e5m2; T: bf16 f16 f32; I: i64 i32";
constexpr int kCacheType = 0, kTokenType = 1, kSlotType = 2;

int64_t num_heads_of(const Call& call, const KvCachePlaces& at) {
  return call.tensor(at.caches).shape[call.integer(at.layout) == kNHD ? 2 : 1];
}

Status check_store(const Call& call) {
  const DType type = call.type(kTokenType), cache_type = call.type(kCacheType);
  if (cache_type != type && !is_fp8(cache_type)) {
    return fail(AC4K_INVALID_TYPE, "store_kvcache: argument 'k_cache': expected dtype ",
                display_name(type), ", as 'key' has, or an fp8 one, got ",
                display_name(cache_type));
  }
  const int64_t num_keys = call.tensor(0).shape[0], n = call.tensor(kStore.slots).shape[0];
  if (n > num_keys) {
    return fail(AC4K_INVALID_VALUE, "store_kvcache: argument 'slot_mapping': expected at most ",
                num_keys, " slots, one for each key, got ", n);
  }
  return check_scales(call, kStore, cache_type, num_heads_of(call, kStore));
}

Status check_gather(const Call& call) {
  const DType type = call.type(kTokenType), cache_type = call.type(kCacheType);
  if (cache_type != type && !is_fp8(cache_type)) {
    return fail(AC4K_INVALID_VALUE, "gather_kvcache: argument 'dtype': expected ",
                display_name(cache_type), ", as 'k_cache' has, got ", display_name(type));
  }
  return check_scales(call, kGather, cache_type, num_heads_of(call, kGather));
}

cpu::KvCacheArgs arguments_of(const Call& call, const KvCachePlaces& at, const DLTensor& key,
                              const DLTensor& value) {
  const DLTensor &cache = call.tensor(at.caches), &slots = call.tensor(at.slots);
  const bool nhd = call.integer(at.layout) == kNHD;
  cpu::KvCacheArgs args{};
  args.type = call.type(kTokenType);
  args.cache_type = call.type(kCacheType);
  args.parts[0] = kv_cache_part(call, at, 0, key);
  args.parts[1] = kv_cache_part(call, at, 1, value);
  args.slots = data_of(slots);
  args.slot_type = call.type(kSlotType);
  args.num_tokens = slots.shape[0];
  args.num_heads = cache.shape[nhd ? 2 : 1];
  args.head_dim = cache.shape[3];
  args.num_blocks = cache.shape[0];
  args.block_size = cache.shape[nhd ? 1 : 2];
  // Heads that lie behind each other everywhere are one long head.
  bool joined = true;
  for (const cpu::KvCachePart& part : args.parts) {
    joined = joined && part.head_stride == args.head_dim &&
             part.cache_head_stride == args.head_dim && part.scale_stride == 0;
  }
  if (joined) {
    args.head_dim *= args.num_heads;
    args.num_heads = 1;
  }
  return args;
}

bool is_empty(const cpu::KvCacheArgs& args) {
  return args.num_tokens == 0 || args.num_heads == 0 || args.head_dim == 0;
}

// Whether all of it can be walked in units of so many elements, aligned to so many bytes.
bool in_units(const cpu::KvCacheArgs& args, int64_t unit, int64_t token_bytes,
              int64_t cache_bytes) {
  const auto at = [](const void* pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  };
  bool fits = args.head_dim % unit == 0;
  for (const cpu::KvCachePart& part : args.parts) {
    fits = fits && at(part.tokens, std::min(unit * token_bytes, kVectorBytes)) &&
           at(part.cache, std::min(unit * cache_bytes, kVectorBytes)) &&
           part.token_stride % unit == 0 && part.slot_stride % unit == 0 &&
           part.block_stride % unit == 0 &&
           (args.num_heads == 1 ||
            (part.head_stride % unit == 0 && part.cache_head_stride % unit == 0));
  }
  return fits;
}

// `unit`: elements a thread handles. Where `words`, these are the elements the kernel counts in,
// and it takes keys and values together.
Status launch(cuda::Kernel& kernel, const Call& call, const cpu::KvCacheArgs& args, int64_t unit,
              bool words) {
  const int64_t word = words ? unit : 1;
  KvCacheParams params{};
  params.slots = args.slots;
  params.num_tokens = args.num_tokens;
  params.num_slots = static_cast<int>(args.num_blocks * args.block_size);
  params.num_heads = static_cast<unsigned>(args.num_heads);
  params.wide_slots = args.slot_type == DType::i64;
  for (size_t i = 0; i < 2; ++i) {
    const cpu::KvCachePart& part = args.parts[i];
    params.parts[i] = {part.tokens,
                       part.cache,
                       part.scale,
                       part.token_stride / word,
                       part.head_stride / word,
                       part.block_stride / word,
                       part.slot_stride / word,
                       part.cache_head_stride / word,
                       static_cast<int>(part.scale_stride)};
  }
  if (!blocks_follow(args)) {
    params.block_size = fast_divisor(static_cast<uint32_t>(args.block_size));
  }
  const int64_t head_units = args.head_dim / unit, units = head_units * args.num_heads;
  constexpr int64_t kMaxUnits = 0x7fffffff;
  if (units > kMaxUnits) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected at most ", kMaxUnits,
                " units in a token, got ", units);
  }
  params.head_units = fast_divisor(static_cast<uint32_t>(head_units));
  const BlockOfRows block(units, args.num_tokens, kKvCacheThreads);
  params.unit_tiles = fast_divisor(static_cast<uint32_t>(block.column_tiles));
  const int64_t blocks = block.column_tiles * ceil_div(args.num_tokens, block.height);
  if (blocks > kMaxUnits) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected at most ", kMaxUnits,
                " blocks of work, got ", blocks);
  }
  const cuda::LaunchConfig config{.grid = {static_cast<uint32_t>(blocks), words ? 1u : 2u, 1},
                                  .block = {block.width, block.height, 1},
                                  .dependent = cuda::dependent_launch()};
  return cuda::launch(kernel, config, call.device.device_id, call.stream, params);
}

// By cache format, then by type; and copies of 16, 4 and 2 bytes, and of little.
struct KvKernels {
  cuda::Kernel codes[2][3], slow_codes[2][3], copies[3], few_copies;
};

// What the kernel for small copies takes; false where it does not.
bool few_copies(const cpu::KvCacheArgs& args, FewKvCopyParams& params) {
  const int64_t word = kHalfVectorBytes / size_of(args.type);
  bool fits = args.num_heads == 1 && blocks_follow(args);
  for (size_t i = 0; i < 2; ++i) {
    const cpu::KvCachePart& part = args.parts[i];
    fits = fits && part.token_stride >= 0 && part.token_stride <= INT32_MAX &&
           part.slot_stride >= 0 && part.slot_stride <= INT32_MAX;
    params.tokens[i] = part.tokens;
    params.cache[i] = part.cache;
    params.token_stride[i] = static_cast<unsigned>(part.token_stride / word);
    params.slot_stride[i] = static_cast<unsigned>(part.slot_stride / word);
  }
  params.slots = args.slots;
  params.num_words = static_cast<unsigned>(args.head_dim / word);
  params.num_slots = static_cast<int>(args.num_blocks * args.block_size);
  params.wide_slots = args.slot_type == DType::i64;
  return fits;
}

Status run_on_gpu(KvKernels& kernels, const Call& call, const cpu::KvCacheArgs& args) {
  AC4K_TRY(check_num_slots(call, args));
  const int64_t size = size_of(args.type);
  if (args.cache_type == args.type) {
    const int64_t unit = kVectorBytes / size;
    if (in_units(args, unit, size, size)) {
      const HalfVectorGrid grid(args.head_dim * size, args.num_tokens, 2);
      FewKvCopyParams few{};
      if (grid.is_small() && few_copies(args, few)) {
        return launch_half_vectors(kernels.few_copies, call, grid, few);
      }
      return launch(kernels.copies[0], call, args, unit, true);
    }
    return launch(kernels.copies[size == 4 ? 1 : 2], call, args, 1, true);
  }
  const size_t format = args.cache_type == DType::f8e4m3 ? 0 : 1;
  const size_t type = activation_column(args.type);
  if (in_units(args, kKvCacheUnit, size, 1)) {
    return launch(kernels.codes[format][type], call, args, kKvCacheUnit, false);
  }
  return launch(kernels.slow_codes[format][type], call, args, 1, false);
}

#define AC4K_KV_KERNELS(op)                                                              \
  {{{{kModule, op "_e4m3_f32"}, {kModule, op "_e4m3_f16"}, {kModule, op "_e4m3_bf16"}},  \
    {{kModule, op "_e5m2_f32"}, {kModule, op "_e5m2_f16"}, {kModule, op "_e5m2_bf16"}}}, \
   {{{kModule, op "_slowly_e4m3_f32"},                                                   \
     {kModule, op "_slowly_e4m3_f16"},                                                   \
     {kModule, op "_slowly_e4m3_bf16"}},                                                 \
    {{kModule, op "_slowly_e5m2_f32"},                                                   \
     {kModule, op "_slowly_e5m2_f16"},                                                   \
     {kModule, op "_slowly_e5m2_bf16"}}},                                                \
   {{kModule, op "_copy_16"}, {kModule, op "_copy_4"}, {kModule, op "_copy_2"}},         \
   {kModule, op "_copy_few"}}

cpu::KvCacheArgs store_arguments(const Call& call) {
  return arguments_of(call, kStore, call.tensor(0), call.tensor(1));
}
cpu::KvCacheArgs gather_arguments(const Call& call) {
  return arguments_of(call, kGather, call.output(0), call.output(1));
}

Status store_cpu(const Call& call) { return cpu::store_kvcache(store_arguments(call)); }
Status gather_cpu(const Call& call) { return cpu::gather_kvcache(gather_arguments(call)); }

Status store_cuda(const Call& call) {
  static constinit KvKernels kernels = AC4K_KV_KERNELS("store_kvcache");
  const auto args = store_arguments(call);
  return is_empty(args) ? AC4K_OK : run_on_gpu(kernels, call, args);
}
Status gather_cuda(const Call& call) {
  static constinit KvKernels kernels = AC4K_KV_KERNELS("gather_kvcache");
  const auto args = gather_arguments(call);
  return is_empty(args) ? AC4K_OK : run_on_gpu(kernels, call, args);
}

const RegisterOp kStoreOp{{
    .signature = "store_kvcache(key: T[K, H, D] row_strided, value: T[K, H, D] row_strided,"
                 " k_cache: C[layout: B, S, H, D | B, H, S, D] row_strided mutable,"
                 " v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided mutable,"
                 " slot_mapping: I[n], k_scale: f32[P]? = None, v_scale: f32[R]? = None, *,"
                 " layout: {NHD, HND} = NHD)",
    .types = kTypes,
    .doc = "Write keys and values of tokens into the slots of a paged cache.",
    .formula = "Token i goes to place s % S of block s // S, s = slot_mapping[i]. Tokens with a"
               " negative slot, or one past the cache, are skipped, and so are keys past the end of"
               " slot_mapping. The slots of a call must differ from each other. The cache has the"
               " dtype of the keys, or is fp8 and holds encode(x * (1 / scale)), nearest even and"
               " saturating; scale is one number or one for each head, 1 when left out.",
    .example = ">>> import numpy as np\n"
               ">>> key = np.arange(1, 5, dtype=np.float32).reshape(2, 1, 2)\n"
               ">>> k_cache, v_cache = np.zeros((2, 2, 2, 1, 2), np.float32)\n"
               ">>> ac4k.store_kvcache(key, -key, k_cache, v_cache, np.array([3, -1]))\n"
               ">>> k_cache.reshape(4, 2).tolist()\n"
               "[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]",
    .tolerance = 1.0,
    .check = check_store,
    .cpu = store_cpu,
    .cuda = store_cuda,
}};

const RegisterOp kGatherOp{{
    .signature = "gather_kvcache(k_cache: C[layout: B, S, H, D | B, H, S, D] row_strided,"
                 " v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided, slots: I[n],"
                 " k_scale: f32[P]? = None, v_scale: f32[R]? = None, *,"
                 " layout: {NHD, HND} = NHD, dtype: T = bf16) -> T[n, H, D], T[n, H, D]",
    .types = kTypes,
    .doc = "Read keys and values of slots from a paged cache.",
    .formula =
        "Row i is place s % S of block s // S, s = slots[i]; zeros where s is negative or past"
        " the cache. dtype is the cache's; an fp8 cache gives float(code) * scale, rounded"
        " once to dtype. scale is one number or one for each head, 1 when left out.",
    .example = ">>> import numpy as np\n"
               ">>> k_cache = np.arange(8, dtype=np.float32).reshape(2, 2, 1, 2)\n"
               ">>> key, value = ac4k.gather_kvcache(k_cache, -k_cache, np.array([3, -1]),"
               " dtype=\"float32\")\n"
               ">>> key.tolist()\n"
               "[[[6.0, 7.0]], [[0.0, 0.0]]]",
    .tolerance = 1.0,
    .check = check_gather,
    .cpu = gather_cpu,
    .cuda = gather_cuda,
}};

}  // namespace
}  // namespace ac4k
