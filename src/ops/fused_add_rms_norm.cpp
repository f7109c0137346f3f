// fused_add_rms_norm: a residual is added, then rows are divided by their root mean square.
#include "cpu/norms.hpp"
#include "ops/norms.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/add_rms_norm";
constexpr int kX = 0, kResidual = 1, kWeight = 2, kEps = 3, kCastFirst = 4;
constexpr int kOut = 0, kSum = 1;
constexpr int kN = 0;

Status check(const Call& call) { return check_eps(call, kEps); }

Status run_cpu(const Call& call) {
  const RowView x(call.tensor(kX));
  return cpu::add_rms_norm({.op = "fused_add_rms_norm",
                            .type = call.type(),
                            .num_rows = x.num_rows(),
                            .num_columns = call.dim(kN),
                            .x = x,
                            .out = RowView(call.output(kOut)),
                            .weight = data_or_null(call, kWeight),
                            .eps = static_cast<float>(call.real(kEps)),
                            .cast_first = call.integer(kCastFirst) != 0,
                            .residual = RowView(call.tensor(kResidual)),
                            .sum = RowView(call.output(kSum))});
}

Status run_cuda(const Call& call) {
  static constinit NormKernelTable kernels = AC4K_NORM_KERNELS(kModule, "add_rms_norm");
  const RowView x(call.tensor(kX)), residual(call.tensor(kResidual));
  const RowView out(call.output(kOut)), sum(call.output(kSum));
  const void* weight = data_or_null(call, kWeight);
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  const NormPlan plan(kRowVariants, call.dim(kN), size_of(call.type()),
                      x.is_aligned() && residual.is_aligned() && out.is_aligned() &&
                          sum.is_aligned() && is_aligned(weight));
  AddNormParams params{.part = norm_part(x, out, weight, nullptr, call.dim(kN)),
                       .residual = residual.data(),
                       .sum = sum.data(),
                       .residual_rows = residual.offsets(),
                       .sum_rows = sum.offsets(),
                       .eps = static_cast<float>(call.real(kEps)),
                       .cast_first = call.integer(kCastFirst) != 0};
  params.part.plain = is_plain(plan, params);
  return launch_1d(kernels[plan.kernel][norm_type(call.type())], call,
                   ceil_div(x.num_rows(), plan.rows_per_block), plan.block, params);
}

const RegisterOp kOp{{
    .signature = "fused_add_rms_norm(x: T[..., N] row_strided, residual: T[..., N] row_strided,"
                 " weight: T[N]? = None, eps: float = 1e-6, *, cast_first: bool = False)"
                 " -> T[..., N] row_strided, T[..., N] row_strided",
    .types = "T: f32 f16 bf16",
    .doc = "Add a residual and divide each row by its root mean square, in one pass.",
    .formula = "new_residual = x + residual, rounded to the dtype; y = rms_norm(new_residual,"
               " weight, eps, cast_first=cast_first), bit by bit. Returns (y, new_residual);"
               " out=(x, residual) works in place.",
    .example =
        ">>> import numpy as np\n"
        ">>> x, residual = np.array([[3, -1]], np.float32), np.array([[-1, 3]], np.float32)\n"
        ">>> y, new_residual = ac4k.fused_add_rms_norm(x, residual, eps=0.0)\n"
        ">>> y.tolist(), new_residual.tolist()\n"
        "([[1.0, 1.0]], [[2.0, 2.0]])",
    .tolerance = 4.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
