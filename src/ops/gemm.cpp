// gemm: the dense matrix product.
#include "cuda/common/gemm.h"

#include "core/op.hpp"
#include "core/strided.hpp"
#include "cpu/kernels.hpp"
#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/gemm";
constexpr int kA = 0, kB = 1;
constexpr int kM = 0, kK = 1, kN = 2;  // dims in the order the signature names them

Status run_cpu(const Call& call) {
  const DLTensor &a = call.tensor(kA), &b = call.tensor(kB);
  const auto a_strides = strides_of(a), b_strides = strides_of(b);
  return cpu::gemm({.type = call.type(),
                    .M = call.dim(kM),
                    .N = call.dim(kN),
                    .K = call.dim(kK),
                    .a = data_of(a),
                    .a_row_stride = a_strides[0],
                    .a_col_stride = a_strides[1],
                    .b = data_of(b),
                    .b_row_stride = b_strides[0],
                    .b_col_stride = b_strides[1],
                    .c = data_of(call.output()),
                    .c_row_stride = call.dim(kN)});
}

Status run_cuda(const Call& call) {
  static constinit cuda::Kernel kernels[] = {
      {kModule, "gemm_f32"}, {kModule, "gemm_f64"}, {kModule, "gemm_f16"}, {kModule, "gemm_bf16"}};
  const DLTensor &a = call.tensor(kA), &b = call.tensor(kB);
  const auto a_strides = strides_of(a), b_strides = strides_of(b);
  const GemmParams params{data_of(call.output()), data_of(a),   data_of(b),   call.dim(kM),
                          call.dim(kN),           call.dim(kK), a_strides[0], a_strides[1],
                          b_strides[0],           b_strides[1]};
  const int64_t column_tiles = ceil_div(params.N, kGemmTile);
  const int64_t blocks = column_tiles * ceil_div(params.M, kGemmTile);
  return launch_1d(kernels[static_cast<size_t>(call.type())], call, blocks, kGemmThreads, params);
}

const RegisterOp kOp{{
    .signature = "gemm(A: T[M, K] strided, B: T[K, N] strided) -> T[M, N]",
    .types = "T: f32 f64 f16 bf16",
    .doc = "Matrix product.",
    .formula = "out = A B. Sums are kept in float32 (float64 for float64) and rounded once; A and B"
               " may be transposed or otherwise strided views.",
    .example = ">>> import numpy as np\n"
               ">>> ac4k.gemm(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()\n"
               "[[1.0, 2.0], [3.0, 4.0]]",
    .tolerance = 1.0,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
