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

// Columns in order of lanes, rounded to nearest.
struct StoreBF16 {
  static constexpr int kPieces = 2;
  static AC4K_INLINE void row(const PieceQuad::Lanes (&values)[4], uint8_t* to) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const __m512bh both = _mm512_cvtne2ps_pbh(values[2 * i + 1].v, values[2 * i].v);
      _mm512_storeu_si512(to + i * kPieceBytes, reinterpret_cast<const __m512i&>(both));
    }
  }
};

void arrange_bf16(const float* columns, WeightFormat format, uint8_t* pieces) {
  const bool in_order = bytes_in_order(format);
  for (int pair = 0; pair < 32; ++pair) {
    const __m512 low = _mm512_loadu_ps(columns + piece_column(in_order, 2 * pair) * 16);
    const __m512 high = _mm512_loadu_ps(columns + piece_column(in_order, 2 * pair + 1) * 16);
    _mm512_storeu_si512(pieces + pair * kPieceRowBytes, cut_pairs(low, high));
  }
}

}  // namespace
}  // namespace ac4k::cpu::avx512
