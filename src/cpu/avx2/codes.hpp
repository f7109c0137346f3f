// Bytes and nibbles from and to 32-bit lanes at the avx2 level; generic/codes.hpp says what each
// member means.
#pragma once

#include "cpu/avx2/simd.hpp"

namespace ac4k::cpu::avx2 {

struct Codes {
  typedef int32_t Int __attribute__((vector_size(32)));
  static constexpr int kLanes = F32::kLanes;

  static AC4K_INLINE Int load(const uint8_t* p) {
    return (Int)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static AC4K_INLINE Int load_partial(const uint8_t* p, int n) {
    uint8_t bytes[kLanes] = {};
    for (int i = 0; i < n; ++i) bytes[i] = p[i];
    return load(bytes);
  }
  static AC4K_INLINE void store(Int codes, uint8_t* p) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes_of((__m256i)codes));
  }
  static AC4K_INLINE void store_partial(Int codes, uint8_t* p, int n) {
    uint8_t bytes[kLanes];
    store(codes, bytes);
    for (int i = 0; i < n; ++i) p[i] = bytes[i];
  }
  static AC4K_INLINE Int load_nibbles(const uint8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, sizeof(word));
    const __m256i pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(word));
    const __m256i spread = _mm256_or_si256(pairs, _mm256_slli_epi64(pairs, 28));
    return (Int)_mm256_and_si256(spread, _mm256_set1_epi32(15));
  }
  static AC4K_INLINE void store_nibbles(Int codes, uint8_t* p) {
    const __m256i pairs = _mm256_or_si256((__m256i)codes, _mm256_srli_epi64((__m256i)codes, 28));
    const __m256i bytes = _mm256_shuffle_epi8(
        pairs, _mm256_setr_epi8(0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                -1, 0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m128i both =
        _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    const int32_t word = _mm_cvtsi128_si32(both);
    __builtin_memcpy(p, &word, sizeof(word));
  }

 private:
  // The low byte of each lane, in the low eight bytes.
  static AC4K_INLINE __m128i bytes_of(__m256i codes) {
    const __m256i low =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i bytes = _mm256_shuffle_epi8(codes, low);
    return _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  }
};

}  // namespace ac4k::cpu::avx2
