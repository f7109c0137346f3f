// Division by a number the host knows, without the twenty instructions of a real one: a small
// kernel's first load waits for its index.
#pragma once

namespace ac4k {

// n / divisor for 32-bit n below 2^31 by a multiplication: (mulhi(n, multiplier) + n) >> shift.
struct FastDivisor {
  unsigned divisor;
  unsigned multiplier;
  unsigned shift;
};

#if defined(__CUDACC__)
__device__ __forceinline__ unsigned divide(unsigned n, const FastDivisor& by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}
#endif

}  // namespace ac4k
