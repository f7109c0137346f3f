// Instructions that take the registers of each lane by itself.
#pragma once

#include <cmath>
#include <type_traits>
#include <unordered_map>

#include "machine.hpp"

namespace model {

// The lanes' values of an operand, as they lie there.
template <typename T>
using LaneOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <typename T>
struct Source {
  const unsigned char* from;
  bool wide;
  Source(const Warp& warp, const Operand& operand)
      : from(warp.registers.data() + operand.at), wide(sizeof(T) == 8) {
    if (!wide && operand.constant) from += Operand::kNarrow;
    if (!wide && !operand.constant && operand.bytes == 8) wide = true;
    if (wide && operand.bytes == 4) throw Error("a register is too small");
  }
  T operator[](int lane) const {
    T value;
    std::memcpy(&value, from + lane * (wide ? 8 : 4), sizeof(T));
    return value;
  }
};
template <typename T>
struct Result {
  unsigned char* to;
  bool wide;
  Result(Warp& warp, const Operand& operand)
      : to(warp.registers.data() + operand.at), wide(operand.bytes == 8) {}
  void set(int lane, T value) const {
    LaneOf<T> bits = 0;
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T> && sizeof(T) < 4) {
      bits = static_cast<uint32_t>(static_cast<int32_t>(value));
    } else {
      std::memcpy(&bits, &value, sizeof(T));
    }
    if (wide) {
      const uint64_t all = bits;
      std::memcpy(to + lane * 8, &all, 8);
    } else {
      const auto low = static_cast<uint32_t>(bits);
      std::memcpy(to + lane * 4, &low, 4);
    }
  }
};

template <typename F>
void each_lane(uint32_t lanes, F&& f) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < 32; ++lane) f(lane);
  } else {
    for (uint32_t m = lanes; m != 0; m &= m - 1) f(std::countr_zero(m));
  }
}

template <typename R, typename A, auto kFunction>
Outcome one(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<A> a(warp, i.operands[1]);
  const Result<R> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) { d.set(lane, kFunction(a[lane])); });
  return Outcome::done;
}
template <typename R, typename A, typename B, auto kFunction>
Outcome two(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<A> a(warp, i.operands[1]);
  const Source<B> b(warp, i.operands[2]);
  const Result<R> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) { d.set(lane, kFunction(a[lane], b[lane])); });
  return Outcome::done;
}
template <typename R, typename A, typename B, typename C, auto kFunction>
Outcome three(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<A> a(warp, i.operands[1]);
  const Source<B> b(warp, i.operands[2]);
  const Source<C> c(warp, i.operands[3]);
  const Result<R> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) { d.set(lane, kFunction(a[lane], b[lane], c[lane])); });
  return Outcome::done;
}

template <typename T>
constexpr bool kInteger = std::is_integral_v<T>;

// NaN loses, and -0 is less than 0.
template <typename T>
T smaller(T a, T b) {
  if constexpr (!kInteger<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <typename T>
T larger(T a, T b) {
  if constexpr (!kInteger<T>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}
inline float larger_or_nan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::bit_cast<float>(0x7fffffffu) : larger(a, b);
}

using Table = std::unordered_map<std::string, Run>;
void add_narrow_numbers(Table* table);  // narrow.cpp

}  // namespace model
