// quant_linear: activations times packed block-quantised weights.
#include "ops/quant_linear.hpp"

#include "core/op.hpp"
#include "cpu/linear.hpp"
#include "ops/rows.hpp"
#include "ops/weight_formats.hpp"

namespace ac4k {
namespace {

constexpr int kX = 0, kWeight = 1, kBias = 2, kFormat = 4, kConfig = 5;
constexpr int kK = 0, kN = 1;  // dims in the order the signature names them

WeightFormat format_of(const Call& call) {
  return static_cast<WeightFormat>(call.integer(kFormat));
}

Status check(const Call& call) {
  AC4K_TRY(check_block_multiple(call, "x", format_of(call), call.dim(kK)));
  if (call.integer(kConfig) >= 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name,
              ": argument 'config': expected 0 or a number of quant_linear_configs, got ",
              call.integer(kConfig));
}

Status run_cpu(const Call& call) {
  if (call.integer(kConfig) != 0) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'config': expected 0 on the CPU, got ", call.integer(kConfig));
  }
  const RowView x(call.tensor(kX));
  return cpu::linear({.op = "quant_linear",
                      .format = format_of(call),
                      .type = call.type(),
                      .num_tokens = x.num_rows(),
                      .N = call.dim(kN),
                      .K = call.dim(kK),
                      .x = x,
                      .weight = static_cast<const uint8_t*>(data_of(call.tensor(kWeight))),
                      .bias = call.has(kBias) ? data_of(call.tensor(kBias)) : nullptr,
                      .out = data_of(call.output())});
}

Status run_cuda(const Call& call) {
  return quant_linear_on_cuda(call, RowView(call.tensor(kX)),
                              {.format = format_of(call),
                               .N = call.dim(kN),
                               .K = call.dim(kK),
                               .weight = data_of(call.tensor(kWeight)),
                               .bias = call.has(kBias) ? data_of(call.tensor(kBias)) : nullptr,
                               .out = data_of(call.output()),
                               .config = call.integer(kConfig)});
}

const RegisterOp kOp{{
    .signature = "quant_linear(x: T[..., K] row_strided, weight: u8[" AC4K_PACKED_SHAPE "],"
                 " bias: T[N]? = None, *, N: int, fmt: " AC4K_FORMAT_CHOICE
                 ", config: int = 0) -> T[..., N]",
    .types = "T: f32 f16 bf16",
    .doc = "Linear layer with packed block-quantised weights; see `linear`.",
    .formula =
        "out = x W^T + bias with the values W [N, K] of the blocks that `pack_weight` was"
        " given. Activations are not quantised: as exact as the product of 16-bit numbers"
        " with sums in float32, rounded once; a GPU may round W to the type of x, so that with"
        " float16 it has to lie within its range. config chooses a kernel as"
        " `quant_linear_configs` numbers them; 0 leaves it to the library.",
    .example =
        ">>> import numpy as np\n"
        ">>> q = np.zeros((2, 1, 18), np.uint8)\n"
        ">>> q[..., :2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)\n"
        ">>> w = ac4k.pack_weight(q, 2, 32, fmt=\"q4_0\")  # all values 0.5 * (0 - 8)\n"
        ">>> ac4k.quant_linear(np.ones((1, 32), np.float32), w, N=2, fmt=\"q4_0\").tolist()\n"
        "[[-128.0, -128.0]]",
    .tolerance = 4.0,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
