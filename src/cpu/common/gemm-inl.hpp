// GemmKernels of table.hpp over a level's vectors: packing, the register-blocked
// micro-kernel.
#pragma once

#include "cpu/common/table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

// Transposes `height` source rows (contiguous along K) into dst[k * kWidth + i]. Vector stores may
// run past kWidth into the next k, so blocks of lanes go from the last to the first, and what
// remains of K comes at the end.
template <class V, int kWidth, class T>
AC4K_INLINE void pack_transposed(const T* src, int64_t stride, int height, int64_t depth,
                                 typename V::Scalar* dst) {
  constexpr int kBlocks = (kWidth + V::kLanes - 1) / V::kLanes;
  const T* rows[kBlocks * V::kLanes];
  for (int i = 0; i < kBlocks * V::kLanes; ++i) {
    rows[i] = src + (i < height ? i : height - 1) * stride;  // lanes past the height: any values
  }
  const int64_t whole = depth - depth % V::kGroup;
  for (int block = kBlocks - 1; block >= 0; --block) {
    if (block > 0 && block * V::kLanes >= height && kWidth % V::kLanes != 0) continue;
    for (int64_t k = 0; k < whole; k += V::kGroup) {
      V group[V::kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < V::kGroup; ++i) {
        group[i] = V::load_groups(rows + block * V::kLanes + i, k);
      }
      transpose_groups(group);
#pragma GCC unroll 4
      for (int i = 0; i < V::kGroup; ++i) {
        group[i].store(dst + (k + i) * kWidth + block * V::kLanes);
      }
    }
  }
  for (int64_t k = whole; k < depth; ++k) {
    for (int i = 0; i < kWidth; ++i) dst[k * kWidth + i] = to_acc(rows[i][k]);
  }
}

// Source contiguous along the panel's width.
template <class V, int kWidth, class T>
AC4K_INLINE void pack_straight(const T* src, int64_t stride, int height, int64_t depth,
                               typename V::Scalar* dst) {
  if (height == kWidth && kWidth % V::kLanes == 0) {
    for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 8
      for (int i = 0; i < kWidth; i += V::kLanes) {
        V::load(src + k * stride + i).store(dst + k * kWidth + i);
      }
    }
    return;
  }
  for (int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < kWidth; i += V::kLanes) {
      const int lanes = kWidth - i < V::kLanes ? kWidth - i : V::kLanes;
      const int valid = height - i < 0 ? 0 : height - i < lanes ? height - i : lanes;
      V::load_partial(src + k * stride + (valid > 0 ? i : 0), valid)
          .store_partial(dst + k * kWidth + i, lanes);
    }
  }
}

// Panels of kWidth that hold `height` rows each; element (i, k) is src[i * outer + k * inner].
template <class V, int kWidth, class T>
void pack_panels(const T* src, int64_t outer, int64_t inner, int64_t count, int64_t depth,
                 int height, typename V::Scalar* dst) {
  // Straight sources are read a few rows of K at a time across all panels: along cache lines and
  // pages, not down them.
  constexpr int64_t kStraightRows = 16;
  const bool straight = outer == 1 && inner != 1;
  const int64_t step = straight ? kStraightRows : depth;
  for (int64_t k0 = 0; k0 < depth; k0 += step) {
    const int64_t count_k = depth - k0 < step ? depth - k0 : step;
    typename V::Scalar* to = dst + k0 * kWidth;
    for (int64_t first = 0; first < count; first += height, to += kWidth * depth) {
      const int rows = static_cast<int>(count - first < height ? count - first : height);
      const T* from = src + first * outer + k0 * inner;
      if (straight) {
        pack_straight<V, kWidth>(from, inner, rows, count_k, to);
      } else if (inner == 1) {
        pack_transposed<V, kWidth>(from, outer, rows, count_k, to);
      } else {
        for (int64_t k = 0; k < count_k; ++k) {
          for (int i = 0; i < kWidth; ++i) {
            to[k * kWidth + i] = i < rows ? to_acc(from[i * outer + k * inner]) : 0;
          }
        }
      }
    }
  }
}

