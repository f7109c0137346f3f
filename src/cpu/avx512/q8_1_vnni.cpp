// Products of raw GGUF blocks with q8_1 activations on CPUs with VNNI.
//
// 16 rows at a time: lane r of a register has four codes of row r, which meet the same four
// activations, repeated by their load. A block of 32 columns is 8 such products for 16 rows, and
// one conversion and one multiplication by scales; a row at a time has the latter for each row.
// Rows that are left over go one by one, a block being half a register.
#include "cpu/avx2/block.hpp"

namespace ac4k::cpu::avx512 {
namespace {

struct Vnni {
  // The codes, then minus their sum times the offsets of formats.
  static constexpr int kOffsetOf8 = 32, kOffsetOf16 = 36, kOffsetOf128 = 40;
  static AC4K_INLINE void store_activations(const int8_t (&x)[32], int8_t* to) {
    __builtin_memcpy(to, x, sizeof x);
    int32_t sum = 0;
    for (const int8_t code : x) sum += code;
    const int32_t starts[3] = {-8 * sum, -16 * sum, -128 * sum};
    __builtin_memcpy(to + kOffsetOf8, starts, sizeof starts);
  }
  static AC4K_INLINE __m256i dot(__m256i codes, const int8_t* x) {
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), codes,
                               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  }
};
static_assert(Vnni::kOffsetOf128 + 4 <= kActivationBytes);

// 16 bytes of each of 16 rows.
struct FourWords {
  __m512i v[4];
};

// Word i of row r in lane r of v[i].
AC4K_INLINE FourWords load_words(const uint8_t* rows, int64_t stride) {
  __m512i four[4];  // rows i, i + 4, i + 8, i + 12
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto row = [&](int r) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + (i + r) * stride));
    };
    four[i] = _mm512_castsi128_si512(row(0));
    four[i] = _mm512_inserti64x2(four[i], row(4), 1);
    four[i] = _mm512_inserti64x2(four[i], row(8), 2);
    four[i] = _mm512_inserti64x2(four[i], row(12), 3);
  }
  const __m512i a = _mm512_unpacklo_epi32(four[0], four[1]);
  const __m512i b = _mm512_unpacklo_epi32(four[2], four[3]);
  const __m512i c = _mm512_unpackhi_epi32(four[0], four[1]);
  const __m512i d = _mm512_unpackhi_epi32(four[2], four[3]);
  return {{_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b), _mm512_unpacklo_epi64(c, d),
           _mm512_unpackhi_epi64(c, d)}};
}

AC4K_INLINE __m512 low_halves(__m512i words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}
AC4K_INLINE __m512 high_halves(__m512i words) { return low_halves(_mm512_srli_epi32(words, 16)); }

// Nibbles of 16 bytes: the low ones are the first 16 columns.
AC4K_INLINE void split_nibbles(const FourWords& words, __m512i (&codes)[8]) {
  const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    codes[i] = _mm512_and_si512(words.v[i], mask);
    codes[4 + i] = _mm512_and_si512(_mm512_srli_epi16(words.v[i], 4), mask);
  }
}

// Bit c of each row's word is worth 16 in column c: 4 columns in each of `codes`.
AC4K_INLINE void add_fifth_bits(__m512i bits, __m512i (&codes)[8]) {
  const __m512i sixteen = _mm512_set1_epi8(16);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int byte = 0x01010101 * (i / 2);
    const __m512i order = _mm512_broadcast_i32x4(
        _mm_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0c0c0c0c));
    const __m512i tested =
        _mm512_set1_epi32(i % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    const __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, order), tested);
    codes[i] = _mm512_mask_add_epi8(codes[i], set, codes[i], sixteen);
  }
}

// What 16 rows have in one block.
struct RowBlock {
  __m512i codes[8];
  __m512 d, m;
};

template <class Format>
struct RowsOf {
  static constexpr bool kBytes = Format::kOffset == 128;
  static constexpr bool kFifthBit =
      Format::kBytes == RawQ5_0::kBytes || Format::kBytes == RawQ5_1::kBytes;
  static constexpr int kCodes = Format::kBytes - (kBytes ? 32 : 16);
  // Where prepared activations have what sums start from.
  static constexpr int kStart = Format::kOffset == 8    ? Vnni::kOffsetOf8
                                : Format::kOffset == 16 ? Vnni::kOffsetOf16
                                                        : Vnni::kOffsetOf128;

