// Matrix multiplication at the generic level.
// 4 x 8 f32 or 4 x 4 f64 accumulators: 8 of 16 registers.
#include "cpu/common/gemm-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {
namespace {
constexpr int kDepth = 256, kRows = 128, kMaxRows = 512, kMaxCols = 512, kPackCost = 2;
}

constinit const GemmKernels kGemmF32 =
    Gemm<F32, float, 4, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmF64 =
    Gemm<F64, double, 4, 2>::table(kDepth, kRows, kMaxRows, kMaxCols / 2, kPackCost);
constinit const GemmKernels kGemmF16 =
    Gemm<F32, Half, 4, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmBF16 =
    Gemm<F32, BFloat16, 4, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);

}  // namespace ac4k::cpu::generic
