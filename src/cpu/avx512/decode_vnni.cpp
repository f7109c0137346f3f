// Products of packed weights with few tokens at the avx512 level, on CPUs with VNNI.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/quad.hpp"
#include "cpu/avx512/vnni.hpp"
#include "cpu/common/decode-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const DecodeKernels kDecodeVnni = make_decode_kernels<QuadOf<Vnni>>();

}  // namespace ac4k::cpu::avx512
