// Elementwise ops and byte streams at the generic level, and the level's table.
#include "cpu/common/elementwise-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

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

}  // namespace ac4k::cpu::generic
