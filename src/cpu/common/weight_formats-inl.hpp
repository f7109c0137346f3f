// Packed weight formats as policies of one engine: how the bytes of a quad (rows r and r + 8, 64
// columns) become unsigned codes and scales. Q is a level's vectors (generic/quad.hpp says what
// its members mean).
//
// value = scale * code + minimum, where formats without minimums have minimum = -kOffset * scale.
// Formats of 256-column blocks (kLong) give 16 scales at once, one for 16 columns, and Q::spread
// makes lanes of them; the others give scales for the lanes of a quad, good for all sub-blocks.
// Four blocks of 64 columns give 16 scales too, by `four_scales` (minimums with them), where the
// format (kFourScales) and the level (kFourBlocks) have that.
#pragma once

#include "core/weight_formats.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

constexpr int kNibblePlane = 2048, kPairPlane = 1024, kBitPlane = 512;  // bytes of a sub-block

// Which bits of a 16-byte record become 16 numbers: lane i is (24 bits from byte bytes[i] on >>
// shifts[i]) & mask.
struct FieldTable {
  uint8_t bytes[16];
  uint8_t shifts[16];
  uint32_t mask;
};

// Numbers of 6 bits in 24-bit groups from byte `first` on: which of them four lanes take, and how
// many further the next four lanes look.
constexpr FieldTable six_bits(int first, const int (&numbers)[4], int numbers_per_four_lanes) {
  FieldTable table{{}, {}, 63};
  for (int lane = 0; lane < 16; ++lane) {
    const int number = lane / 4 * numbers_per_four_lanes + numbers[lane % 4];
    table.bytes[lane] = static_cast<uint8_t>(first + number / 4 * 3);
    table.shifts[lane] = static_cast<uint8_t>(number % 4 * 6);
  }
  return table;
}
// A scale for 16 columns.
constexpr FieldTable kSixBitScales = six_bits(0, {0, 1, 2, 3}, 4);
// Scale, minimum, scale, minimum of 32 columns each.
constexpr FieldTable kSixBitEven = six_bits(4, {0, 0, 2, 2}, 4);
constexpr FieldTable kSixBitOdd = six_bits(4, {1, 1, 3, 3}, 4);
// A scale for 32 columns, of the first or the second row in the record.
constexpr FieldTable kSixBitFirst = six_bits(2, {0, 0, 1, 1}, 2);
constexpr FieldTable kSixBitSecond = six_bits(10, {0, 0, 1, 1}, 2);

// Values of 4-bit codes plus kOffset of the format, as unsigned bytes.
alignas(64) constexpr uint8_t kNlTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                              129, 141, 153, 166, 181, 197, 217, 241};
alignas(64) constexpr uint8_t kFp4Table[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                               12, 11, 10, 9,  8,  6,  4,  0};

template <WeightFormat kWhich>
struct FormatBase {
  static constexpr WeightFormat kFormat = kWhich;
  static constexpr int64_t kBlockBytes = packed_block_bytes(block_of(kWhich));
  static constexpr int kSubBlocks = block_of(kWhich).packed_columns / kPackedColumns;
  static constexpr bool kLong = kSubBlocks == 4;
  static constexpr bool kHasMinimum = false;
  // Formats whose codes of the second row cost less as multiples of a number have that number here
  // and `codes_in_place`.
  static constexpr int kSecondUnit = 1;
  static constexpr bool kFourScales = false;
  // Do a code of either row and its scale, an integer, make a byte? Then `small_scales`.
  static constexpr bool kSmallScales = false;
  // Are codes nibbles, in planes at the start of the block, with scales for 32 columns or more?
  static constexpr bool kNibblesBy32 = false;
  static constexpr bool kLookedUp = false;  // are codes places in a table?
  // What a code is without scale and minimum.
  static constexpr uint8_t plain_value(int code) { return static_cast<uint8_t>(code); }
};

template <class Q>
AC4K_INLINE void nibbles(const uint8_t* plane, int quad, typename Q::Codes (&codes)[2]) {
  const auto both = Q::load(plane + quad * 64);
  codes[0] = Q::low_nibbles(both);
  codes[1] = Q::high_nibbles(both);
}

