// layer_norm: rows with their mean taken off, divided by their standard deviation.
#include "cpu/norms.hpp"
#include "ops/norms.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/layer_norm";
constexpr int kX = 0, kWeight = 1, kBias = 2, kEps = 3;
constexpr int kN = 0;

Status check(const Call& call) { return check_eps(call, kEps); }

Status run_cpu(const Call& call) {
  const RowView x(call.tensor(kX));
  return cpu::layer_norm({.op = "layer_norm",
                          .type = call.type(),
                          .num_rows = x.num_rows(),
                          .num_columns = call.dim(kN),
                          .x = x,
                          .out = RowView(call.output()),
                          .weight = data_or_null(call, kWeight),
                          .bias = data_or_null(call, kBias),
                          .eps = static_cast<float>(call.real(kEps))});
}

Status run_cuda(const Call& call) {
  static constinit NormKernelTable kernels = AC4K_NORM_KERNELS(kModule, "layer_norm");
  return launch_norm(kernels, call, RowView(call.tensor(kX)), RowView(call.output()),
                     data_or_null(call, kWeight), data_or_null(call, kBias), true, call.dim(kN),
                     static_cast<float>(call.real(kEps)), false);
}

const RegisterOp kOp{{
    .signature = "layer_norm(x: T[..., N] row_strided, weight: T[N]? = None, bias: T[N]? = None,"
                 " eps: float = 1e-5) -> T[..., N] row_strided",
    .types = "T: f32 f16 bf16",
    .doc = "Take off each row's mean, divide by its standard deviation, apply weight and bias.",
    .formula = "out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last dim, var"
               " being the mean of squares, in float32, rounded once. The variance comes from"
               " centred values, so that a large mean costs no digits. A row with a NaN or an"
               " infinity, or whose sum passes the range of float32, is NaN; where only squares"
               " do, all numbers are the bias.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[1, 3]], np.float32)\n"
               ">>> ac4k.layer_norm(x, bias=np.array([5, 5], np.float32), eps=0.0).tolist()\n"
               "[[4.0, 6.0]]",
    .tolerance = 4.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
