// Products of raw GGUF blocks with q8_1 activations at the avx2 level. Eight blocks of a row share
// what is done about scales. Pairs of nibbles with a fifth bit fit into 16 bits when they are
// multiplied with bytes; signed bytes are widened first.
#include "cpu/avx2/raw_blocks.hpp"
#include "cpu/avx2/simd.hpp"

namespace ac4k::cpu::avx2 {
namespace {

constexpr int kMostColumns = 4;

// Prepared codes of a block: as bytes, then as words.
constexpr int kWordsAt = kBlockValues, kActivationBytes = 3 * kBlockValues;

void prepare(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums) {
  for (int64_t b = 0; b < num_blocks; ++b, blocks += kQ81Bytes, codes += kActivationBytes) {
    const Q81Block block(blocks);
    int16_t words[kBlockValues];
    for (int i = 0; i < kBlockValues; ++i) words[i] = block.codes[i];
    __builtin_memcpy(codes, block.codes, sizeof block.codes);
    __builtin_memcpy(codes + kWordsAt, words, sizeof words);
    d[b] = half(blocks);
    sums[b] = d[b] * static_cast<float>(block.sum);
  }
}

AC4K_INLINE __m256i load_256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
AC4K_INLINE __m128i load_128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

// The codes of a block and their products with activations.
template <class Format>
struct Codes {
  __m256i v;

  explicit AC4K_INLINE Codes(const uint8_t* block) {
    const __m128i both = load_128(block + Format::kCodesAt);
    v = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15));
    if constexpr (Format::kHasFifthBits) {
      int32_t word;
      __builtin_memcpy(&word, block + Format::kBitsAt, 4);
      const __m256i bytes = _mm256_shuffle_epi8(
          _mm256_set1_epi32(word),
          _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
      const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
      const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each);
      v = _mm256_or_si256(v, _mm256_and_si256(set, _mm256_set1_epi8(16)));
    }
  }
  AC4K_INLINE __m256i dot(const int8_t* x) const {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(v, load_256(x)), _mm256_set1_epi16(1));
  }
};
template <>
struct Codes<RawQ8_0> {
  __m256i v[2];

  explicit AC4K_INLINE Codes(const uint8_t* block)
      : v{_mm256_cvtepi8_epi16(load_128(block + RawQ8_0::kCodesAt)),
          _mm256_cvtepi8_epi16(load_128(block + RawQ8_0::kCodesAt + 16))} {}
  AC4K_INLINE __m256i dot(const int8_t* x) const {
    return _mm256_add_epi32(_mm256_madd_epi16(v[0], load_256(x + kWordsAt)),
                            _mm256_madd_epi16(v[1], load_256(x + kWordsAt + 32)));
  }
};

// The lower halves of eight words.
AC4K_INLINE __m256 halves(__m256i words) {
  const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

template <class F, int kColumns>
class RowProduct {
 public:
  using Format = F;
  static constexpr int kBlocks = 8;  // that share scales

  explicit AC4K_INLINE RowProduct(const BlockProductArgs& args) : args_(args) {
#pragma GCC unroll 4
    for (int n = 0; n < kColumns; ++n) sums_[n] = offsets_[n] = _mm256_setzero_ps();
  }

  // Up to kBlocks blocks from block `b` on.
  template <bool kAll>
  AC4K_INLINE void add(const uint8_t* blocks, int64_t b, int count) {
    constexpr bool kHasOffset = Format::kHasMinimum || Format::kIsNibbles;
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i valid =
        kAll ? _mm256_set1_epi32(-1) : _mm256_cmpgt_epi32(_mm256_set1_epi32(count), numbers);
    const __m256i headers = _mm256_setr_m128i(load_headers<Format::kBytes, kAll, 0>(blocks, count),
                                              load_headers<Format::kBytes, kAll, 4>(blocks, count));
    const __m256 d = halves(headers);
    alignas(32) float scales[kColumns][kBlocks];
#pragma GCC unroll 4
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * args_.x.num_blocks + b;
      _mm256_store_ps(scales[n], _mm256_mul_ps(d, _mm256_maskload_ps(args_.x.d + at, valid)));
      if constexpr (kHasOffset) {
        const __m256 minimum = Format::kHasMinimum
                                   ? halves(_mm256_srli_epi32(headers, 16))
                                   : _mm256_mul_ps(d, _mm256_set1_ps(-Format::kOffset));
        offsets_[n] =
            _mm256_fmadd_ps(minimum, _mm256_maskload_ps(args_.x.sums + at, valid), offsets_[n]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < (kAll ? kBlocks : count); ++i) {
      const Codes<Format> codes(blocks + i * Format::kBytes);
#pragma GCC unroll 4
      for (int n = 0; n < kColumns; ++n) {
        const int64_t at = n * args_.x.num_blocks + b + i;
        const __m256 dot = _mm256_cvtepi32_ps(codes.dot(args_.x.codes + at * kActivationBytes));
        sums_[n] = _mm256_fmadd_ps(dot, _mm256_broadcast_ss(&scales[n][i]), sums_[n]);
      }
    }
  }

  AC4K_INLINE void store() const {
    for (int n = 0; n < kColumns; ++n)
      args_.out[n] = F32{_mm256_add_ps(sums_[n], offsets_[n])}.sum();
  }

 private:
  const BlockProductArgs& args_;
  __m256 sums_[kColumns], offsets_[kColumns];
};

template <class Format, int kColumns>
void multiply_row(const BlockProductArgs& args) {
  multiply_row_by<RowProduct<Format, kColumns>>(args);
}
AC4K_FOR_COLUMNS(multiply_row_of, multiply_row, kMostColumns)

}  // namespace

constinit const BlockProductKernels kBlockProducts = {
    .activation_bytes = kActivationBytes,
    .prepare = prepare,
    .multiply = AC4K_OF_RAW_FORMATS(multiply_row_of),
    .most_columns = kMostColumns,
    .unpack = {},
    .multiply_unpacked = {}};

}  // namespace ac4k::cpu::avx2
