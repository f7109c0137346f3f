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
  // Of several dots.
  struct Sum {
    __m512i v = _mm512_setzero_si512();
  };
  static AC4K_INLINE void add(__m512i codes, const int8_t* planes, Sum& sum) {
    sum.v = _mm512_add_epi32(sum.v, dot(codes, planes));
  }
  static AC4K_INLINE __m512i total(const Sum& sum) { return sum.v; }
  static AC4K_INLINE __m512i dot(__m512i codes, const int8_t* planes) {
    const __m512i even = _mm512_and_si512(codes, _mm512_set1_epi16(0xff));
    const __m512i odd = _mm512_srli_epi16(codes, 8);
    return _mm512_add_epi32(_mm512_madd_epi16(even, _mm512_loadu_si512(planes)),
                            _mm512_madd_epi16(odd, _mm512_loadu_si512(planes + 64)));
  }
};

template <class Dot>
struct QuadOf {
  static constexpr bool kFourBlocks = true;  // are scales of four short blocks taken together?
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

  using Sums = Lanes;
  static constexpr int kScaleCopies = 4;
  static AC4K_INLINE Sums repeated(Lanes lanes) { return lanes; }
  static AC4K_INLINE Sums folded(Lanes lanes) { return lanes; }

  static AC4K_INLINE Codes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static AC4K_INLINE Codes low_nibbles(Codes both) {
    return {_mm512_and_si512(both.v, _mm512_set1_epi8(15))};
  }
  static AC4K_INLINE Codes high_nibbles(Codes both) {
    return {_mm512_and_si512(_mm512_srli_epi16(both.v, 4), _mm512_set1_epi8(15))};
  }
  static AC4K_INLINE Codes high_nibbles_times_16(Codes both) {
    return {_mm512_and_si512(both.v, _mm512_set1_epi8(-16))};
  }
  static AC4K_INLINE void pairs(const uint8_t* p, Codes (&codes)[2]) {
    const __m512i both = both_pairs(p), three = _mm512_set1_epi8(3);
    codes[0].v = _mm512_and_si512(both, three);
    codes[1].v = _mm512_and_si512(_mm512_srli_epi16(both, 2), three);
  }
  static AC4K_INLINE void pairs_in_place(const uint8_t* p, Codes (&codes)[2]) {
    constexpr int kOrAnd = 0xa8;  // (a | b) & c
    constexpr char z = -1;
    // A byte in each 16 bits; its upper nibble, shifted, is in the upper byte.
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, z, 2, z, 1, z, 3, z, 4, z, 6, z, 5, z, 7, z));
    const __m512i low = _mm512_shuffle_epi8(repeated_eights(p), order);
    const __m512i high = _mm512_slli_epi16(low, 4);
    codes[0].v = _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(3), kOrAnd);
    codes[1].v = _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(12), kOrAnd);
  }
  static AC4K_INLINE void add_pairs_times_16(const uint8_t* p, Codes (&codes)[2]) {
    constexpr int kOrAnd = 0xf8;  // a | (b & c)
    const __m512i both = both_pairs(p), wanted = _mm512_set1_epi8(0x30);
    codes[0].v = _mm512_ternarylogic_epi32(codes[0].v, _mm512_slli_epi16(both, 4), wanted, kOrAnd);
    codes[1].v = _mm512_ternarylogic_epi32(codes[1].v, _mm512_slli_epi16(both, 2), wanted, kOrAnd);
  }

  template <int kPosition, int kSecond>
  static AC4K_INLINE void add_bits(const uint8_t* p, Codes (&codes)[2]) {
    // The byte that has its bit, for each byte of codes; then one bit of it is tested.
    const __m512i bytes = _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
        _mm512_load_si512(kBitBytes.v));
    const __m512i first = _mm512_set1_epi64(0x4010401004010401);
    const __m512i second = _mm512_set1_epi64(static_cast<int64_t>(0x8020802008020802));
    codes[0].v = _mm512_mask_add_epi8(codes[0].v, _mm512_test_epi8_mask(bytes, first), codes[0].v,
                                      _mm512_set1_epi8(1 << kPosition));
    codes[1].v = _mm512_mask_add_epi8(codes[1].v, _mm512_test_epi8_mask(bytes, second), codes[1].v,
                                      _mm512_set1_epi8(1 << kSecond));
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

  // The same f16 number in all lanes, of two places.
  static AC4K_INLINE void two_halves(const uint8_t* first, const uint8_t* second, Lanes (&d)[2]) {
    broadcast_halves(first, second, 0, d);
  }
  static AC4K_INLINE void two_minus_halves(const uint8_t* first, const uint8_t* second,
                                           Lanes (&d)[2]) {
    broadcast_halves(first, second, 0x80008000u, d);
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
      s[i].v = half_powers_of_two(e);
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

  // ---- Scales of a quad in four blocks `stride` bytes apart: lane 4j + s is of block j ----

  static AC4K_INLINE void four_half_pairs(const uint8_t* p, int64_t stride, Lanes (&s)[2]) {
    const __m256i all = four_eights(p, stride);
    s[0].v = repeat_halves(all, _mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 8, 9, 8, 9, 10, 11, 10, 11));
    s[1].v =
        repeat_halves(all, _mm_setr_epi8(4, 5, 4, 5, 6, 7, 6, 7, 12, 13, 12, 13, 14, 15, 14, 15));
  }
  // Pairs of two numbers each, as q4_1 has them.
  static AC4K_INLINE void four_pairs_of_halves(const uint8_t* p, int64_t stride, Lanes (&first)[2],
                                               Lanes (&second)[2]) {
    const __m256i even = load_pair(p, p + 2 * stride);
    const __m256i odd = load_pair(p + stride, p + 3 * stride);
    for (int i = 0; i < 2; ++i) {
      const char k = static_cast<char>(8 * i);
      const __m256i order = _mm256_broadcastsi128_si256(
          _mm_setr_epi8(k, k + 1, k, k + 1, k + 4, k + 5, k + 4, k + 5, k + 2, k + 3, k + 2, k + 3,
                        k + 6, k + 7, k + 6, k + 7));
      const __m256i a = _mm256_shuffle_epi8(even, order), b = _mm256_shuffle_epi8(odd, order);
      first[i].v = _mm512_cvtph_ps(_mm256_unpacklo_epi64(a, b));
      second[i].v = _mm512_cvtph_ps(_mm256_unpackhi_epi64(a, b));
    }
  }
  static AC4K_INLINE void four_exponents(const uint8_t* p, int64_t stride, Lanes (&s)[2]) {
    int32_t bits[4];
    for (int j = 0; j < 4; ++j) __builtin_memcpy(bits + j, p + j * stride, 4);
    const __m512i all = _mm512_broadcast_i32x4(_mm_setr_epi32(bits[0], bits[1], bits[2], bits[3]));
    const __m512i first = _mm512_setr_epi32(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m512i zeros = _mm512_set1_epi32(static_cast<int>(0x80808000));
    for (int i = 0; i < 2; ++i) {
      const __m512i order =
          _mm512_or_si512(_mm512_add_epi32(first, _mm512_set1_epi32(2 * i)), zeros);
      s[i].v = half_powers_of_two(_mm512_shuffle_epi8(all, order));
    }
  }
  // An e4m3 without sign, shifted into an f16, is 2^-8 of its value, denormals included.
  static AC4K_INLINE void four_half_ue4m3(const uint8_t* p, int64_t stride, Lanes (&s)[2]) {
    const __m256i codes = four_eights(p, stride);
    const __mmask32 there = _mm256_cmpneq_epi8_mask(codes, _mm256_set1_epi8(127));
    const __m256i by_row = _mm256_maskz_permutexvar_epi32(
        0xff, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7), _mm256_maskz_mov_epi8(there, codes));
    const __m512i wide = _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepu8_epi16(by_row), 7),
                                          _mm512_set1_epi16(127 << 7));
    const __m512 unit = _mm512_set1_ps(0x1p7f);
    s[0].v = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(wide)), unit);
    s[1].v = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(wide, 1)), unit);
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
  // Of 16 bytes.
  static AC4K_INLINE Lanes low_nibbles_of_bytes(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_and_si512(wide_bytes(p), _mm512_set1_epi32(15)))};
  }
  static AC4K_INLINE Lanes high_nibbles_of_bytes(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_srli_epi32(wide_bytes(p), 4))};
  }
  static AC4K_INLINE Lanes signed_bytes(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  template <int kSubBlock>
  static AC4K_INLINE Lanes spread(Lanes s) {
    return {_mm512_shuffle_f32x4(s.v, s.v, kSubBlock * 0x55)};
  }
  // `spread` by loading, where the ports that shuffle have enough to do: nvfp4 takes 4 % less time
  // per code, iq4_xs 7 %, and q4_0, which looks nothing up, 3 % more.
  struct ScalesInMemory {
    alignas(64) float v[16];

    AC4K_INLINE explicit ScalesInMemory(Lanes scales) {
      scales.store(v);
      asm("" : "+m"(v));  // or compilers see through it, and shuffle
    }
    template <int kSubBlock>
    AC4K_INLINE Lanes at() const {
      return Lanes::load_four(v + 4 * kSubBlock);
    }
  };
  template <int kByte>
  static AC4K_INLINE Lanes values(Codes codes) {
    const __m512i shifted = kByte == 0 ? codes.v : _mm512_srli_epi32(codes.v, 8 * kByte);
    const __m512i byte = kByte == 3 ? shifted : _mm512_and_si512(shifted, _mm512_set1_epi32(0xff));
    return {_mm512_cvtepi32_ps(byte)};
  }

  // ---- Codes times scales of 4 bits, where a byte holds them ----

  static constexpr bool kHasSmallScales = true;
  struct SmallScales {
    __m512i v;
  };
  // The low nibbles of 16 bytes, one for 16 columns each.
  static AC4K_INLINE SmallScales small_scales(const uint8_t* p) {
    const __m512i all =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_and_si512(all, _mm512_set1_epi8(15))};
  }
  template <int kSubBlock>
  static AC4K_INLINE Codes times(Codes codes, SmallScales scales) {
    constexpr char a = 4 * kSubBlock, z = -1;
    const __m512i order = _mm512_broadcast_i32x4(
        _mm_setr_epi8(a, z, a, z, a + 1, z, a + 1, z, a + 2, z, a + 2, z, a + 3, z, a + 3, z));
    return {_mm512_mullo_epi16(codes.v, _mm512_shuffle_epi8(scales.v, order))};
  }
  using Sum = typename Dot::Sum;
  static AC4K_INLINE void add_dot(Codes codes, const int8_t* planes, Sum& sum) {
    Dot::add(codes.v, planes, sum);
  }
  static AC4K_INLINE Lanes value(const Sum& sum) { return {_mm512_cvtepi32_ps(Dot::total(sum))}; }

  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    Dot::store_planes(x, planes);
  }
  static AC4K_INLINE Lanes dot(Codes codes, const int8_t* planes) {
    return {_mm512_cvtepi32_ps(Dot::dot(codes.v, planes))};
  }

 private:
  // For each byte of codes the byte of a 1-bit plane that has its bit.
  struct alignas(64) BytePattern {
    uint8_t v[64];
  };
  static constexpr BytePattern kBitBytes = [] {
    BytePattern pattern{};
    for (int i = 0; i < 64; ++i) {
      pattern.v[i] = static_cast<uint8_t>(4 * (i / 16) + 2 * (i % 4 / 2) + i / 4 % 4 / 2);
    }
    return pattern;
  }();
  // 32 bytes, 8 of them twice in each 16.
  static AC4K_INLINE __m512i repeated_eights(const uint8_t* p) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                    _mm512_castsi256_si512(load_256(p)));
  }
  // Fields of 2 bits of both rows in the low nibble of every byte, from 32 bytes of their plane.
  static AC4K_INLINE __m512i both_pairs(const uint8_t* p) {
    // 8 bytes of the plane for each 16 bytes of codes; each byte twice, side by side.
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7));
    const __m512i twice = _mm512_shuffle_epi8(repeated_eights(p), order);
    // The upper of the two wants bits 4..7.
    return _mm512_ternarylogic_epi32(twice, _mm512_srli_epi16(twice, 4), _mm512_set1_epi16(0xff),
                                     0xe4);
  }
  static AC4K_INLINE __m512i wide_bytes(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // One conversion for both.
  static AC4K_INLINE void broadcast_halves(const uint8_t* first, const uint8_t* second,
                                           uint32_t flipped, Lanes (&d)[2]) {
    uint16_t low, high;
    __builtin_memcpy(&low, first, 2);
    __builtin_memcpy(&high, second, 2);
    const uint32_t bits = (low | (uint32_t{high} << 16)) ^ flipped;
    const __m128 values = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(bits)));
    d[0].v = _mm512_broadcastss_ps(values);
    d[1].v = _mm512_broadcastss_ps(_mm_movehdup_ps(values));
  }
  static AC4K_INLINE __m256i load_pair(const uint8_t* low, const uint8_t* high) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
  }
  // Straight from memory: through general registers it takes twice as long.
  static AC4K_INLINE __m128i two_eights(const uint8_t* low, const uint8_t* high) {
    const __m128d first = _mm_load_sd(reinterpret_cast<const double*>(low));
    return _mm_castpd_si128(_mm_loadh_pd(first, reinterpret_cast<const double*>(high)));
  }
  static AC4K_INLINE __m256i four_eights(const uint8_t* p, int64_t stride) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(two_eights(p, p + stride)),
                                   two_eights(p + 2 * stride, p + 3 * stride), 1);
  }
  // 2^(e - 128), without float32 denormals but for the two that are.
  static AC4K_INLINE __m512 half_powers_of_two(__m512i e) {
    const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(
        _mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e));
  }
  static AC4K_INLINE __m256i load_256(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static AC4K_INLINE __m512 repeat_halves(__m256i all, __m128i order) {
    return _mm512_cvtph_ps(_mm256_shuffle_epi8(all, _mm256_broadcastsi128_si256(order)));
  }
};

}  // namespace ac4k::cpu::avx512
