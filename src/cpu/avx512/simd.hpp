// Vectors of the avx512 level (AVX-512 F, BW, DQ, VL). generic/simd.hpp says what each member
// means. bf16 is rounded with integer instructions: VCVTNEPS2BF16 would flush denormals.
#pragma once

// GCC 12 takes the intrinsics' deliberately undefined operands for mistakes (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu::avx512 {

struct F32 {
  using Scalar = float;
  static constexpr int kLanes = 16;
  static constexpr int kGroup = 4;
  static constexpr bool kHasShortMath = true;
  __m512 v;

  static AC4K_INLINE F32 broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static AC4K_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static AC4K_INLINE F32 load(const Half* p) { return {_mm512_cvtph_ps(load_bits(p))}; }
  static AC4K_INLINE F32 load(const BFloat16* p) { return widen(load_bits(p)); }
  static AC4K_INLINE F32 load_partial(const float* p, int n) {
    return {_mm512_maskz_loadu_ps(mask(n), p)};
  }
  static AC4K_INLINE F32 load_partial(const Half* p, int n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(n), p))};
  }
  static AC4K_INLINE F32 load_partial(const BFloat16* p, int n) {
    return widen(_mm256_maskz_loadu_epi16(mask(n), p));
  }
  template <class T>
  static AC4K_INLINE void load_pair(const T* p, F32& first, F32& second) {
    first = load(p);
    second = load(p + kLanes);
  }
  // Even elements, then odd ones: a shift and a mask instead of two widenings.
  static AC4K_INLINE void load_pair(const BFloat16* p, F32& first, F32& second) {
    const __m512i bits = _mm512_loadu_si512(p);
    first = {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))};
    second = {_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-0x10000)))};
  }
  template <class T>
  static AC4K_INLINE void store_pair(F32 first, F32 second, T* p) {
    first.store(p);
    second.store(p + kLanes);
  }
  static AC4K_INLINE void store_pair(F32 first, F32 second, BFloat16* p) {
    constexpr __mmask32 kOdd = 0xaaaaaaaau;
    const __m512i even = _mm512_srli_epi32(first.rounded_bits(), 16);
    _mm512_storeu_si512(p, _mm512_mask_mov_epi16(even, kOdd, second.rounded_bits()));
  }
  static AC4K_INLINE F32 load_groups(const float* const* rows, int64_t offset) {
    __m512 r = _mm512_castps128_ps512(_mm_loadu_ps(rows[0] + offset));
    r = _mm512_insertf32x4(r, _mm_loadu_ps(rows[4] + offset), 1);
    r = _mm512_insertf32x4(r, _mm_loadu_ps(rows[8] + offset), 2);
    return {_mm512_insertf32x4(r, _mm_loadu_ps(rows[12] + offset), 3)};
  }
  static AC4K_INLINE F32 load_groups(const Half* const* rows, int64_t offset) {
    return {_mm512_cvtph_ps(
        load_four(rows[0] + offset, rows[4] + offset, rows[8] + offset, rows[12] + offset))};
  }
  static AC4K_INLINE F32 load_groups(const BFloat16* const* rows, int64_t offset) {
    return widen(
        load_four(rows[0] + offset, rows[4] + offset, rows[8] + offset, rows[12] + offset));
  }
  AC4K_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  AC4K_INLINE void store(Half* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half_bits());
  }
  AC4K_INLINE void store(BFloat16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bfloat_bits());
  }
  AC4K_INLINE void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  AC4K_INLINE void store_partial(Half* p, int n) const {
    _mm256_mask_storeu_epi16(p, mask(n), half_bits());
  }
  AC4K_INLINE void store_partial(BFloat16* p, int n) const {
    _mm256_mask_storeu_epi16(p, mask(n), bfloat_bits());
  }
  AC4K_INLINE float sum() const { return _mm512_reduce_add_ps(v); }

 private:
  static AC4K_INLINE __mmask16 mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static AC4K_INLINE __m256i load_bits(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  static AC4K_INLINE __m128i load_quad(const void* p) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(p));
  }
  static AC4K_INLINE __m256i load_four(const void* a, const void* b, const void* c, const void* d) {
    const __m128i low = _mm_unpacklo_epi64(load_quad(a), load_quad(b));
    const __m128i high = _mm_unpacklo_epi64(load_quad(c), load_quad(d));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
  static AC4K_INLINE F32 widen(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  AC4K_INLINE __m256i half_bits() const {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // bf16 in the upper half of each lane, rounded to nearest even.
  AC4K_INLINE __m512i rounded_bits() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_add_epi32(bits, bias);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  }
  AC4K_INLINE __m256i bfloat_bits() const {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits(), 16));
  }
};

