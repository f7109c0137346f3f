#include "sm90a/mixed.cuh"
#include "sm90a/packed_w4.cuh"

namespace ac4k {
using Weights = W4<__nv_bfloat16, 64, false>;
}

AC4K_MIXED_W4(Weights, __nv_bfloat16, bf16)