  static AC4K_INLINE void load(const uint8_t* rows, int64_t stride, RowBlock& block) {
    const FourWords header = load_words(rows, stride);  // of which most is not used
    block.d = low_halves(header.v[0]);
    if constexpr (Format::kHasMinimum) block.m = high_halves(header.v[0]);
    const FourWords words = load_words(rows + kCodes, stride);
    if constexpr (kBytes) {
      const FourWords more = load_words(rows + kCodes + 16, stride);
      const __m512i bias = _mm512_set1_epi8(-128);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        block.codes[i] = _mm512_xor_si512(words.v[i], bias);
        block.codes[4 + i] = _mm512_xor_si512(more.v[i], bias);
      }
    } else {
      split_nibbles(words, block.codes);
    }
    if constexpr (kFifthBit && Format::kHasMinimum) add_fifth_bits(header.v[1], block.codes);
    if constexpr (kFifthBit && !Format::kHasMinimum) {
      const __m512i bits =
          _mm512_or_si512(_mm512_srli_epi32(header.v[0], 16), _mm512_slli_epi32(header.v[1], 16));
      add_fifth_bits(bits, block.codes);
    }
  }
};

AC4K_INLINE __m512i repeat_word(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

template <class Format, int kColumns>
void multiply_rows(const BlockProductArgs& args) {
  using Rows = RowsOf<Format>;
  const int64_t stride = args.num_blocks * Format::kBytes;
  __m512 sums[kColumns];
#pragma GCC unroll 8
  for (int n = 0; n < kColumns; ++n) sums[n] = _mm512_setzero_ps();
  const uint8_t* rows = args.weight;
  for (int64_t b = 0; b < args.num_blocks; ++b, rows += Format::kBytes) {
    // Rows follow each other: the next 16 are fetched bit by bit.
    const uint8_t* ahead = args.weight + kBlockRows * (stride + b * Format::kBytes);
#pragma GCC unroll 16
    for (int line = 0; line < kBlockRows * Format::kBytes; line += 64) {
      __builtin_prefetch(ahead + line, 0, 2);
    }
    RowBlock block;
    Rows::load(rows, stride, block);
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * args.num_blocks + b;
      const int8_t* x = args.codes + at * kActivationBytes;
      __m512i first = Format::kHasMinimum ? _mm512_setzero_si512() : repeat_word(x + Rows::kStart);
      __m512i second = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        first = _mm512_dpbusd_epi32(first, block.codes[i], repeat_word(x + 4 * i));
        second = _mm512_dpbusd_epi32(second, block.codes[4 + i], repeat_word(x + 16 + 4 * i));
      }
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_add_epi32(first, second));
      sums[n] = _mm512_fmadd_ps(dot, _mm512_mul_ps(block.d, _mm512_set1_ps(args.d[at])), sums[n]);
      if constexpr (Format::kHasMinimum) {
        sums[n] = _mm512_fmadd_ps(block.m, _mm512_set1_ps(args.sums[at]), sums[n]);
      }
    }
  }
  for (int n = 0; n < kColumns; ++n) {
    alignas(64) float column[kBlockRows];
    _mm512_store_ps(column, sums[n]);
    for (int r = 0; r < kBlockRows; ++r) args.out[r * args.out_stride + n] = column[r];
  }
}

template <class Format>
void multiply_rows_of(const BlockProductArgs& args) {
  switch (args.columns) {
    case 1:
      return multiply_rows<Format, 1>(args);
    case 2:
      return multiply_rows<Format, 2>(args);
    case 4:
      return multiply_rows<Format, 4>(args);
    default:
      return multiply_rows<Format, kMaxRowsColumns>(args);
  }
}

constexpr BlockProductKernels make_kernels() {
  BlockProductKernels kernels = make_block_products<Block256<Vnni>>();
  kernels.multiply_rows[kRawQ4_0] = multiply_rows_of<RawQ4_0>;
  kernels.multiply_rows[kRawQ4_1] = multiply_rows_of<RawQ4_1>;
  kernels.multiply_rows[kRawQ5_0] = multiply_rows_of<RawQ5_0>;
  kernels.multiply_rows[kRawQ5_1] = multiply_rows_of<RawQ5_1>;
  kernels.multiply_rows[kRawQ8_0] = multiply_rows_of<RawQ8_0>;
  return kernels;
}

}  // namespace

constinit const BlockProductKernels kBlockProductsVnni = make_kernels();

}  // namespace ac4k::cpu::avx512
