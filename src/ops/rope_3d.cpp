// rope_3d: rotary position embedding by a token's place in a grid of frames, rows and columns.
#include "ops/rope_3d.hpp"

#include <algorithm>

#include "core/op.hpp"

namespace ac4k {

AxisPairs axis_pairs(const Call& call, const Rope3dPlaces& places) {
  constexpr int64_t kDefault = -1;
  const int64_t pairs = call.dim(places.dim_d) / 2;
  const int64_t rows = call.integer(places.height_pairs);
  const int64_t columns = call.integer(places.width_pairs);
  AxisPairs axes{0, rows == kDefault ? pairs / 3 : rows, columns == kDefault ? pairs / 3 : columns};
  axes.frames = pairs - axes.rows - axes.columns;
  return axes;
}

Status check_rope_3d(const Call& call, const Rope3dPlaces& places) {
  const int64_t pairs = call.dim(places.dim_d) / 2;
  for (const int param : {places.height_pairs, places.width_pairs}) {
    const int64_t value = call.integer(param);
    if (value < -1 || value > pairs) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
                  call.op.signature.params[static_cast<size_t>(param)].name,
                  "': expected -1 (a third) or 0 to ", pairs, " pairs, got ", value);
    }
  }
  const AxisPairs axes = axis_pairs(call, places);
  if (axes.frames < 0) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": arguments 'height_pairs', 'width_pairs': expected at most ", pairs,
                " pairs together, got ", axes.rows + axes.columns);
  }
  constexpr int64_t kMaxTokens = 0x7fffffff;
  if (call.dim(places.dim_l) > kMaxTokens) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": argument 'q': expected at most ",
                kMaxTokens, " tokens a sample, got ", call.dim(places.dim_l));
  }
  if (is_exact(call, places) && call.type(places.scalar) != DType::f64) {
    return fail(AC4K_INVALID_TYPE, call.op.signature.name,
                ": argument 'table': expected float64 with precision='exact', got ",
                display_name(call.type(places.scalar)));
  }
  return AC4K_OK;
}

cpu::Rope3dAngles rope_3d_angles(const Call& call, const Rope3dPlaces& places) {
  const AxisPairs axes = axis_pairs(call, places);
  return {data_of(call.tensor(places.table)),
          call.type(places.scalar),
          call.dim(places.dim_p),
          integers_of(call.tensor(places.grid_sizes), call.type(places.integers)),
          call.dim(places.dim_l),
          {axes.frames, axes.rows, axes.columns},
          is_exact(call, places)};
}

Status check_rope_3d_table(const Call& call, const Rope3dPlaces& places) {
  const int64_t most = INT32_MAX / std::max<int64_t>(call.dim(places.dim_d) / 2, 1);
  if (call.dim(places.dim_p) <= most) return AC4K_OK;
  return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": argument 'table': expected at most ",
              most, " positions on a GPU, got ", call.dim(places.dim_p));
}

Rope3dParams rope_3d_params(const Call& call, const Rope3dPlaces& places,
                            const RopeTensors& tensors) {
  const AxisPairs axes = axis_pairs(call, places);
  Rope3dParams params{};
  params.heads = tensors.cuda_heads();
  params.table = data_of(call.tensor(places.table));
  params.num_positions = call.dim(places.dim_p);
  params.grid_sizes = data_of(call.tensor(places.grid_sizes));
  params.wide_grid = call.type(places.integers) == DType::i64;
  params.tokens = fast_divisor(static_cast<uint32_t>(call.dim(places.dim_l)));
  params.axis_ends[0] = static_cast<int>(axes.frames);
  params.axis_ends[1] = static_cast<int>(axes.frames + axes.rows);
  return params;
}

