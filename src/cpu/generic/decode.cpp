// Products of packed weights with few tokens at the generic level.
#include "cpu/common/decode-inl.hpp"
#include "cpu/generic/kernels.hpp"
#include "cpu/generic/quad.hpp"

namespace ac4k::cpu::generic {

constinit const DecodeKernels kDecode = make_decode_kernels<Quad>();

}  // namespace ac4k::cpu::generic
