// Activations at the avx2 level.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/simd.hpp"
#include "cpu/common/activations-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const ActivationKernels kActivations = activation_table<F32>();

}  // namespace ac4k::cpu::avx2
