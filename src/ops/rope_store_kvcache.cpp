// rope_store_kvcache: rope on q and k; rotated keys and values go to the slots of a paged cache.
#include "cuda/common/rope_store_kvcache.h"

#include "core/op.hpp"
#include "ops/kvcache.hpp"
#include "ops/rope.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/rope_store_kvcache";
constexpr int kQ = 0, kK = 1, kV = 2, kPositions = 3, kCosSin = 4, kStyle = 10;
constexpr KvCachePlaces kPlaces{.caches = 5, .slots = 7, .scales = 8, .layout = 11};
constexpr int kN = 0, kD = 2, kG = 3, kP = 4, kR = 5;  // dims: N, H, D, G, P, R
constexpr int kCacheType = 0, kType = 1, kPositionType = 2, kSlotType = 3;

Status check(const Call& call) {
  AC4K_TRY(check_rotary_dim(call, call.dim(kR), call.dim(kD)));
  const DType type = call.type(kType), cache_type = call.type(kCacheType);
  if (cache_type != type && !is_fp8(cache_type)) {
    return fail(AC4K_INVALID_TYPE, call.op.signature.name, ": argument 'k_cache': expected dtype ",
                display_name(type), ", as 'k' has, or an fp8 one, got ", display_name(cache_type));
  }
  const int64_t n = call.tensor(kPlaces.slots).shape[0];
  if (n > call.dim(kN)) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'slot_mapping': expected at most ", call.dim(kN),
                " slots, one for each key, got ", n);
  }
  return check_scales(call, kPlaces, cache_type, call.dim(kG));
}

// k goes to the cache; RopeTensors takes it as its own output.
RopeTensors tensors_of(const Call& call) {
  return {call.tensor(kQ), call.output(0), &call.tensor(kK), &call.tensor(kK)};
}

cpu::KvCacheArgs cache_of(const Call& call) {
  const DLTensor& cache = call.tensor(kPlaces.caches);
  const bool nhd = call.integer(kPlaces.layout) == kNHD;
  cpu::KvCacheArgs args{};
  args.type = call.type(kType);
  args.cache_type = call.type(kCacheType);
  args.parts[0] = kv_cache_part(call, kPlaces, 0, call.tensor(kK));
  args.parts[1] = kv_cache_part(call, kPlaces, 1, call.tensor(kV));
  args.slots = data_of(call.tensor(kPlaces.slots));
  args.slot_type = call.type(kSlotType);
  args.num_tokens = call.tensor(kPlaces.slots).shape[0];
  args.num_heads = call.dim(kG);
  args.head_dim = call.dim(kD);
  args.num_blocks = cache.shape[0];
  args.block_size = cache.shape[nhd ? 1 : 2];
  return args;
}

Status run_cpu(const Call& call) {
  const RopeTensors tensors = tensors_of(call);
  return cpu::rope_store_kvcache(
      tensors.cpu_args(call.type(kType)),
      {static_cast<const float*>(data_of(call.tensor(kCosSin))), call.dim(kP), call.dim(kR),
       integers_of(call.tensor(kPositions), call.type(kPositionType)), nullptr,
       call.integer(kStyle) == 0},
      cache_of(call));
}

// Whether keys, values and cache can be walked in runs of `unit` elements.
bool in_runs(const cpu::KvCacheArgs& args, int64_t unit) {
  const int64_t cache_bytes = size_of(args.cache_type);
  const auto at = [](const void* pointer, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  };
  bool fits = true;
  for (const cpu::KvCachePart& part : args.parts) {
    fits = fits && at(part.tokens, kVectorBytes) && at(part.cache, unit * cache_bytes) &&
           part.token_stride % unit == 0 && part.head_stride % unit == 0 &&
           part.slot_stride % unit == 0 && part.block_stride % unit == 0 &&
           part.cache_head_stride % unit == 0;
  }
  return fits;
}

