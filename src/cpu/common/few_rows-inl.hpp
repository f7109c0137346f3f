// FewRowsKernels of table.hpp over a level's vectors: one to four rows of A against all of B, at
// the speed at which B comes from memory.
#pragma once

#include "cpu/common/gemm-inl.hpp"

namespace ac4k::cpu {
namespace {

// One to kMaxFewRows rows times kSteps contiguous rows of B. The products of the steps are summed
// before they join the accumulator: fewer passes over it, and roundings grow with K / kSteps only.
template <class V, int kRows, int kSteps, class T>
AC4K_INLINE void update_rows(int64_t n, const typename V::Scalar* a, const T* b, int64_t b_row,
                             typename V::Scalar* acc, int64_t ld) {
  const auto sum_steps = [&](auto load, V(&sum)[kRows]) {
#pragma GCC unroll 8
    for (int k = 0; k < kSteps; ++k) {
      const V row = load(b + k * b_row);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        const V value = V::broadcast(a[k * kMaxFewRows + i]);
        sum[i] = k == 0 ? value * row : fma(value, row, sum[i]);
      }
    }
  };
  V sum[kRows];
  int64_t j = 0;
  for (; j + V::kLanes <= n; j += V::kLanes) {
    sum_steps([j](const T* p) { return V::load(p + j); }, sum);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      typename V::Scalar* to = acc + i * ld + j;
      (V::load(to) + sum[i]).store(to);
    }
  }
  if (j < n) {
    const int rest = static_cast<int>(n - j);
    sum_steps([j, rest](const T* p) { return V::load_partial(p + j, rest); }, sum);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      typename V::Scalar* to = acc + i * ld + j;
      (V::load_partial(to, rest) + sum[i]).store_partial(to, rest);
    }
  }
}

template <class V, int kRows, class T>
void row_update(int m, int64_t depth, int64_t n, const typename V::Scalar* a, const T* b,
                int64_t b_row, typename V::Scalar* acc, int64_t ld) {
  if (m < kRows) {
    if constexpr (kRows > 1) {
      row_update<V, kRows - 1>(m, depth, n, a, b, b_row, acc, ld);
    }
    return;
  }
  constexpr int kSteps = 8;
  int64_t k = 0;
  for (; k + kSteps <= depth; k += kSteps) {
    update_rows<V, kRows, kSteps>(n, a + k * kMaxFewRows, b + k * b_row, b_row, acc, ld);
  }
  for (; k < depth; ++k) {
    update_rows<V, kRows, 1>(n, a + k * kMaxFewRows, b + k * b_row, b_row, acc, ld);
  }
}

// kRows x kCols dot products, each with one vector accumulator: the same sum for any grouping.
template <class V, int kRows, int kCols, class T>
AC4K_INLINE void dot_block(int64_t depth, const typename V::Scalar* a, int64_t a_ld, const T* b,
                           int64_t b_col, typename V::Scalar* acc, int64_t ld) {
  V sum[kRows][kCols];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j) sum[i][j] = V::broadcast(0);
  }
  int64_t k = 0;
  for (; k + V::kLanes <= depth; k += V::kLanes) {
    V col[kCols];
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j) col[j] = V::load(b + j * b_col + k);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const V row = V::load(a + i * a_ld + k);
#pragma GCC unroll 4
      for (int j = 0; j < kCols; ++j) sum[i][j] = fma(row, col[j], sum[i][j]);
    }
  }
  if (k < depth) {
    const int rest = static_cast<int>(depth - k);
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j) {
      const V col = V::load_partial(b + j * b_col + k, rest);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        sum[i][j] = fma(V::load_partial(a + i * a_ld + k, rest), col, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j) acc[i * ld + j] += sum[i][j].sum();
  }
}

template <class V, int kRows, class T>
void dot_update(int m, int64_t depth, int64_t n, const typename V::Scalar* a, int64_t a_ld,
                const T* b, int64_t b_col, typename V::Scalar* acc, int64_t ld) {
  if (m < kRows) {
    if constexpr (kRows > 1) dot_update<V, kRows - 1>(m, depth, n, a, a_ld, b, b_col, acc, ld);
    return;
  }
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    dot_block<V, kRows, 4>(depth, a, a_ld, b + j * b_col, b_col, acc + j, ld);
  }
  for (; j < n; ++j) {
    dot_block<V, kRows, 1>(depth, a, a_ld, b + j * b_col, b_col, acc + j, ld);
  }
}

// Binds the templates to table.hpp's untyped pointers. V: vector of the accumulators; T: element.
template <class V, class T>
struct FewRows {
  using S = typename V::Scalar;

  static void interleave(const void* src, int64_t row, int64_t col, int m, int64_t depth,
                         void* dst) {
    pack_panels<V, kMaxFewRows>(static_cast<const T*>(src), row, col, m, depth, kMaxFewRows,
                                static_cast<S*>(dst));
  }
  static void rows(int m, int64_t depth, int64_t n, const void* a, const void* b, int64_t b_row,
                   void* acc, int64_t ld) {
    row_update<V, kMaxFewRows>(m, depth, n, static_cast<const S*>(a), static_cast<const T*>(b),
                               b_row, static_cast<S*>(acc), ld);
  }
  static void widen(const void* src, int64_t stride, int64_t n, void* dst) {
    const T* from = static_cast<const T*>(src);
    S* to = static_cast<S*>(dst);
    int64_t i = 0;
    if (stride == 1) {
      for (; i + V::kLanes <= n; i += V::kLanes) V::load(from + i).store(to + i);
    }
    for (; i < n; ++i) to[i] = to_acc(from[i * stride]);
  }
  static void dots(int m, int64_t depth, int64_t n, const void* a, int64_t a_ld, const void* b,
                   int64_t b_col, void* acc, int64_t ld) {
    dot_update<V, kMaxFewRows>(m, depth, n, static_cast<const S*>(a), a_ld,
                               static_cast<const T*>(b), b_col, static_cast<S*>(acc), ld);
  }

  static constexpr FewRowsKernels kTable = {.acc_bytes = sizeof(S),
                                            .interleave = interleave,
                                            .row_update = rows,
                                            .widen = widen,
                                            .dot_update = dots,
                                            .narrow = narrow<V, T>};
};

}  // namespace
}  // namespace ac4k::cpu
