// Vectors of the avx2 level (AVX2, FMA, F16C). generic/simd.hpp says what each member means.
#pragma once

#include <immintrin.h>

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu::avx2 {

struct F32 {
  using Scalar = float;
  static constexpr int kLanes = 8;
  static constexpr int kGroup = 4;
  static constexpr bool kHasShortMath = true;
  __m256 v;

  static AC4K_INLINE F32 broadcast(float value) { return {_mm256_set1_ps(value)}; }
  static AC4K_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static AC4K_INLINE F32 load(const Half* p) { return {_mm256_cvtph_ps(load_bits(p))}; }
  static AC4K_INLINE F32 load(const BFloat16* p) { return widen(load_bits(p)); }
  template <class T>
  static AC4K_INLINE F32 load_partial(const T* p, int n) {
    T lanes[kLanes] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  template <class T>
  static AC4K_INLINE void load_pair(const T* p, F32& first, F32& second) {
    first = load(p);
    second = load(p + kLanes);
  }
  // Even elements, then odd ones: a shift and a mask instead of two widenings.
  static AC4K_INLINE void load_pair(const BFloat16* p, F32& first, F32& second) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    first = {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))};
    second = {_mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(-0x10000)))};
  }
  template <class T>
  static AC4K_INLINE void store_pair(F32 first, F32 second, T* p) {
    first.store(p);
    second.store(p + kLanes);
  }
  static AC4K_INLINE void store_pair(F32 first, F32 second, BFloat16* p) {
    const __m256i even = _mm256_srli_epi32(first.rounded_bits(), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_blend_epi16(even, second.rounded_bits(), 0xaa));
  }
  static AC4K_INLINE F32 load_groups(const float* const* rows, int64_t offset) {
    const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(rows[0] + offset));
    return {_mm256_insertf128_ps(low, _mm_loadu_ps(rows[4] + offset), 1)};
  }
  static AC4K_INLINE F32 load_groups(const Half* const* rows, int64_t offset) {
    return {_mm256_cvtph_ps(load_two(rows[0] + offset, rows[4] + offset))};
  }
  static AC4K_INLINE F32 load_groups(const BFloat16* const* rows, int64_t offset) {
    return widen(load_two(rows[0] + offset, rows[4] + offset));
  }
  AC4K_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  AC4K_INLINE void store(Half* p) const {
    store_bits(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  AC4K_INLINE void store(BFloat16* p) const {
    const __m256i top = _mm256_srli_epi32(rounded_bits(), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(top, top), 0x08);
    store_bits(p, _mm256_castsi256_si128(packed));
  }
  template <class T>
  AC4K_INLINE void store_partial(T* p, int n) const {
    T lanes[kLanes];
    store(lanes);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
  }
  AC4K_INLINE float sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

 private:
  static AC4K_INLINE __m128i load_bits(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  static AC4K_INLINE void store_bits(void* p, __m128i bits) {
    _mm_storeu_si128(static_cast<__m128i*>(p), bits);
  }
  static AC4K_INLINE __m128i load_two(const void* low, const void* high) {
    return _mm_unpacklo_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(low)),
                              _mm_loadl_epi64(static_cast<const __m128i*>(high)));
  }
  // bf16 in the upper half of each lane, rounded to nearest even.
  AC4K_INLINE __m256i rounded_bits() const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_add_epi32(bits, bias), quiet, nan);
  }
  static AC4K_INLINE F32 widen(__m128i bits) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
};

struct F64 {
  using Scalar = double;
  static constexpr int kLanes = 4;
  static constexpr int kGroup = 2;
  static constexpr bool kHasShortMath = false;
  __m256d v;

