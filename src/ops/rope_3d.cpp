// rope_3d: rotary position embedding by a token's place in a grid of frames, rows and columns.
#include "core/op.hpp"
#include "ops/rope.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/rope_3d";
constexpr int kQ = 0, kGridSizes = 1, kTable = 2, kK = 3;
constexpr int kHeightPairs = 4, kWidthPairs = 5, kPrecision = 6;
constexpr int kL = 1, kD = 3, kP = 4;      // places of dims in the signature
constexpr int kIntegers = 1, kScalar = 2;  // type variables of grid_sizes and table
constexpr int64_t kDefault = -1;

struct AxisPairs {
  int64_t frames, rows, columns;
};
AxisPairs axis_pairs(const Call& call) {
  const int64_t pairs = call.dim(kD) / 2;
  const int64_t rows = call.integer(kHeightPairs), columns = call.integer(kWidthPairs);
  AxisPairs axes{0, rows == kDefault ? pairs / 3 : rows, columns == kDefault ? pairs / 3 : columns};
  axes.frames = pairs - axes.rows - axes.columns;
  return axes;
}

bool is_exact(const Call& call) { return call.integer(kPrecision) == 0; }

Status check(const Call& call) {
  const int64_t pairs = call.dim(kD) / 2;
  for (const int param : {kHeightPairs, kWidthPairs}) {
    const int64_t value = call.integer(param);
    if (value < kDefault || value > pairs) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
                  call.op.signature.params[static_cast<size_t>(param)].name,
                  "': expected -1 (a third) or 0 to ", pairs, " pairs, got ", value);
    }
  }
  const AxisPairs axes = axis_pairs(call);
  if (axes.frames < 0) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": arguments 'height_pairs', 'width_pairs': expected at most ", pairs,
                " pairs together, got ", axes.rows + axes.columns);
  }
  if (is_exact(call) && call.type(kScalar) != DType::f64) {
    return fail(AC4K_INVALID_TYPE, call.op.signature.name,
                ": argument 'table': expected float64 with precision='exact', got ",
                display_name(call.type(kScalar)));
  }
  return AC4K_OK;
}

RopeTensors tensors_of(const Call& call) {
  return call.has(kK)
             ? RopeTensors(call.tensor(kQ), call.output(0), &call.tensor(kK), &call.output(1))
             : RopeTensors(call.tensor(kQ), call.output(0));
}

Status run_cpu(const Call& call) {
  const RopeTensors tensors = tensors_of(call);
  const AxisPairs axes = axis_pairs(call);
  return cpu::rope_3d(tensors.cpu_args(call.type()),
                      {data_of(call.tensor(kTable)),
                       call.type(kScalar),
                       call.dim(kP),
                       integers_of(call.tensor(kGridSizes), call.type(kIntegers)),
                       call.dim(kL),
                       {axes.frames, axes.rows, axes.columns},
                       is_exact(call)});
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
  const RopeTensors tensors = tensors_of(call);
  const int64_t D = call.dim(kD), vector = kVectorBytes / size_of(call.type());
  const AxisPairs axes = axis_pairs(call);
  Rope3dParams params{};
  params.heads = tensors.cuda_heads();
  params.table = data_of(call.tensor(kTable));
  params.num_positions = call.dim(kP);
  params.grid_sizes = data_of(call.tensor(kGridSizes));
  params.wide_grid = call.type(kIntegers) == DType::i64;
  params.tokens = call.dim(kL);
  params.axis_ends[0] = static_cast<int>(axes.frames);
  params.axis_ends[1] = static_cast<int>(axes.frames + axes.rows);
  RopeShape shape{.num_slots = D / vector, .heads_a_thread = 4, .vectors = true};
  if (D % vector != 0 || !tensors.allows_vectors(call.type()) || !is_aligned(params.table) ||
      !fits_vector_kernel(tensors, shape.num_slots)) {
    shape = {D / 2, 4, false};
  }
  const size_t arithmetic = is_exact(call) ? 0 : call.type(kScalar) == DType::f64 ? 1 : 2;
  return launch_rope(kernels[shape.vectors][arithmetic][rope_type_index(call.type())], call, shape,
                     params);
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
