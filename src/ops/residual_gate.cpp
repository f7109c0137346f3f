// residual_gate: x + gate * y, the gate broadcast over tokens.
#include "cuda/common/residual_gate.h"

#include "core/op.hpp"
#include "cpu/kernels.hpp"
#include "cuda/common/mul_add.h"
#include "ops/activations.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/residual_gate";
constexpr const char* kMulAddModule = "common/mul_add";
constexpr int kX = 0, kY = 1, kGate = 2;

// The gate's strides over the shape of x: nothing moves along the tokens.
std::array<int64_t, AC4K_MAX_DIMS> gate_strides(const Call& call) {
  const DLTensor& gate = call.tensor(kGate);
  auto strides = strides_of(gate);
  const auto columns = static_cast<size_t>(gate.ndim) - 1;
  strides[columns + 1] = strides[columns];
  strides[columns] = 0;
  return strides;
}

Status run_cpu(const Call& call) {
  const CpuView x(call.tensor(kX));
  const auto strides = gate_strides(call);
  const cpu::View gate{data_of(call.tensor(kGate)), x.ndim, x.shape, strides.data()};
  return cpu::mul_add(call.type(), gate, CpuView(call.tensor(kY)), x, data_of(call.output()));
}

Status run_cuda(const Call& call) {
  static constinit cuda::Kernel vectors[] = {{kModule, "residual_gate_f32"},
                                             {kModule, "residual_gate_f16"},
                                             {kModule, "residual_gate_bf16"}};
  static constinit cuda::Kernel half[] = {{kModule, "residual_gate_half_f32"},
                                          {kModule, "residual_gate_half_f16"},
                                          {kModule, "residual_gate_half_bf16"}};
  static constinit cuda::Kernel strided[] = {{kMulAddModule, "mul_add_strided_f32"},
                                             {kMulAddModule, "mul_add_strided_f16"},
                                             {kMulAddModule, "mul_add_strided_bf16"}};
  const DLTensor &x = call.tensor(kX), &y = call.tensor(kY), &gate = call.tensor(kGate);
  const DLTensor& out = call.output();
  const size_t type = activation_column(call.type());
  const int64_t size = size_of(call.type());
  const int64_t num_tokens = x.shape[x.ndim - 2], num_columns = x.shape[x.ndim - 1];
  SimpleRows gates;
  if (is_contiguous(x) && is_contiguous(y) && all_aligned(x, y, gate, out) &&
      num_columns * size % kVectorBytes == 0 && as_simple_rows(gate, &gates) &&
      gates.stride * size % kVectorBytes == 0) {
    const BlockOfRows block(num_columns * size / kVectorBytes, gates.count * num_tokens,
                            kResidualGateThreads);
    const int64_t token_tiles = ceil_div(num_tokens, block.height);
    const ResidualGateParams params{data_of(out),
                                    data_of(x),
                                    data_of(y),
                                    data_of(gate),
                                    num_tokens,
                                    num_columns,
                                    gates.stride,
                                    fast_divisor(static_cast<uint32_t>(block.column_tiles)),
                                    fast_divisor(static_cast<uint32_t>(token_tiles))};
    const HalfVectorGrid grid(num_columns * size, num_tokens, gates.count);
    if (grid.is_small(gates.stride)) return launch_half_vectors(half[type], call, grid, params);
    return launch_1d(vectors[type], call, gates.count * token_tiles * block.column_tiles,
                     cuda::Dim3{block.width, block.height, 1}, params);
  }
  const auto params = strided_params<3>(out, {data_of(gate), data_of(y), data_of(x)},
                                        {gate_strides(call), strides_of(y), strides_of(x)});
  return launch_1d(strided[type], call, ceil_div(params.num_elements, kMulAddThreads),
                   kMulAddThreads, params);
}

const RegisterOp kOp{{
    .signature = "residual_gate(x: T[..., S, N] strided, y: T[..., S, N] strided,"
                 " gate: T[..., N] strided) -> T[..., S, N]",
    .types = "T: f32 f16 bf16",
    .doc = "Add y, gated, to the residual x; one gate for all S tokens.",
    .formula = "out = x + gate * y, fused in float32 and rounded once. gate has the shape of x"
               " without the tokens: [B, N] for x [B, S, N], [N] for [S, N]. A gate [B, 1, N] is"
               " passed as gate[:, 0], one gate [N] for a batch as gate.expand(B, N): any strides"
               " will do. A gate for each token is element_wise_mul_add(gate, y, x).",
    .example = ">>> import numpy as np\n"
               ">>> x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)\n"
               ">>> ac4k.residual_gate(x, y, np.array([0, 1, -1], np.float32)).tolist()\n"
               "[[1.0, 3.0, -1.0], [1.0, 3.0, -1.0]]",
    .tolerance = 1.0,
    .in_place = true,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