template <class Q>
AC4K_INLINE void nibbles_in_place(const uint8_t* plane, int quad, typename Q::Codes (&codes)[2]) {
  const auto both = Q::load(plane + quad * 64);
  codes[0] = Q::low_nibbles(both);
  codes[1] = Q::high_nibbles_times_16(both);
}

// Adds the bits of a 1-bit plane, 1 << kPosition (kSecond for the second row) each.
template <class Q, int kPosition, int kSecond = kPosition>
AC4K_INLINE void add_bits(const uint8_t* plane, int quad, typename Q::Codes (&codes)[2]) {
  Q::template add_bits<kPosition, kSecond>(plane + quad * 16, codes);
}

template <WeightFormat kWhich, int kOffsetOfCodes>
struct Nibbles : FormatBase<kWhich> {
  static constexpr float kOffset = kOffsetOfCodes;
  static constexpr int kSecondUnit = 16;
  static constexpr bool kFourScales = true, kNibblesBy32 = true;
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int, int quad,
                                         typename Q::Codes (&c)[2]) {
    nibbles_in_place<Q>(block, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::half_pairs(block + kNibblePlane + quad * 8, s);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&)[2]) {
    Q::four_half_pairs(blocks + kNibblePlane + quad * 8, Nibbles::kBlockBytes, s);
  }
};

struct Q4_0 : Nibbles<WeightFormat::q4_0, 8> {};

template <class Base, const uint8_t (&kTable)[16]>
struct Looked : Base {
  static constexpr int kSecondUnit = 1;
  static constexpr bool kLookedUp = true;
  static constexpr uint8_t plain_value(int code) { return kTable[code]; }
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block + j * kNibblePlane, quad, c);
    c[0] = Q::lookup(c[0], kTable);
    c[1] = Q::lookup(c[1], kTable);
  }
};

struct IQ4_NL : Looked<Nibbles<WeightFormat::iq4_nl, 128>, kNlTable> {};

struct MXFP4 : Looked<Nibbles<WeightFormat::mxfp4, 12>, kFp4Table> {
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::exponents(block + kNibblePlane + quad * 4, s);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&)[2]) {
    Q::four_exponents(blocks + kNibblePlane + quad * 4, kBlockBytes, s);
  }
};

struct NVFP4 : Looked<Nibbles<WeightFormat::nvfp4, 12>, kFp4Table> {
  static constexpr bool kNibblesBy32 = false;
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::half_ue4m3(block + kNibblePlane + quad * 8, s);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&)[2]) {
    Q::four_half_ue4m3(blocks + kNibblePlane + quad * 8, kBlockBytes, s);
  }
};

template <WeightFormat kWhich, bool kFifthBit>
struct WithMinimum : FormatBase<kWhich> {
  static constexpr bool kHasMinimum = true;
  static constexpr float kOffset = 0;
  static constexpr int kScales = kNibblePlane + (kFifthBit ? kBitPlane : 0);
  static constexpr int kSecondUnit = kFifthBit ? 1 : 16;
  static constexpr bool kFourScales = true, kNibblesBy32 = !kFifthBit;
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int, int quad,
                                         typename Q::Codes (&c)[2]) {
    nibbles_in_place<Q>(block, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block, quad, c);
    if constexpr (kFifthBit) add_bits<Q, 4>(block + kNibblePlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::template half_of_pairs<0>(block + kScales + quad * 16, s);
  }
  template <class Q>
  static AC4K_INLINE void minimums(const uint8_t* block, int quad, typename Q::Lanes (&m)[2]) {
    Q::template half_of_pairs<1>(block + kScales + quad * 16, m);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&m)[2]) {
    Q::four_pairs_of_halves(blocks + kScales + quad * 16, WithMinimum::kBlockBytes, s, m);
  }
};
struct Q4_1 : WithMinimum<WeightFormat::q4_1, false> {};
struct Q5_1 : WithMinimum<WeightFormat::q5_1, true> {};

struct Q5_0 : FormatBase<WeightFormat::q5_0> {
  static constexpr float kOffset = 16;
  static constexpr bool kFourScales = true;
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block, quad, c);
    add_bits<Q, 4>(block + kNibblePlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::half_pairs(block + kNibblePlane + kBitPlane + quad * 8, s);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&)[2]) {
    Q::four_half_pairs(blocks + kNibblePlane + kBitPlane + quad * 8, kBlockBytes, s);
  }
};

