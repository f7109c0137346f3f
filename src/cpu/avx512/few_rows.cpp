// Multiplication with few rows at the avx512 level.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/few_rows-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const FewRowsKernels kFewRowsF32 = FewRows<F32, float>::kTable;
constinit const FewRowsKernels kFewRowsF64 = FewRows<F64, double>::kTable;
constinit const FewRowsKernels kFewRowsF16 = FewRows<F32, Half>::kTable;
constinit const FewRowsKernels kFewRowsBF16 = FewRows<F32, BFloat16>::kTable;

}  // namespace ac4k::cpu::avx512
