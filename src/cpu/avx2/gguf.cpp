// GGUF blocks at the avx2 level.
#include "cpu/avx2/codes.hpp"
#include "cpu/avx2/kernels.hpp"
#include "cpu/common/gguf-inl.hpp"

namespace ac4k::cpu::avx2 {

constinit const GgufKernels kGguf = gguf_table<F32, Codes>();

}  // namespace ac4k::cpu::avx2
