// Instructions for numbers of 16 and of 8 bits.
#include <algorithm>
#include <cmath>

#include "lanes.hpp"
#include "numbers.hpp"

namespace model {
namespace {

// Pairs of 16-bit numbers.
template <typename T>
T low_of(uint32_t pair) {
  return std::bit_cast<T>(static_cast<uint16_t>(pair));
}
template <typename T>
T high_of(uint32_t pair) {
  return std::bit_cast<T>(static_cast<uint16_t>(pair >> 16));
}
template <typename T>
uint32_t pair_of(T low, T high) {
  return uint32_t{std::bit_cast<uint16_t>(low)} | uint32_t{std::bit_cast<uint16_t>(high)} << 16;
}
template <typename T, auto kFunction>
uint32_t in_pairs(uint32_t a, uint32_t b) {
  return pair_of<T>(kFunction(low_of<T>(a), low_of<T>(b)), kFunction(high_of<T>(a), high_of<T>(b)));
}
template <typename T>
T add_16(T a, T b) {
  return from_double<T>(double{to_float(a)} + double{to_float(b)});
}
template <typename T>
T subtract_16(T a, T b) {
  return from_double<T>(double{to_float(a)} - double{to_float(b)});
}
template <typename T>
T multiply_16(T a, T b) {
  return from_double<T>(double{to_float(a)} * double{to_float(b)});
}
template <typename T>
T larger_16(T a, T b) {
  return from_double<T>(larger(to_float(a), to_float(b)));
}
template <typename T>
T smaller_16(T a, T b) {
  return from_double<T>(smaller(to_float(a), to_float(b)));
}
template <typename T>
T larger_or_nan_16(T a, T b) {
  return from_double<T>(larger_or_nan(to_float(a), to_float(b)));
}
// The larger magnitude, with the product of the signs.
template <typename T, bool kNan>
T larger_with_signs_16(T a, T b) {
  const float x = to_float(a), y = to_float(b);
  const float most =
      kNan ? larger_or_nan(std::abs(x), std::abs(y)) : larger(std::abs(x), std::abs(y));
  return from_double<T>(std::signbit(x) != std::signbit(y) ? -most : most);
}
template <typename T>
uint32_t fused_pair(uint32_t a, uint32_t b, uint32_t c) {
  const auto each = [](T x, T y, T z) {
    return from_double<T>(std::fma(double{to_float(x)}, double{to_float(y)}, double{to_float(z)}));
  };
  return pair_of<T>(each(low_of<T>(a), low_of<T>(b), low_of<T>(c)),
                    each(high_of<T>(a), high_of<T>(b), high_of<T>(c)));
}
uint32_t larger_u16_pair(uint32_t a, uint32_t b) {
  return std::max(a & 0xffff, b & 0xffff) | std::max(a >> 16, b >> 16) << 16;
}
template <typename T>
uint16_t narrow(float a) {
  return std::bit_cast<uint16_t>(from_double<T>(a));
}
template <typename T>
float widened(uint16_t a) {
  return to_float(std::bit_cast<T>(a));
}
template <typename T>
uint16_t to_integer(uint16_t a) {
  return narrow<T>(std::nearbyint(widened<T>(a)));
}
template <typename T>
uint32_t narrow_pair(float high, float low) {
  return pair_of(from_double<T>(low), from_double<T>(high));
}
template <int kMantissa>
uint16_t byte_pair(float high, float low) {
  return static_cast<uint16_t>(saturated_byte<kMantissa>(high) << 8 |
                               saturated_byte<kMantissa>(low));
}
uint32_t halves_of_e4m3(uint16_t codes) {
  return pair_of(static_cast<Half>(value_of_e4m3(static_cast<uint8_t>(codes))),
                 static_cast<Half>(value_of_e4m3(static_cast<uint8_t>(codes >> 8))));
}
uint32_t packed_bytes(int32_t a, int32_t b, uint32_t c) {
  const auto byte = [](int32_t x) { return static_cast<uint8_t>(std::clamp(x, -128, 127)); };
  return c << 16 | uint32_t{byte(a)} << 8 | byte(b);
}
template <typename T>
void add_pairs(Table& t, const std::string& type) {
  using U = uint32_t;
  t["add." + type] = two<U, U, U, in_pairs<T, add_16<T>>>;
  t["sub." + type] = two<U, U, U, in_pairs<T, subtract_16<T>>>;
  t["mul." + type] = two<U, U, U, in_pairs<T, multiply_16<T>>>;
  t["fma.rn." + type] = three<U, U, U, U, fused_pair<T>>;
  t["min." + type] = two<U, U, U, in_pairs<T, smaller_16<T>>>;
  t["max." + type] = two<U, U, U, in_pairs<T, larger_16<T>>>;
  t["max.NaN." + type] = two<U, U, U, in_pairs<T, larger_or_nan_16<T>>>;
  t["max.xorsign.abs." + type] = two<U, U, U, in_pairs<T, larger_with_signs_16<T, false>>>;
  t["max.NaN.xorsign.abs." + type] = two<U, U, U, in_pairs<T, larger_with_signs_16<T, true>>>;
}

}  // namespace

void add_narrow_numbers(Table* table) {
  Table& t = *table;
  add_pairs<Half>(t, "f16x2");
  add_pairs<Bfloat>(t, "bf16x2");
  t["max.u16x2"] = two<uint32_t, uint32_t, uint32_t, larger_u16_pair>;
  t["cvt.f32.f16"] = one<float, uint16_t, widened<Half>>;
  t["cvt.f32.bf16"] = one<float, uint16_t, widened<Bfloat>>;
  t["cvt.rni.f16.f16"] = one<uint16_t, uint16_t, to_integer<Half>>;
  t["cvt.rn.f16.f32"] = one<uint16_t, float, narrow<Half>>;
  t["cvt.rn.bf16.f32"] = one<uint16_t, float, narrow<Bfloat>>;
  t["cvt.rn.f16x2.f32"] = two<uint32_t, float, float, narrow_pair<Half>>;
  t["cvt.rn.bf16x2.f32"] = two<uint32_t, float, float, narrow_pair<Bfloat>>;
  t["cvt.rn.satfinite.e4m3x2.f32"] = two<uint16_t, float, float, byte_pair<3>>;
  t["cvt.rn.satfinite.e5m2x2.f32"] = two<uint16_t, float, float, byte_pair<2>>;
  t["cvt.rn.f16x2.e4m3x2"] = one<uint32_t, uint16_t, halves_of_e4m3>;
  t["cvt.pack.sat.s8.s32.b32"] = three<uint32_t, int32_t, int32_t, uint32_t, packed_bytes>;
}

}  // namespace model
