// Matrix multiplication at the avx512 level.
// 14 x 32 f32 or 14 x 16 f64 accumulators: 28 of 32 registers, two for B, one for A.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/gemm-inl.hpp"

namespace ac4k::cpu::avx512 {
namespace {
constexpr int kDepth = 384, kRows = 168, kMaxRows = 1008, kMaxCols = 512, kPackCost = 10;
}

constinit const GemmKernels kGemmF32 =
    Gemm<F32, float, 14, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmF64 =
    Gemm<F64, double, 14, 2>::table(kDepth, kRows, kMaxRows, kMaxCols / 2, kPackCost);
constinit const GemmKernels kGemmF16 =
    Gemm<F32, Half, 14, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);
constinit const GemmKernels kGemmBF16 =
    Gemm<F32, BFloat16, 14, 2>::table(kDepth, kRows, kMaxRows, kMaxCols, kPackCost);

}  // namespace ac4k::cpu::avx512
