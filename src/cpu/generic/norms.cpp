// Norms at the generic level.
#include "cpu/common/norms-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

constinit const NormKernels kNorms = norm_table<F32>();

}  // namespace ac4k::cpu::generic
