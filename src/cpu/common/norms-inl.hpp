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

// x to x * scale * weight, `scale` being 1 / sqrt(mean(x^2) + eps).
template <class V, class T>
AC4K_INLINE void rms_norm_row(const T* x, float sum_of_squares, const NormRows& rows, T* out) {
  const int64_t n = rows.num_columns;
  const T* weight = static_cast<const T*>(rows.weight);
  const float mean = sum_of_squares / static_cast<float>(n);
  const float scale = 1.0f / __builtin_sqrtf(mean + rows.eps);
  if (weight == nullptr) {
    scale_row<V, T, false, false>(x, scale, weight, out, n);
  } else if (rows.cast_first && sizeof(T) == 2) {
    scale_row<V, T, true, true>(x, scale, weight, out, n);
  } else {
    scale_row<V, T, true, false>(x, scale, weight, out, n);
  }
}

template <class V, class T>
void rms_norm_rows(const NormRows& rows) {
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    const T* x = reinterpret_cast<const T*>(rows.x + r * rows.x_stride);
    T* out = reinterpret_cast<T*>(rows.out + r * rows.out_stride);
    rms_norm_row<V>(x, sum_of_squares<V>(x, rows.num_columns), rows, out);
  }
}

// sum = a + b; gives the sum of the rounded squares.
template <class V, class T>
float add_and_square(const T* a, const T* b, T* sum, int64_t n) {
  V total[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  int64_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const int64_t at = i + pair * 2 * V::kLanes;
      V x, y, u, v;
      V::load_pair(a + at, x, y);
      V::load_pair(b + at, u, v);
      x = x + u;
      y = y + v;
      V::store_pair(x, y, sum + at);
      V::load_pair(sum + at, x, y);
      total[2 * pair] = fma(x, x, total[2 * pair]);
      total[2 * pair + 1] = fma(y, y, total[2 * pair + 1]);
    }
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    (V::load_partial(a + i, rest) + V::load_partial(b + i, rest)).store_partial(sum + i, rest);
    const V x = V::load_partial(sum + i, rest);
    total[0] = fma(x, x, total[0]);
  }
  return ((total[0] + total[1]) + (total[2] + total[3])).sum();
}

template <class V, class T>
void add_rms_norm_rows(const NormRows& rows) {
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    const T* x = reinterpret_cast<const T*>(rows.x + r * rows.x_stride);
    const T* residual = reinterpret_cast<const T*>(rows.residual + r * rows.residual_stride);
    T* out = reinterpret_cast<T*>(rows.out + r * rows.out_stride);
    T* sum = reinterpret_cast<T*>(rows.sum + r * rows.sum_stride);
    const float squares = add_and_square<V>(x, residual, sum, rows.num_columns);
    rms_norm_row<V>(static_cast<const T*>(sum), squares, rows, out);
  }
}

// Where sums of many equal numbers are rounded, what they are counted from: 16 bits leave room for
// sums of thousands.
template <class T>
AC4K_INLINE float origin_of(const T* x, int64_t n) {
  return sizeof(T) > 2 && n > 0 ? to_acc(x[0]) : 0.0f;
}
// The sum of x - origin. As below, the last few elements are taken one by one.
template <class V, class T>
float sum_from(const T* x, float origin, int64_t n) {
  const V zero = V::broadcast(origin);
  const auto less = [&](V v) __attribute__((always_inline)) {
    if constexpr (sizeof(T) > 2) return v - zero;
    return v;
  };
  V sums[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  int64_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    V a, b, c, d;
    V::load_pair(x + i, a, b);
    V::load_pair(x + i + 2 * V::kLanes, c, d);
    sums[0] = sums[0] + less(a);
    sums[1] = sums[1] + less(b);
    sums[2] = sums[2] + less(c);
    sums[3] = sums[3] + less(d);
  }
  for (; i + V::kLanes <= n; i += V::kLanes) sums[0] = sums[0] + less(V::load(x + i));
  float sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
  for (; i < n; ++i) sum += to_acc(x[i]) - origin;
  return sum;
}

