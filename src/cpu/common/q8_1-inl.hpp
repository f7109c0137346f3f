// Raw GGUF blocks as the kernels of q8_1_table.hpp read them.
#pragma once

#include "cpu/common/q8_1_table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

// value = d * (code - kOffset), or d * code + m. A block begins with d, or d and m, in half; then
// come fifth bits, if there are any, bit i being worth 16 in column i; then nibbles, the low ones
// of which are columns 0 to 15, or signed bytes.
template <int kBlockBytes, bool kMinimum, bool kBits, int kCodeOffset>
struct RawFormat {
  static constexpr int kBytes = kBlockBytes;
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr bool kHasFifthBits = kBits;
  static constexpr bool kIsNibbles = kCodeOffset != 128;
  static constexpr int kOffset = kCodeOffset;  // signed bytes plus 128 are codes, too
  static constexpr int kCodesAt = kBytes - (kIsNibbles ? 16 : 32);
  static constexpr int kBitsAt = kCodesAt - 4;
};
using RawQ4_0 = RawFormat<18, false, false, 8>;
using RawQ4_1 = RawFormat<20, true, false, 0>;
using RawQ5_0 = RawFormat<22, false, true, 16>;
using RawQ5_1 = RawFormat<24, true, true, 0>;
using RawQ8_0 = RawFormat<34, false, false, 128>;

#define AC4K_OF_RAW_FORMATS(kernel) \
  {kernel<RawQ4_0>, kernel<RawQ4_1>, kernel<RawQ5_0>, kernel<RawQ5_1>, kernel<RawQ8_0>}

// `args.columns` as a constant: 1 to kMost.
#define AC4K_FOR_COLUMNS(name, kernel, kMost)                               \
  template <class Format, int kColumns = 1>                                 \
  void name(const BlockProductArgs& args) {                                 \
    if constexpr (kColumns < kMost) {                                       \
      if (args.columns > kColumns) return name<Format, kColumns + 1>(args); \
    }                                                                       \
    kernel<Format, kColumns>(args);                                         \
  }

constexpr int kQ81Bytes = 36, kQ81Codes = 4;

// A block of activations as q8_1 has it. The sum stored with it is rounded to f16; that of its
// codes is exact.
struct Q81Block {
  int8_t codes[kBlockValues];
  int32_t sum = 0;

  explicit AC4K_INLINE Q81Block(const uint8_t* block) {
    __builtin_memcpy(codes, block + kQ81Codes, sizeof codes);
    for (const int8_t code : codes) sum += code;
  }
};

}  // namespace
}  // namespace ac4k::cpu
