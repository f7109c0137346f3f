// GGUF blocks at the generic level.
#include "cpu/common/gguf-inl.hpp"
#include "cpu/generic/codes.hpp"
#include "cpu/generic/kernels.hpp"

namespace ac4k::cpu::generic {

constinit const GgufKernels kGguf = gguf_table<F32, Codes>();

}  // namespace ac4k::cpu::generic
