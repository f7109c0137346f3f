// qk_norm_rope_3d: RMS norm of q and k over all heads, then rope_3d.
#include <numeric>

#include "core/op.hpp"
#include "ops/norms.hpp"
#include "ops/rope_3d.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/qk_norm_rope_3d";
constexpr int kQ = 0, kK = 1, kQWeight = 2, kKWeight = 3, kEps = 6, kCastFirst = 10;
// Places of dims in the signature: B, L, H, D, G, M, N, P.
constexpr int kH = 2, kD = 3, kG = 4, kM = 5, kN = 6;
constexpr Rope3dPlaces kPlaces{.grid_sizes = 4,
                               .table = 5,
                               .height_pairs = 7,
                               .width_pairs = 8,
                               .precision = 9,
                               .dim_l = 1,
                               .dim_d = kD,
                               .dim_p = 7};

Status check_weight(const Call& call, int param, int64_t got, int64_t heads) {
  const int64_t expected = heads * call.dim(kD);
  if (got == expected) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
              call.op.signature.params[static_cast<size_t>(param)].name, "': expected shape (",
              expected, "), heads times head_dim, got (", got, ")");
}

// The norm walks a token's heads as one row.
Status check_row(const Call& call, int param) {
  const DLTensor& tensor = call.tensor(param);
  const int64_t stride = strides_of(tensor)[2], D = call.dim(kD);
  if (tensor.shape[2] <= 1 || stride == D || num_elements(tensor) == 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
              call.op.signature.params[static_cast<size_t>(param)].name,
              "': expected the heads of a token in a row, got a stride of ", stride,
              " between heads of ", D);
}

Status check(const Call& call) {
  AC4K_TRY(check_eps(call, kEps));
  AC4K_TRY(check_weight(call, kQWeight, call.dim(kM), call.dim(kH)));
  AC4K_TRY(check_weight(call, kKWeight, call.dim(kN), call.dim(kG)));
  AC4K_TRY(check_row(call, kQ));
  AC4K_TRY(check_row(call, kK));
  return check_rope_3d(call, kPlaces);
}

RopeTensors tensors_of(const Call& call) {
  return {call.tensor(kQ), call.output(0), &call.tensor(kK), &call.output(1)};
}

Status check_outputs(const Call& call, const RopeTensors& tensors) {
  if (tensors.heads_in_a_row()) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name,
              ": argument 'out': expected the heads of a token in a row");
}

Status run_cpu(const Call& call) {
  const RopeTensors tensors = tensors_of(call);
  AC4K_TRY(check_outputs(call, tensors));
  const cpu::RopeNorm norm{{data_of(call.tensor(kQWeight)), data_of(call.tensor(kKWeight))},
                           static_cast<float>(call.real(kEps)),
                           call.integer(kCastFirst) != 0,
                           true};
  cpu::RopeArgs args = tensors.cpu_args(call.type());
  args.norm = &norm;
  return cpu::rope_3d(args, rope_3d_angles(call, kPlaces));
}

#define AC4K_BY_TYPE(name) {{kModule, name "_f32"}, {kModule, name "_f16"}, {kModule, name "_bf16"}}
#define AC4K_BY_VECTORS(name)                                                 \
  {AC4K_BY_TYPE(name "_1"), AC4K_BY_TYPE(name "_2"), AC4K_BY_TYPE(name "_4"), \
   AC4K_BY_TYPE(name "_any")}

