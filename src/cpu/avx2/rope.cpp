// Rotations of RoPE at the avx2 level.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/simd.hpp"
#include "cpu/common/rope-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const RopeKernels kRope = rope_table<F32, F64>();

}  // namespace ac4k::cpu::avx2