struct Q8_0 : FormatBase<WeightFormat::q8_0> {
  static constexpr float kOffset = 128;
  static constexpr bool kFourScales = true;
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int, int quad, typename Q::Codes (&c)[2]) {
    Q::bytes(block + quad * 64, block + kNibblePlane + quad * 64, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    Q::half_pairs(block + 2 * kNibblePlane + quad * 8, s);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&)[2]) {
    Q::four_half_pairs(blocks + 2 * kNibblePlane + quad * 8, kBlockBytes, s);
  }
};

struct Q2_K : FormatBase<WeightFormat::q2_k> {
  static constexpr bool kHasMinimum = true;
  static constexpr float kOffset = 0;
  static constexpr int kScales = 4 * kPairPlane, kRecord = 40;
  static constexpr int kSecondUnit = 4;
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int j, int quad,
                                         typename Q::Codes (&c)[2]) {
    Q::pairs_in_place(block + j * kPairPlane + quad * 32, c);
  }
  static constexpr bool kSmallScales = true;  // 3 * kSecondUnit * 15
  template <class Q>
  static AC4K_INLINE void small_scales(const uint8_t* block, int quad,
                                       typename Q::SmallScales (&s)[2], typename Q::Lanes (&d)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    for (int i = 0; i < 2; ++i) s[i] = Q::small_scales(record + 16 * i);
    Q::two_halves(record + 32, record + 36, d);
  }
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    Q::pairs(block + j * kPairPlane + quad * 32, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    typename Q::Lanes d[2];
    Q::two_halves(record + 32, record + 36, d);
    for (int i = 0; i < 2; ++i) s[i] = Q::low_nibbles_of_bytes(record + 16 * i) * d[i];
  }
  template <class Q>
  static AC4K_INLINE void minimums(const uint8_t* block, int quad, typename Q::Lanes (&m)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    typename Q::Lanes d[2];
    Q::two_minus_halves(record + 34, record + 38, d);
    for (int i = 0; i < 2; ++i) m[i] = Q::high_nibbles_of_bytes(record + 16 * i) * d[i];
  }
};

struct Q3_K : FormatBase<WeightFormat::q3_k> {
  static constexpr float kOffset = 4;
  static constexpr int kSecondUnit = 4;
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int j, int quad,
                                         typename Q::Codes (&c)[2]) {
    Q::pairs_in_place(block + j * kPairPlane + quad * 32, c);
    add_bits<Q, 2, 4>(block + 4 * kPairPlane + j * kBitPlane, quad, c);
  }
  static constexpr int kScales = 4 * (kPairPlane + kBitPlane), kRecord = 28;
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    Q::pairs(block + j * kPairPlane + quad * 32, c);
    add_bits<Q, 2>(block + 4 * kPairPlane + j * kBitPlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    const auto bias = Q::Lanes::broadcast(-32.0f);
    typename Q::Lanes d[2];
    Q::two_halves(record + 24, record + 26, d);
    for (int i = 0; i < 2; ++i) {
      s[i] = (Q::template fields<kSixBitScales>(record + 12 * i) + bias) * d[i];
    }
  }
};

template <WeightFormat kWhich, bool kFifthBit>
struct FourOrFiveBitsK : FormatBase<kWhich> {
  static constexpr bool kHasMinimum = true;
  static constexpr float kOffset = 0;
  static constexpr int kScales = 4 * (kNibblePlane + (kFifthBit ? kBitPlane : 0)), kRecord = 32;
  static constexpr int kSecondUnit = kFifthBit ? 1 : 16;
  static constexpr bool kNibblesBy32 = !kFifthBit;
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int j, int quad,
                                         typename Q::Codes (&c)[2]) {
    nibbles_in_place<Q>(block + j * kNibblePlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block + j * kNibblePlane, quad, c);
    if constexpr (kFifthBit) add_bits<Q, 4>(block + 4 * kNibblePlane + j * kBitPlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    typename Q::Lanes d[2];
    Q::two_halves(record, record + 16, d);
    for (int i = 0; i < 2; ++i) s[i] = Q::template fields<kSixBitEven>(record + 16 * i) * d[i];
  }
  template <class Q>
  static AC4K_INLINE void minimums(const uint8_t* block, int quad, typename Q::Lanes (&m)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    typename Q::Lanes d[2];
    Q::two_minus_halves(record + 2, record + 18, d);
    for (int i = 0; i < 2; ++i) m[i] = Q::template fields<kSixBitOdd>(record + 16 * i) * d[i];
  }
};
struct Q4_K : FourOrFiveBitsK<WeightFormat::q4_k, false> {};
struct Q5_K : FourOrFiveBitsK<WeightFormat::q5_k, true> {};

