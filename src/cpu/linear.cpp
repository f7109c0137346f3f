// Products with packed weights: which way to go.
#include "cpu/linear.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>

#include "cpu/kernels.hpp"
#include "cpu/linear_plan.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

// With AMX and bf16 tokens, where tiles are fast: the border depends on what a format costs to
// widen. 4-bit weights are widened by a table, others by arithmetic; the integers of q2_k and
// q3_k are the cheapest.
int64_t most_few_tokens_for_tiles(WeightFormat format) {
  switch (format) {
    case WeightFormat::q2_k:
    case WeightFormat::q3_k:
      return 8;
    case WeightFormat::nvfp4:
      return 6;
    case WeightFormat::q4_1:
    case WeightFormat::q5_0:
    case WeightFormat::q5_1:
    case WeightFormat::q8_0:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
    case WeightFormat::q6_k:
      return 5;
    default:
      return 4;
  }
}

// Up to this many tokens integer products are faster than widened weights; measured. Integers take
// four tokens at a time, widened weights 16, and products of float32 take longest. The integers of
// q2_k and q3_k are the cheapest.
int64_t most_few_tokens(DType type, WeightFormat format) {
  if (active_isa() == Isa::generic) return 4;
  const bool cheap = format == WeightFormat::q2_k || format == WeightFormat::q3_k;
  switch (panel_kernels(type == DType::bf16 ? kBF16 : kF32).kind) {
    case PieceKind::bf16:
      return active_isa() == Isa::amx ? most_few_tokens_for_tiles(format) : cheap ? 12 : 10;
    case PieceKind::split_bf16:
      return 10;
    case PieceKind::f32:
      break;
  }
  return 24;
}

Status no_memory(const LinearProblem& problem, int64_t bytes) {
  return fail(AC4K_OUT_OF_MEMORY, problem.args.op, ": no memory for ", bytes,
              " bytes of activations");
}

// Sums over nothing.
void write_no_sums(const LinearProblem& problem) {
  float bias[kPackedRows];
  for (int64_t row = 0; row < problem.args.N; row += kPackedRows) {
    const int64_t rows = std::min<int64_t>(kPackedRows, problem.args.N - row);
    load_bias(problem, row, rows, bias);
    for (int64_t token = 0; token < problem.args.num_tokens; ++token) {
      float sums[kPackedRows] = {};
      write_run(problem, token, row, rows, bias, sums);
    }
  }
}

void activate(LinearActivation activation, float* values, int64_t count) {
  alignas(64) static constexpr auto kOnes = [] {
    std::array<float, kMaxOutputRun> ones;
    ones.fill(1.0f);
    return ones;
  }();
  const ActivationKernels& runs = *kernels().activations;
  const auto run = activation == LinearActivation::silu   ? runs.silu_and_mul
                   : activation == LinearActivation::gelu ? runs.gelu_and_mul_exact
                                                          : runs.gelu_and_mul_tanh;
  run[kF32](values, kOnes.data(), values, count);
}

// As if they were few, however many are asked for: some at a time.
Status run_few_tokens(const LinearProblem& problem) {
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = 0; first < problem.args.num_tokens; first += kAtOnce) {
    LinearProblem part = problem;
    part.args.num_tokens = std::min(kAtOnce, problem.args.num_tokens - first);
    part.args.x.data += first * problem.x_stride * element_bytes(problem.element);
    part.args.out = problem.out(first, 0);
    if (part.args.residual != nullptr) part.args.residual = problem.residual(first, 0);
    const int64_t bytes = few_tokens_bytes(part);
    char* memory = static_cast<char*>(workspace(static_cast<std::size_t>(bytes)));
    if (memory == nullptr) return no_memory(problem, bytes);
    bool done = false;
    AC4K_TRY(linear_few_tokens(part, memory, &done));
    if (!done) AC4K_TRY(linear_many_tokens(part, *kernels().linear->exact, &done));
  }
  release_workspace();
  return AC4K_OK;
}

Status run(const LinearProblem& problem) {
  // Infinities and NaN are for float32 alone.
  const PanelKernels& exact = *kernels().linear->exact;
  LinearPath path = problem.args.path;
  if (path == LinearPath::automatic)
    path = path_for(problem.args.type, problem.args.format, problem.args.num_tokens);
  bool done = false;
  if (path == LinearPath::float32) return linear_many_tokens(problem, exact, &done);
  if (path == LinearPath::few_tokens) return run_few_tokens(problem);
  AC4K_TRY(linear_many_tokens(problem, panel_kernels(problem.element), &done));
  return done ? AC4K_OK : linear_many_tokens(problem, exact, &done);
}

}  // namespace

void load_bias(const LinearProblem& problem, int64_t row, int64_t count, float* bias) {
  if (problem.args.bias == nullptr) {
    std::fill_n(bias, count, 0.0f);
    return;
  }
  const char* from =
      static_cast<const char*>(problem.args.bias) + row * element_bytes(problem.element);
  kernels().few_rows[problem.element]->widen(from, 1, count, bias);
}

void write_run(const LinearProblem& problem, int64_t token, int64_t row, int64_t count,
               const float* bias, float* sums) {
  const LinearArgs& args = problem.args;
  const FewRowsKernels& convert = *kernels().few_rows[problem.element];
  kernels().linear->tokens.scale(sums, args.alpha, bias, count);
  if (args.activation != LinearActivation::none) activate(args.activation, sums, count);
  if (args.residual != nullptr) {
    alignas(64) float residual[kMaxOutputRun];
    convert.widen(problem.residual(token, row), 1, count, residual);
    for (int64_t i = 0; i < count; ++i) sums[i] += residual[i];
  }
  convert.narrow(sums, problem.out(token, row), count);
}

LinearPath path_for(DType type, WeightFormat format, int64_t num_tokens) {
  return num_tokens <= most_few_tokens(type, format) ? LinearPath::few_tokens
                                                     : LinearPath::many_tokens;
}

Status linear(const LinearArgs& args) {
  LinearProblem problem{args, kF32, 0};
  AC4K_TRY(find_element(args.op, args.type, &problem.element));
  if (args.num_tokens <= 0 || args.N <= 0) return AC4K_OK;
  if (args.K <= 0) {
    write_no_sums(problem);
    return AC4K_OK;
  }
  const int64_t size = element_bytes(problem.element);
  const int64_t row_bytes = args.K * size;
  if (args.x.num_levels == 1 && args.x.strides[0] % size == 0) {
    problem.x_stride = args.num_tokens == 1 ? args.K : args.x.strides[0] / size;
    return run(problem);
  }
  // Rows at irregular distances are moved together first.
  const int64_t bytes = args.num_tokens * row_bytes;
  const std::unique_ptr<char[]> copy(new (std::nothrow) char[static_cast<std::size_t>(bytes) + 1]);
  if (copy == nullptr) return no_memory(problem, bytes);
  for (int64_t token = 0; token < args.num_tokens; ++token) {
    std::memcpy(copy.get() + token * row_bytes, args.x.row(token),
                static_cast<std::size_t>(row_bytes));
  }
  problem.args.x = Rows{};
  problem.args.x.data = copy.get();
  problem.x_stride = args.K;
  return run(problem);
}

}  // namespace ac4k::cpu
