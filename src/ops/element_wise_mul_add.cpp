// element_wise_mul_add: a * b + c.
#include "core/op.hpp"
#include "cpu/kernels.hpp"
#include "cuda/common/mul_add.h"
#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/mul_add";
constexpr int kA = 0, kB = 1, kC = 2;

Status run_cpu(const Call& call) {
  return cpu::mul_add(call.type(), CpuView(call.tensor(kA)), CpuView(call.tensor(kB)),
                      CpuView(call.tensor(kC)), data_of(call.output()));
}

Status run_cuda(const Call& call) {
  static constinit cuda::Kernel vectors[] = {{kModule, "mul_add_f32"},
                                             {kModule, "mul_add_f64"},
                                             {kModule, "mul_add_f16"},
                                             {kModule, "mul_add_bf16"}};
  static constinit cuda::Kernel half[] = {{kModule, "mul_add_half_f32"},
                                          {kModule, "mul_add_half_f64"},
                                          {kModule, "mul_add_half_f16"},
                                          {kModule, "mul_add_half_bf16"}};
  static constinit cuda::Kernel strided[] = {{kModule, "mul_add_strided_f32"},
                                             {kModule, "mul_add_strided_f64"},
                                             {kModule, "mul_add_strided_f16"},
                                             {kModule, "mul_add_strided_bf16"}};
  const auto type = static_cast<size_t>(call.type());
  const DLTensor &a = call.tensor(kA), &b = call.tensor(kB), &c = call.tensor(kC);
  const DLTensor& out = call.output();
  const int64_t num_elements = ac4k::num_elements(out);
  if (is_contiguous(a) && is_contiguous(b) && is_contiguous(c) && all_aligned(a, b, c, out)) {
    const MulAddParams params{data_of(out), data_of(a), data_of(b), data_of(c), num_elements};
    const HalfVectorGrid grid(num_elements * size_of(call.type()), 1);
    if (grid.is_small()) return launch_half_vectors(half[type], call, grid, params);
    const int64_t tile = kMulAddThreads * (kVectorBytes / size_of(call.type()));
    return launch_1d(vectors[type], call, ceil_div(num_elements, tile), kMulAddThreads, params);
  }
  const auto params = strided_params<3>(out, {&a, &b, &c});
  return launch_1d(strided[type], call, ceil_div(num_elements, kMulAddThreads), kMulAddThreads,
                   params);
}

const RegisterOp kOp{{
    .signature = "element_wise_mul_add(a: T[...] strided, b: T[...] strided, c: T[...] strided)"
                 " -> T[...]",
    .types = "T: f32 f64 f16 bf16",
    .doc = "Multiply and add, element by element.",
    .formula = "out = a * b + c, rounded once (16-bit types: fused in float32, then rounded).",
    .example = ">>> import numpy as np\n"
               ">>> a = np.array([1, 2, 3], np.float32)\n"
               ">>> ac4k.element_wise_mul_add(a, a, a).tolist()\n"
               "[2.0, 6.0, 12.0]",
    .tolerance = 1.0,
    .in_place = true,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
