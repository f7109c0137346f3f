// qk_norm_rope: RMS norm of each head of q and k, then rope.
#include <bit>

#include "core/op.hpp"
#include "ops/norms.hpp"
#include "ops/rope.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/qk_norm_rope";
constexpr int kQ = 0, kK = 1, kQWeight = 2, kKWeight = 3, kPositions = 4, kCosSin = 5, kEps = 6;
constexpr int kStyle = 7, kCastFirst = 8;
constexpr int kD = 1, kP = 3, kR = 4;  // places of dims in the signature: H, D, G, P, R
constexpr int kIntegers = 1;           // the type variable of positions

Status check(const Call& call) {
  AC4K_TRY(check_eps(call, kEps));
  return check_rotary_dim(call, call.dim(kR), call.dim(kD));
}

RopeTensors tensors_of(const Call& call) {
  return {call.tensor(kQ), call.output(0), &call.tensor(kK), &call.output(1)};
}

Status run_cpu(const Call& call) {
  const RopeTensors tensors = tensors_of(call);
  const cpu::RopeNorm norm{{data_of(call.tensor(kQWeight)), data_of(call.tensor(kKWeight))},
                           static_cast<float>(call.real(kEps)),
                           call.integer(kCastFirst) != 0,
                           false};
  cpu::RopeArgs args = tensors.cpu_args(call.type());
  args.norm = &norm;
  return cpu::rope(args, {static_cast<const float*>(data_of(call.tensor(kCosSin))), call.dim(kP),
                          call.dim(kR), integers_of(call.tensor(kPositions), call.type(kIntegers)),
                          nullptr, call.integer(kStyle) == 0});
}

// Heads that a thread has: what is done once for all of them takes as long as one or two, and the
// blocks should fill whole turns of the GPU.
Status heads_a_thread(const Call& call, const RopeTensors& tensors, int64_t slots, int64_t* heads) {
  constexpr double kOnce = 1.5;
  *heads = 1;
  if (tensors.is_small()) return AC4K_OK;
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  const int64_t room = int64_t{device->sm_count} * kNormRopeBlocks;
  const int64_t q_heads = call.tensor(kQ).shape[call.tensor(kQ).ndim - 2],
                k_heads = call.tensor(kK).shape[call.tensor(kK).ndim - 2];
  double best = 0;
  for (int64_t h = kNormRopeHeads; h > 1; --h) {
    const int64_t groups = ceil_div(q_heads, h) + ceil_div(k_heads, h);
    const int64_t blocks = ceil_div(tensors.num_tokens() * groups * slots, kRopeTableThreads);
    const double turns = static_cast<double>(ceil_div(blocks, room));
    const double time = turns * (static_cast<double>(h) + kOnce);
    if (best == 0 || time < best) {
      best = time;
      *heads = h;
    }
  }
  return AC4K_OK;
}

