// Pieces of bf16 (linear_table.hpp): weights as 32 numbers a row, activations as pairs of columns.
#pragma once

#include "cpu/avx512/quad.hpp"
#include "cpu/common/panels-inl.hpp"

namespace ac4k::cpu::avx512 {
namespace {

using PieceQuad = QuadOf<MultiplyAdd>;

AC4K_INLINE __m512i upper_bits(__m512 v) {
  return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(-0x10000));
}
// bf16 of `low` and `high` side by side, cut off: for numbers that are bf16 already.
AC4K_INLINE __m512i cut_pairs(__m512 low, __m512 high) {
  return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low), 16), upper_bits(high));
}
// What is left of a number when its upper half is taken away; exact.
AC4K_INLINE __m512 rest_of(__m512 v) {
  return _mm512_sub_ps(v, _mm512_castsi512_ps(upper_bits(v)));
}

// Columns in order of lanes, rounded to nearest. Of 4-bit formats the 16 numbers that a scale
// allows are made instead, and codes look them up: the even bytes of codes are the first piece, the
// odd ones the second.
struct StoreBF16 {
  static constexpr int kPieces = 2;
  template <class Format>
  static constexpr bool kByTable = Format::kNibblesBy32;

  template <class Format>
  static AC4K_INLINE void rows(const uint8_t* block, int j, int quad,
                               const PieceQuad::Lanes (&scales)[2],
                               const PieceQuad::Lanes (&minimums)[2], uint8_t* to) {
    struct alignas(64) Values {
      float v[16];
    };
    static constexpr Values kValues = [] {
      Values values{};
      for (int i = 0; i < 16; ++i) values.v[i] = Format::plain_value(i) - Format::kOffset;
      return values;
    }();
    constexpr int kAndOr = 0xea;  // (a & b) | c
    const __m512 values = _mm512_load_ps(kValues.v);
    // Lanes 4c + 2 and on take the second scale: entries 16 to 31 of the table.
    const __m512i second = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0x00100010, 0x00100010));
    const __m512i nibble = _mm512_set1_epi16(15);
    const __m512i both = _mm512_loadu_si512(block + j * kNibblePlane + quad * 64);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      // Lanes 0 and 2 are of the first and the second 32 columns.
      const auto numbers = [&](int lane) __attribute__((always_inline)) {
        const __m512i all = _mm512_set1_epi32(lane);
        const __m512 scale = _mm512_permutexvar_ps(all, scales[i].v);
        if constexpr (!Format::kHasMinimum) return _mm512_mul_ps(values, scale);
        return _mm512_fmadd_ps(values, scale, _mm512_permutexvar_ps(all, minimums[i].v));
      };
      const __m512bh rounded = _mm512_cvtne2ps_pbh(numbers(2), numbers(0));
      const auto& table = reinterpret_cast<const __m512i&>(rounded);
      const __m512i even = i == 0 ? both : _mm512_srli_epi16(both, 4);
      const __m512i odd = _mm512_srli_epi16(both, i == 0 ? 8 : 12);
      uint8_t* row = to + 8 * i * kPieceRowBytes;
      _mm512_storeu_si512(row, _mm512_permutexvar_epi16(
                                   _mm512_ternarylogic_epi32(even, nibble, second, kAndOr), table));
      _mm512_storeu_si512(
          row + kPieceBytes,
          _mm512_permutexvar_epi16(_mm512_ternarylogic_epi32(odd, nibble, second, kAndOr), table));
    }
  }

  static AC4K_INLINE void row(const PieceQuad::Lanes (&values)[4], uint8_t* to) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m512bh both = _mm512_cvtne2ps_pbh(values[2 * i + 1].v, values[2 * i].v);
      _mm512_storeu_si512(to + i * kPieceBytes, reinterpret_cast<const __m512i&>(both));
    }
  }
};

#define AC4K_BY_TABLE(Format) StoreBF16::kByTable<Format>
constexpr bool kBF16ByTable[] = {AC4K_FORMAT_POLICIES(AC4K_BY_TABLE)};
#undef AC4K_BY_TABLE

void arrange_bf16(const float* columns, WeightFormat format, uint8_t* pieces) {
  const bool in_order = bytes_in_order(format), by_table = kBF16ByTable[static_cast<int>(format)];
  for (int pair = 0; pair < 32; ++pair) {
    const int lane = pair % 16, byte = pair / 16;
    const int first =
        by_table ? quad_column(in_order, lane, byte) : piece_column(in_order, 2 * pair);
    const int second =
        by_table ? quad_column(in_order, lane, byte + 2) : piece_column(in_order, 2 * pair + 1);
    const __m512 low = _mm512_loadu_ps(columns + first * 16);
    const __m512 high = _mm512_loadu_ps(columns + second * 16);
    _mm512_storeu_si512(pieces + pair * kPieceRowBytes, cut_pairs(low, high));
  }
}

}  // namespace
}  // namespace ac4k::cpu::avx512