namespace {

constexpr const char* kModule = "common/rope_3d";
constexpr int kQ = 0, kK = 3;
constexpr int kD = 3;  // the dim's place in the signature
constexpr Rope3dPlaces kPlaces{.grid_sizes = 1,
                               .table = 2,
                               .height_pairs = 4,
                               .width_pairs = 5,
                               .precision = 6,
                               .dim_l = 1,
                               .dim_d = kD,
                               .dim_p = 4};

Status check(const Call& call) { return check_rope_3d(call, kPlaces); }

RopeTensors tensors_of(const Call& call) {
  return call.has(kK)
             ? RopeTensors(call.tensor(kQ), call.output(0), &call.tensor(kK), &call.output(1))
             : RopeTensors(call.tensor(kQ), call.output(0));
}

Status run_cpu(const Call& call) {
  const RopeTensors tensors = tensors_of(call);
  return cpu::rope_3d(tensors.cpu_args(call.type()), rope_3d_angles(call, kPlaces));
}

Status run_cuda(const Call& call) {
  // By access, arithmetic and type.
  static constinit cuda::Kernel kernels[2][3][3] = {{{{kModule, "rope_3d_exact_any_f32"},
                                                      {kModule, "rope_3d_exact_any_f16"},
                                                      {kModule, "rope_3d_exact_any_bf16"}},
                                                     {{kModule, "rope_3d_fast_f64_any_f32"},
                                                      {kModule, "rope_3d_fast_f64_any_f16"},
                                                      {kModule, "rope_3d_fast_f64_any_bf16"}},
                                                     {{kModule, "rope_3d_fast_f32_any_f32"},
                                                      {kModule, "rope_3d_fast_f32_any_f16"},
                                                      {kModule, "rope_3d_fast_f32_any_bf16"}}},
                                                    {{{kModule, "rope_3d_exact_f32"},
                                                      {kModule, "rope_3d_exact_f16"},
                                                      {kModule, "rope_3d_exact_bf16"}},
                                                     {{kModule, "rope_3d_fast_f64_f32"},
                                                      {kModule, "rope_3d_fast_f64_f16"},
                                                      {kModule, "rope_3d_fast_f64_bf16"}},
                                                     {{kModule, "rope_3d_fast_f32_f32"},
                                                      {kModule, "rope_3d_fast_f32_f16"},
                                                      {kModule, "rope_3d_fast_f32_bf16"}}}};
  AC4K_TRY(check_rope_3d_table(call, kPlaces));
  const RopeTensors tensors = tensors_of(call);
  const int64_t D = call.dim(kD), vector = kVectorBytes / size_of(call.type());
  const Rope3dParams params = rope_3d_params(call, kPlaces, tensors);
  RopeShape shape{.num_slots = D / vector, .heads_a_thread = 4, .vectors = true};
  if (D % vector != 0 || !tensors.allows_vectors(call.type()) || !is_aligned(params.table) ||
      !fits_vector_kernel(tensors, shape.num_slots)) {
    shape = {D / 2, 4, false};
  }
  return launch_rope(
      kernels[shape.vectors][rope_3d_arithmetic(call, kPlaces)][rope_type_index(call.type())], call,
      shape, params);
}

const RegisterOp kOp{{
    .signature = "rope_3d(q: T[B, L, H, D] row_strided, grid_sizes: I[B, 3], table: S[P, D/2, 2],"
                 " k: T[B, L, G, D]? row_strided = None, *, height_pairs: int = -1,"
                 " width_pairs: int = -1, precision: {exact, fast} = exact)"
                 " -> T[B, L, H, D] row_strided, T[B, L, G, D] row_strided if k",
    .types = "T: f32 f16 bf16; I: i32 i64; S: f64 f32",
    .doc = "Rotary position embedding of video tokens, as Wan 2.1 has it.",
    .formula =
        "grid_sizes[b] = frames, rows, columns; token ((f * rows + r) * columns + c) of sample b "
        "has"
        " the positions f, r, c. Of the D/2 pairs (2i, 2i + 1) the last width_pairs turn by c, the"
        " height_pairs before them by r, the first by f; -1 is a third, rounded down. (a, b) "
        "becomes"
        " (a cos - b sin, b cos + a sin) with cos, sin = table[position][i] (ac4k.rope_3d_table)."
        " Tokens past the grid pass through; a grid of more than L tokens is cut; a position from P"
        " on gives NaN. precision=\"exact\" computes in float64, as PyTorch multiplies complex128, "
        "rounds"
        " to float32 and then to T; \"fast\" computes in float32.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.ones((1, 2, 1, 2), np.float32)\n"
               ">>> quarter_turns = np.array([[[1, 0]], [[0, 1]]], np.float64)\n"
               ">>> ac4k.rope_3d(q, np.array([[2, 1, 1]]), quarter_turns).tolist()\n"
               "[[[[1.0, 1.0]], [[-1.0, 1.0]]]]",
    // As rope; "exact" is far closer, but for its last rounding to float32.
    .tolerance = 1.5,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
