// Bytes and nibbles from and to 32-bit lanes at the avx512 level; generic/codes.hpp says what each
// member means.
#pragma once

#include "cpu/avx512/simd.hpp"

namespace ac4k::cpu::avx512 {

struct Codes {
  typedef int32_t Int __attribute__((vector_size(64)));
  static constexpr int kLanes = F32::kLanes;

  static AC4K_INLINE Int load(const uint8_t* p) {
    return (Int)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static AC4K_INLINE Int load_partial(const uint8_t* p, int n) {
    return (Int)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask(n), p));
  }
  static AC4K_INLINE void store(Int codes, uint8_t* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8((__m512i)codes));
  }
  static AC4K_INLINE void store_partial(Int codes, uint8_t* p, int n) {
    _mm_mask_storeu_epi8(p, mask(n), _mm512_cvtepi32_epi8((__m512i)codes));
  }
  static AC4K_INLINE Int load_nibbles(const uint8_t* p) {
    const __m512i pairs =
        _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m512i spread = _mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28));
    return (Int)_mm512_and_si512(spread, _mm512_set1_epi32(15));
  }
  static AC4K_INLINE void store_nibbles(Int codes, uint8_t* p) {
    const __m512i pairs = _mm512_or_si512((__m512i)codes, _mm512_srli_epi64((__m512i)codes, 28));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm512_cvtepi64_epi8(pairs));
  }

 private:
  static AC4K_INLINE __mmask16 mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
};

}  // namespace ac4k::cpu::avx512
