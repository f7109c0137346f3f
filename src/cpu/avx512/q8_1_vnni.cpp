// Products of raw GGUF blocks with q8_1 activations on CPUs with VNNI.
//
// For few activations, row by row: a register has the codes of two blocks of 32 columns, and 16
// blocks share what is done about scales. For more, 16 rows are unpacked together: lane r of a
// register has four codes of row r, which meet the same four activations, repeated by their load; a
// block is 8 such products for 16 rows, and one conversion and one multiplication by scales.
#include "cpu/avx2/raw_blocks.hpp"

namespace ac4k::cpu::avx512 {
namespace {

constexpr int kMostColumns = 4;

// A row of activations as prepared: the codes of all its blocks, then what sums of products start
// from, minus the codes' sum times the offset of a format, for each offset and block.
constexpr int kOffsets[] = {8, 16, 128};
constexpr int kActivationBytes = kBlockValues + static_cast<int>(sizeof kOffsets);
template <class Format>
AC4K_INLINE const int8_t* starts_of(const int8_t* x, int64_t num_blocks) {
  constexpr int kPlace = Format::kOffset == 8 ? 0 : Format::kOffset == 16 ? 1 : 2;
  static_assert(kOffsets[kPlace] == Format::kOffset || Format::kHasMinimum);
  return x + num_blocks * (kBlockValues + kPlace * 4);
}

void prepare(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums) {
  int8_t* starts = codes + num_blocks * kBlockValues;
  for (int64_t b = 0; b < num_blocks; ++b, blocks += kQ81Bytes) {
    const Q81Block block(blocks);
    __builtin_memcpy(codes + b * kBlockValues, block.codes, sizeof block.codes);
    d[b] = half(blocks);
    sums[b] = d[b] * static_cast<float>(block.sum);
    for (int i = 0; i < 3; ++i) {
      const int32_t start = -kOffsets[i] * block.sum;
      __builtin_memcpy(starts + (i * num_blocks + b) * 4, &start, 4);
    }
  }
}

// --- Row by row --------------------------------------------------------------------------------

template <int kBytes, bool kAll>
AC4K_INLINE __m512i load_16_headers(const uint8_t* blocks, int count) {
  const __m256i low = _mm256_setr_m128i(load_headers<kBytes, kAll, 0>(blocks, count),
                                        load_headers<kBytes, kAll, 4>(blocks, count));
  const __m256i high = _mm256_setr_m128i(load_headers<kBytes, kAll, 8>(blocks, count),
                                         load_headers<kBytes, kAll, 12>(blocks, count));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
AC4K_INLINE __m512 low_halves(__m512i words) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
}
AC4K_INLINE __m512 high_halves(__m512i words) { return low_halves(_mm512_srli_epi32(words, 16)); }

// The codes of two blocks, or of one and nothing.
template <class Format, bool kBoth>
AC4K_INLINE __m512i load_pair(const uint8_t* block) {
  const uint8_t *first = block + Format::kCodesAt, *second = first + Format::kBytes;
  if constexpr (!Format::kIsNibbles) {
    const auto half = [](const uint8_t* p) __attribute__((always_inline)) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    };
    __m512i bytes = _mm512_zextsi256_si512(half(first));
    if constexpr (kBoth) bytes = _mm512_inserti64x4(bytes, half(second), 1);
    return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
  } else {
    const auto quarter = [](const uint8_t* p) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    };
    __m512i nibbles = _mm512_broadcast_i32x4(quarter(first));
    if constexpr (kBoth) nibbles = _mm512_mask_broadcast_i32x4(nibbles, 0xff00, quarter(second));
    const __m512i shifts =
        _mm512_broadcast_i64x4(_mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi16(4)));
    const __m512i codes =
        _mm512_and_si512(_mm512_srlv_epi16(nibbles, shifts), _mm512_set1_epi8(15));
    if constexpr (!Format::kHasFifthBits) return codes;
    uint32_t bits[2] = {};
    __builtin_memcpy(&bits[0], block + Format::kBitsAt, 4);
    if constexpr (kBoth) __builtin_memcpy(&bits[1], block + Format::kBytes + Format::kBitsAt, 4);
    const __mmask64 set = bits[0] | static_cast<uint64_t>(bits[1]) << 32;
    return _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(16));
  }
}

