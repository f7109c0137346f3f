// Products of packed weights with few tokens at the avx2 level.
#include "cpu/avx2/kernels.hpp"
#include "cpu/avx2/quad.hpp"
#include "cpu/common/decode-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const DecodeKernels kDecode = make_decode_kernels<Quad>();

}  // namespace ac4k::cpu::avx2
