// Activations at the generic level.
#include "cpu/common/activations-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

constinit const ActivationKernels kActivations = activation_table<F32>();

}  // namespace ac4k::cpu::generic
