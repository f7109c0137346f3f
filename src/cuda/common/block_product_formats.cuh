// Raw GGUF blocks of 32 as factors of a byte product. A format gives
//   kBytes, kHasMinimum      of a block; value = d * code, or d * code + m
//   kSigned, kFactor         the bytes are kFactor * code, with a sign or without: a nibble in the
//                            upper half of a byte, its sign bit turned, is 16 * (nibble - 8)
//   codes<block>()           the bytes of values 4t to 4t + 3, and of 16 more, of one row. `mask`
//   is
//                            0xf0f0f0f0 in a register.
// Rows lie in shared memory; four blocks of them begin at a multiple of four bytes.
#pragma once

#include "common/types.cuh"

namespace ac4k {

struct RowCodes {
  uint32_t low, high;  // values 4t to 4t + 3, and 16 behind them
};

// The word at an even offset from an aligned address.
template <int kOffset>
__device__ __forceinline__ uint32_t word_at(const unsigned char* aligned) {
  static_assert(kOffset % 2 == 0);
  const uint32_t* words = reinterpret_cast<const uint32_t*>(aligned + kOffset / 4 * 4);
  if constexpr (kOffset % 4 == 0) {
    return words[0];
  } else {
    return __byte_perm(words[0], words[1], 0x5432);
  }
}

// kCodesAt, kBitsAt: of the nibbles and the fifth bits (0: none) in a block.
template <int kBlockBytes, int kCodesAt, int kBitsAt, bool kMinimum>
struct NibbleBlocks {
  static constexpr int kBytes = kBlockBytes;
  static constexpr bool kHasMinimum = kMinimum, kSigned = !kMinimum;
  static constexpr float kFactor = kBitsAt > 0 ? 8.0f : 16.0f;

  // `row`: of the group of four blocks.
  template <int kBlock>
  static __device__ __forceinline__ RowCodes codes(const unsigned char* row, int t, uint32_t mask) {
    const uint32_t nibbles = word_at<kBlock * kBytes + kCodesAt>(row + 4 * t);
    if constexpr (kBitsAt == 0) {
      constexpr uint32_t kTurned = kSigned ? 0x80808080u : 0u;
      return {((nibbles << 4) & mask) ^ kTurned, (nibbles & mask) ^ kTurned};
    } else {
      // Four bits land in the sign bits of four bytes: each factor moves another one into place.
      constexpr uint32_t kSpread = 0x10204080u;
      const uint32_t bits = word_at<kBlock * kBytes + kBitsAt>(row) >> (4 * t);
      const uint32_t low = (bits & 15u) * kSpread, high = (bits >> 16 & 15u) * kSpread;
      return {((nibbles << 3) & 0x78787878u) | ((kSigned ? ~low : low) & 0x80808080u),
              ((nibbles >> 1) & 0x78787878u) | ((kSigned ? ~high : high) & 0x80808080u)};
    }
  }
};

struct ByteBlocks {
  static constexpr int kBytes = 34;
  static constexpr bool kHasMinimum = false, kSigned = true;
  static constexpr float kFactor = 1.0f;

  template <int kBlock>
  static __device__ __forceinline__ RowCodes codes(const unsigned char* row, int t, uint32_t) {
    return {word_at<kBlock * kBytes + 2>(row + 4 * t), word_at<kBlock * kBytes + 18>(row + 4 * t)};
  }
};

using BlocksQ4_0 = NibbleBlocks<18, 2, 0, false>;
using BlocksQ4_1 = NibbleBlocks<20, 4, 0, true>;
using BlocksQ5_0 = NibbleBlocks<22, 6, 2, false>;
using BlocksQ5_1 = NibbleBlocks<24, 8, 4, true>;
using BlocksQ8_0 = ByteBlocks;

}  // namespace ac4k
