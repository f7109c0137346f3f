// GGUF blocks at the avx512 level.
#include "cpu/avx512/codes.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/common/gguf-inl.hpp"

namespace ac4k::cpu::avx512 {

constinit const GgufKernels kGguf = gguf_table<F32, Codes>();

}  // namespace ac4k::cpu::avx512
