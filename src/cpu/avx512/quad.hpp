// A quad of packed weights at the avx512 level; generic/quad.hpp says what the members mean. One
// register holds the codes of a row. Dot: how bytes are multiplied, with VNNI or without.
#pragma once

#include "cpu/avx512/simd.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu::avx512 {

// Without VNNI: 16-bit products of the even and the odd bytes.
struct MultiplyAdd {
  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    int16_t ordered[64];
    for (int i = 0; i < 32; ++i) {
      ordered[i] = x[2 * i];
      ordered[32 + i] = x[2 * i + 1];
    }
    __builtin_memcpy(planes, ordered, sizeof ordered);
  }
  static AC4K_INLINE __m512i dot(__m512i codes, const int8_t* planes) {
    const __m512i even = _mm512_and_si512(codes, _mm512_set1_epi16(0xff));
    const __m512i odd = _mm512_srli_epi16(codes, 8);
    return _mm512_add_epi32(_mm512_madd_epi16(even, _mm512_loadu_si512(planes)),
                            _mm512_madd_epi16(odd, _mm512_loadu_si512(planes + 64)));
  }
};

template <class Dot>
struct QuadOf {
  struct Codes {
    __m512i v;
    friend AC4K_INLINE Codes operator|(Codes a, Codes b) { return {_mm512_or_si512(a.v, b.v)}; }
  };
  struct Lanes {
    __m512 v;
    static AC4K_INLINE Lanes broadcast(float value) { return {_mm512_set1_ps(value)}; }
    static AC4K_INLINE Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static AC4K_INLINE Lanes load_four(const float* p) {
      return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
    }
    AC4K_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
    AC4K_INLINE float sum() const { return _mm512_reduce_add_ps(v); }
    friend AC4K_INLINE Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
    friend AC4K_INLINE Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
    friend AC4K_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
      return {_mm512_fmadd_ps(a.v, b.v, c.v)};
    }
  };

  static AC4K_INLINE Codes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static AC4K_INLINE Codes low_nibbles(Codes both) {
    return {_mm512_and_si512(both.v, _mm512_set1_epi8(15))};
  }
  static AC4K_INLINE Codes high_nibbles(Codes both) {
    return {_mm512_and_si512(_mm512_srli_epi16(both.v, 4), _mm512_set1_epi8(15))};
  }
  static AC4K_INLINE Codes times_16(Codes codes) { return {_mm512_slli_epi16(codes.v, 4)}; }

  static AC4K_INLINE void pairs(const uint8_t* p, Codes (&codes)[2]) {
    const __m512i three = _mm512_set1_epi8(3);
    // 8 bytes of the plane for each 16 bytes of codes; each byte twice, side by side.
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7));
    const __m512i eights = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                                    _mm512_castsi256_si512(load_256(p)));
    const __m512i twice = _mm512_shuffle_epi8(eights, order);
    // The upper of the two wants bits 4..7: both rows in the low nibble of every byte.
    const __m512i both = _mm512_ternarylogic_epi32(twice, _mm512_srli_epi16(twice, 4),
                                                   _mm512_set1_epi16(0xff), 0xe4);
    codes[0].v = _mm512_and_si512(both, three);
    codes[1].v = _mm512_and_si512(_mm512_srli_epi16(both, 2), three);
  }

  template <int kPosition>
  static AC4K_INLINE void bits(const uint8_t* p, Codes (&codes)[2]) {
    static_assert(kPosition == 2 || kPosition == 4);
    const __m512i wanted = _mm512_set1_epi8(1 << kPosition);
    // The word of c in all four lanes of c, shifted so that bits 0..3 and 16..19 are of step s.
    const __m512i words = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
        _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    const __m512i steps = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 4, 8, 12));
    const __m512i fours = _mm512_srlv_epi32(words, steps);
    // Bits 0, 1 of a 16-bit half to the lower byte, bits 2, 3 to the upper one.
    const __m512i both = _mm512_ternarylogic_epi32(_mm512_slli_epi16(fours, kPosition),
                                                   _mm512_slli_epi16(fours, kPosition + 6),
                                                   _mm512_set1_epi16(0xff), 0xe4);
    codes[0].v = _mm512_and_si512(both, wanted);
    codes[1].v = _mm512_and_si512(_mm512_srli_epi16(both, 1), wanted);
  }

  static AC4K_INLINE void bytes(const uint8_t* first, const uint8_t* second, Codes (&codes)[2]) {
    const __m512 a = _mm512_loadu_ps(first), b = _mm512_loadu_ps(second);
    codes[0].v = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88));
    codes[1].v = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
  }
  static AC4K_INLINE Codes lookup(Codes codes, const uint8_t (&table)[16]) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm512_shuffle_epi8(values, codes.v)};
  }

  static AC4K_INLINE Lanes half(const uint8_t* p) {
    int16_t bits;
    __builtin_memcpy(&bits, p, 2);
    return {_mm512_cvtph_ps(_mm256_set1_epi16(bits))};
  }
  static AC4K_INLINE Lanes minus_half(const uint8_t* p) {
    int16_t bits;
    __builtin_memcpy(&bits, p, 2);
    return {_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(bits ^ 0x8000)))};
  }
  static AC4K_INLINE void half_pairs(const uint8_t* p, Lanes (&s)[2]) {
    int64_t bits;
    __builtin_memcpy(&bits, p, 8);
    const __m256i all = _mm256_set1_epi64x(bits);
    s[0].v = repeat_halves(all, _mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3));
    s[1].v = repeat_halves(all, _mm_setr_epi8(4, 5, 4, 5, 6, 7, 6, 7, 4, 5, 4, 5, 6, 7, 6, 7));
  }
  template <int kIndex>
  static AC4K_INLINE void half_of_pairs(const uint8_t* p, Lanes (&s)[2]) {
    const __m256i all =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    constexpr char k = 2 * kIndex;
    s[0].v = repeat_halves(all, _mm_setr_epi8(k, k + 1, k, k + 1, k + 4, k + 5, k + 4, k + 5, k,
                                              k + 1, k, k + 1, k + 4, k + 5, k + 4, k + 5));
    s[1].v = repeat_halves(
        all, _mm_setr_epi8(k + 8, k + 9, k + 8, k + 9, k + 12, k + 13, k + 12, k + 13, k + 8, k + 9,
                           k + 8, k + 9, k + 12, k + 13, k + 12, k + 13));
  }
  template <int kBytes, int kIndex>
  static AC4K_INLINE void bf16_entries(const uint8_t* p, Lanes (&s)[2]) {
    const auto* from = reinterpret_cast<const __m128i*>(p);
    const __m512i all =
        _mm512_broadcast_i32x4(kBytes == 4 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from));
    for (int i = 0; i < 2; ++i) {
      const char a = static_cast<char>(2 * i * kBytes + 2 * kIndex), z = -1;
      const char b = static_cast<char>(a + kBytes);
      const __m128i order =
          _mm_setr_epi8(z, z, a, a + 1, z, z, a, a + 1, z, z, b, b + 1, z, z, b, b + 1);
      s[i].v = _mm512_castsi512_ps(_mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(order)));
    }
  }
  static AC4K_INLINE void exponents(const uint8_t* p, Lanes (&s)[2]) {
    int32_t bits;
    __builtin_memcpy(&bits, p, 4);
    const __m512i all = _mm512_set1_epi32(bits);
    for (int i = 0; i < 2; ++i) {
      const char a = static_cast<char>(2 * i), z = -1;
      const __m512i e =
          _mm512_shuffle_epi8(all, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                       a, z, z, z, a, z, z, z, a + 1, z, z, z, a + 1, z, z, z)));
      const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
      const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
      s[i].v = _mm512_castsi512_ps(
          _mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e));
    }
  }
  static AC4K_INLINE void half_ue4m3(const uint8_t* p, Lanes (&s)[2]) {
    int64_t bits;
    __builtin_memcpy(&bits, p, 8);
    const __m512i all = _mm512_set1_epi64(bits);
    for (int i = 0; i < 2; ++i) {
      const char a = static_cast<char>(4 * i), z = -1;
      const __m512i code = _mm512_shuffle_epi8(
          all, _mm512_broadcast_i32x4(
                   _mm_setr_epi8(a, z, z, z, a + 1, z, z, z, a + 2, z, z, z, a + 3, z, z, z)));
      // Exponents from 1 on are rebiased; denormals take the leading bit of exponent 1 and lose it
      // again (float32 denormals would cost a microcode assist each).
      const __mmask16 denormal = _mm512_testn_epi32_mask(code, _mm512_set1_epi32(0x78));
      const __mmask16 there = _mm512_cmpneq_epi32_mask(code, _mm512_set1_epi32(127));
      const __m512i low = _mm512_and_si512(code, _mm512_set1_epi32(127));
      const __m512i leading = _mm512_mask_or_epi32(low, denormal, low, _mm512_set1_epi32(8));
      const __m512i bits32 =
          _mm512_add_epi32(_mm512_slli_epi32(leading, 20), _mm512_set1_epi32(119 << 23));
      const __m512 value = _mm512_maskz_mov_ps(there, _mm512_castsi512_ps(bits32));
      s[i].v = _mm512_mask_sub_ps(value, denormal, value, _mm512_set1_ps(0x1p-7f));
    }
  }
  template <FieldTable kTable>
  static AC4K_INLINE Lanes fields(const uint8_t* p) {
    struct Patterns {
      alignas(64) uint8_t bytes[64];
      alignas(64) uint32_t shifts[16];
    };
    static constexpr Patterns kPatterns = [] {
      Patterns patterns{};
      for (int i = 0; i < 16; ++i) {
        for (int b = 0; b < 3; ++b) {
          patterns.bytes[4 * i + b] = static_cast<uint8_t>((kTable.bytes[i] + b) % 16);
        }
        patterns.bytes[4 * i + 3] = 0x80;
        patterns.shifts[i] = kTable.shifts[i];
      }
      return patterns;
    }();
    const __m512i all =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i words = _mm512_shuffle_epi8(all, _mm512_load_si512(kPatterns.bytes));
    const __m512i shifted = _mm512_srlv_epi32(words, _mm512_load_si512(kPatterns.shifts));
    const __m512i masked =
        _mm512_and_si512(shifted, _mm512_set1_epi32(static_cast<int>(kTable.mask)));
    return {_mm512_cvtepi32_ps(masked)};
  }
  static AC4K_INLINE Lanes signed_bytes(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  template <int kSubBlock>
  static AC4K_INLINE Lanes spread(Lanes s) {
    return {_mm512_shuffle_f32x4(s.v, s.v, kSubBlock * 0x55)};
  }
  template <int kByte>
  static AC4K_INLINE Lanes values(Codes codes) {
    const __m512i shifted = kByte == 0 ? codes.v : _mm512_srli_epi32(codes.v, 8 * kByte);
    const __m512i byte = kByte == 3 ? shifted : _mm512_and_si512(shifted, _mm512_set1_epi32(0xff));
    return {_mm512_cvtepi32_ps(byte)};
  }

  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    Dot::store_planes(x, planes);
  }
  static AC4K_INLINE Lanes dot(Codes codes, const int8_t* planes) {
    return {_mm512_cvtepi32_ps(Dot::dot(codes.v, planes))};
  }

 private:
  static AC4K_INLINE __m256i load_256(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static AC4K_INLINE __m512 repeat_halves(__m256i all, __m128i order) {
    return _mm512_cvtph_ps(_mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(order)));
  }
};

}  // namespace ac4k::cpu::avx512
