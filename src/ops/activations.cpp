// silu_and_mul, gelu_and_mul and relu2.
#include "ops/activations.hpp"

#include "core/op.hpp"
#include "cpu/kernels.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/activations";
constexpr int kX = 0, kApproximate = 1;

struct GatedKernels {
  cuda::Kernel vectors[3], half[3], strided[3];
};

Status launch_gated(GatedKernels& kernels, const Call& call) {
  const DLTensor &x = call.tensor(kX), &out = call.output();
  const size_t type = activation_column(call.type());
  const int64_t size = size_of(call.type());
  const auto last = static_cast<size_t>(x.ndim) - 1;
  const int64_t D = out.shape[last];
  SimpleRows rows;
  if (as_simple_rows(x, &rows) && all_aligned(x, out) && D * size % kVectorBytes == 0 &&
      rows.stride * size % kVectorBytes == 0) {
    return launch_rows(kernels.vectors[type], kernels.half[type], call,
                       {data_of(out), data_of(x), rows.count, rows.stride, D, {}});
  }
  const auto strides = strides_of(x);
  const char* first = static_cast<const char*>(data_of(x));
  const auto params =
      strided_params<2>(out, {first, first + D * strides[last] * size}, {strides, strides});
  return launch_1d(kernels.strided[type], call, ceil_div(params.num_elements, kActivationThreads),
                   kActivationThreads, params);
}

Status silu_cpu(const Call& call) {
  return cpu::gated(call.type(), CpuView(call.tensor(kX)), data_of(call.output()), cpu::Gate::silu);
}
Status silu_cuda(const Call& call) {
  static constinit GatedKernels kernels{{{kModule, "silu_and_mul_f32"},
                                         {kModule, "silu_and_mul_f16"},
                                         {kModule, "silu_and_mul_bf16"}},
                                        {{kModule, "silu_and_mul_half_f32"},
                                         {kModule, "silu_and_mul_half_f16"},
                                         {kModule, "silu_and_mul_half_bf16"}},
                                        {{kModule, "silu_and_mul_strided_f32"},
                                         {kModule, "silu_and_mul_strided_f16"},
                                         {kModule, "silu_and_mul_strided_bf16"}}};
  return launch_gated(kernels, call);
}

Status gelu_cpu(const Call& call) {
  return cpu::gated(call.type(), CpuView(call.tensor(kX)), data_of(call.output()),
                    call.integer(kApproximate) ? cpu::Gate::gelu_tanh : cpu::Gate::gelu_exact);
}
Status gelu_cuda(const Call& call) {
  static constinit GatedKernels exact{{{kModule, "gelu_exact_and_mul_f32"},
                                       {kModule, "gelu_exact_and_mul_f16"},
                                       {kModule, "gelu_exact_and_mul_bf16"}},
                                      {{kModule, "gelu_exact_and_mul_half_f32"},
                                       {kModule, "gelu_exact_and_mul_half_f16"},
                                       {kModule, "gelu_exact_and_mul_half_bf16"}},
                                      {{kModule, "gelu_exact_and_mul_strided_f32"},
                                       {kModule, "gelu_exact_and_mul_strided_f16"},
                                       {kModule, "gelu_exact_and_mul_strided_bf16"}}};
  static constinit GatedKernels tanh{{{kModule, "gelu_tanh_and_mul_f32"},
                                      {kModule, "gelu_tanh_and_mul_f16"},
                                      {kModule, "gelu_tanh_and_mul_bf16"}},
                                     {{kModule, "gelu_tanh_and_mul_half_f32"},
                                      {kModule, "gelu_tanh_and_mul_half_f16"},
                                      {kModule, "gelu_tanh_and_mul_half_bf16"}},
                                     {{kModule, "gelu_tanh_and_mul_strided_f32"},
                                      {kModule, "gelu_tanh_and_mul_strided_f16"},
                                      {kModule, "gelu_tanh_and_mul_strided_bf16"}}};
  return launch_gated(call.integer(kApproximate) ? tanh : exact, call);
}

