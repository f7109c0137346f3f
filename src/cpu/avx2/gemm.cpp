// Matrix multiplication at the avx2 level.
// 6 x 16 f32 or 6 x 8 f64 accumulators: 12 of 16 registers, two for B, one for A.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/simd.hpp"
#include "cpu/common/gemm-inl.hpp"

namespace ac4k::cpu::avx2 {
namespace {
constexpr int kDepth = 256, kRows = 192, kMaxRows = 768, kMaxCols = 1024, kPackCost = 6;
}

constinit const GemmKernels kGemmF32 =
    Gemm<F32, float, 6, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmF64 =
    Gemm<F64, double, 6, 2>::table(kDepth, kRows, kMaxRows, kMaxCols / 2, kPackCost);
constinit const GemmKernels kGemmF16 =
    Gemm<F32, Half, 6, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmBF16 =
    Gemm<F32, BFloat16, 6, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);

}  // namespace ac4k::cpu::avx2
