// The quantisers at the generic level.
#include "cpu/common/quantize-inl.hpp"
#include "cpu/generic/codes.hpp"
#include "cpu/generic/kernels.hpp"

namespace ac4k::cpu::generic {

constinit const QuantizeKernels kQuantize = quantize_table<F32, Codes>();

}  // namespace ac4k::cpu::generic
