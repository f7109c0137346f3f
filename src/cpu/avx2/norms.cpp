// Norms at the avx2 level.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/simd.hpp"
#include "cpu/common/norms-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const NormKernels kNorms = norm_table<F32>();

}  // namespace ac4k::cpu::avx2
