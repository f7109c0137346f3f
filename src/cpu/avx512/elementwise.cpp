// Elementwise ops and byte streams at the avx512 level, and the level's table.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/elementwise-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const ElementwiseKernels kElementwise = elementwise_table<F32, F64, Bytes>();

constinit const Kernels kKernels = {
    .gemm = {&kGemmF32, &kGemmF64, &kGemmF16, &kGemmBF16},
    .few_rows = {&kFewRowsF32, &kFewRowsF64, &kFewRowsF16, &kFewRowsBF16},
    .rope = &kRope,
    .elementwise = &kElementwise,
    .quantize = &kQuantize,
    .activations = &kActivations,
    .norms = &kNorms,
    .gguf = &kGguf,
    .linear = &kLinear};

}  // namespace ac4k::cpu::avx512
