// Products of raw GGUF blocks with q8_1 activations at the generic level: 16-bit codes, whose
// products any x86-64 adds up in pairs.
#include "cpu/common/q8_1-inl.hpp"

namespace ac4k::cpu::generic {
namespace {

constexpr int kMostColumns = 4;

float half(const uint8_t* p) {
  Half value;
  __builtin_memcpy(&value, p, 2);
  return to_acc(value);
}

void prepare(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums) {
  for (int64_t b = 0; b < num_blocks; ++b, blocks += kQ81Bytes) {
    const Q81Block block(blocks);
    int16_t wide[kBlockValues];
    for (int i = 0; i < kBlockValues; ++i) wide[i] = block.codes[i];
    __builtin_memcpy(codes + b * static_cast<int64_t>(sizeof wide), wide, sizeof wide);
    d[b] = half(blocks);
    sums[b] = d[b] * static_cast<float>(block.sum);
  }
}

typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef uint64_t Eights __attribute__((vector_size(16)));

// Bit i of two bytes is worth 16 in column i.
AC4K_INLINE Bytes fifth_bits(const uint8_t* bits) {
  Eights v = {bits[0], bits[1]};
  v = v * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);  // a bit a byte
  v = (v + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 3 & UINT64_C(0x1010101010101010);
  return reinterpret_cast<const Bytes&>(v);
}

// Codes less their offset.
template <class Format>
AC4K_INLINE void load_codes(const uint8_t* block, int16_t (&codes)[kBlockValues]) {
  const uint8_t* p = block + Format::kCodesAt;
  if constexpr (!Format::kIsNibbles) {
    for (int i = 0; i < kBlockValues; ++i) codes[i] = static_cast<int8_t>(p[i]);
    return;
  }
  Bytes both;
  __builtin_memcpy(&both, p, sizeof both);
  Bytes halves[2] = {both & 15, both >> 4};
  for (int h = 0; h < 2; ++h) {
    if constexpr (Format::kHasFifthBits) halves[h] |= fifth_bits(block + Format::kBitsAt + 2 * h);
    for (int i = 0; i < 16; ++i) {
      codes[16 * h + i] = static_cast<int16_t>(halves[h][i] - Format::kOffset);
    }
  }
}

template <class Format, int kColumns>
void multiply_row(const BlockProductArgs& args) {
  float sums[kColumns] = {};
  const uint8_t* block = args.weight;
  for (int64_t b = 0; b < args.x.num_blocks; ++b, block += Format::kBytes) {
    int16_t codes[kBlockValues];
    load_codes<Format>(block, codes);
    const float scale = half(block), minimum = Format::kHasMinimum ? half(block + 2) : 0;
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = n * args.x.num_blocks + b;
      const auto* x = reinterpret_cast<const int16_t*>(args.x.codes) + at * kBlockValues;
      int32_t dot = 0;
      for (int i = 0; i < kBlockValues; ++i) dot += codes[i] * x[i];
      sums[n] += scale * args.x.d[at] * static_cast<float>(dot);
      if constexpr (Format::kHasMinimum) sums[n] += minimum * args.x.sums[at];
    }
  }
  for (int n = 0; n < kColumns; ++n) args.out[n] = sums[n];
}
AC4K_FOR_COLUMNS(multiply_row_of, multiply_row, kMostColumns)

}  // namespace

constinit const BlockProductKernels kBlockProducts = {
    .activation_bytes = 2 * kBlockValues,
    .prepare = prepare,
    .multiply = AC4K_OF_RAW_FORMATS(multiply_row_of),
    .most_columns = kMostColumns,
    .unpack = {},
    .multiply_unpacked = {}};

}  // namespace ac4k::cpu::generic
