// q2_k and q3_k with few tokens at the avx512 level, on CPUs with VNNI and VBMI. Codes times their
// integer scales fit in a byte, and for 2 or 3 bits of code there are so few of these products that
// a register holds all of a row's: codes, with the place of their scale beside them, look them up.
// 256 columns are one sum of integers then.
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/vnni.hpp"
#include "cpu/common/decode-inl.hpp"

namespace ac4k::cpu::avx512 {
namespace {

constexpr int kAndOr = 0xea;       // (a & b) | c
constexpr int kChoose = 0xca;      // a ? b : c
constexpr int kProductBias = 124;  // makes the products of q3_k, -124 to 128, unsigned

// Bytes come in the order of the 2-bit plane: eight of each of the four threads of docs/
// packed_weights.md, their low nibbles first, then their high ones.
struct Place {
  int thread, scale, odd, high;
};
constexpr Place place_of(int position) {
  const int byte = position % 8;
  return {position / 8 % 4, byte / 4 * 2 + byte % 2, byte / 2 % 2, position / 32};
}
constexpr int column_of(int position) {
  const Place at = place_of(position);
  return 16 * at.scale + 8 * at.high + 2 * at.thread + at.odd;
}

template <class T>
struct alignas(64) Register {
  T v[64 / sizeof(T)];
};
template <class T, class Function>
constexpr Register<T> make_register(const Function& function) {
  Register<T> result{};
  for (int i = 0; i < static_cast<int>(64 / sizeof(T)); ++i)
    result.v[i] = static_cast<T>(function(i));
  return result;
}
template <class T>
AC4K_INLINE __m512i load(const Register<T>& pattern) {
  return _mm512_load_si512(pattern.v);
}

// Both rows of a quad in the low nibbles of bytes; what is above is not theirs.
AC4K_INLINE __m512i pairs_of_rows(const uint8_t* plane) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(plane));
  return _mm512_srlv_epi64(_mm512_broadcast_i64x4(bytes),
                           _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4));
}
// Up to four f16 numbers as floats. They go through memory, from where instructions spread them to
// all lanes as they load; the ports that shuffle have enough to do.
struct Numbers {
  alignas(16) float v[4];

  AC4K_INLINE explicit Numbers(__m128i halves) {
    _mm_store_ps(v, _mm_cvtph_ps(halves));
    asm("" : "+m"(v));  // or compilers see through it, and shuffle
  }
  AC4K_INLINE __m512 times(__m512 lanes, int index) const {
    return _mm512_mul_ps(lanes, _mm512_set1_ps(v[index]));
  }
};

// Tables are indexed by 6 bits. Row 0: two bits of code, two of the scale in its 64 columns, two
// of the 64 columns in 256; row 1 has its code, which is in bits 2 and 3, before its scale.
struct TwoBitEntries {
  static constexpr int scale_of(int row, int entry) {
    return entry / 16 * 4 + (row == 0 ? entry / 4 % 4 : entry % 4);
  }
  static constexpr int code_of(int row, int entry) { return row == 0 ? entry % 4 : entry / 4 % 4; }
};

class TwoBits : public Q2_K, TwoBitEntries {
 public:
  struct Group {
    __m512i tables[2];
    __m512 minimums[2];
    Numbers numbers;  // d and dmin of both rows

    AC4K_INLINE Group(const uint8_t* block, int quad) : Group(block + kScales + quad * kRecord) {}
    AC4K_INLINE explicit Group(const uint8_t* record)
        : numbers(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(record + 32))) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(record + 16 * i));
        const __m512i scales =
            _mm512_and_si512(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), load(kPlaces[i])),
                             _mm512_set1_epi16(i == 0 ? 0x000f : 0x0f0f));
        tables[i] = _mm512_mullo_epi16(scales, load(kFactors[i]));
        const __m512i high = _mm512_srli_epi32(_mm512_cvtepu8_epi32(bytes), 4);
        minimums[i] = numbers.times(_mm512_cvtepi32_ps(high), 2 * i + 1);
      }
    }
    static AC4K_INLINE Vnni::Sum begin(const ActivationGroup&) { return {}; }
    template <int kSubBlock>
    AC4K_INLINE void products(const uint8_t* block, int quad, __m512i (&bytes)[2]) const {
      const __m512i both = pairs_of_rows(block + kSubBlock * kPairPlane + quad * 32);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m512i index = _mm512_ternarylogic_epi32(both, _mm512_set1_epi8(i == 0 ? 3 : 12),
                                                        load(kIndexes[i][kSubBlock]), kAndOr);
        bytes[i] = _mm512_permutexvar_epi8(index, tables[i]);
      }
    }
    AC4K_INLINE __m512 end(int i, const Vnni::Sum& sum, const ActivationGroup& x) const {
      const __m512 value = numbers.times(_mm512_cvtepi32_ps(Vnni::total(sum)), 2 * i);
      return _mm512_fnmadd_ps(minimums[i], _mm512_loadu_ps(x.sums[0]), value);
    }
  };

 private:
  static constexpr Register<uint8_t> kPlaces[2] = {
      make_register<uint8_t>([](int i) { return scale_of(0, i); }),
      make_register<uint8_t>([](int i) { return scale_of(1, i); })};
  // Of two entries: either two codes of one scale, or two scales of one code.
  static constexpr Register<uint16_t> kFactors[2] = {
      make_register<uint16_t>(
          [](int i) { return code_of(0, 2 * i) + 256 * code_of(0, 2 * i + 1); }),
      make_register<uint16_t>([](int i) { return code_of(1, 2 * i); })};
  template <int kRow, int kSubBlock>
  static constexpr Register<uint8_t> kIndex = make_register<uint8_t>(
      [](int i) { return place_of(i).scale * (kRow == 0 ? 4 : 1) + 16 * kSubBlock; });
  static constexpr Register<uint8_t> kIndexes[2][4] = {
      {kIndex<0, 0>, kIndex<0, 1>, kIndex<0, 2>, kIndex<0, 3>},
      {kIndex<1, 0>, kIndex<1, 1>, kIndex<1, 2>, kIndex<1, 3>}};
};