struct F64 {
  using Scalar = double;
  static constexpr int kLanes = 8;
  static constexpr int kGroup = 2;
  static constexpr bool kHasShortMath = false;
  __m512d v;

  static AC4K_INLINE F64 broadcast(double value) { return {_mm512_set1_pd(value)}; }
  static AC4K_INLINE F64 load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static AC4K_INLINE F64 load_partial(const double* p, int n) {
    return {_mm512_maskz_loadu_pd(mask(n), p)};
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
    __m512d r = _mm512_castpd128_pd512(_mm_loadu_pd(rows[0] + offset));
    r = _mm512_insertf64x2(r, _mm_loadu_pd(rows[2] + offset), 1);
    r = _mm512_insertf64x2(r, _mm_loadu_pd(rows[4] + offset), 2);
    return {_mm512_insertf64x2(r, _mm_loadu_pd(rows[6] + offset), 3)};
  }
  AC4K_INLINE void store(double* p) const { _mm512_storeu_pd(p, v); }
  AC4K_INLINE void store_partial(double* p, int n) const { _mm512_mask_storeu_pd(p, mask(n), v); }
  AC4K_INLINE double sum() const { return _mm512_reduce_add_pd(v); }

 private:
  static AC4K_INLINE __mmask8 mask(int n) { return static_cast<__mmask8>((1u << n) - 1u); }
};

AC4K_INLINE F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
AC4K_INLINE F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
AC4K_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
AC4K_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
AC4K_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
AC4K_INLINE F32 fused_multiply_add(F32 a, F32 b, F32 c) { return fma(a, b, c); }
AC4K_INLINE F32 square_error(F32 a, F32 square) { return {_mm512_fmsub_ps(a.v, a.v, square.v)}; }
AC4K_INLINE F32 scale(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
AC4K_INLINE F32 negative_magnitude(F32 a) { return {_mm512_or_ps(a.v, _mm512_set1_ps(-0.0f))}; }
// 1 / a to about 2^-23.
AC4K_INLINE F32 reciprocal(F32 a) {
  const __m512 guess = _mm512_rcp14_ps(a.v);
  return {_mm512_mul_ps(guess, _mm512_fnmadd_ps(a.v, guess, _mm512_set1_ps(2.0f)))};
}
// factor * 2^y to 5e-7 and the rounding of y; |y| < 2^10. Sixteenths of y come from a table in a
// register, the rest from a minimax polynomial on |r| <= 1 / 32.
AC4K_INLINE F32 scaled_exp2(F32 factor, F32 y) {
  const __m512 table =
      _mm512_setr_ps(1.0f, 1.044273782f, 1.090507733f, 1.138788635f, 1.189207115f, 1.241857812f,
                     1.296839555f, 1.354255547f, 1.414213562f, 1.476826146f, 1.542210825f,
                     1.610490332f, 1.681792831f, 1.75625216f, 1.834008086f, 1.915206561f);
  const __m512 rounder = _mm512_set1_ps(0x1.8p19f);  // leaves sixteenths in the last four bits
  const __m512 shifted = _mm512_add_ps(y.v, rounder);
  const __m512 n = _mm512_sub_ps(shifted, rounder);
  const __m512 r = _mm512_sub_ps(y.v, n);
  __m512 power = _mm512_fmadd_ps(r, _mm512_set1_ps(0.2402194632f), _mm512_set1_ps(0.6931878323f));
  power = _mm512_fmadd_ps(r, power, _mm512_set1_ps(1.000000007f));
  const __m512 fraction = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), table);
  const __m512 product = _mm512_mul_ps(_mm512_mul_ps(factor.v, power), fraction);
  return {_mm512_scalef_ps(product, n)};  // takes the floor of n
}
AC4K_INLINE void transpose_groups(F32 (&r)[4]) {
  const __m512 a = _mm512_unpacklo_ps(r[0].v, r[1].v), b = _mm512_unpackhi_ps(r[0].v, r[1].v);
  const __m512 c = _mm512_unpacklo_ps(r[2].v, r[3].v), d = _mm512_unpackhi_ps(r[2].v, r[3].v);
  r[0].v = _mm512_shuffle_ps(a, c, 0x44);
  r[1].v = _mm512_shuffle_ps(a, c, 0xee);
  r[2].v = _mm512_shuffle_ps(b, d, 0x44);
  r[3].v = _mm512_shuffle_ps(b, d, 0xee);
}

