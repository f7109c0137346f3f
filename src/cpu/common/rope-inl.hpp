// Rotations of RoPE over a level's vectors. Compiled without contraction to FMA: the results are
// bit for bit those of separate multiplications and additions, on every level.
#pragma once

#include "cpu/common/table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

template <class V>
AC4K_INLINE void rotate(V a, V b, V cos, V sin, V& first, V& second) {
  first = a * cos - b * sin;
  second = b * cos + a * sin;
}

template <class V, class T>
void rotate_halves(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t heads,
                   int64_t distance, const float* cos, const float* sin, int64_t n) {
  constexpr int kLanes = V::kLanes;
  for (int64_t head = 0; head < heads; ++head) {
    const T* from = static_cast<const T*>(in) + head * in_stride;
    T* to = static_cast<T*>(out) + head * out_stride;
    V first, second;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      rotate(V::load(from + i), V::load(from + distance + i), V::load(cos + i), V::load(sin + i),
             first, second);
      first.store(to + i);
      second.store(to + distance + i);
    }
    if (i < n) {
      const int rest = static_cast<int>(n - i);
      rotate(V::load_partial(from + i, rest), V::load_partial(from + distance + i, rest),
             V::load_partial(cos + i, rest), V::load_partial(sin + i, rest), first, second);
      first.store_partial(to + i, rest);
      second.store_partial(to + distance + i, rest);
    }
  }
}

// Cosines twice each, sines with both signs: what vectors of neighbours are multiplied by.
inline constexpr int64_t kRopeBlock = 128;  // pairs
template <class Scalar>
struct DoubledAngles {
  alignas(64) Scalar cos[2 * kRopeBlock];
  alignas(64) Scalar sin[2 * kRopeBlock];

  AC4K_INLINE DoubledAngles(const Scalar* from_cos, const Scalar* from_sin, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      cos[2 * i] = cos[2 * i + 1] = from_cos[i];
      sin[2 * i] = -from_sin[i];
      sin[2 * i + 1] = from_sin[i];
    }
  }
};

template <class V, class T>
void rotate_neighbours(const void* in, int64_t in_stride, void* out, int64_t out_stride,
                       int64_t heads, const float* cos, const float* sin, int64_t n) {
  constexpr int kLanes = V::kLanes;
  for (int64_t block = 0; block < n; block += kRopeBlock) {
    const int64_t pairs = n - block < kRopeBlock ? n - block : kRopeBlock;
    const DoubledAngles<float> angles(cos + block, sin + block, pairs);
    for (int64_t head = 0; head < heads; ++head) {
      const T* from = static_cast<const T*>(in) + head * in_stride + 2 * block;
      T* to = static_cast<T*>(out) + head * out_stride + 2 * block;
      int64_t i = 0;
      for (; i + kLanes <= 2 * pairs; i += kLanes) {
        const V x = V::load(from + i);
        (x * V::load(angles.cos + i) + swap_pairs(x) * V::load(angles.sin + i)).store(to + i);
      }
      if (i < 2 * pairs) {
        const int rest = static_cast<int>(2 * pairs - i);
        const V x = V::load_partial(from + i, rest);
        (x * V::load_partial(angles.cos + i, rest) +
         swap_pairs(x) * V::load_partial(angles.sin + i, rest))
            .store_partial(to + i, rest);
      }
    }
  }
}

template <class V, class D>
AC4K_INLINE V rotate_in_double(V x, const double* cos, const double* sin) {
  D low, high;
  widen(x, low, high);
  low = low * D::load(cos) + swap_pairs(low) * D::load(sin);
  high = high * D::load(cos + D::kLanes) + swap_pairs(high) * D::load(sin + D::kLanes);
  return narrow(low, high);
}

template <class V, class D, class T>
void rotate_neighbours_f64(const void* in, int64_t in_stride, void* out, int64_t out_stride,
                           int64_t heads, const double* cos, const double* sin, int64_t n) {
  constexpr int kLanes = V::kLanes;
  static_assert(2 * kRopeBlock % kLanes == 0);  // the last vector may read past the pairs
  for (int64_t block = 0; block < n; block += kRopeBlock) {
    const int64_t pairs = n - block < kRopeBlock ? n - block : kRopeBlock;
    DoubledAngles<double> angles(cos + block, sin + block, pairs);
    for (int64_t i = 2 * pairs; i % kLanes != 0; ++i) angles.cos[i] = angles.sin[i] = 0;
    for (int64_t head = 0; head < heads; ++head) {
      const T* from = static_cast<const T*>(in) + head * in_stride + 2 * block;
      T* to = static_cast<T*>(out) + head * out_stride + 2 * block;
      int64_t i = 0;
      for (; i + kLanes <= 2 * pairs; i += kLanes) {
        rotate_in_double<V, D>(V::load(from + i), angles.cos + i, angles.sin + i).store(to + i);
      }
      if (i < 2 * pairs) {
        const int rest = static_cast<int>(2 * pairs - i);
        rotate_in_double<V, D>(V::load_partial(from + i, rest), angles.cos + i, angles.sin + i)
            .store_partial(to + i, rest);
      }
    }
  }
}

template <class F32, class F64>
constexpr RopeKernels rope_table() {
  return {
      .halves = {rotate_halves<F32, float>, nullptr, rotate_halves<F32, Half>,
                 rotate_halves<F32, BFloat16>},
      .neighbours = {rotate_neighbours<F32, float>, nullptr, rotate_neighbours<F32, Half>,
                     rotate_neighbours<F32, BFloat16>},
      .neighbours_f64 = {rotate_neighbours_f64<F32, F64, float>, nullptr,
                         rotate_neighbours_f64<F32, F64, Half>,
                         rotate_neighbours_f64<F32, F64, BFloat16>},
  };
}

}  // namespace
}  // namespace ac4k::cpu
