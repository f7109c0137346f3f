// A quad of packed weights at the avx2 level; generic/quad.hpp says what the members mean. Two
// registers hold the codes of a row: lanes 0..7 and 8..15.
#pragma once

#include "cpu/avx2/simd.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu::avx2 {

struct Quad {
  static constexpr bool kFourBlocks = false;      // are scales of four short blocks taken together?
  static constexpr bool kHasSmallScales = false;  // are codes multiplied by scales of 4 bits?
  struct Codes {
    __m256i v[2];
    friend AC4K_INLINE Codes operator|(Codes a, Codes b) {
      return {{_mm256_or_si256(a.v[0], b.v[0]), _mm256_or_si256(a.v[1], b.v[1])}};
    }
  };
  struct Lanes {
    __m256 v[2];
    static AC4K_INLINE Lanes broadcast(float value) {
      return {{_mm256_set1_ps(value), _mm256_set1_ps(value)}};
    }
    static AC4K_INLINE Lanes load(const float* p) {
      return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}};
    }
    static AC4K_INLINE Lanes load_four(const float* p) {
      const __m256 four = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
      return {{four, four}};
    }
    AC4K_INLINE void store(float* p) const {
      _mm256_storeu_ps(p, v[0]);
      _mm256_storeu_ps(p + 8, v[1]);
    }
    friend AC4K_INLINE Lanes operator+(Lanes a, Lanes b) {
      return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}};
    }
    friend AC4K_INLINE Lanes operator*(Lanes a, Lanes b) {
      return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}};
    }
    friend AC4K_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
      return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
    }
  };

  // A row's 16 lanes in one register: where scales are repeated both halves have the same.
  using Sums = F32;
  static constexpr int kScaleCopies = 2;
  static AC4K_INLINE Sums repeated(Lanes lanes) { return {lanes.v[0]}; }
  static AC4K_INLINE Sums folded(Lanes lanes) { return {_mm256_add_ps(lanes.v[0], lanes.v[1])}; }

  static AC4K_INLINE Codes load(const uint8_t* p) { return {{load_256(p), load_256(p + 32)}}; }
  static AC4K_INLINE Codes low_nibbles(Codes both) {
    return each(both, [](__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); });
  }
  static AC4K_INLINE Codes high_nibbles(Codes both) {
    return each(both, [](__m256i v) {
      return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    });
  }
  static AC4K_INLINE Codes high_nibbles_times_16(Codes both) {
    return each(both, [](__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(-16)); });
  }
  static AC4K_INLINE void pairs(const uint8_t* p, Codes (&codes)[2]) {
    const __m256i three = _mm256_set1_epi8(3);
    for (int half = 0; half < 2; ++half) {
      const __m256i both = both_pairs(p + 16 * half);
      codes[0].v[half] = _mm256_and_si256(both, three);
      codes[1].v[half] = _mm256_and_si256(_mm256_srli_epi16(both, 2), three);
    }
  }
  static AC4K_INLINE void pairs_in_place(const uint8_t* p, Codes (&codes)[2]) {
    for (int half = 0; half < 2; ++half) {
      const __m256i both = both_pairs(p + 16 * half);
      codes[0].v[half] = _mm256_and_si256(both, _mm256_set1_epi8(3));
      codes[1].v[half] = _mm256_and_si256(both, _mm256_set1_epi8(12));
    }
  }
  static AC4K_INLINE void add_pairs_times_16(const uint8_t* p, Codes (&codes)[2]) {
    const __m256i wanted = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m256i both = both_pairs(p + 16 * half);
      codes[0].v[half] =
          _mm256_or_si256(codes[0].v[half], _mm256_and_si256(_mm256_slli_epi16(both, 4), wanted));
      codes[1].v[half] =
          _mm256_or_si256(codes[1].v[half], _mm256_and_si256(_mm256_slli_epi16(both, 2), wanted));
    }
  }
  template <int kPosition, int kSecond>
  static AC4K_INLINE void add_bits(const uint8_t* p, Codes (&codes)[2]) {
    // The byte that has its bit, for each byte of codes; then one bit of it is tested.
    const __m256i all = _mm256_broadcastsi128_si256(load_128(p));
    const __m256i tested[2] = {_mm256_set1_epi64x(0x4010401004010401),
                               _mm256_set1_epi64x(static_cast<int64_t>(0x8020802008020802))};
    const __m256i added[2] = {_mm256_set1_epi8(1 << kPosition), _mm256_set1_epi8(1 << kSecond)};
    for (int half = 0; half < 2; ++half) {
      const __m256i bytes = _mm256_shuffle_epi8(all, load_256(kBitBytes.v + 32 * half));
      for (int row = 0; row < 2; ++row) {
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, tested[row]), tested[row]);
        codes[row].v[half] = _mm256_or_si256(codes[row].v[half], _mm256_and_si256(set, added[row]));
      }
    }
  }
  static AC4K_INLINE void bytes(const uint8_t* first, const uint8_t* second, Codes (&codes)[2]) {
    for (int half = 0; half < 2; ++half) {
      const __m256 a = _mm256_castsi256_ps(load_256(first + 32 * half));
      const __m256 b = _mm256_castsi256_ps(load_256(second + 32 * half));
      codes[0].v[half] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
      codes[1].v[half] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    }
  }
  static AC4K_INLINE Codes lookup(Codes codes, const uint8_t (&table)[16]) {
    const __m256i values = _mm256_broadcastsi128_si256(load_128(table));
    return each(codes, [values](__m256i v) { return _mm256_shuffle_epi8(values, v); });
  }

  static AC4K_INLINE void two_halves(const uint8_t* first, const uint8_t* second, Lanes (&d)[2]) {
    d[0] = Lanes::broadcast(half_at(first));
    d[1] = Lanes::broadcast(half_at(second));
  }
  static AC4K_INLINE void two_minus_halves(const uint8_t* first, const uint8_t* second,
                                           Lanes (&d)[2]) {
    d[0] = Lanes::broadcast(-half_at(first));
    d[1] = Lanes::broadcast(-half_at(second));
  }
  static AC4K_INLINE void half_pairs(const uint8_t* p, Lanes (&s)[2]) {
    const __m128i all = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    s[0] = repeat_halves(all, _mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3));
    s[1] = repeat_halves(all, _mm_setr_epi8(4, 5, 4, 5, 6, 7, 6, 7, 4, 5, 4, 5, 6, 7, 6, 7));
  }
  template <int kIndex>
  static AC4K_INLINE void half_of_pairs(const uint8_t* p, Lanes (&s)[2]) {
    const __m128i all = load_128(p);
    constexpr char k = 2 * kIndex;
    s[0] = repeat_halves(all, _mm_setr_epi8(k, k + 1, k, k + 1, k + 4, k + 5, k + 4, k + 5, k,
                                            k + 1, k, k + 1, k + 4, k + 5, k + 4, k + 5));
    s[1] = repeat_halves(
        all, _mm_setr_epi8(k + 8, k + 9, k + 8, k + 9, k + 12, k + 13, k + 12, k + 13, k + 8, k + 9,
                           k + 8, k + 9, k + 12, k + 13, k + 12, k + 13));
  }
  template <int kBytes, int kIndex>
  static AC4K_INLINE void bf16_entries(const uint8_t* p, Lanes (&s)[2]) {
    const __m128i all =
        kBytes == 4 ? load_128(p) : _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m256i both = _mm256_broadcastsi128_si256(all);
    for (int i = 0; i < 2; ++i) {
      const char a = static_cast<char>(2 * i * kBytes + 2 * kIndex), z = -1;
      const char b = static_cast<char>(a + kBytes);
      const __m128i order =
          _mm_setr_epi8(z, z, a, a + 1, z, z, a, a + 1, z, z, b, b + 1, z, z, b, b + 1);
      const __m256 eight =
          _mm256_castsi256_ps(_mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(order)));
      s[i] = {{eight, eight}};
    }
  }
  // Half of 2^(code - 127): the exponent of a float, but for codes 0 and 1, denormal numbers, whose
  // bits are the larger ones of two that are both linear.
  static AC4K_INLINE void exponents(const uint8_t* p, Lanes (&s)[2]) {
    int32_t bytes;
    __builtin_memcpy(&bytes, p, 4);
    const __m128i twice = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_cvtsi32_si128(bytes));
    const __m256i codes = _mm256_cvtepu8_epi32(twice);
    const __m256i normal =
        _mm256_sub_epi32(_mm256_slli_epi32(codes, 23), _mm256_set1_epi32(0x00800000));
    const __m256i tiny =
        _mm256_add_epi32(_mm256_slli_epi32(codes, 21), _mm256_set1_epi32(0x00200000));
    both_rows(_mm256_castsi256_ps(_mm256_max_epi32(normal, tiny)), s);
  }
  // Half of the number. Shifted into an f16 it is 2^-8 of its value, denormals included, and
  // conversions keep those even where arithmetic flushes them; 127 stands for zero.
  static AC4K_INLINE void half_ue4m3(const uint8_t* p, Lanes (&s)[2]) {
    const __m128i codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m128i zero = _mm_cmpeq_epi16(codes, _mm_set1_epi16(127));
    const __m128i low = _mm_and_si128(codes, _mm_set1_epi16(127));
    const __m256 small = _mm256_cvtph_ps(_mm_slli_epi16(_mm_andnot_si128(zero, low), 7));
    both_rows(_mm256_mul_ps(small, _mm256_set1_ps(0x1p7f)), s);
  }
  template <FieldTable kTable>
  static AC4K_INLINE Lanes fields(const uint8_t* p) {
    struct Patterns {
      alignas(32) uint8_t bytes[64];
      alignas(32) uint32_t shifts[16];
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
    const __m256i all = _mm256_broadcastsi128_si256(load_128(p));
    Lanes r;
    for (int half = 0; half < 2; ++half) {
      const __m256i words = _mm256_shuffle_epi8(all, load_256(kPatterns.bytes + 32 * half));
      const __m256i shifts =
          load_256(reinterpret_cast<const uint8_t*>(kPatterns.shifts + 8 * half));
      const __m256i masked = _mm256_and_si256(_mm256_srlv_epi32(words, shifts),
                                              _mm256_set1_epi32(static_cast<int>(kTable.mask)));
      r.v[half] = _mm256_cvtepi32_ps(masked);
    }
    return r;
  }
  static AC4K_INLINE Lanes low_nibbles_of_bytes(const uint8_t* p) {
    return wide_bytes(_mm_and_si128(load_128(p), _mm_set1_epi8(15)));
  }
  static AC4K_INLINE Lanes high_nibbles_of_bytes(const uint8_t* p) {
    return wide_bytes(_mm_and_si128(_mm_srli_epi16(load_128(p), 4), _mm_set1_epi8(15)));
  }
  static AC4K_INLINE Lanes signed_bytes(const uint8_t* p) {
    const __m128i all = load_128(p);
    return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
             _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(all, 8)))}};
  }
  template <int kSubBlock>
  static AC4K_INLINE Lanes spread(Lanes s) {
    const __m256 from = s.v[kSubBlock / 2];
    const __m256 four = _mm256_permute2f128_ps(from, from, kSubBlock % 2 == 0 ? 0x00 : 0x11);
    return {{four, four}};
  }
  template <int kByte>
  static AC4K_INLINE Lanes values(Codes codes) {
    Lanes r;
    for (int half = 0; half < 2; ++half) {
      const __m256i shifted = _mm256_srli_epi32(codes.v[half], 8 * kByte);
      r.v[half] = _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(0xff)));
    }
    return r;
  }

  // 16-bit products of the even and the odd bytes.
  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    int16_t ordered[64];
    for (int i = 0; i < 32; ++i) {
      ordered[i] = x[2 * i];
      ordered[32 + i] = x[2 * i + 1];
    }
    __builtin_memcpy(planes, ordered, sizeof ordered);
  }
  static AC4K_INLINE Sums dot(Codes codes, const int8_t* planes) {
    const auto* x = reinterpret_cast<const uint8_t*>(planes);
    __m256i sums[2];
    for (int half = 0; half < 2; ++half) {
      const __m256i even = _mm256_and_si256(codes.v[half], _mm256_set1_epi16(0xff));
      const __m256i odd = _mm256_srli_epi16(codes.v[half], 8);
      sums[half] = _mm256_add_epi32(_mm256_madd_epi16(even, load_256(x + 32 * half)),
                                    _mm256_madd_epi16(odd, load_256(x + 64 + 32 * half)));
    }
    return {_mm256_cvtepi32_ps(_mm256_add_epi32(sums[0], sums[1]))};
  }

 private:
  // For each byte of codes the byte of a 1-bit plane that has its bit.
  struct alignas(32) BytePattern {
    uint8_t v[64];
  };
  static constexpr BytePattern kBitBytes = [] {
    BytePattern pattern{};
    for (int i = 0; i < 64; ++i) {
      pattern.v[i] = static_cast<uint8_t>(4 * (i / 16) + 2 * (i % 4 / 2) + i / 4 % 4 / 2);
    }
    return pattern;
  }();
  // Fields of 2 bits of both rows in the low nibble of every byte, from 16 bytes of their plane.
  static AC4K_INLINE __m256i both_pairs(const uint8_t* p) {
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 2, 2, 1, 1, 3, 3, 4, 4, 6, 6, 5, 5, 7, 7));
    const __m256i sixteen = _mm256_broadcastsi128_si256(load_128(p));
    const __m256i eights = _mm256_permute4x64_epi64(sixteen, 0x50);  // 0 0 1 1
    const __m256i twice = _mm256_shuffle_epi8(eights, order);
    return _mm256_blendv_epi8(_mm256_srli_epi16(twice, 4), twice, _mm256_set1_epi16(0xff));
  }
  static AC4K_INLINE Lanes wide_bytes(__m128i bytes) {
    return {{_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
             _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))}};
  }
  template <class Function>
  static AC4K_INLINE Codes each(Codes codes, Function function) {
    return {{function(codes.v[0]), function(codes.v[1])}};
  }
  static AC4K_INLINE __m256i load_256(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static AC4K_INLINE __m128i load_128(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static AC4K_INLINE float half_at(const uint8_t* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, 2);
    return _cvtsh_ss(bits);
  }
  // Four lanes of each row, four times.
  static AC4K_INLINE void both_rows(__m256 rows, Lanes (&s)[2]) {
    const __m256 first = _mm256_permute2f128_ps(rows, rows, 0x00);
    const __m256 second = _mm256_permute2f128_ps(rows, rows, 0x11);
    s[0] = {{first, first}};
    s[1] = {{second, second}};
  }
  static AC4K_INLINE Lanes repeat_halves(__m128i all, __m128i order) {
    const __m256 eight = _mm256_cvtph_ps(_mm_shuffle_epi8(all, order));
    return {{eight, eight}};
  }
};

}  // namespace ac4k::cpu::avx2
