// Products of packed weights with few tokens at the avx512 level, on CPUs without VNNI.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/quad.hpp"
#include "cpu/common/decode-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const DecodeKernels kDecode = make_decode_kernels<QuadOf<MultiplyAdd>>();

}  // namespace ac4k::cpu::avx512