struct Q6_K : FormatBase<WeightFormat::q6_k> {
  static constexpr float kOffset = 32;
  static constexpr int kScales = 4 * (kNibblePlane + kPairPlane), kRecord = 36;
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block + j * kNibblePlane, quad, c);
    Q::add_pairs_times_16(block + 4 * kNibblePlane + j * kPairPlane + quad * 32, c);
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    typename Q::Lanes d[2];
    Q::two_halves(record + 32, record + 34, d);
    for (int i = 0; i < 2; ++i) s[i] = Q::signed_bytes(record + 16 * i) * d[i];
  }
};

struct IQ4_XS : Looked<Nibbles<WeightFormat::iq4_xs, 128>, kNlTable> {
  static constexpr int kScales = 4 * kNibblePlane, kRecord = 16;
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    const uint8_t* record = block + kScales + quad * kRecord;
    const auto bias = Q::Lanes::broadcast(-32.0f);
    typename Q::Lanes d[2];
    Q::two_halves(record, record + 8, d);
    s[0] = (Q::template fields<kSixBitFirst>(record) + bias) * d[0];
    s[1] = (Q::template fields<kSixBitSecond>(record) + bias) * d[1];
  }
};

// W4A16: scale * (code - 8), or scale * (code - zero), which is minimum = -scale * zero. A scale is
// for 32 columns, or for all of a block. Products of two 16-bit numbers are exact here.
template <WeightFormat kWhich>
struct W4 : FormatBase<kWhich> {
  static constexpr bool kHasMinimum = w4_has_zeros(kWhich), kBF16 = w4_is_bf16(kWhich);
  static constexpr float kOffset = kHasMinimum ? 0 : 8;
  static constexpr int kScales = FormatBase<kWhich>::kSubBlocks * kNibblePlane;
  static constexpr bool kBy32 = block_of(kWhich).values == 32;
  static constexpr bool kFourScales = kBy32 && !kBF16, kNibblesBy32 = true;
  static constexpr int kSecondUnit = 16;
  static constexpr int kEntry = kHasMinimum ? 4 : 2;        // bytes of a scale
  static constexpr int kRow = kBy32 ? 2 * kEntry : kEntry;  // of a row
  template <class Q>
  static AC4K_INLINE void codes(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
    nibbles<Q>(block + j * kNibblePlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void codes_in_place(const uint8_t* block, int j, int quad,
                                         typename Q::Codes (&c)[2]) {
    nibbles_in_place<Q>(block + j * kNibblePlane, quad, c);
  }
  template <class Q>
  static AC4K_INLINE void four_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                                      typename Q::Lanes (&m)[2]) {
    const uint8_t* records = blocks + kScales + quad * 2 * kRow;
    if constexpr (!kHasMinimum) {
      Q::four_half_pairs(records, W4::kBlockBytes, s);
    } else {
      Q::four_pairs_of_halves(records, W4::kBlockBytes, s, m);
      const auto minus = Q::Lanes::broadcast(-1.0f);
      m[0] = m[0] * (s[0] * minus);
      m[1] = m[1] * (s[1] * minus);
    }
  }
  template <class Q>
  static AC4K_INLINE void scales(const uint8_t* block, int quad, typename Q::Lanes (&s)[2]) {
    numbers<Q, 0>(block + kScales + quad * 2 * kRow, s);
  }
  template <class Q>
  static AC4K_INLINE void minimums(const uint8_t* block, int quad, typename Q::Lanes (&m)[2]) {
    typename Q::Lanes scale[2];
    scales<Q>(block, quad, scale);
    numbers<Q, 1>(block + kScales + quad * 2 * kRow, m);
    const auto minus = Q::Lanes::broadcast(-1.0f);
    m[0] = m[0] * (scale[0] * minus);
    m[1] = m[1] * (scale[1] * minus);
  }

 private:
  // The first (scale) or the second number (zero point) of each entry.
  template <class Q, int kIndex>
  static AC4K_INLINE void numbers(const uint8_t* record, typename Q::Lanes (&s)[2]) {
    const uint8_t* first = record + 2 * kIndex;
    if constexpr (!kBy32 && kBF16) {
      s[0] = Q::Lanes::broadcast(bf16_at(first));
      s[1] = Q::Lanes::broadcast(bf16_at(first + kRow));
    } else if constexpr (!kBy32) {
      Q::two_halves(first, first + kRow, s);
    } else if constexpr (kBF16) {
      Q::template bf16_entries<kEntry, kIndex>(record, s);
    } else if constexpr (kHasMinimum) {
      Q::template half_of_pairs<kIndex>(record, s);
    } else {
      Q::half_pairs(record, s);
    }
  }
  static AC4K_INLINE float bf16_at(const uint8_t* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, 2);
    return bits_to_f32(uint32_t{bits} << 16);
  }
};

