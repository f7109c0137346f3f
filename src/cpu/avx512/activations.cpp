// Activations at the avx512 level.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/activations-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const ActivationKernels kActivations = activation_table<F32>();

}  // namespace ac4k::cpu::avx512
