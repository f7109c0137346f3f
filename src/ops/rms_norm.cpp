// rms_norm: rows divided by their root mean square.
#include "cpu/norms.hpp"
#include "ops/norms.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/rms_norm";
constexpr int kX = 0, kWeight = 1, kEps = 2, kCastFirst = 3;
constexpr int kN = 0;

Status check(const Call& call) { return check_eps(call, kEps); }

Status run_cpu(const Call& call) {
  const RowView x(call.tensor(kX));
  return cpu::rms_norm({.op = "rms_norm",
                        .type = call.type(),
                        .num_rows = x.num_rows(),
                        .num_columns = call.dim(kN),
                        .x = x,
                        .out = RowView(call.output()),
                        .weight = data_or_null(call, kWeight),
                        .eps = static_cast<float>(call.real(kEps)),
                        .cast_first = call.integer(kCastFirst) != 0});
}

Status run_cuda(const Call& call) {
  static constinit NormKernelTable kernels = AC4K_NORM_KERNELS(kModule, "rms_norm");
  return launch_norm(kernels, call, RowView(call.tensor(kX)), RowView(call.output()),
                     data_or_null(call, kWeight), nullptr, false, call.dim(kN),
                     static_cast<float>(call.real(kEps)), call.integer(kCastFirst) != 0);
}

const RegisterOp kOp{{
    .signature = "rms_norm(x: T[..., N] row_strided, weight: T[N]? = None, eps: float = 1e-6, *,"
                 " cast_first: bool = False) -> T[..., N] row_strided",
    .types = "T: f32 f16 bf16",
    .doc = "Divide each row by its root mean square and multiply it with a weight.",
    .formula = "out = x / sqrt(mean(x^2) + eps) * weight over the last dim, in float32, rounded"
               " once. cast_first rounds to x's dtype before the weight comes in, as Transformers'"
               " Qwen3 and Llama layers do. A row with a NaN is NaN; one with an infinity is NaN"
               " there and 0 elsewhere; one whose squares pass the range of float32 is 0.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[2, -2]], np.float32)\n"
               ">>> ac4k.rms_norm(x, np.array([1, 3], np.float32), eps=0.0).tolist()\n"
               "[[1.0, -3.0]]",
    .tolerance = 4.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