template <class F, int kColumns>
class RowProduct {
 public:
  using Format = F;
  static constexpr int kBlocks = 16;  // that share scales

  explicit AC4K_INLINE RowProduct(const BlockProductArgs& args) : args_(args) {
    for (int n = 0; n < kColumns; ++n) sums_[n] = minimums_[n] = _mm512_setzero_ps();
  }

  // Up to 16 blocks from block `b` on.
  template <bool kAll>
  AC4K_INLINE void add(const uint8_t* blocks, int64_t b, int count) {
    const __mmask16 valid = kAll ? 0xffff : static_cast<__mmask16>((1 << count) - 1);
    const __m512i headers = load_16_headers<Format::kBytes, kAll>(blocks, count);
    const __m512 d = low_halves(headers);
    __m512 scales[kColumns];
    __m512i starts[kColumns];
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * args_.x.num_blocks + b;
      scales[n] = _mm512_mul_ps(d, _mm512_maskz_loadu_ps(valid, args_.x.d + at));
      if constexpr (Format::kHasMinimum) {
        minimums_[n] = _mm512_fmadd_ps(
            high_halves(headers), _mm512_maskz_loadu_ps(valid, args_.x.sums + at), minimums_[n]);
      } else {
        starts[n] = _mm512_maskz_loadu_epi32(
            valid, starts_of<Format>(codes(n), args_.x.num_blocks) + b * 4);
      }
    }
    __m512i lanes = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi32(1), 1);
    const int pairs = kAll ? 8 : count / 2;
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) {
      add_pair<true>(blocks + 2 * i * Format::kBytes, b + 2 * i, lanes, scales, starts);
      lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(2));
    }
    if (!kAll && count % 2 != 0) {
      add_pair<false>(blocks + 2 * pairs * Format::kBytes, b + 2 * pairs, lanes, scales, starts);
    }
  }

  AC4K_INLINE void store() const {
    for (int n = 0; n < kColumns; ++n) {
      args_.out[n] = _mm512_reduce_add_ps(_mm512_add_ps(sums_[n], minimums_[n]));
    }
  }

 private:
  AC4K_INLINE const int8_t* codes(int n) const {
    return args_.x.codes + n * args_.x.num_blocks * kActivationBytes;
  }

  template <bool kBoth>
  AC4K_INLINE void add_pair(const uint8_t* block, int64_t b, __m512i lanes,
                            const __m512 (&scales)[kColumns], const __m512i (&starts)[kColumns]) {
    const __m512i weights = load_pair<Format, kBoth>(block);
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      const int8_t* at = codes(n) + b * kBlockValues;
      const __m512i x =
          kBoth ? _mm512_loadu_si512(at)
                : _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
      __m512i start = _mm512_setzero_si512();
      if constexpr (!Format::kHasMinimum) {
        start = _mm512_maskz_permutexvar_epi32(0x0101, lanes, starts[n]);
      }
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, weights, x));
      sums_[n] = _mm512_fmadd_ps(dot, _mm512_permutexvar_ps(lanes, scales[n]), sums_[n]);
    }
  }

  const BlockProductArgs& args_;
  __m512 sums_[kColumns], minimums_[kColumns];
};

template <class Format, int kColumns>
void multiply_row(const BlockProductArgs& args) {
  multiply_row_by<RowProduct<Format, kColumns>>(args);
}
AC4K_FOR_COLUMNS(multiply_row_of, multiply_row, kMostColumns)

// --- 16 rows at a time --------------------------------------------------------------------------

// 16 bytes of each of 16 rows.
struct FourWords {
  __m512i v[4];
};

