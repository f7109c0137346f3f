// What the host hands to common/gemm.cu.
#pragma once

namespace ac4k {

// C[M, N] = A[M, K] B[K, N]; strides in elements, rows of C contiguous.
struct GemmParams {
  void* c;
  const void* a;
  const void* b;
  long long M, N, K;
  long long a_row_stride, a_column_stride;
  long long b_row_stride, b_column_stride;
};

inline constexpr int kGemmThreads = 256;
inline constexpr int kGemmTile = 64;  // a block's square of C

}  // namespace ac4k
