// w4a16_gemm: 16-bit activations times packed 4-bit weights, and what usually follows.
#include "ops/w4a16_gemm.hpp"

#include "cpu/linear.hpp"

namespace ac4k {
namespace {

constexpr int kX = 0, kPacked = 1, kBias = 2, kAlpha = 3, kResidual = 4, kLayout = 6,
              kActivation = 7, kConfig = 8;
constexpr int kK = 0, kN = 1;  // dims in the order the signature names them

WeightFormat format_of(const Call& call) { return w4_format(call.integer(kLayout), call.type()); }

Status check(const Call& call) {
  const WeightFormat format = format_of(call);
  const int64_t K = call.dim(kK);
  const int values = block_of(format).values;
  if (values != 128 && K % values != 0) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'x': expected K to be a multiple of ", values,
                ", as groups of the layout are, got ", K);
  }
  if (call.integer(kConfig) < 0) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'config': expected 0 or a number of W4A16Runner.configs, got ",
                call.integer(kConfig));
  }
  return AC4K_OK;
}

W4A16Args args_of(const Call& call) {
  const auto optional = [&](int i) { return call.has(i) ? data_of(call.tensor(i)) : nullptr; };
  return {.format = format_of(call),
          .N = call.dim(kN),
          .K = call.dim(kK),
          .weight = data_of(call.tensor(kPacked)),
          .bias = optional(kBias),
          .residual = optional(kResidual),
          .out = data_of(call.output()),
          .alpha = static_cast<float>(call.real(kAlpha)),
          .activation = static_cast<W4Activation>(call.integer(kActivation)),
          .config = call.integer(kConfig)};
}

Status run_cpu(const Call& call) {
  const RowView x(call.tensor(kX));
  const W4A16Args args = args_of(call);
  if (args.config >= kNumW4CpuConfigs) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'config': expected one of 0 to ", kNumW4CpuConfigs - 1,
                " on the CPU, got ", args.config);
  }
  return cpu::linear({.op = "w4a16_gemm",
                      .format = args.format,
                      .type = call.type(),
                      .num_tokens = x.num_rows(),
                      .N = args.N,
                      .K = args.K,
                      .x = x,
                      .weight = static_cast<const uint8_t*>(args.weight),
                      .bias = args.bias,
                      .out = args.out,
                      .alpha = args.alpha,
                      .activation = static_cast<cpu::LinearActivation>(args.activation),
                      .residual = args.residual,
                      .path = static_cast<cpu::LinearPath>(args.config)});
}

Status run_cuda(const Call& call) {
  return w4a16_on_cuda(call, RowView(call.tensor(kX)), args_of(call));
}

const RegisterOp kOp{{
    .signature = "w4a16_gemm(x: T[..., K] row_strided, packed: u8[" AC4K_W4_SHAPE
                 "], bias: T[N]? = None, alpha: float = 1.0, residual: T[..., N]? = None, *,"
                 " N: int, layout: " AC4K_W4_CHOICE " = g128,"
                 " activation: {none, silu, gelu, gelu_tanh} = none, config: int = 0)"
                 " -> T[..., N]",
    .types = "T: f16 bf16",
    .doc = "Linear layer with packed 4-bit weights and 16-bit activations; see `w4a16_linear`.",
    .formula = "out = activation(alpha * x W^T + bias) + residual with the weights W [N, K] that"
               " `w4a16_pack_weight` was given, whose scales have x's dtype. Sums in float32,"
               " rounded once. config chooses a kernel as `W4A16Runner.configs` numbers them; 0"
               " leaves it to the library. `out` may be `residual`.",
    .example = ">>> import numpy as np\n"
               ">>> q, scales = np.full((2, 128), 9, np.uint8), np.full((2, 1), 0.5, np.float16)\n"
               ">>> w = ac4k.w4a16_pack_weight(q, scales)  # all values 0.5 * (9 - 8)\n"
               ">>> ac4k.w4a16_gemm(np.ones((1, 128), np.float16), w, N=2).tolist()\n"
               "[[64.0, 64.0]]",
    .tolerance = 4.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