KvCacheParams cache_params(const cpu::KvCacheArgs& args) {
  KvCacheParams params{};
  params.slots = args.slots;
  params.num_tokens = args.num_tokens;
  params.num_slots = static_cast<int>(args.num_blocks * args.block_size);
  params.num_heads = static_cast<unsigned>(args.num_heads);
  params.wide_slots = args.slot_type == DType::i64;
  for (size_t i = 0; i < 2; ++i) {
    const cpu::KvCachePart& part = args.parts[i];
    params.parts[i].cache = part.cache;
    params.parts[i].scale = part.scale;
    params.parts[i].block_stride = part.block_stride;
    params.parts[i].slot_stride = part.slot_stride;
    params.parts[i].cache_head_stride = part.cache_head_stride;
    params.parts[i].scale_stride = static_cast<int>(part.scale_stride);
  }
  if (!blocks_follow(args)) {
    params.block_size = fast_divisor(static_cast<uint32_t>(args.block_size));
  }
  return params;
}

#define AC4K_BY_TYPE(name) {{kModule, name "_f32"}, {kModule, name "_f16"}, {kModule, name "_bf16"}}
#define AC4K_BY_ACCESS(format)                              \
  {                                                         \
    {AC4K_BY_TYPE("rope_store_" format "_any_interleaved"), \
     AC4K_BY_TYPE("rope_store_" format "_any_neox")},       \
    {                                                       \
      AC4K_BY_TYPE("rope_store_" format "_interleaved"),    \
          AC4K_BY_TYPE("rope_store_" format "_neox")        \
    }                                                       \
  }

// What the kernel for few heads takes; false where it does not.
bool few_params(const RopeTensors& tensors, const cpu::KvCacheArgs& cache,
                const RopeStoreParams& params, FewRopeStoreParams& few) {
  if (cache.cache_type != cache.type || params.cache.block_size.divisor != 0 ||
      params.rope.num_positions > INT32_MAX / std::max(params.rope.rotary_dim, 1) ||
      !tensors.few_heads(few)) {
    return false;
  }
  const auto fits = [](int64_t stride, int64_t most) { return stride >= -most && stride <= most; };
  for (size_t i = 0; i < 2; ++i) {
    const KvCachePart& part = params.cache.parts[i];
    if (!fits(part.slot_stride, INT32_MAX) || !fits(part.cache_head_stride, INT32_MAX)) {
      return false;
    }
    few.caches[i] = part.cache;
    few.slot_stride[i] = static_cast<int>(part.slot_stride);
    few.cache_head_stride[i] = static_cast<int>(part.cache_head_stride);
  }
  if (!fits(params.value_token_stride, kMostFewStride) ||
      !fits(params.value_head_stride, kMostFewStride)) {
    return false;
  }
  few.cos_sin = params.rope.cos_sin;
  few.num_positions = static_cast<int>(params.rope.num_positions);
  few.positions = params.rope.positions;
  few.wide_positions = params.rope.wide_positions;
  few.rotary_dim = params.rope.rotary_dim;
  few.values = params.values;
  few.value_token_stride = static_cast<int>(params.value_token_stride);
  few.value_head_stride = static_cast<int>(params.value_head_stride);
  few.slots = params.cache.slots;
  few.num_slots = params.cache.num_slots;
  few.num_stored = static_cast<int>(params.cache.num_tokens);
  few.wide_slots = params.cache.wide_slots != 0;
  return true;
}

