// The product of raw GGUF blocks with q8_1 activations on a GPU.
#pragma once

#include "core/op.hpp"
#include "cpu/q8_1.hpp"

namespace ac4k {

Status multiply_q8_1_on_cuda(const Call& call, const cpu::BlockProduct& product);

}  // namespace ac4k