Status run_cuda(const Call& call) {
  // By arithmetic, vectors a thread and type.
  static constinit cuda::Kernel kernels[3][4][3] = {AC4K_BY_VECTORS("qk_norm_rope_3d_exact"),
                                                    AC4K_BY_VECTORS("qk_norm_rope_3d_fast_f64"),
                                                    AC4K_BY_VECTORS("qk_norm_rope_3d_fast_f32")};
  // Vectors a thread has of q and of k, and how many threads that is for at most.
  struct Variant {
    int64_t vectors, max_threads;
  };
  constexpr Variant kVariants[] = {{1, 64}, {2, 128}, {4, 512}};
  constexpr size_t kAny = 3;
  const RopeTensors tensors = tensors_of(call);
  AC4K_TRY(check_outputs(call, tensors));
  AC4K_TRY(check_rope_3d_table(call, kPlaces));
  const int64_t D = call.dim(kD), vector = kVectorBytes / size_of(call.type());
  Rope3dParams params = rope_3d_params(call, kPlaces, tensors);
  params.heads.tensors[0].weight = data_of(call.tensor(kQWeight));
  params.heads.tensors[1].weight = data_of(call.tensor(kKWeight));
  for (RopeTensor& tensor : params.heads.tensors) {
    tensor.inverse_columns = 1.0f / static_cast<float>(tensor.num_heads * D);
  }
  params.eps = static_cast<float>(call.real(kEps));
  params.cast_first = call.integer(kCastFirst) != 0;
  size_t variant = kAny;
  int64_t threads = kRopeThreads;
  params.heads.num_slots = static_cast<int>(D / 2);
  if (D > 0 && D % vector == 0 && tensors.allows_vectors(call.type()) &&
      all_aligned(call.tensor(kPlaces.table), call.tensor(kQWeight), call.tensor(kKWeight))) {
    const int64_t slots = D / vector, unit = std::lcm(int64_t{32}, slots);
    const int64_t row = std::max(call.dim(kH), call.dim(kG)) * slots;
    for (size_t i = 0; variant == kAny && i < kAny; ++i) {
      const int64_t needed = ceil_div(ceil_div(row, kVariants[i].vectors), unit) * unit;
      if (needed > kVariants[i].max_threads) continue;
      variant = i;
      threads = needed;
      params.head_vectors = fast_divisor(static_cast<uint32_t>(slots));
    }
  }
  return launch_1d(
      kernels[rope_3d_arithmetic(call, kPlaces)][variant][rope_type_index(call.type())], call,
      tensors.num_tokens(), static_cast<int>(threads), params);
}

const RegisterOp kOp{{
    .signature = "qk_norm_rope_3d(q: T[B, L, H, D] row_strided, k: T[B, L, G, D] row_strided,"
                 " q_weight: T[M], k_weight: T[N], grid_sizes: I[B, 3], table: S[P, D/2, 2],"
                 " eps: float = 1e-6, *, height_pairs: int = -1, width_pairs: int = -1,"
                 " precision: {exact, fast} = exact, cast_first: bool = False)"
                 " -> T[B, L, H, D] row_strided, T[B, L, G, D] row_strided",
    .types = "T: f32 f16 bf16; I: i32 i64; S: f64 f32",
    .doc = "RMS norm of q and k over all heads, then rotary position embedding of video tokens.",
    .formula = "rope_3d of rms_norm(q, q_weight, eps), and the same for k: the norm is over the H*D"
               " numbers of a token, which lie in a row, and is rounded to T before it is rotated;"
               " q_weight and k_weight have one number for each. Tokens past the grid are"
               " normalised only. cast_first as in rms_norm (Wan's norm), the rest as in rope_3d.",
    .example = ">>> import numpy as np\n"
               ">>> q, ones = np.full((1, 2, 1, 2), 3, np.float32), np.ones(2, np.float32)\n"
               ">>> quarter_turns = np.array([[[1, 0]], [[0, 1]]], np.float64)\n"
               ">>> q, k = ac4k.qk_norm_rope_3d(q, q, ones, ones, np.array([[2, 1, 1]]),"
               " quarter_turns, eps=0.0)\n"
               ">>> q.tolist()\n"
               "[[[[1.0, 1.0]], [[-1.0, 1.0]]]]",
    // 4 of the norm and 1.5 of the rotation.
    .tolerance = 5.5,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
