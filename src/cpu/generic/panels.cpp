// Products of packed weights with many tokens at the generic level.
// 2 x 16 sums: 8 of 16 registers.
#include "cpu/common/panels-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/quad.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

constinit const PanelKernels kPanelsF32 = f32_panels<Quad, F32, 2, 1>();
constinit const LinearKernels kLinear = {
    .decode = &kDecode, .exact = &kPanelsF32, .tokens = token_kernels<F32>()};

}  // namespace ac4k::cpu::generic
