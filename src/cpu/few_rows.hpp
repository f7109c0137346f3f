// Multiplication with at most kMaxFewRows rows.
#pragma once

#include "cpu/common/table.hpp"

namespace ac4k::cpu {

// C [m, N] = A [m, K] B [K, N], strides in elements. One stride of B is 1.
struct FewRowsProblem {
  Element element;
  int m;
  int64_t N, K;
  const void* a;
  int64_t a_row_stride, a_col_stride;
  const void* b;
  int64_t b_row_stride, b_col_stride;
  void* c;
  int64_t c_row_stride, c_col_stride;
};

void few_rows(const FewRowsProblem& problem);

}  // namespace ac4k::cpu
