// 32 codes of a GGUF block in a register, for the avx2 level and those above; generic/q8_1.cpp says
// what the members mean. Dot: how bytes are multiplied, with VNNI or without.
#pragma once

// As in avx512/simd.hpp: files of that level include this one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "cpu/common/q8_1-inl.hpp"

namespace ac4k::cpu {
namespace {

template <class Dot>
struct Block256 {
  using Codes = __m256i;
  struct Sums {
    __m256 v;
    static AC4K_INLINE Sums broadcast(float value) { return {_mm256_set1_ps(value)}; }
    AC4K_INLINE float sum() const {
      const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
      const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
      return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
    }
    friend AC4K_INLINE Sums fma(Sums a, Sums b, Sums c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  };
  static AC4K_INLINE float half(const uint8_t* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, 2);
    return _cvtsh_ss(bits);
  }
  static AC4K_INLINE Codes nibbles(const uint8_t* p) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i spread = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
    return _mm256_and_si256(spread, _mm256_set1_epi8(15));
  }
  static AC4K_INLINE Codes add_fifth_bits(Codes codes, const uint8_t* p) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    const __m256i bytes = _mm256_shuffle_epi8(
        _mm256_set1_epi32(word),
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each);
    return _mm256_or_si256(codes, _mm256_and_si256(set, _mm256_set1_epi8(16)));
  }
  static AC4K_INLINE Codes biased_bytes(const uint8_t* p) {
    return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                            _mm256_set1_epi8(-128));
  }
  static AC4K_INLINE void store_activations(const int8_t (&x)[32], int8_t* to) {
    Dot::store_activations(x, to);
  }
  static AC4K_INLINE Sums dot(Codes codes, const int8_t* x) {
    return {_mm256_cvtepi32_ps(Dot::dot(codes, x))};
  }
};

}  // namespace
}  // namespace ac4k::cpu
