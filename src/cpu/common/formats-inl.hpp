// The small formats, a vector at a time: float to code and back.
//
//   e4m3, e5m2  nearest even, saturating to the largest finite number, NaN to 0x7f
//   int8        nearest even, saturating to [-128, 127], NaN to 0
//   e2m1        nearest even, saturating to 6, NaN to 0
// V is a level's F32; codes are its 32-bit lanes. src/cuda/common/formats.cuh gives the same codes.
#pragma once

#include "cpu/common/scale-inl.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

// A level's vector in the compiler's own types, whose operators work at every width.
template <class V>
struct LanesOf {
  using Float = decltype(V::v);
  typedef int32_t Int __attribute__((vector_size(sizeof(Float))));
};
template <class V>
using Lanes = typename LanesOf<V>::Int;

template <class V>
AC4K_INLINE Lanes<V> bits_of(V a) {
  return (Lanes<V>)a.v;
}
template <class V>
AC4K_INLINE V from_bits(Lanes<V> bits) {
  return {(typename LanesOf<V>::Float)bits};
}
template <class V>
AC4K_INLINE V magnitude_of(V a) {
  return from_bits<V>(bits_of(a) & 0x7fffffff);
}
template <class V>
AC4K_INLINE Lanes<V> lanes_of(int32_t value) {
  return Lanes<V>{} + value;
}

// The largest lane; NaN must not be among them.
template <class V>
AC4K_INLINE float largest_lane(V a) {
  using I = Lanes<V>;
  I index;
  for (int i = 0; i < V::kLanes; ++i) index[i] = i;
#pragma GCC unroll 4
  for (int step = V::kLanes / 2; step > 0; step /= 2) {
    a = max(a, V{__builtin_shuffle(a.v, (index + step) & (V::kLanes - 1))});
  }
  return a.v[0];
}

// A format of one sign bit, kExponentBits and kMantissa bits.
template <int kExponentBits, int kMantissaBits>
struct MiniFloat {
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kSignBit = 1 << (kExponentBits + kMantissaBits);
  static constexpr int kFirst = 127 + 1 - kBias;  // float32's exponent of the first normal number
  static constexpr int kDrop = 23 - kMantissa;    // bits of float32's mantissa that go
};
struct E4M3 : MiniFloat<4, 3> {
  static constexpr float kMax = kLargestE4M3;
  static constexpr int kMaxExponent = 8, kNaN = 0x7f;
};
struct E5M2 : MiniFloat<5, 2> {
  static constexpr float kMax = kLargestE5M2;
  static constexpr int kMaxExponent = 15, kNaN = 0x7f;
};
struct E2M1 : MiniFloat<2, 1> {
  static constexpr float kMax = 6.0f;
  static constexpr int kMaxExponent = 2, kNaN = 0;
};
struct Int8 {
  static constexpr float kMax = kLargestInt8;
};

// Adding 2^k to |x|, with k such that the sum's last bit is the last place the format has at |x|,
// rounds; the sum's last bits then are the mantissa, with its leading one unless |x| is a denormal.
template <class Format, class V>
AC4K_INLINE Lanes<V> encode(V x) {
  using I = Lanes<V>;
  const I sign = (bits_of(x) >> (Format::kSignBit == 0x80 ? 24 : 28)) & Format::kSignBit;
  const V magnitude = min(magnitude_of(x), V::broadcast(Format::kMax));
  const I own = bits_of(magnitude) & 0x7f800000, first = lanes_of<V>(Format::kFirst << 23);
  const I exponent = own > first ? own : first;
  const I rounder = exponent + (Format::kDrop << 23);
  const I places = bits_of(magnitude + from_bits<V>(rounder)) - rounder;
  const I code = places + (exponent >> Format::kDrop) - (Format::kFirst << Format::kMantissa);
  return x.v == x.v ? (code | sign) : lanes_of<V>(Format::kNaN);
}

template <class Format, class V>
AC4K_INLINE V decode(Lanes<V> code) {
  using I = Lanes<V>;
  using F = typename LanesOf<V>::Float;
  constexpr int kOne = 1 << Format::kMantissa;  // the first normal code
  constexpr int kBits = Format::kSignBit - 1;
  const I magnitude = code & kBits;
  const I sign = (code & Format::kSignBit) << (Format::kSignBit == 0x80 ? 24 : 28);
  const I normal = (magnitude << Format::kDrop) + ((127 - Format::kBias) << 23);
  const V last_place =
      V::broadcast(bits_to_f32(uint32_t{Format::kFirst - Format::kMantissa} << 23));
  const V denormal = V{__builtin_convertvector(magnitude, F)} * last_place;
  I value = magnitude < kOne ? bits_of(denormal) : normal;
  if constexpr (Format::kMantissa == 3) {
    value = magnitude == lanes_of<V>(0x7f) ? lanes_of<V>(0x7fc00000) : value;
  } else if constexpr (Format::kMantissa == 2) {
    value = magnitude >= lanes_of<V>(0x7c) ? 0x7f800000 | ((magnitude & 3) << 21) : value;
  }
  return from_bits<V>(value | sign);
}

// x is rounded and moved by the zero point; the clamp comes first, to where the codes end.
template <class V>
AC4K_INLINE Lanes<V> encode_int8(V x, V lowest, V highest, Lanes<V> zero) {
  constexpr float kRounder = 0x1.8p23f;
  const V number = from_bits<V>(x.v == x.v ? bits_of(x) : Lanes<V>{});
  const V clamped = min(max(number, lowest), highest);
  const Lanes<V> rounded = bits_of(clamped + V::broadcast(kRounder));
  return rounded - static_cast<int32_t>(f32_to_bits(kRounder)) + zero;
}

// One number: what the vectors above give.
template <class V>
AC4K_INLINE uint8_t encode_e4m3(float x) {
  return static_cast<uint8_t>(encode<E4M3>(V::broadcast(x))[0]);
}
template <class V>
AC4K_INLINE float decode_e4m3(uint8_t code) {
  return decode<E4M3, V>(lanes_of<V>(code)).v[0];
}

}  // namespace
}  // namespace ac4k::cpu
