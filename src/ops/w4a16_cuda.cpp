// W4A16 products on a GPU: the mixed-input engine that `quant_linear` uses, with its formats.
#include "ops/quant_linear.hpp"
#include "ops/w4a16_gemm.hpp"

namespace ac4k {

Status w4a16_on_cuda(const Call& call, const RowView& x, const W4A16Args& args) {
  const bool plain = args.alpha == 1.0f && args.activation == W4Activation::none &&
                     args.residual == nullptr && args.config == 0;
  if (!plain) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name,
                ": on a GPU expected alpha = 1, no activation, no residual and config = 0");
  }
  return quant_linear_on_cuda(call, x,
                              {.format = args.format,
                               .N = args.N,
                               .K = args.K,
                               .weight = args.weight,
                               .bias = args.bias,
                               .out = args.out});
}

std::vector<std::string> w4a16_cuda_configs(int, DType, int64_t, int64_t, int64_t) {
  return {"auto"};
}

// Blocks of a cluster add up in shared memory.
int64_t w4a16_cuda_workspace(int, int64_t, int64_t, int64_t) { return 0; }

}  // namespace ac4k
