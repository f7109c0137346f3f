// Rotations of RoPE at the avx512 level.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"
#include "cpu/common/rope-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const RopeKernels kRope = rope_table<F32, F64>();

}  // namespace ac4k::cpu::avx512