AC4K_INLINE F64 operator+(F64 a, F64 b) { return {_mm512_add_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator-(F64 a, F64 b) { return {_mm512_sub_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator*(F64 a, F64 b) { return {_mm512_mul_pd(a.v, b.v)}; }
AC4K_INLINE F64 operator/(F64 a, F64 b) { return {_mm512_div_pd(a.v, b.v)}; }
AC4K_INLINE F64 min(F64 a, F64 b) { return {_mm512_min_pd(a.v, b.v)}; }
AC4K_INLINE F64 max(F64 a, F64 b) { return {_mm512_max_pd(a.v, b.v)}; }
AC4K_INLINE F64 fma(F64 a, F64 b, F64 c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
AC4K_INLINE F64 fused_multiply_add(F64 a, F64 b, F64 c) { return fma(a, b, c); }
AC4K_INLINE F64 square_error(F64 a, F64 square) { return {_mm512_fmsub_pd(a.v, a.v, square.v)}; }
AC4K_INLINE F64 scale(F64 a, F64 n) { return {_mm512_scalef_pd(a.v, n.v)}; }
AC4K_INLINE F64 negative_magnitude(F64 a) { return {_mm512_or_pd(a.v, _mm512_set1_pd(-0.0))}; }
AC4K_INLINE void transpose_groups(F64 (&r)[2]) {
  const __m512d low = _mm512_unpacklo_pd(r[0].v, r[1].v);
  r[1].v = _mm512_unpackhi_pd(r[0].v, r[1].v);
  r[0].v = low;
}

AC4K_INLINE F32 swap_pairs(F32 a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
AC4K_INLINE F64 swap_pairs(F64 a) { return {_mm512_permute_pd(a.v, 0x55)}; }
AC4K_INLINE void widen(F32 a, F64& low, F64& high) {
  low.v = _mm512_cvtps_pd(_mm512_castps512_ps256(a.v));
  high.v = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.v, 1));
}
AC4K_INLINE F32 narrow(F64 low, F64 high) {
  const __m512 first = _mm512_castps256_ps512(_mm512_cvtpd_ps(low.v));
  return {_mm512_insertf32x8(first, _mm512_cvtpd_ps(high.v), 1)};
}

struct Bytes {
  static constexpr int kSize = 64;
  __m512i v;
  static AC4K_INLINE Bytes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  AC4K_INLINE void store(uint8_t* p) const { _mm512_storeu_si512(p, v); }
};
AC4K_INLINE Bytes operator^(Bytes a, Bytes b) { return {_mm512_xor_si512(a.v, b.v)}; }

}  // namespace ac4k::cpu::avx512