// A table is for 128 columns. Bits of the index, row 0: two of the code, two of the scale, the
// third of the code, which 64 columns; row 1: scale, code, which columns, third of the code.
struct ThreeBitEntries {
  static constexpr int scale_of(int row, int entry) {
    return row == 0 ? entry / 4 % 4 + entry / 32 * 4 : entry % 4 + entry / 16 % 2 * 4;
  }
  static constexpr int code_of(int row, int entry) {
    return (row == 0 ? entry % 4 + entry / 16 % 2 * 4 : entry / 4 % 4 + entry / 32 * 4) - 4;
  }
  // Of two entries, as in TwoBits.
  static constexpr int factor_of(int row, int pair) {
    return row == 0 ? code_of(0, 2 * pair) + 256 * code_of(0, 2 * pair + 1) : code_of(1, 2 * pair);
  }
  static constexpr int offset_of(int row, int pair) {
    constexpr int kBoth = 257, kScaleBias = 32;
    return kProductBias * kBoth - kScaleBias * factor_of(row, pair) * (row == 0 ? 1 : kBoth);
  }
};

class ThreeBits : public Q3_K, ThreeBitEntries {
 public:
  struct Group {
    __m512i tables[2][2];
    Numbers d;  // of both rows

    AC4K_INLINE Group(const uint8_t* block, int quad) : Group(block + kScales + quad * kRecord) {}
    AC4K_INLINE explicit Group(const uint8_t* record) : d(_mm_loadu_si32(record + 24)) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          int64_t eight;  // scales of 6 bits each
          __builtin_memcpy(&eight, record + 12 * i + 6 * half, 8);
          const __m512i scales = _mm512_and_si512(
              _mm512_multishift_epi64_epi8(load(kPlaces[i]), _mm512_set1_epi64(eight)),
              _mm512_set1_epi16(i == 0 ? 0x003f : 0x3f3f));
          tables[i][half] =
              _mm512_add_epi16(_mm512_mullo_epi16(scales, load(kFactors[i])), load(kOffsets[i]));
        }
      }
    }
    // The bias of products, taken away: sums of activations, in their lanes.
    static AC4K_INLINE Vnni::Sum begin(const ActivationGroup& x) {
      return {_mm512_setzero_si512(), _mm512_loadu_si512(x.sums[0])};
    }
    template <int kSubBlock>
    AC4K_INLINE void products(const uint8_t* block, int quad, __m512i (&bytes)[2]) const {
      const __m512i low = pairs_of_rows(block + kSubBlock * kPairPlane + quad * 32);
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(
          block + 4 * kPairPlane + kSubBlock * kBitPlane + quad * 16));
      const __m512i high = _mm512_multishift_epi64_epi8(
          load(kBits), _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 0, 0, 1, 1),
                                                _mm512_castsi128_si512(bits)));
      const __m512i both = _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x30), high, low, kChoose);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m512i index = _mm512_ternarylogic_epi32(
            both, _mm512_set1_epi8(i == 0 ? 0x13 : 0x2c), load(kIndexes[i][kSubBlock % 2]), kAndOr);
        bytes[i] = _mm512_permutexvar_epi8(index, tables[i][kSubBlock / 2]);
      }
    }
    AC4K_INLINE __m512 end(int i, const Vnni::Sum& sum, const ActivationGroup&) const {
      return d.times(_mm512_cvtepi32_ps(Vnni::total(sum)), i);
    }
  };

 private:
  static constexpr Register<uint8_t> kPlaces[2] = {
      make_register<uint8_t>([](int i) { return 6 * scale_of(0, i); }),
      make_register<uint8_t>([](int i) { return 6 * scale_of(1, i); })};
  static constexpr Register<uint16_t> kFactors[2] = {
      make_register<uint16_t>([](int i) { return factor_of(0, i); }),
      make_register<uint16_t>([](int i) { return factor_of(1, i); })};
  static constexpr Register<uint16_t> kOffsets[2] = {
      make_register<uint16_t>([](int i) { return offset_of(0, i); }),
      make_register<uint16_t>([](int i) { return offset_of(1, i); })};
  // The third bits of row 0 come to bit 4 of bytes, those of row 1, next to them, to bit 5.
  static constexpr Register<uint8_t> kBits = make_register<uint8_t>([](int i) {
    const Place at = place_of(i);
    return (32 * (at.thread % 2) + 16 * at.odd + 4 * at.scale + 2 * at.high + 60) % 64;
  });
  template <int kRow, int kOdd>
  static constexpr Register<uint8_t> kIndex = make_register<uint8_t>([](int i) {
    return kRow == 0 ? 4 * place_of(i).scale + 32 * kOdd : place_of(i).scale + 16 * kOdd;
  });
  static constexpr Register<uint8_t> kIndexes[2][2] = {{kIndex<0, 0>, kIndex<0, 1>},
                                                       {kIndex<1, 0>, kIndex<1, 1>}};
};

