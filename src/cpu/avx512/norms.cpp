// Norms at the avx512 level.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/norms-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const NormKernels kNorms = norm_table<F32>();

}  // namespace ac4k::cpu::avx512