  static AC4K_INLINE F64 broadcast(double value) { return {_mm256_set1_pd(value)}; }
  static AC4K_INLINE F64 load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static AC4K_INLINE F64 load_partial(const double* p, int n) {
    double lanes[kLanes] = {};
    for (int i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  static AC4K_INLINE void load_pair(const double* p, F64& first, F64& second) {
    first = load(p);
    second = load(p + kLanes);
  }
  static AC4K_INLINE void store_pair(F64 first, F64 second, double* p) {
    first.store(p);
    second.store(p + kLanes);
  }
  static AC4K_INLINE F64 load_groups(const double* const* rows, int64_t offset) {
    const __m256d low = _mm256_castpd128_pd256(_mm_loadu_pd(rows[0] + offset));
    return {_mm256_insertf128_pd(low, _mm_loadu_pd(rows[2] + offset), 1)};
  }
  AC4K_INLINE void store(double* p) const { _mm256_storeu_pd(p, v); }
  AC4K_INLINE void store_partial(double* p, int n) const {
    double lanes[kLanes];
    store(lanes);
    for (int i = 0; i < n; ++i) p[i] = lanes[i];
  }
  AC4K_INLINE double sum() const {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

AC4K_INLINE F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
AC4K_INLINE F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
AC4K_INLINE F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
AC4K_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
AC4K_INLINE F32 fused_multiply_add(F32 a, F32 b, F32 c) { return fma(a, b, c); }
AC4K_INLINE F32 square_error(F32 a, F32 square) { return {_mm256_fmsub_ps(a.v, a.v, square.v)}; }
AC4K_INLINE F32 scale_by(__m256 a, __m256i n) {
  const __m256i half = _mm256_srai_epi32(n, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i rest = _mm256_sub_epi32(n, half);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
  return {_mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second))};
}
AC4K_INLINE F32 scale(F32 a, F32 n) { return scale_by(a.v, _mm256_cvtps_epi32(n.v)); }
AC4K_INLINE F32 negative_magnitude(F32 a) { return {_mm256_or_ps(a.v, _mm256_set1_ps(-0.0f))}; }
// 1 / a to about 2^-22.
AC4K_INLINE F32 reciprocal(F32 a) {
  const __m256 guess = _mm256_rcp_ps(a.v);
  return {_mm256_mul_ps(guess, _mm256_fnmadd_ps(a.v, guess, _mm256_set1_ps(2.0f)))};
}
// factor * 2^y to 4e-6 and the rounding of y; -252 < y < 10. Eighths of y come from a table in a
// register, the rest from a minimax polynomial on |r| <= 1 / 16.
AC4K_INLINE F32 scaled_exp2(F32 factor, F32 y) {
  const __m256 table = _mm256_setr_ps(1.0f, 1.090507733f, 1.189207115f, 1.296839555f, 1.414213562f,
                                      1.542210825f, 1.681792831f, 1.834008086f);
  const __m256 rounder = _mm256_set1_ps(0x1.8p20f);  // leaves eighths in the last three bits
  const __m256 shifted = _mm256_add_ps(y.v, rounder);
  const __m256 r = _mm256_sub_ps(y.v, _mm256_sub_ps(shifted, rounder));
  __m256 power = _mm256_fmadd_ps(r, _mm256_set1_ps(0.2401983407f), _mm256_set1_ps(0.6933097788f));
  power = _mm256_fmadd_ps(r, power, _mm256_set1_ps(1.00000011f));
  const __m256i bits = _mm256_castps_si256(shifted);
  const __m256 fraction = _mm256_permutevar8x32_ps(table, bits);
  const __m256 product = _mm256_mul_ps(_mm256_mul_ps(factor.v, power), fraction);
  const __m256i eighths = _mm256_sub_epi32(bits, _mm256_castps_si256(rounder));
  return scale_by(product, _mm256_srai_epi32(eighths, 3));
}
AC4K_INLINE void transpose_groups(F32 (&r)[4]) {
  const __m256 a = _mm256_unpacklo_ps(r[0].v, r[1].v), b = _mm256_unpackhi_ps(r[0].v, r[1].v);
  const __m256 c = _mm256_unpacklo_ps(r[2].v, r[3].v), d = _mm256_unpackhi_ps(r[2].v, r[3].v);
  r[0].v = _mm256_shuffle_ps(a, c, 0x44);
  r[1].v = _mm256_shuffle_ps(a, c, 0xee);
  r[2].v = _mm256_shuffle_ps(b, d, 0x44);
  r[3].v = _mm256_shuffle_ps(b, d, 0xee);
}

AC4K_INLINE F64 operator+(F64 a, F64 b) { return {_mm256_add_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator-(F64 a, F64 b) { return {_mm256_sub_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator*(F64 a, F64 b) { return {_mm256_mul_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator/(F64 a, F64 b) { return {_mm256_div_pd(a.v, b.v)}; }
AC4K_INLINE F64 min(F64 a, F64 b) { return {_mm256_min_pd(a.v, b.v)}; }
AC4K_INLINE F64 max(F64 a, F64 b) { return {_mm256_max_pd(a.v, b.v)}; }
AC4K_INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
AC4K_INLINE F64 fused_multiply_add(F64 a, F64 b, F64 c) { return fma(a, b, c); }
AC4K_INLINE F64 square_error(F64 a, F64 square) { return {_mm256_fmsub_pd(a.v, a.v, square.v)}; }
AC4K_INLINE F64 scale(F64 a, F64 n) {
  const __m128i whole = _mm256_cvtpd_epi32(n.v);
  const __m128i half = _mm_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi64x(1023);
  const __m256i first = _mm256_add_epi64(_mm256_cvtepi32_epi64(half), bias);
  const __m128i rest = _mm_sub_epi32(whole, half);
  const __m256i second = _mm256_add_epi64(_mm256_cvtepi32_epi64(rest), bias);
  return {_mm256_mul_pd(_mm256_mul_pd(a.v, _mm256_castsi256_pd(_mm256_slli_epi64(first, 52))),
                        _mm256_castsi256_pd(_mm256_slli_epi64(second, 52)))};
}
AC4K_INLINE F64 negative_magnitude(F64 a) { return {_mm256_or_pd(a.v, _mm256_set1_pd(-0.0))}; }
AC4K_INLINE void transpose_groups(F64 (&r)[2]) {
  const __m256d low = _mm256_unpacklo_pd(r[0].v, r[1].v);
  r[1].v = _mm256_unpackhi_pd(r[0].v, r[1].v);
  r[0].v = low;
}

AC4K_INLINE F32 swap_pairs(F32 a) { return {_mm256_permute_ps(a.v, 0xb1)}; }
AC4K_INLINE F64 swap_pairs(F64 a) { return {_mm256_permute_pd(a.v, 0x5)}; }
AC4K_INLINE void widen(F32 a, F64& low, F64& high) {
  low.v = _mm256_cvtps_pd(_mm256_castps256_ps128(a.v));
  high.v = _mm256_cvtps_pd(_mm256_extractf128_ps(a.v, 1));
}
AC4K_INLINE F32 narrow(F64 low, F64 high) {
  return {_mm256_set_m128(_mm256_cvtpd_ps(high.v), _mm256_cvtpd_ps(low.v))};
}

struct Bytes {
  static constexpr int kSize = 32;
  __m256i v;
  static AC4K_INLINE Bytes load(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  AC4K_INLINE void store(uint8_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  }
};
AC4K_INLINE Bytes operator^(Bytes a, Bytes b) { return {_mm256_xor_si256(a.v, b.v)}; }

}  // namespace ac4k::cpu::avx2
