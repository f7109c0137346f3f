// Products of packed weights with many tokens at the avx2 level.
// 4 x 16 sums: 8 of 16 registers, two for activations, one for weights.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/quad.hpp"
#include "cpu/avx2/simd.hpp"
#include "cpu/common/panels-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const PanelKernels kPanelsF32 = f32_panels<Quad, F32, 4, 1>();
constinit const LinearKernels kLinear = {
    .decode = &kDecode, .exact = &kPanelsF32, .tokens = token_kernels<F32>()};

}  // namespace ac4k::cpu::avx2