// Word i of row r in lane r of v[i].
AC4K_INLINE FourWords load_words(const uint8_t* rows, int64_t stride) {
  __m512i four[4];  // rows i, i + 4, i + 8, i + 12
#pragma GCC unroll 8
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

// Nibbles of 16 bytes: the low ones are the first 16 columns.
AC4K_INLINE void split_nibbles(const FourWords& words, __m512i (&codes)[8]) {
  const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 8
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

// Unpacked blocks: eight registers of codes, then scales and minimums of the rows.
constexpr int kScalesAt = 8 * 64, kMinimumsAt = kScalesAt + 64;
static_assert(kMinimumsAt + 64 == kUnpackedBytes);

template <class Format>
void unpack(const uint8_t* rows, int64_t stride, int64_t count, uint8_t* to) {
  for (int64_t b = 0; b < count; ++b, rows += Format::kBytes, to += kUnpackedBytes) {
    const FourWords header = load_words(rows, stride);  // of which most is not used
    const FourWords words = load_words(rows + Format::kCodesAt, stride);
    __m512i codes[8];
    if constexpr (!Format::kIsNibbles) {
      const FourWords more = load_words(rows + Format::kCodesAt + 16, stride);
      const __m512i bias = _mm512_set1_epi8(-128);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        codes[i] = _mm512_xor_si512(words.v[i], bias);
        codes[4 + i] = _mm512_xor_si512(more.v[i], bias);
      }
    } else {
      split_nibbles(words, codes);
    }
    if constexpr (Format::kHasFifthBits && Format::kHasMinimum) add_fifth_bits(header.v[1], codes);
    if constexpr (Format::kHasFifthBits && !Format::kHasMinimum) {
      const __m512i bits =
          _mm512_or_si512(_mm512_srli_epi32(header.v[0], 16), _mm512_slli_epi32(header.v[1], 16));
      add_fifth_bits(bits, codes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) _mm512_storeu_si512(to + 64 * i, codes[i]);
    _mm512_storeu_ps(to + kScalesAt, low_halves(header.v[0]));
    if constexpr (Format::kHasMinimum) _mm512_storeu_ps(to + kMinimumsAt, high_halves(header.v[0]));
  }
}

AC4K_INLINE __m512i repeat_word(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

template <class Format, int kColumns>
void multiply_unpacked(const UnpackedProductArgs& args) {
  const int64_t num_blocks = args.x.num_blocks;
  __m512 sums[kColumns];
#pragma GCC unroll 16
  for (int n = 0; n < kColumns; ++n) sums[n] = _mm512_loadu_ps(args.sums + n * kUnpackedRows);
  const uint8_t* block = args.weight;
  for (int64_t b = args.first; b < args.first + args.count; ++b, block += kUnpackedBytes) {
    __m512i codes[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) codes[i] = _mm512_loadu_si512(block + 64 * i);
    const __m512 d = _mm512_loadu_ps(block + kScalesAt);
#pragma GCC unroll 16
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * num_blocks + b;
      const int8_t* row = args.x.codes + n * num_blocks * kActivationBytes;
      const int8_t* x = row + b * kBlockValues;
      __m512i first = _mm512_setzero_si512();
      if constexpr (!Format::kHasMinimum) {
        first = repeat_word(starts_of<Format>(row, num_blocks) + b * 4);
      }
      __m512i second = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        first = _mm512_dpbusd_epi32(first, codes[i], repeat_word(x + 4 * i));
        second = _mm512_dpbusd_epi32(second, codes[4 + i], repeat_word(x + 16 + 4 * i));
      }
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_add_epi32(first, second));
      sums[n] = _mm512_fmadd_ps(dot, _mm512_mul_ps(d, _mm512_set1_ps(args.x.d[at])), sums[n]);
      if constexpr (Format::kHasMinimum) {
        sums[n] = _mm512_fmadd_ps(_mm512_loadu_ps(block + kMinimumsAt),
                                  _mm512_set1_ps(args.x.sums[at]), sums[n]);
      }
    }
  }
#pragma GCC unroll 16
  for (int n = 0; n < kColumns; ++n) _mm512_storeu_ps(args.sums + n * kUnpackedRows, sums[n]);
}

template <class Format, int kColumns = 1>
void multiply_unpacked_of(const UnpackedProductArgs& args) {
  if constexpr (kColumns < kMaxUnpackedColumns) {
    if (args.columns > kColumns) return multiply_unpacked_of<Format, 2 * kColumns>(args);
  }
  multiply_unpacked<Format, kColumns>(args);
}

}  // namespace

constinit const BlockProductKernels kBlockProductsVnni = {
    .activation_bytes = kActivationBytes,
    .prepare = prepare,
    .multiply = AC4K_OF_RAW_FORMATS(multiply_row_of),
    .most_columns = kMostColumns,
    .unpack = AC4K_OF_RAW_FORMATS(unpack),
    .multiply_unpacked = AC4K_OF_RAW_FORMATS(multiply_unpacked_of)};

}  // namespace ac4k::cpu::avx512
