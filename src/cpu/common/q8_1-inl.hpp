// BlockProductKernels of q8_1_table.hpp over a level's blocks of 32 codes. L: Codes (32 unsigned
// bytes in the order of columns), Sums (8 floats).
#pragma once

#include "cpu/common/q8_1_table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

// value = d * (code - kOffset), or d * code + m.
template <int kBlockBytes, int kCodesAt, int kBitsAt, bool kMinimum, int kCodeOffset>
struct RawFormat {
  static constexpr int kBytes = kBlockBytes;
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr float kOffset = kCodeOffset;
  template <class L>
  static AC4K_INLINE typename L::Codes codes(const uint8_t* block) {
    if constexpr (kCodeOffset == 128) {
      return L::biased_bytes(block + kCodesAt);
    } else if constexpr (kBitsAt > 0) {
      return L::add_fifth_bits(L::nibbles(block + kCodesAt), block + kBitsAt);
    } else {
      return L::nibbles(block + kCodesAt);
    }
  }
};
using RawQ4_0 = RawFormat<18, 2, 0, false, 8>;
using RawQ4_1 = RawFormat<20, 4, 0, true, 0>;
using RawQ5_0 = RawFormat<22, 6, 2, false, 16>;
using RawQ5_1 = RawFormat<24, 8, 4, true, 0>;
using RawQ8_0 = RawFormat<34, 2, 0, false, 128>;

constexpr int kQ81Bytes = 36, kQ81Codes = 4;

// The sum stored with a block is rounded to f16; that of its codes is exact.
template <class L>
void prepare_q8_1(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums) {
  for (int64_t b = 0; b < num_blocks; ++b, blocks += kQ81Bytes, codes += kActivationBytes) {
    int8_t x[kBlockValues];
    __builtin_memcpy(x, blocks + kQ81Codes, sizeof x);
    int32_t sum = 0;
    for (const int8_t code : x) sum += code;
    d[b] = L::half(blocks);
    sums[b] = d[b] * static_cast<float>(sum);
    L::store_activations(x, codes);
  }
}

template <class L, class Format, int kColumns>
AC4K_INLINE void multiply_columns(const BlockProductArgs& args) {
  typename L::Sums sums[kColumns];
  float offsets[kColumns] = {};
#pragma GCC unroll 4
  for (int n = 0; n < kColumns; ++n) sums[n] = L::Sums::broadcast(0);
  const uint8_t* block = args.weight;
  for (int64_t b = 0; b < args.num_blocks; ++b, block += Format::kBytes) {
    const auto codes = Format::template codes<L>(block);
    const float scale = L::half(block);
    const float minimum = Format::kHasMinimum ? L::half(block + 2) : -Format::kOffset * scale;
#pragma GCC unroll 4
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * args.num_blocks + b;
      const auto dot = L::dot(codes, args.codes + at * kActivationBytes);
      sums[n] = fma(dot, L::Sums::broadcast(scale * args.d[at]), sums[n]);
      offsets[n] += minimum * args.sums[at];
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < kColumns; ++n) args.out[n] = sums[n].sum() + offsets[n];
}

template <class L, class Format>
void multiply_blocks(const BlockProductArgs& args) {
  switch (args.columns) {
    case 1:
      return multiply_columns<L, Format, 1>(args);
    case 2:
      return multiply_columns<L, Format, 2>(args);
    case 3:
      return multiply_columns<L, Format, 3>(args);
    default:
      return multiply_columns<L, Format, 4>(args);
  }
}

template <class L>
constexpr BlockProductKernels make_block_products() {
  return {.prepare = prepare_q8_1<L>,
          .multiply = {multiply_blocks<L, RawQ4_0>, multiply_blocks<L, RawQ4_1>,
                       multiply_blocks<L, RawQ5_0>, multiply_blocks<L, RawQ5_1>,
                       multiply_blocks<L, RawQ8_0>},
          .multiply_rows = {}};
}

}  // namespace
}  // namespace ac4k::cpu
