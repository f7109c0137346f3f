// Integers of int32 or int64 tensors: positions, slots, sizes.
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ int64_t integer_at(const void* data, bool is_wide, int64_t index) {
  return is_wide ? static_cast<const int64_t*>(data)[index] : static_cast<const int*>(data)[index];
}

// One that is on its way: nothing waits for it before it is asked for. (A sign to extend, or two
// loads into one register of which one is done, makes the compiler wait where the load is.)
struct ComingInteger {
  int low, high;

  // -1 where it is not in 0 ... end - 1.
  __device__ __forceinline__ int below(int end) const {
    return high == 0 && static_cast<unsigned>(low) < static_cast<unsigned>(end) ? low : -1;
  }
};
template <typename Index>
__device__ __forceinline__ ComingInteger load_integer(const void* data, bool is_wide, Index index) {
  const int* words = static_cast<const int*>(data) + (is_wide ? 2 * index : index);
  // As they stand, so that both are asked for here: left to the compiler, the first may have to
  // wait for what the second says.
  ComingInteger integer{0, 0};
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(integer.low) : "l"(words));
  asm volatile("{.reg .pred wide; setp.ne.b32 wide, %2, 0; @wide ld.global.b32 %0, [%1+4];}"
               : "+r"(integer.high)
               : "l"(words), "r"(static_cast<int>(is_wide)));
  return integer;
}

}  // namespace ac4k
