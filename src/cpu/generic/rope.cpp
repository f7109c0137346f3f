// Rotations of RoPE at the generic level.
#include "cpu/common/rope-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

constinit const RopeKernels kRope = rope_table<F32, F64>();

}  // namespace ac4k::cpu::generic