Status run_cuda(const Call& call) {
  // By cache format, access, style and type.
  static constinit cuda::Kernel kernels[3][2][2][3] = {
      AC4K_BY_ACCESS("same"), AC4K_BY_ACCESS("e4m3"), AC4K_BY_ACCESS("e5m2")};
  static constinit cuda::Kernel few_kernels[2][3] = {AC4K_BY_TYPE("rope_store_few_interleaved"),
                                                     AC4K_BY_TYPE("rope_store_few_neox")};
  const DType type = call.type(kType), cache_type = call.type(kCacheType);
  const RopeTensors tensors = tensors_of(call);
  const cpu::KvCacheArgs cache = cache_of(call);
  AC4K_TRY(check_num_positions(call, call.dim(kP)));
  AC4K_TRY(check_num_slots(call, cache));
  const int64_t R = call.dim(kR), D = call.dim(kD), vector = kVectorBytes / size_of(type);
  const bool neox = call.integer(kStyle) == 0;
  RopeStoreParams params{};
  params.rope.heads = tensors.cuda_heads();
  params.rope.cos_sin = static_cast<const float*>(data_of(call.tensor(kCosSin)));
  params.rope.num_positions = static_cast<int>(call.dim(kP));
  params.rope.positions = data_of(call.tensor(kPositions));
  params.rope.wide_positions = call.type(kPositionType) == DType::i64;
  params.rope.rotary_dim = static_cast<int>(R);
  params.values = cache.parts[1].tokens;
  params.value_token_stride = cache.parts[1].token_stride;
  params.value_head_stride = cache.parts[1].head_stride;
  params.cache = cache_params(cache);
  RopeShape shape = vector_shape(D, vector);
  if (!rotates_whole_vectors(R, D, vector) || !tensors.allows_vectors(type) ||
      !is_aligned(params.rope.cos_sin) || !in_runs(cache, vector) ||
      !fits_vector_kernel(tensors, shape.num_slots)) {
    shape = {R / 2 + ceil_div(D - R, 2), 1, false};
  }
  FewRopeStoreParams few{};
  if (shape.vectors && shape.num_slots <= kRopeTableThreads &&
      few_params(tensors, cache, params, few)) {
    return launch_few_heads(few_kernels[neox][rope_type_index(type)], call, shape.num_slots,
                            few.num_heads + cache.num_heads, few);
  }
  const size_t format = cache_type == type ? 0 : cache_type == DType::f8e4m3 ? 1 : 2;
  cuda::Kernel& kernel = kernels[format][shape.vectors][neox][rope_type_index(type)];
  // Values are as many groups again as keys.
  shape.threads = kRopeTableThreads;
  if (tensors.is_small()) shape.heads_a_thread = 1;
  return launch_rope(kernel, call, shape, params, 0, cache.num_heads);
}

const RegisterOp kOp{{
    .signature =
        "rope_store_kvcache(q: T[N, H, D] row_strided, k: T[N, G, D] row_strided,"
        " v: T[N, G, D] row_strided, positions: I[N], cos_sin: f32[P, R],"
        " k_cache: C[layout: B, S, G, D | B, G, S, D] row_strided mutable,"
        " v_cache: C[layout: B, S, G, D | B, G, S, D] row_strided mutable,"
        " slot_mapping: J[n], k_scale: f32[M]? = None, v_scale: f32[W]? = None, *,"
        " style: {neox, interleaved} = neox, layout: {NHD, HND} = NHD) -> T[N, H, D] row_strided",
    .types = "C: bf16 f16 f32 f8e4m3 f8e5m2; T: bf16 f16 f32; I: i32 i64; J: i64 i32",
    .doc = "Rotary position embedding of q and k, and k and v stored into a paged cache.",
    .formula = "q is rotated as by rope and returned; k is rotated as by rope, rounded to T and"
               " stored, with v, as by store_kvcache, all in one pass. k and v stay as they are."
               " Tokens without a slot (a negative one, one past the cache, none in slot_mapping)"
               " are not stored.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.array([[[1, 0]]], np.float32)\n"
               ">>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)\n"
               ">>> k_cache, v_cache = caches = np.zeros((2, 1, 2, 1, 2), np.float32)\n"
               ">>> one = np.array([1])\n"
               ">>> ac4k.rope_store_kvcache(q, q, q, one, quarter_turns, *caches, one).tolist()\n"
               "[[[0.0, 1.0]]]\n"
               ">>> k_cache.tolist()\n"
               "[[[[0.0, 0.0]], [[0.0, 1.0]]]]",
    .tolerance = 1.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
