// What the engine of packed weights asks of a level, in plain loops. A quad is rows r and r + 8 of
// a tile with 64 columns; its codes come as 64 bytes a row, byte b of 32-bit lane 4c + s being
// column quad_column(lane, b). Lanes are 16 floats, one for each 32-bit lane of codes.
#pragma once

#include "cpu/common/types-inl.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu::generic {

// Plain loops become long code: a function of its own each, or the products of all formats take
// minutes to compile.
#define AC4K_APART [[gnu::noinline]]

struct Quad {
  static constexpr bool kFourBlocks = false;      // are scales of four short blocks taken together?
  static constexpr bool kHasSmallScales = false;  // are codes multiplied by scales of 4 bits?
  struct Codes {
    uint8_t v[64];
    friend AC4K_INLINE Codes operator|(const Codes& a, const Codes& b) {
      Codes r;
      for (int i = 0; i < 64; ++i) r.v[i] = a.v[i] | b.v[i];
      return r;
    }
  };
  struct Lanes {
    float v[16];
    static AC4K_INLINE Lanes broadcast(float value) {
      Lanes r;
      for (float& lane : r.v) lane = value;
      return r;
    }
    static AC4K_INLINE Lanes load(const float* p) {
      Lanes r;
      __builtin_memcpy(r.v, p, sizeof r.v);
      return r;
    }
    // Four floats, four times.
    static AC4K_INLINE Lanes load_four(const float* p) {
      Lanes r;
      for (int i = 0; i < 16; ++i) r.v[i] = p[i % 4];
      return r;
    }
    AC4K_INLINE void store(float* p) const { __builtin_memcpy(p, v, sizeof v); }
    AC4K_INLINE float sum() const {
      float total = 0;
      for (const float lane : v) total += lane;
      return total;
    }
    friend AC4K_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
      Lanes r;
      for (int i = 0; i < 16; ++i) r.v[i] = a.v[i] + b.v[i];
      return r;
    }
    friend AC4K_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
      Lanes r;
      for (int i = 0; i < 16; ++i) r.v[i] = a.v[i] * b.v[i];
      return r;
    }
    friend AC4K_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
      return a * b + c;
    }
  };

  // Sums of products: scales of short blocks, and those that are spread, are repeated in their
  // lanes, so many times; others are folded.
  using Sums = Lanes;
  static constexpr int kScaleCopies = 4;
  static AC4K_INLINE Sums repeated(const Lanes& lanes) { return lanes; }
  static AC4K_INLINE Sums folded(const Lanes& lanes) { return lanes; }

  static AC4K_INLINE Codes load(const uint8_t* p) {
    Codes r;
    __builtin_memcpy(r.v, p, 64);
    return r;
  }
  AC4K_APART static Codes low_nibbles(const Codes& both) {
    Codes r;
    for (int i = 0; i < 64; ++i) r.v[i] = both.v[i] & 15;
    return r;
  }
  AC4K_APART static Codes high_nibbles(const Codes& both) {
    Codes r;
    for (int i = 0; i < 64; ++i) r.v[i] = both.v[i] >> 4;
    return r;
  }
  AC4K_APART static Codes high_nibbles_times_16(const Codes& both) {
    Codes r;
    for (int i = 0; i < 64; ++i) r.v[i] = both.v[i] & 0xf0;
    return r;
  }
  // Fields of 2 bits from 32 bytes of their plane.
  AC4K_APART static void pairs(const uint8_t* p, Codes (&codes)[2]) {
    for (int i = 0; i < 64; ++i) {
      const int lane = i / 4, byte = i % 4, step = lane % 4, e = byte / 2, high = byte % 2;
      const int from = p[8 * (lane / 4) + 4 * (step / 2) + 2 * e + step % 2];
      codes[0].v[i] = from >> (4 * high) & 3;
      codes[1].v[i] = from >> (4 * high + 2) & 3;
    }
  }
  // Those of the second row times 4.
  AC4K_APART static void pairs_in_place(const uint8_t* p, Codes (&codes)[2]) {
    pairs(p, codes);
    for (uint8_t& code : codes[1].v) code = static_cast<uint8_t>(code << 2);
  }
  AC4K_APART static void add_pairs_times_16(const uint8_t* p, Codes (&codes)[2]) {
    for (int i = 0; i < 64; ++i) {
      const int lane = i / 4, byte = i % 4, step = lane % 4, e = byte / 2, high = byte % 2;
      const int from = p[8 * (lane / 4) + 4 * (step / 2) + 2 * e + step % 2] >> (4 * high);
      codes[0].v[i] |= static_cast<uint8_t>((from & 3) << 4);
      codes[1].v[i] |= static_cast<uint8_t>((from >> 2 & 3) << 4);
    }
  }
  // Bits from 16 bytes of their plane: 1 << kPosition for the first row, 1 << kSecond for the
  // other.
  template <int kPosition, int kSecond>
  AC4K_APART static void add_bits(const uint8_t* p, Codes (&codes)[2]) {
    for (int i = 0; i < 64; ++i) {
      const int lane = i / 4, byte = i % 4, step = lane % 4, e = byte / 2, high = byte % 2;
      const int from = p[4 * (lane / 4) + 2 * e + step / 2] >> (4 * (step % 2) + 2 * high);
      codes[0].v[i] |= static_cast<uint8_t>((from & 1) << kPosition);
      codes[1].v[i] |= static_cast<uint8_t>((from >> 1 & 1) << kSecond);
    }
  }
  // 8-bit codes: 64 bytes of each half of the plane.
  AC4K_APART static void bytes(const uint8_t* first, const uint8_t* second, Codes (&codes)[2]) {
    for (int i = 0; i < 64; ++i) {
      const int lane = i / 4, step = lane % 4;
      const uint8_t* from = (step < 2 ? first : second) + 16 * (lane / 4) + 8 * (step % 2) + i % 4;
      codes[0].v[i] = from[0];
      codes[1].v[i] = from[4];
    }
  }
  AC4K_APART static Codes lookup(const Codes& codes, const uint8_t (&table)[16]) {
    Codes r;
    for (int i = 0; i < 64; ++i) r.v[i] = table[codes.v[i]];
    return r;
  }

  static AC4K_INLINE float half_at(const uint8_t* p) {
    Half value;
    __builtin_memcpy(&value, p, 2);
    return to_acc(value);
  }
  // The same f16 number in all lanes, of two places.
  static AC4K_INLINE void two_halves(const uint8_t* first, const uint8_t* second, Lanes (&d)[2]) {
    d[0] = Lanes::broadcast(half_at(first));
    d[1] = Lanes::broadcast(half_at(second));
  }
  static AC4K_INLINE void two_minus_halves(const uint8_t* first, const uint8_t* second,
                                           Lanes (&d)[2]) {
    d[0] = Lanes::broadcast(-half_at(first));
    d[1] = Lanes::broadcast(-half_at(second));
  }
  // Four f16: those of row r for columns 0..31 and 32..63, then those of row r + 8.
  AC4K_APART static void half_pairs(const uint8_t* p, Lanes (&s)[2]) {
    for (int i = 0; i < 32; ++i) s[i / 16].v[i % 16] = half_at(p + i / 16 * 4 + i % 4 / 2 * 2);
  }
  // The first or the second of four pairs of f16.
  template <int kIndex>
  AC4K_APART static void half_of_pairs(const uint8_t* p, Lanes (&s)[2]) {
    for (int i = 0; i < 32; ++i) {
      s[i / 16].v[i % 16] = half_at(p + i / 16 * 8 + i % 4 / 2 * 4 + 2 * kIndex);
    }
  }
  // bf16 in the order of half_pairs: number kIndex of entries of kBytes bytes.
  template <int kBytes, int kIndex>
  AC4K_APART static void bf16_entries(const uint8_t* p, Lanes (&s)[2]) {
    for (int i = 0; i < 32; ++i) {
      uint16_t bits;
      __builtin_memcpy(&bits, p + (i / 16 * 2 + i % 4 / 2) * kBytes + 2 * kIndex, 2);
      s[i / 16].v[i % 16] = bits_to_f32(uint32_t{bits} << 16);
    }
  }
  // 2^(e - 128) of four bytes in the order of half_pairs.
  AC4K_APART static void exponents(const uint8_t* p, Lanes (&s)[2]) {
    for (int i = 0; i < 32; ++i) {
      const uint32_t e = p[i / 16 * 2 + i % 4 / 2];
      s[i / 16].v[i % 16] = bits_to_f32(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
  }
  // Half of four UE4M3 numbers of row r, then of row r + 8.
  AC4K_APART static void half_ue4m3(const uint8_t* p, Lanes (&s)[2]) {
    for (int i = 0; i < 32; ++i) {
      const uint32_t code = p[i / 16 * 4 + i % 4];
      const uint32_t low = code & 127, leading = low < 8 ? 8 : 0;
      const float value = bits_to_f32(((low | leading) << 20) + (119u << 23));
      s[i / 16].v[i % 16] = code == 127 ? 0.0f : low < 8 ? value - 0x1p-7f : value;
    }
  }
  template <FieldTable kTable>
  AC4K_APART static Lanes fields(const uint8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) {
      const int at = kTable.bytes[i];
      const uint32_t word =
          p[at] | uint32_t{p[(at + 1) % 16]} << 8 | uint32_t{p[(at + 2) % 16]} << 16;
      r.v[i] = static_cast<float>(word >> kTable.shifts[i] & kTable.mask);
    }
    return r;
  }
  // Of 16 bytes.
  AC4K_APART static Lanes low_nibbles_of_bytes(const uint8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i] & 15);
    return r;
  }
  AC4K_APART static Lanes high_nibbles_of_bytes(const uint8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i] >> 4);
    return r;
  }
  AC4K_APART static Lanes signed_bytes(const uint8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return r;
  }
  // Lanes of 64 columns from scales of 16 columns each.
  template <int kSubBlock>
  static AC4K_INLINE Lanes spread(const Lanes& s) {
    return Lanes::load_four(s.v + 4 * kSubBlock);
  }

  // Byte kByte of each lane.
  template <int kByte>
  AC4K_APART static Lanes values(const Codes& codes) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = codes.v[4 * i + kByte];
    return r;
  }

  // Fixed-point activations in the order of codes, as dot() wants them.
  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    __builtin_memcpy(planes, x, sizeof x);
  }
  // Sums over the bytes of each lane.
  AC4K_APART static Lanes dot(const Codes& codes, const int8_t* planes) {
    int16_t x[64];
    __builtin_memcpy(x, planes, sizeof x);
    Lanes r;
    for (int i = 0; i < 16; ++i) {
      int32_t sum = 0;
      for (int b = 0; b < 4; ++b) sum += codes.v[4 * i + b] * x[4 * i + b];
      r.v[i] = static_cast<float>(sum);
    }
    return r;
  }
};

#undef AC4K_APART

}  // namespace ac4k::cpu::generic
