// Bytes and nibbles from and to the 32-bit lanes of a vector. The other levels have the same
// members. Loads give 0 from lane n on; stores write n lanes. n is even for nibbles.
#pragma once

#include "cpu/generic/simd.hpp"

namespace ac4k::cpu::generic {

struct Codes {
  using Int = F32::IntReg;
  static constexpr int kLanes = F32::kLanes;

  static AC4K_INLINE Int load(const uint8_t* p) { return load_partial(p, kLanes); }
  static AC4K_INLINE Int load_partial(const uint8_t* p, int n) {
    Int codes{};
    for (int i = 0; i < n; ++i) codes[i] = p[i];
    return codes;
  }
  static AC4K_INLINE void store(Int codes, uint8_t* p) { store_partial(codes, p, kLanes); }
  static AC4K_INLINE void store_partial(Int codes, uint8_t* p, int n) {
    for (int i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(codes[i]);
  }
  // Lanes 2i and 2i + 1 share byte i, the first in its low half.
  static AC4K_INLINE Int load_nibbles(const uint8_t* p) {
    Int codes;
    for (int i = 0; i < kLanes; ++i) codes[i] = (p[i / 2] >> (i % 2 * 4)) & 15;
    return codes;
  }
  static AC4K_INLINE void store_nibbles(Int codes, uint8_t* p) {
    for (int i = 0; i < kLanes; i += 2) {
      p[i / 2] = static_cast<uint8_t>(codes[i] | (codes[i + 1] << 4));
    }
  }
};

}  // namespace ac4k::cpu::generic
