// Products of packed weights with many tokens at the avx512 level.
// 8 x 48 sums: 24 of 32 registers, three for activations, one for weights.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/quad.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/panels-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const PanelKernels kPanelsF32 = f32_panels<QuadOf<MultiplyAdd>, F32, 8, 3>();
constinit const LinearKernels kLinear = {
    .decode = &kDecode, .exact = &kPanelsF32, .tokens = token_kernels<F32>()};

}  // namespace ac4k::cpu::avx512