// Scales and minimums of a quad for 256 columns, of a long block or of four short ones.
template <class Q, class Format>
AC4K_INLINE void group_scales(const uint8_t* blocks, int quad, typename Q::Lanes (&s)[2],
                              typename Q::Lanes (&m)[2]) {
  if constexpr (!Format::kLong) {
    Format::template four_scales<Q>(blocks, quad, s, m);
  } else {
    Format::template scales<Q>(blocks, quad, s);
    if constexpr (Format::kHasMinimum) Format::template minimums<Q>(blocks, quad, m);
  }
}
// Codes of a quad in a sub-block, those of the second row times kSecondUnit.
template <class Q, class Format>
AC4K_INLINE void codes_of(const uint8_t* block, int j, int quad, typename Q::Codes (&c)[2]) {
  if constexpr (Format::kSecondUnit != 1) {
    Format::template codes_in_place<Q>(block, j, quad, c);
  } else {
    Format::template codes<Q>(block, j, quad, c);
  }
}

// For each format in the order of WeightFormat: Visit<Format>.
#define AC4K_FORMAT_POLICIES(X)                                                             \
  X(Q4_0), X(Q4_1), X(Q5_0), X(Q5_1), X(Q8_0), X(Q2_K), X(Q3_K), X(Q4_K), X(Q5_K), X(Q6_K), \
      X(IQ4_NL), X(IQ4_XS), X(MXFP4), X(NVFP4), X(W4<WeightFormat::w4_g32_f16>),            \
      X(W4<WeightFormat::w4_g64_f16>), X(W4<WeightFormat::w4_g128_f16>),                    \
      X(W4<WeightFormat::w4_g32z_f16>), X(W4<WeightFormat::w4_g64z_f16>),                   \
      X(W4<WeightFormat::w4_g128z_f16>), X(W4<WeightFormat::w4_g32_bf16>),                  \
      X(W4<WeightFormat::w4_g64_bf16>), X(W4<WeightFormat::w4_g128_bf16>),                  \
      X(W4<WeightFormat::w4_g32z_bf16>), X(W4<WeightFormat::w4_g64z_bf16>),                 \
      X(W4<WeightFormat::w4_g128z_bf16>)

// The columns of a quad's codes: byte b of 32-bit lane 4c + s.
constexpr int quad_column(bool bytes_in_order, int lane, int byte) {
  constexpr int kInterleaved[4] = {0, 8, 1, 9}, kInOrder[4] = {0, 1, 8, 9};
  return 16 * (lane % 4) + 2 * (lane / 4) + (bytes_in_order ? kInOrder : kInterleaved)[byte];
}
// The row in its tile of a quad's first or second row.
constexpr int row_of_quad(int quad, int i) { return quad / 8 * 16 + quad % 8 + 8 * i; }
constexpr bool bytes_in_order(WeightFormat format) { return format == WeightFormat::q8_0; }

}  // namespace
}  // namespace ac4k::cpu
