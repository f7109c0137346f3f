// What the host hands to common/mul_add.cu.
#pragma once

#include "strided.h"

namespace ac4k {

struct MulAddParams {
  void* out;
  const void* a;
  const void* b;
  const void* c;
  long long num_elements;
};

using MulAddStridedParams = StridedParams<3>;

inline constexpr int kMulAddThreads = 256;

}  // namespace ac4k
