// From what a caller passed to a checked Call: kinds, dtypes, devices, shapes, strides, alignment
// and overlap, all read off the op's signature. An error names op, argument, expected and got.
#pragma once

#include "core/op.hpp"

namespace ac4k {

// Fills `call` from the arguments, unless something is wrong with them.
Status bind(const Op& op, const ac4k_arg* args, size_t num_args, Call* call);

// What output `index` of a bound call must be.
Status output_spec(const Call& call, size_t index, ac4k_tensor_spec* spec);

// Checks the outputs of a bound call against their specs and against the inputs' memory.
Status bind_outputs(const DLTensor* const* outputs, size_t num_outputs, Call* call);

}  // namespace ac4k