// Accumulators to elements, or a copy where they are the same.
template <class V, class T>
void narrow(const void* acc, void* out, int64_t n) {
  const auto* from = static_cast<const typename V::Scalar*>(acc);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::load(from + i).store(to + i);
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    V::load_partial(from + i, rest).store_partial(to + i, rest);
  }
}

// kRows x (kVectors * lanes) accumulators stay in registers over the whole depth.
template <class V, int kPanelRows, int kVectors, int kRows>
void micro_rows(int64_t depth, const typename V::Scalar* a, const typename V::Scalar* b,
                typename V::Scalar* c, int64_t ldc, bool accumulate) {
  V acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      acc[i][j] = V::broadcast(0);
      __builtin_prefetch(c + i * ldc + j * V::kLanes, 1);  // C is far away when its turn comes
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    V row[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) row[j] = V::load(b + j * V::kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V value = V::broadcast(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) acc[i][j] = fma(value, row[j], acc[i][j]);
    }
    a += kPanelRows;
    b += kVectors * V::kLanes;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      typename V::Scalar* out = c + i * ldc + j * V::kLanes;
      (accumulate ? V::load(out) + acc[i][j] : acc[i][j]).store(out);
    }
  }
}

template <class V, int kPanelRows, int kVectors, int kRows = kPanelRows>
AC4K_INLINE void micro_any(int rows, int64_t depth, const typename V::Scalar* a,
                           const typename V::Scalar* b, typename V::Scalar* c, int64_t ldc,
                           bool accumulate) {
  if (rows == kRows) {
    micro_rows<V, kPanelRows, kVectors, kRows>(depth, a, b, c, ldc, accumulate);
  } else if constexpr (kRows > 1) {
    micro_any<V, kPanelRows, kVectors, kRows - 1>(rows, depth, a, b, c, ldc, accumulate);
  }
}

// Binds the templates to table.hpp's untyped pointers. V: vector of the accumulators; T: element.
template <class V, class T, int kMr, int kVectors>
struct Gemm {
  using S = typename V::Scalar;
  static constexpr int kNr = kVectors * V::kLanes;

  static void pack_a(const void* src, int64_t row, int64_t col, int64_t rows, int64_t depth,
                     int height, void* dst) {
    pack_panels<V, kMr>(static_cast<const T*>(src), row, col, rows, depth, height,
                        static_cast<S*>(dst));
  }
  static void pack_b(const void* src, int64_t row, int64_t col, int64_t depth, int64_t cols,
                     void* dst) {
    pack_panels<V, kNr>(static_cast<const T*>(src), col, row, cols, depth, kNr,
                        static_cast<S*>(dst));
  }
  static void micro(int rows, int64_t depth, const void* a, const void* b, void* c, int64_t ldc,
                    bool accumulate) {
    micro_any<V, kMr, kVectors>(rows, depth, static_cast<const S*>(a), static_cast<const S*>(b),
                                static_cast<S*>(c), ldc, accumulate);
  }

  static constexpr GemmKernels table(int kc, int mc, int max_rows, int max_cols, int pack_cost) {
    return {.mr = kMr,
            .nr = kNr,
            .kc = kc,
            .mc = mc,
            .max_rows = max_rows,
            .max_cols = max_cols,
            .row_unit = 1,
            .k_unit = 1,
            .packed_bytes = sizeof(S),
            .acc_bytes = sizeof(S),
            .narrow_output = sizeof(T) != sizeof(S),
            .pack_cost = pack_cost,
            .grain = 1 << 18,
            .begin = nullptr,
            .end = nullptr,
            .pack_a = pack_a,
            .pack_b = pack_b,
            .micro = micro,
            .narrow = narrow<V, T>};
  }
};

}  // namespace
}  // namespace ac4k::cpu
