// Vectors of the generic level: 16 bytes in the compiler's own vector types, nothing beyond the
// baseline instruction set. The other levels have the same members; min and max return their second
// argument when the arguments are equal or one is NaN, as x86 does.
#pragma once

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu::generic {

template <class S>
struct Traits;
template <>
struct Traits<float> {
  using Int = int32_t;
  static constexpr int kMantissa = 23, kBias = 127;
  static constexpr float kSplitter = 4097.0f;  // 2^12 + 1
};
template <>
struct Traits<double> {
  using Int = int64_t;
  static constexpr int kMantissa = 52, kBias = 1023;
  static constexpr double kSplitter = 134217729.0;  // 2^27 + 1
};

template <class S>
struct Vec {
  using Scalar = S;
  using Int = typename Traits<S>::Int;
  static constexpr int kLanes = 16 / sizeof(S);
  static constexpr int kGroup = kLanes;         // scalars per 16 bytes
  static constexpr bool kHasShortMath = false;  // reciprocal() and scaled_exp2()
  typedef S Reg __attribute__((vector_size(16)));
  typedef Int IntReg __attribute__((vector_size(16)));
  Reg v;

  static AC4K_INLINE Vec broadcast(S value) {  // adding it to zeros would make -0 a 0
    Vec r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = value;
    return r;
  }
  static AC4K_INLINE Vec load(const S* p) {
    Vec r;
    __builtin_memcpy(&r.v, p, 16);
    return r;
  }
  template <class T>
  static AC4K_INLINE Vec load(const T* p) {
    Vec r;
    for (int i = 0; i < kLanes; ++i) r.v[i] = to_acc(p[i]);
    return r;
  }
  // Lanes from n on are zero.
  template <class T>
  static AC4K_INLINE Vec load_partial(const T* p, int n) {
    Vec r{};
    for (int i = 0; i < kLanes; ++i) r.v[i] = i < n ? to_acc(p[i]) : S{0};
    return r;
  }
  // Two vectors of neighbours, in an order of the level's own: elementwise work only.
  template <class T>
  static AC4K_INLINE void load_pair(const T* p, Vec& first, Vec& second) {
    first = load(p);
    second = load(p + kLanes);
  }
  template <class T>
  static AC4K_INLINE void store_pair(Vec first, Vec second, T* p) {
    first.store(p);
    second.store(p + kLanes);
  }
  // 16-byte group g comes from rows[g * kGroup] + offset.
  template <class T>
  static AC4K_INLINE Vec load_groups(const T* const* rows, int64_t offset) {
    return load(rows[0] + offset);
  }
  AC4K_INLINE void store(S* p) const { __builtin_memcpy(p, &v, 16); }
  template <class T>
  AC4K_INLINE void store(T* p) const {
    for (int i = 0; i < kLanes; ++i) from_acc(v[i], p + i);
  }
  template <class T>
  AC4K_INLINE void store_partial(T* p, int n) const {
    for (int i = 0; i < n; ++i) from_acc(v[i], p + i);
  }
  AC4K_INLINE S sum() const {
    S total = v[0];
    for (int i = 1; i < kLanes; ++i) total += v[i];
    return total;
  }
};

using F32 = Vec<float>;
using F64 = Vec<double>;

template <class S>
AC4K_INLINE Vec<S> operator+(Vec<S> a, Vec<S> b) {
  return {a.v + b.v};
}
template <class S>
AC4K_INLINE Vec<S> operator-(Vec<S> a, Vec<S> b) {
  return {a.v - b.v};
}
template <class S>
AC4K_INLINE Vec<S> operator*(Vec<S> a, Vec<S> b) {
  return {a.v * b.v};
}
template <class S>
AC4K_INLINE Vec<S> operator/(Vec<S> a, Vec<S> b) {
  return {a.v / b.v};
}
template <class S>
AC4K_INLINE Vec<S> min(Vec<S> a, Vec<S> b) {
  return {a.v < b.v ? a.v : b.v};
}
template <class S>
AC4K_INLINE Vec<S> max(Vec<S> a, Vec<S> b) {
  return {a.v > b.v ? a.v : b.v};
}
// -|a|
template <class S>
AC4K_INLINE Vec<S> negative_magnitude(Vec<S> a) {
  using IntReg = typename Vec<S>::IntReg;
  using Int = typename Vec<S>::Int;
  const IntReg sign = IntReg{} + __builtin_bit_cast(Int, S{-0.0f});
  return {reinterpret_cast<typename Vec<S>::Reg>(reinterpret_cast<IntReg>(a.v) | sign)};
}
// a * b + c, rounded once or twice.
template <class S>
AC4K_INLINE Vec<S> fma(Vec<S> a, Vec<S> b, Vec<S> c) {
  return {a.v * b.v + c.v};
}
// a * b + c, rounded once.
AC4K_INLINE F32 fused_multiply_add(F32 a, F32 b, F32 c) {
  F32 r;
  for (int i = 0; i < F32::kLanes; ++i) r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
AC4K_INLINE F64 fused_multiply_add(F64 a, F64 b, F64 c) {
  F64 r;
  for (int i = 0; i < F64::kLanes; ++i) r.v[i] = __builtin_fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
// a * a - square, exactly, where square = a * a rounded: Dekker's product of Veltkamp halves.
template <class S>
AC4K_INLINE Vec<S> square_error(Vec<S> a, Vec<S> square) {
  const Vec<S> wide = a * Vec<S>::broadcast(Traits<S>::kSplitter);
  const Vec<S> high = wide - (wide - a);
  const Vec<S> low = a - high;
  const Vec<S> cross = high * low;
  return ((high * high - square) + cross + cross) + low * low;
}
// a * 2^n, rounded once; n is integral, and 2^(n / 2) is a normal number.
template <class S>
AC4K_INLINE Vec<S> scale(Vec<S> a, Vec<S> n) {
  using T = Traits<S>;
  using IntReg = typename Vec<S>::IntReg;
  using Reg = typename Vec<S>::Reg;
  const IntReg whole = __builtin_convertvector(n.v, IntReg);
  const IntReg half = whole >> 1;
  const IntReg first = (half + T::kBias) << T::kMantissa;
  const IntReg second = (whole - half + T::kBias) << T::kMantissa;
  return {a.v * reinterpret_cast<Reg>(first) * reinterpret_cast<Reg>(second)};
}
// Transposes kGroup vectors within each 16-byte group.
AC4K_INLINE void transpose_groups(F32 (&r)[4]) {
  using Reg = F32::Reg;
  const Reg a = __builtin_shufflevector(r[0].v, r[1].v, 0, 4, 1, 5);
  const Reg b = __builtin_shufflevector(r[0].v, r[1].v, 2, 6, 3, 7);
  const Reg c = __builtin_shufflevector(r[2].v, r[3].v, 0, 4, 1, 5);
  const Reg d = __builtin_shufflevector(r[2].v, r[3].v, 2, 6, 3, 7);
  r[0].v = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  r[1].v = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  r[2].v = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  r[3].v = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
AC4K_INLINE void transpose_groups(F64 (&r)[2]) {
  const F64::Reg low = __builtin_shufflevector(r[0].v, r[1].v, 0, 2);
  r[1].v = __builtin_shufflevector(r[0].v, r[1].v, 1, 3);
  r[0].v = low;
}

// Each pair of neighbours swapped.
AC4K_INLINE F32 swap_pairs(F32 a) { return {__builtin_shufflevector(a.v, a.v, 1, 0, 3, 2)}; }
AC4K_INLINE F64 swap_pairs(F64 a) { return {__builtin_shufflevector(a.v, a.v, 1, 0)}; }
// The first and the second half of the lanes; and back, rounded.
AC4K_INLINE void widen(F32 a, F64& low, F64& high) {
  low.v = F64::Reg{a.v[0], a.v[1]};
  high.v = F64::Reg{a.v[2], a.v[3]};
}
AC4K_INLINE F32 narrow(F64 low, F64 high) {
  return {F32::Reg{static_cast<float>(low.v[0]), static_cast<float>(low.v[1]),
                   static_cast<float>(high.v[0]), static_cast<float>(high.v[1])}};
}

struct Bytes {
  static constexpr int kSize = 16;
  typedef uint8_t Reg __attribute__((vector_size(16)));
  Reg v;
  static AC4K_INLINE Bytes load(const uint8_t* p) {
    Bytes r;
    __builtin_memcpy(&r.v, p, 16);
    return r;
  }
  AC4K_INLINE void store(uint8_t* p) const { __builtin_memcpy(p, &v, 16); }
};
AC4K_INLINE Bytes operator^(Bytes a, Bytes b) { return {a.v ^ b.v}; }

}  // namespace ac4k::cpu::generic
