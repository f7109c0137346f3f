// fused_add_gelu: gelu(x + bias).
#include <bit>

#include "core/op.hpp"
#include "cpu/kernels.hpp"
#include "cuda/common/add_gelu.h"
#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/add_gelu";
constexpr int kX = 0, kBias = 1, kApproximate = 2;
constexpr int kN = 0;  // the dim's place in the signature

int64_t bias_stride(const DLTensor& bias) { return bias.strides ? bias.strides[0] : 1; }

Status run_cpu(const Call& call) {
  const DLTensor& bias = call.tensor(kBias);
  return cpu::add_gelu(call.type(), CpuView(call.tensor(kX)), data_of(bias), bias_stride(bias),
                       data_of(call.output()),
                       call.integer(kApproximate) ? cpu::Gelu::tanh : cpu::Gelu::exact);
}

// x as rows of N elements in a row, one stride between them: what the vector kernel takes.
bool as_rows(const DLTensor& x, int64_t N, int64_t* num_rows, int64_t* row_stride) {
  const auto views = collapse<1>({x.shape, static_cast<size_t>(x.ndim)}, {strides_of(x)});
  if (views.ndim == 0) return false;
  const auto& strides = views.strides[0];
  if (views.ndim == 1 && strides[0] == 1) {  // contiguous
    *num_rows = views.shape[0] / N;
    *row_stride = N;
    return true;
  }
  *num_rows = views.shape[0];
  *row_stride = strides[0];
  return views.ndim == 2 && views.shape[1] == N && strides[1] == 1 && strides[0] >= 0;
}

// A block is 256 threads: as many side by side as a row has vectors, the rest over each other.
Status launch_rows(cuda::Kernel& kernel, const Call& call, AddGeluParams params) {
  const int64_t vectors = params.num_columns * size_of(call.type()) / kVectorBytes;
  const auto width = static_cast<uint32_t>(
      std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, kAddGeluThreads))));
  const uint32_t height = kAddGeluThreads / width;
  const int64_t column_tiles = ceil_div(vectors, width);
  params.column_tiles = fast_divisor(static_cast<uint32_t>(column_tiles));
  const int64_t blocks = column_tiles * ceil_div(params.num_rows, height * kAddGeluRows);
  return launch_1d(kernel, call, blocks, cuda::Dim3{width, height, 1}, params);
}

Status run_cuda(const Call& call) {
  // By approximation, then by DType.
  static constinit cuda::Kernel vectors[2][4] = {{{kModule, "add_gelu_exact_f32"},
                                                  {kModule, "add_gelu_exact_f64"},
                                                  {kModule, "add_gelu_exact_f16"},
                                                  {kModule, "add_gelu_exact_bf16"}},
                                                 {{kModule, "add_gelu_tanh_f32"},
                                                  {kModule, "add_gelu_tanh_f64"},
                                                  {kModule, "add_gelu_tanh_f16"},
                                                  {kModule, "add_gelu_tanh_bf16"}}};
  static constinit cuda::Kernel half[2][4] = {{{kModule, "add_gelu_half_exact_f32"},
                                               {kModule, "add_gelu_half_exact_f64"},
                                               {kModule, "add_gelu_half_exact_f16"},
                                               {kModule, "add_gelu_half_exact_bf16"}},
                                              {{kModule, "add_gelu_half_tanh_f32"},
                                               {kModule, "add_gelu_half_tanh_f64"},
                                               {kModule, "add_gelu_half_tanh_f16"},
                                               {kModule, "add_gelu_half_tanh_bf16"}}};
  static constinit cuda::Kernel strided[2][4] = {{{kModule, "add_gelu_strided_exact_f32"},
                                                  {kModule, "add_gelu_strided_exact_f64"},
                                                  {kModule, "add_gelu_strided_exact_f16"},
                                                  {kModule, "add_gelu_strided_exact_bf16"}},
                                                 {{kModule, "add_gelu_strided_tanh_f32"},
                                                  {kModule, "add_gelu_strided_tanh_f64"},
                                                  {kModule, "add_gelu_strided_tanh_f16"},
                                                  {kModule, "add_gelu_strided_tanh_bf16"}}};
  const DLTensor &x = call.tensor(kX), &bias = call.tensor(kBias), &out = call.output();
  const int64_t N = call.dim(kN), size = size_of(call.type());
  const auto variant = static_cast<size_t>(call.integer(kApproximate));
  const auto type = static_cast<size_t>(call.type());

  int64_t num_rows = 0, row_stride = 0;
  if (as_rows(x, N, &num_rows, &row_stride) && is_contiguous(bias) && all_aligned(x, bias, out) &&
      N * size % kVectorBytes == 0 && row_stride * size % kVectorBytes == 0) {
    const AddGeluParams params{
        data_of(out), data_of(x), data_of(bias), num_rows, row_stride, N, {}};
    const HalfVectorGrid grid(N * size, num_rows);
    if (grid.is_small(row_stride))
      return launch_half_vectors(half[variant][type], call, grid, params);
    return launch_rows(vectors[variant][type], call, params);
  }
  std::array<int64_t, AC4K_MAX_DIMS> bias_strides{};
  bias_strides[static_cast<size_t>(x.ndim) - 1] = bias_stride(bias);
  const auto params =
      strided_params<2>(out, {data_of(x), data_of(bias)}, {strides_of(x), bias_strides});
  return launch_1d(strided[variant][type], call, ceil_div(params.num_elements, kAddGeluThreads),
                   kAddGeluThreads, params);
}

const RegisterOp kOp{{
    .signature = "fused_add_gelu(x: T[..., N] strided, bias: T[N] strided, *,"
                 " approximate: {none, tanh} = none) -> T[..., N]",
    .types = "T: f32 f64 f16 bf16",
    .doc = "Add a bias to the last dim and apply GELU, in one pass.",
    .formula = "y = x + bias; out = y * Phi(y), or with approximate=\"tanh\""
               " 0.5 y (1 + tanh(sqrt(2/pi) (y + 0.044715 y^3))). 16-bit types compute in float32"
               " and round once; +inf gives +inf, -inf and NaN give NaN.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[-1, 0, 1]], np.float64)\n"
               ">>> ac4k.fused_add_gelu(x, np.zeros(3)).round(4).tolist()\n"
               "[[-0.1587, 0.0, 0.8413]]",
    .tolerance = 4.0,
    .in_place = true,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
