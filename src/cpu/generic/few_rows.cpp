// Multiplication with few rows at the generic level.
#include "cpu/common/few_rows-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

constinit const FewRowsKernels kFewRowsF32 = FewRows<F32, float>::kTable;
constinit const FewRowsKernels kFewRowsF64 = FewRows<F64, double>::kTable;
constinit const FewRowsKernels kFewRowsF16 = FewRows<F32, Half>::kTable;
constinit const FewRowsKernels kFewRowsBF16 = FewRows<F32, BFloat16>::kTable;

}  // namespace ac4k::cpu::generic
