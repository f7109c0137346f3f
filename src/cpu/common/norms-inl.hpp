// Norms of rows over a level's vectors. A row is read two or three times, from L1 after the first.
#pragma once

#include "cpu/common/table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

// 4 accumulators of at least 4 lanes: 16 partial sums or more.
template <class V, class T>
float sum_of_squares(const T* x, int64_t n) {
  V sums[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  int64_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    V a, b, c, d;
    V::load_pair(x + i, a, b);
    V::load_pair(x + i + 2 * V::kLanes, c, d);
    sums[0] = fma(a, a, sums[0]);
    sums[1] = fma(b, b, sums[1]);
    sums[2] = fma(c, c, sums[2]);
    sums[3] = fma(d, d, sums[3]);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    const V a = V::load_partial(x + i, rest);
    sums[0] = fma(a, a, sums[0]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

// To T and back.
template <class T, class V>
AC4K_INLINE void round_pair(V& first, V& second) {
  if constexpr (sizeof(T) == 2) {
    T rounded[2 * V::kLanes];
    V::store_pair(first, second, rounded);
    V::load_pair(rounded, first, second);
  }
}

template <class V, class T, bool kWeight, bool kCastFirst>
void scale_row(const T* x, float scale, const T* weight, T* out, int64_t n) {
  const V factor = V::broadcast(scale);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V a, b, w, u;
    V::load_pair(x + i, a, b);
    a = a * factor;
    b = b * factor;
    if constexpr (kWeight) {
      if constexpr (kCastFirst) round_pair<T>(a, b);
      V::load_pair(weight + i, w, u);
      a = a * w;
      b = b * u;
    }
    V::store_pair(a, b, out + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    V a = V::load_partial(x + i, rest) * factor;
    if constexpr (kWeight) {
      V unused = a;
      if constexpr (kCastFirst) round_pair<T>(a, unused);
      a = a * V::load_partial(weight + i, rest);
    }
    a.store_partial(out + i, rest);
  }
}

template <class V, class T>
void rms_norm_rows(const NormRows& rows) {
  const T* weight = static_cast<const T*>(rows.weight);
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    const T* x = reinterpret_cast<const T*>(rows.x + r * rows.x_stride);
    T* out = reinterpret_cast<T*>(rows.out + r * rows.out_stride);
    const int64_t n = rows.num_columns;
    const float mean = sum_of_squares<V>(x, n) / static_cast<float>(n);
    const float scale = 1.0f / __builtin_sqrtf(mean + rows.eps);
    if (weight == nullptr) {
      scale_row<V, T, false, false>(x, scale, weight, out, n);
    } else if (rows.cast_first && sizeof(T) == 2) {
      scale_row<V, T, true, true>(x, scale, weight, out, n);
    } else {
      scale_row<V, T, true, false>(x, scale, weight, out, n);
    }
  }
}

template <class F32>
constexpr NormKernels norm_table() {
  return {.rms_norm = {rms_norm_rows<F32, float>, nullptr, rms_norm_rows<F32, Half>,
                       rms_norm_rows<F32, BFloat16>}};
}

}  // namespace
}  // namespace ac4k::cpu
