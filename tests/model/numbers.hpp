// Numbers of few bits, rounded once, to the nearest and to even.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace model {

using Half = _Float16;

struct Bfloat {
  uint16_t bits = 0;
};

inline float to_float(Half x) { return static_cast<float>(x); }
inline float to_float(Bfloat x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

template <typename T>
T from_double(double x);
template <>
inline Half from_double<Half>(double x) {
  return static_cast<Half>(x);
}
template <>
inline Bfloat from_double<Bfloat>(double x) {
  if (std::isnan(x)) return {0x7fff};
  // Rounded to odd first, so that the last rounding is the only one that counts.
  float y = static_cast<float>(x);
  if (!std::isinf(x) && static_cast<double>(y) != x) {
    const uint32_t bits = std::bit_cast<uint32_t>(y);
    if (std::abs(static_cast<double>(y)) > std::abs(x)) {
      y = std::bit_cast<float>((bits - 1) | 1);
    } else {
      y = std::bit_cast<float>(bits | 1);
    }
  }
  const uint32_t bits = std::bit_cast<uint32_t>(y);
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// Numbers of eight bits: kMantissa bits of them, the rest but for the sign exponent. e4m3 has no
// infinities, and one NaN; e5m2 has both.
template <int kMantissa>
inline uint8_t saturated_byte(float x) {
  constexpr int kBias = kMantissa == 3 ? 7 : 15;
  constexpr float kMost = kMantissa == 3 ? 448.0f : 57344.0f;
  if (std::isnan(x)) return 0x7f;
  const auto sign = static_cast<uint8_t>(std::signbit(x) ? 0x80 : 0);
  const double magnitude = std::min(static_cast<double>(std::abs(x)), static_cast<double>(kMost));
  int exponent = magnitude == 0 ? 1 - kBias : std::max(std::ilogb(magnitude), 1 - kBias);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kMantissa - exponent)));
  // Carries into the exponent by itself; subnormal numbers have the exponent 0.
  const int code = ((exponent + kBias - 1) << kMantissa) + units;
  return static_cast<uint8_t>(sign | code);
}
inline float value_of_e4m3(uint8_t code) {
  if ((code & 0x7f) == 0x7f) return std::nanf("");
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

}  // namespace model