bool prepare(const float* x, WeightFormat format, ActivationGroup* group) {
  int16_t fixed[kGroupColumns];
  group->scale = to_fixed_point(x, fixed);
  if (group->scale == 0) return false;
  Vnni::Sum biases;
  for (int j = 0; j < 4; ++j) {
    static constexpr auto kFirst = make_register<uint16_t>(column_of);
    static constexpr auto kSecond =
        make_register<uint16_t>([](int i) { return column_of(i + 32); });
    const __m512i low = _mm512_loadu_si512(fixed + 64 * j);
    const __m512i high = _mm512_loadu_si512(fixed + 64 * j + 32);
    int16_t ordered[64];
    _mm512_storeu_si512(ordered, _mm512_permutex2var_epi16(low, load(kFirst), high));
    _mm512_storeu_si512(ordered + 32, _mm512_permutex2var_epi16(low, load(kSecond), high));
    Vnni::store_planes(ordered, group->planes[j]);
    Vnni::add(_mm512_set1_epi8(kProductBias), group->planes[j], biases);
  }
  if (format == WeightFormat::q3_k) {
    _mm512_storeu_si512(group->sums[0],
                        _mm512_sub_epi32(_mm512_setzero_si512(), Vnni::total(biases)));
    return true;
  }
  for (int i = 0; i < 16; ++i) {
    int32_t sum = 0;
    for (int k = 0; k < 16; ++k) sum += fixed[16 * i + k];
    group->sums[0][i] = static_cast<float>(sum);
  }
  return true;
}

template <class Format, int kTokens>
void decode_tile(const DecodeArgs& args) {
  alignas(64) float lanes[kPackedQuads][2][kTokens][16];
  const GroupReader<Format> groups(args.tile, args.num_blocks);
  const ReadAhead read_ahead(args.end);
  for (int64_t group = 0; group < groups.size(); ++group) {
    const uint8_t* block = groups[group];
    const ActivationGroup* x[kTokens];
    for (int t = 0; t < kTokens; ++t) x[t] = args.activations + t * args.row_stride + group;
    for (int quad = 0; quad < kPackedQuads; ++quad) {
      groups.advance(read_ahead, group, quad);
      const typename Format::Group weights(block, quad);
      Vnni::Sum sums[2][kTokens];
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) sums[0][t] = sums[1][t] = weights.begin(*x[t]);
      const auto add = [&]<int kSubBlock>() __attribute__((always_inline)) {
        __m512i bytes[2];
        weights.template products<kSubBlock>(block, quad, bytes);
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
          for (int t = 0; t < kTokens; ++t)
            Vnni::add(bytes[i], x[t]->planes[kSubBlock], sums[i][t]);
        }
      };
      add.template operator()<0>();
      add.template operator()<1>();
      add.template operator()<2>();
      add.template operator()<3>();
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          float* total = lanes[quad][i][t];
          const __m512 scale = _mm512_set1_ps(x[t]->scale);
          const __m512 sum = weights.end(i, sums[i][t], *x[t]);
          _mm512_store_ps(total, group == 0 ? _mm512_mul_ps(sum, scale)
                                            : _mm512_fmadd_ps(sum, scale, _mm512_load_ps(total)));
        }
      }
    }
  }
  for (int quad = 0; quad < kPackedQuads; ++quad) {
    for (int i = 0; i < 2; ++i) {
      for (int t = 0; t < kTokens; ++t) {
        args.sums[t * kPackedRows + row_of_quad(quad, i)] =
            _mm512_reduce_add_ps(_mm512_load_ps(lanes[quad][i][t]));
      }
    }
  }
}

template <class Format>
constexpr void set_format(DecodeKernels& kernels) {
  auto& decode = kernels.decode[static_cast<int>(Format::kFormat)];
  decode[0] = decode_tile<Format, 1>;
  decode[1] = decode_tile<Format, 2>;
  decode[2] = decode_tile<Format, 4>;
}

}  // namespace

constinit const DecodeKernels kDecodeVbmi = [] {
  DecodeKernels kernels{.prepare = prepare, .decode = {}};
  set_format<TwoBits>(kernels);
  set_format<ThreeBits>(kernels);
  return kernels;
}();

}  // namespace ac4k::cpu::avx512