Status relu2_cpu(const Call& call) {
  return cpu::relu2(call.type(), CpuView(call.tensor(kX)), data_of(call.output()));
}
Status relu2_cuda(const Call& call) {
  static constinit cuda::Kernel vectors[] = {
      {kModule, "relu2_f32"}, {kModule, "relu2_f16"}, {kModule, "relu2_bf16"}};
  static constinit cuda::Kernel half[] = {
      {kModule, "relu2_half_f32"}, {kModule, "relu2_half_f16"}, {kModule, "relu2_half_bf16"}};
  static constinit cuda::Kernel strided[] = {{kModule, "relu2_strided_f32"},
                                             {kModule, "relu2_strided_f16"},
                                             {kModule, "relu2_strided_bf16"}};
  const DLTensor &x = call.tensor(kX), &out = call.output();
  const size_t type = activation_column(call.type());
  const int64_t size = size_of(call.type()), N = x.shape[x.ndim - 1];
  SimpleRows rows;
  if (all_aligned(x, out)) {
    if (as_simple_rows(x, &rows) && N * size % kVectorBytes == 0 &&
        rows.stride * size % kVectorBytes == 0) {
      return launch_rows(vectors[type], half[type], call,
                         {data_of(out), data_of(x), rows.count, rows.stride, N, {}});
    }
    if (is_contiguous(x)) {
      return launch_rows(vectors[type], half[type], call,
                         {data_of(out), data_of(x), 1, 0, num_elements(x), {}});
    }
  }
  const auto params = strided_params<1>(out, {&x});
  return launch_1d(strided[type], call, ceil_div(params.num_elements, kActivationThreads),
                   kActivationThreads, params);
}

const RegisterOp kSiluAndMul{{
    .signature = "silu_and_mul(x: T[..., D*2] strided) -> T[..., D]",
    .types = "T: f32 f16 bf16",
    .doc = "SiLU of the first half of the last dim, times the second half.",
    .formula = "a, b = x[..., :D], x[..., D:]; out = a / (1 + exp(-a)) * b, in float32 and rounded"
               " once. a = +inf gives inf * b; a = -inf and NaN give NaN, as in PyTorch.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[0, 1, -1, 3, 2, 4]], np.float32)\n"
               ">>> ac4k.silu_and_mul(x).round(4).tolist()\n"
               "[[0.0, 1.4621000289916992, -1.0757999420166016]]",
    .tolerance = 8.0,
    .cpu = silu_cpu,
    .cuda = silu_cuda,
}};

const RegisterOp kGeluAndMul{{
    .signature = "gelu_and_mul(x: T[..., D*2] strided, *, approximate: {none, tanh} = none)"
                 " -> T[..., D]",
    .types = "T: f32 f16 bf16",
    .doc = "GELU of the first half of the last dim, times the second half.",
    .formula = "a, b = x[..., :D], x[..., D:]; out = a * Phi(a) * b, or with approximate=\"tanh\""
               " 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) * b, in float32 and rounded once."
               " a = +inf gives inf * b; a = -inf and NaN give NaN.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[-1, 0, 1, 2, 2, 2]], np.float32)\n"
               ">>> ac4k.gelu_and_mul(x).astype(float).round(3).tolist()\n"
               "[[-0.317, 0.0, 1.683]]",
    .tolerance = 4.0,
    .cpu = gelu_cpu,
    .cuda = gelu_cuda,
}};

const RegisterOp kRelu2{{
    .signature = "relu2(x: T[..., N] strided) -> T[..., N]",
    .types = "T: f32 f16 bf16",
    .doc = "The square of ReLU.",
    .formula = "out = max(x, 0)^2, in float32 and rounded once. +inf gives +inf, -inf gives 0, NaN"
               " stays NaN.",
    .example = ">>> import numpy as np\n"
               ">>> ac4k.relu2(np.array([-2, 0, 3], np.float32)).tolist()\n"
               "[0.0, 0.0, 9.0]",
    .tolerance = 1.0,
    .in_place = true,
    .cpu = relu2_cpu,
    .cuda = relu2_cuda,
}};

}  // namespace
}  // namespace ac4k