Status run_cuda(const Call& call) {
  // By access, style and type.
  static constinit cuda::Kernel kernels[2][2][3] = {
      {{{kModule, "qk_norm_rope_any_interleaved_f32"},
        {kModule, "qk_norm_rope_any_interleaved_f16"},
        {kModule, "qk_norm_rope_any_interleaved_bf16"}},
       {{kModule, "qk_norm_rope_any_neox_f32"},
        {kModule, "qk_norm_rope_any_neox_f16"},
        {kModule, "qk_norm_rope_any_neox_bf16"}}},
      {{{kModule, "qk_norm_rope_interleaved_f32"},
        {kModule, "qk_norm_rope_interleaved_f16"},
        {kModule, "qk_norm_rope_interleaved_bf16"}},
       {{kModule, "qk_norm_rope_neox_f32"},
        {kModule, "qk_norm_rope_neox_f16"},
        {kModule, "qk_norm_rope_neox_bf16"}}}};
  // Many heads of the usual size, by style and type.
  static constinit cuda::Kernel usual_kernels[2][3] = {
      {{kModule, "qk_norm_rope_usual_interleaved_f32"},
       {kModule, "qk_norm_rope_usual_interleaved_f16"},
       {kModule, "qk_norm_rope_usual_interleaved_bf16"}},
      {{kModule, "qk_norm_rope_usual_neox_f32"},
       {kModule, "qk_norm_rope_usual_neox_f16"},
       {kModule, "qk_norm_rope_usual_neox_bf16"}}};
  constexpr int64_t kWarp = 32;
  AC4K_TRY(check_num_positions(call, call.dim(kP)));
  const RopeTensors tensors = tensors_of(call);
  const int64_t R = call.dim(kR), D = call.dim(kD), vector = kVectorBytes / size_of(call.type());
  const bool neox = call.integer(kStyle) == 0;
  RopeParams params{};
  params.heads = tensors.cuda_heads();
  params.heads.tensors[0].weight = data_of(call.tensor(kQWeight));
  params.heads.tensors[1].weight = data_of(call.tensor(kKWeight));
  for (RopeTensor& tensor : params.heads.tensors) {
    tensor.inverse_columns = 1.0f / static_cast<float>(D);
  }
  params.cos_sin = static_cast<const float*>(data_of(call.tensor(kCosSin)));
  params.num_positions = static_cast<int>(call.dim(kP));
  params.positions = data_of(call.tensor(kPositions));
  params.wide_positions = call.type(kIntegers) == DType::i64;
  params.rotary_dim = static_cast<int>(R);
  params.eps = static_cast<float>(call.real(kEps));
  params.cast_first = call.integer(kCastFirst) != 0;
  RopeShape shape = vector_shape(D, vector);
  int64_t width =
      std::max<int64_t>(std::bit_ceil(static_cast<uint64_t>(shape.num_slots)), kMinRowLanes);
  if (!rotates_whole_vectors(R, D, vector) || !tensors.allows_vectors(call.type()) ||
      !all_aligned(call.tensor(kCosSin), call.tensor(kQWeight), call.tensor(kKWeight)) ||
      width > kWarp || !fits_vector_kernel(tensors, shape.num_slots)) {
    shape = {R / 2 + ceil_div(D - R, 2), 1, false};
    width = kWarp;
  }
  if (shape.vectors) {
    shape.threads = kRopeTableThreads;
    if (D == kUsualHeadDim && R == kUsualHeadDim && !tensors.is_small()) {
      shape.heads_a_thread = kUsualHeads;
      return launch_rope(usual_kernels[neox][rope_type_index(call.type())], call, shape, params);
    }
    AC4K_TRY(heads_a_thread(call, tensors, width, &shape.heads_a_thread));
  }
  return launch_rope(kernels[shape.vectors][neox][rope_type_index(call.type())], call, shape,
                     params, width);
}

const RegisterOp kOp{{
    .signature =
        "qk_norm_rope(q: T[..., H, D] row_strided, k: T[..., G, D] row_strided, q_weight: T[D],"
        " k_weight: T[D], positions: I[...], cos_sin: f32[P, R], eps: float = 1e-6, *,"
        " style: {neox, interleaved} = neox, cast_first: bool = False)"
        " -> T[..., H, D] row_strided, T[..., G, D] row_strided",
    .types = "T: f32 f16 bf16; I: i32 i64",
    .doc = "RMS norm of each head of q and k, then rotary position embedding, in one pass.",
    .formula = "rope(rms_norm(q, q_weight, eps), positions, cos_sin), and the same for k: the norm"
               " is over head_dim, its result is rounded to T before it is rotated. style as in"
               " rope, cast_first as in rms_norm.",
    .example = ">>> import numpy as np\n"
               ">>> q, ones = np.array([[[2, -2]]], np.float32), np.ones(2, np.float32)\n"
               ">>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)\n"
               ">>> q, k = ac4k.qk_norm_rope(q, q, ones, ones, np.array([1]), quarter_turns,"
               " eps=0.0)\n"
               ">>> q.tolist()\n"
               "[[[1.0, 1.0]]]",
    // 4 of the norm and 1 of the rotation.
    .tolerance = 5.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
