// W4A16 products on a GPU: the mixed-input engine that `quant_linear` uses, with its formats.
#include "ops/quant_linear.hpp"
#include "ops/w4a16_gemm.hpp"

namespace ac4k {

Status w4a16_on_cuda(const Call& call, const RowView& x, const W4A16Args& args) {
  return quant_linear_on_cuda(call, x,
                              {.format = args.format,
                               .N = args.N,
                               .K = args.K,
                               .weight = args.weight,
                               .bias = args.bias,
                               .out = args.out,
                               .alpha = args.alpha,
                               .activation = static_cast<int>(args.activation),
                               .residual = args.residual,
                               .config = args.config});
}

// The layout does not matter for what there is.
std::vector<std::string> w4a16_cuda_configs(int device_id, DType type, int64_t M, int64_t N,
                                            int64_t K) {
  std::vector<std::string> names;
  const auto format = type == DType::bf16 ? WeightFormat::w4_g128_bf16 : WeightFormat::w4_g128_f16;
  if (quant_linear_configs(device_id, format, M, N, K, &names) != AC4K_OK) names = {"auto"};
  return names;
}

// Blocks of a cluster add up in shared memory.
int64_t w4a16_cuda_workspace(int, int64_t, int64_t, int64_t) { return 0; }

}  // namespace ac4k
