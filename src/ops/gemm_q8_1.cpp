// gemm_<fmt>_q8_1: raw GGUF weights times activations in q8_1 blocks, as llama.cpp multiplies them.
#include "ops/gemm_q8_1.hpp"

namespace ac4k {
namespace {

constexpr int kWeight = 0, kActivation = 1;
constexpr int kM = 2, kN = 3, kK = 4;

template <cpu::BlockProductFormat kFormat>
cpu::BlockProduct product_of(const Call& call) {
  const DLTensor& weight = call.tensor(kWeight);
  return {.format = kFormat,
          .weight = static_cast<const uint8_t*>(data_of(weight)),
          .activation = static_cast<const uint8_t*>(data_of(call.tensor(kActivation))),
          .M = call.integer(kM),
          .N = call.integer(kN),
          .num_blocks = call.integer(kK) / cpu::kBlockValues,
          .weight_bytes = weight.shape[weight.ndim - 1],
          .out = static_cast<float*>(data_of(call.output()))};
}
template <cpu::BlockProductFormat kFormat>
Status run_cpu(const Call& call) {
  return cpu::multiply_q8_1(product_of<kFormat>(call));
}
template <cpu::BlockProductFormat kFormat>
Status run_cuda(const Call& call) {
  return multiply_q8_1_on_cuda(call, product_of<kFormat>(call));
}

#define AC4K_SIGNATURE(fmt, bytes)                 \
  "gemm_" fmt "_q8_1(weight_q: u8[M, K/32, " bytes \
  "], activation_q: u8[N, K/32, 36],"              \
  " M: int, N: int, K: int) -> f32[M, N]"
constexpr const char* kFormula =
    "out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],"
    " activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1"
    " blocks keep as the sum of their codes is computed from the codes instead, being exact then.";
#define AC4K_EXAMPLE(fmt, bytes)                   \
  ">>> import numpy as np\n"                       \
  ">>> w, a = np.zeros((2, 1, " bytes              \
  "), np.uint8), np.zeros((3, 1, 36), np.uint8)\n" \
  ">>> ac4k.gemm_" fmt                             \
  "_q8_1(w, a, 2, 3, 32).shape\n"                  \
  "(2, 3)"

const RegisterOp kQ4_0{{.signature = AC4K_SIGNATURE("q4_0", "18"),
                        .types = "",
                        .doc = "Product of raw q4_0 weights and q8_1 activations.",
                        .formula = kFormula,
                        .example = AC4K_EXAMPLE("q4_0", "18"),
                        .tolerance = 4.0,
                        .cpu = run_cpu<cpu::kRawQ4_0>,
                        .cuda = run_cuda<cpu::kRawQ4_0>}};
const RegisterOp kQ4_1{{.signature = AC4K_SIGNATURE("q4_1", "20"),
                        .types = "",
                        .doc = "Product of raw q4_1 weights and q8_1 activations.",
                        .formula = kFormula,
                        .example = AC4K_EXAMPLE("q4_1", "20"),
                        .tolerance = 4.0,
                        .cpu = run_cpu<cpu::kRawQ4_1>,
                        .cuda = run_cuda<cpu::kRawQ4_1>}};
const RegisterOp kQ5_0{{.signature = AC4K_SIGNATURE("q5_0", "22"),
                        .types = "",
                        .doc = "Product of raw q5_0 weights and q8_1 activations.",
                        .formula = kFormula,
                        .example = AC4K_EXAMPLE("q5_0", "22"),
                        .tolerance = 4.0,
                        .cpu = run_cpu<cpu::kRawQ5_0>,
                        .cuda = run_cuda<cpu::kRawQ5_0>}};
const RegisterOp kQ5_1{{.signature = AC4K_SIGNATURE("q5_1", "24"),
                        .types = "",
                        .doc = "Product of raw q5_1 weights and q8_1 activations.",
                        .formula = kFormula,
                        .example = AC4K_EXAMPLE("q5_1", "24"),
                        .tolerance = 4.0,
                        .cpu = run_cpu<cpu::kRawQ5_1>,
                        .cuda = run_cuda<cpu::kRawQ5_1>}};
const RegisterOp kQ8_0{{.signature = AC4K_SIGNATURE("q8_0", "34"),
                        .types = "",
                        .doc = "Product of raw q8_0 weights and q8_1 activations.",
                        .formula = kFormula,
                        .example = AC4K_EXAMPLE("q8_0", "34"),
                        .tolerance = 4.0,
                        .cpu = run_cpu<cpu::kRawQ8_0>,
                        .cuda = run_cuda<cpu::kRawQ8_0>}};

}  // namespace
}  // namespace ac4k