// Sums of x - pivot and of its squares. The last few elements are taken one by one: lanes that are
// not there would count as -pivot.
template <class V, class T>
void centred_sums(const T* x, float pivot, int64_t n, float* sum, float* squares) {
  const V middle = V::broadcast(pivot);
  V sums[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  V square_sums[4] = {V::broadcast(0), V::broadcast(0), V::broadcast(0), V::broadcast(0)};
  int64_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    V values[4];
    V::load_pair(x + i, values[0], values[1]);
    V::load_pair(x + i + 2 * V::kLanes, values[2], values[3]);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const V difference = values[j] - middle;
      sums[j] = sums[j] + difference;
      square_sums[j] = fma(difference, difference, square_sums[j]);
    }
  }
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const V difference = V::load(x + i) - middle;
    sums[0] = sums[0] + difference;
    square_sums[0] = fma(difference, difference, square_sums[0]);
  }
  *sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
  *squares = ((square_sums[0] + square_sums[1]) + (square_sums[2] + square_sums[3])).sum();
  for (; i < n; ++i) {
    const float difference = to_acc(x[i]) - pivot;
    *sum += difference;
    *squares += difference * difference;
  }
}

// ((x - pivot) * scale + offset) * weight + bias.
template <class V, class T, bool kWeight, bool kBias>
void affine_row(const T* x, float pivot, float scale, float offset, const T* weight, const T* bias,
                T* out, int64_t n) {
  const V middle = V::broadcast(pivot), factor = V::broadcast(scale);
  const V shift = V::broadcast(offset);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V a, b, w, u, c, d;
    V::load_pair(x + i, a, b);
    a = fma(a - middle, factor, shift);
    b = fma(b - middle, factor, shift);
    if constexpr (kWeight) V::load_pair(weight + i, w, u);
    if constexpr (kBias) V::load_pair(bias + i, c, d);
    if constexpr (kWeight && kBias) {
      a = fma(a, w, c);
      b = fma(b, u, d);
    } else if constexpr (kWeight) {
      a = a * w;
      b = b * u;
    } else if constexpr (kBias) {
      a = a + c;
      b = b + d;
    }
    V::store_pair(a, b, out + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    V a = fma(V::load_partial(x + i, rest) - middle, factor, shift);
    if constexpr (kWeight) a = a * V::load_partial(weight + i, rest);
    if constexpr (kBias) a = a + V::load_partial(bias + i, rest);
    a.store_partial(out + i, rest);
  }
}

// Sums of long rows are taken in pieces, so that few additions follow each other.
constexpr int64_t kSumChunk = 4096;

// The mean is a pivot only: the second pass gives its error together with the variance, so that a
// large mean loses no digits. Of a constant row it is exact: squares of its error would be infinite
// where constants are large.
template <class V, class T>
void layer_norm_rows(const NormRows& rows) {
  const int64_t n = rows.num_columns;
  const float columns = static_cast<float>(n);
  const T* weight = static_cast<const T*>(rows.weight);
  const T* bias = static_cast<const T*>(rows.bias);
  const auto affine = weight ? bias ? affine_row<V, T, true, true> : affine_row<V, T, true, false>
                      : bias ? affine_row<V, T, false, true>
                             : affine_row<V, T, false, false>;
  for (int64_t r = 0; r < rows.num_rows; ++r) {
    const T* x = reinterpret_cast<const T*>(rows.x + r * rows.x_stride);
    T* out = reinterpret_cast<T*>(rows.out + r * rows.out_stride);
    const float origin = origin_of(x, n);
    float total = 0.0f;
    for (int64_t i = 0; i < n; i += kSumChunk) {
      total += sum_from<V>(x + i, origin, n - i < kSumChunk ? n - i : kSumChunk);
    }
    const float pivot = origin + total / columns;
    float sum, squares;
    centred_sums<V>(x, pivot, n, &sum, &squares);
    const float mean = sum / columns;
    const float variance = squares / columns - mean * mean;
    const float scale = 1.0f / __builtin_sqrtf((variance < 0.0f ? 0.0f : variance) + rows.eps);
    affine(x, pivot, scale, -mean * scale, weight, bias, out, n);
  }
}

template <class F32>
constexpr NormKernels norm_table() {
  return {.rms_norm = {rms_norm_rows<F32, float>, nullptr, rms_norm_rows<F32, Half>,
                       rms_norm_rows<F32, BFloat16>},
          .add_rms_norm = {add_rms_norm_rows<F32, float>, nullptr, add_rms_norm_rows<F32, Half>,
                           add_rms_norm_rows<F32, BFloat16>},
          .layer_norm = {layer_norm_rows<F32, float>, nullptr, layer_norm_rows<F32, Half>,
                         layer_norm_rows<F32, BFloat16>}};
}

}  // namespace
}  // namespace ac4k::cpu
