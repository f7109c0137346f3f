// Products of raw GGUF blocks with q8_1 activations at the generic level; what the members of
// Block mean for the other levels too.
#include "cpu/common/q8_1-inl.hpp"

namespace ac4k::cpu::generic {
namespace {

struct Block {
  struct Codes {
    uint8_t v[32];
  };
  struct Sums {
    float v[8];
    static AC4K_INLINE Sums broadcast(float value) {
      Sums r;
      for (float& lane : r.v) lane = value;
      return r;
    }
    AC4K_INLINE float sum() const {
      float total = 0;
      for (const float lane : v) total += lane;
      return total;
    }
    friend AC4K_INLINE Sums fma(const Sums& a, const Sums& b, const Sums& c) {
      Sums r;
      for (int i = 0; i < 8; ++i) r.v[i] = a.v[i] * b.v[i] + c.v[i];
      return r;
    }
  };
  static AC4K_INLINE float half(const uint8_t* p) {
    Half value;
    __builtin_memcpy(&value, p, 2);
    return to_acc(value);
  }
  // 16 bytes: low nibbles are columns 0..15.
  static AC4K_INLINE Codes nibbles(const uint8_t* p) {
    Codes r;
    for (int i = 0; i < 16; ++i) {
      r.v[i] = p[i] & 15;
      r.v[16 + i] = p[i] >> 4;
    }
    return r;
  }
  // Bit i of 4 bytes is worth 16 in column i.
  static AC4K_INLINE Codes add_fifth_bits(Codes codes, const uint8_t* p) {
    for (int i = 0; i < 32; ++i) codes.v[i] |= static_cast<uint8_t>((p[i / 8] >> i % 8 & 1) << 4);
    return codes;
  }
  // Signed bytes plus 128.
  static AC4K_INLINE Codes biased_bytes(const uint8_t* p) {
    Codes r;
    for (int i = 0; i < 32; ++i) r.v[i] = p[i] ^ 0x80;
    return r;
  }
  // 32 codes in the form that dot() reads: at most kActivationBytes.
  static AC4K_INLINE void store_activations(const int8_t (&x)[32], int8_t* to) {
    __builtin_memcpy(to, x, sizeof x);
  }
  static AC4K_INLINE Sums dot(const Codes& codes, const int8_t* x) {
    Sums r;
    for (int i = 0; i < 8; ++i) {
      int32_t sum = 0;
      for (int b = 0; b < 4; ++b) sum += codes.v[4 * i + b] * x[4 * i + b];
      r.v[i] = static_cast<float>(sum);
    }
    return r;
  }
};

}  // namespace

constinit const BlockProductKernels kBlockProducts = make_block_products<Block>();

}  // namespace ac4k::cpu::generic
