// Integers of int32 or int64 tensors: positions, slots, sizes.
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ int64_t integer_at(const void* data, bool is_wide, int64_t index) {
  return is_wide ? static_cast<const int64_t*>(data)[index] : static_cast<const int*>(data)[index];
}

// The same where only 0 <= integer < end counts; otherwise -1. Both halves of a wide one are loads
// of their own: of two loads into one register, one at most being done, the compiler makes the
// second wait for the first.
__device__ __forceinline__ int integer_below(int end, const void* data, bool is_wide, int index) {
  const int* words = static_cast<const int*>(data) + (is_wide ? 2 * index : index);
  const int low = words[0], high = is_wide ? words[1] : 0;
  return high == 0 && static_cast<unsigned>(low) < static_cast<unsigned>(end) ? low : -1;
}

}  // namespace ac4k
