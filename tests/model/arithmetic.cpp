// Instructions that read registers and write registers, lane by lane.
#include <algorithm>
#include <cmath>
#include <limits>

#include "handlers.hpp"
#include "lanes.hpp"

namespace model {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

// Overflow wraps around.
template <typename T>
T add(T a, T b) {
  if constexpr (kInteger<T>)
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  else
    return a + b;
}
template <typename T>
T subtract(T a, T b) {
  if constexpr (kInteger<T>)
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  else
    return a - b;
}
template <typename T>
T multiply(T a, T b) {
  if constexpr (kInteger<T>)
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  else
    return a * b;
}
template <typename T>
T divide(T a, T b) {
  if constexpr (kInteger<T>) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
    }
  }
  return a / b;
}
template <typename T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}
template <typename T>
T negative(T a) {
  if constexpr (kInteger<T>)
    return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
  else
    return -a;
}
template <typename T>
T shift_left(T a, uint32_t b) {
  return b >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << b);
}
template <typename T>
T shift_right(T a, uint32_t b) {
  if (b >= sizeof(T) * 8) return a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> b);
}
template <typename T>
T bit_and(T a, T b) {
  return a & b;
}
template <typename T>
T bit_or(T a, T b) {
  return a | b;
}
template <typename T>
T bit_xor(T a, T b) {
  return a ^ b;
}
template <typename T>
T bit_not(T a) {
  return static_cast<T>(~a);
}
template <typename T>
T fused(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <typename T>
T multiply_add_low(T a, T b, T c) {
  return add(multiply(a, b), c);
}
template <typename R, typename A>
R multiply_wide(A a, A b) {
  return static_cast<R>(static_cast<R>(a) * static_cast<R>(b));
}
template <typename T>
T multiply_high(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> 32);
}
uint16_t multiply_high_16(uint16_t a, uint16_t b) {
  return static_cast<uint16_t>((uint32_t{a} * b) >> 16);
}
template <typename T>
T absolute(T a) {
  return std::abs(a);
}
template <typename T>
T copy(T a) {
  return a;
}
template <typename R, typename A>
R convert(A a) {
  return static_cast<R>(a);
}
template <typename R>
R rounded_integer(float a) {  // saturates, NaN is 0
  if (std::isnan(a)) return 0;
  const double x = std::nearbyint(a);
  if (x <= static_cast<double>(std::numeric_limits<R>::min())) return std::numeric_limits<R>::min();
  if (x >= static_cast<double>(std::numeric_limits<R>::max())) return std::numeric_limits<R>::max();
  return static_cast<R>(x);
}
template <typename R>
R truncated_integer(float a) {
  return rounded_integer<R>(std::isnan(a) ? a : std::trunc(a));
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float power_of_two(float x) {
  return flushed(static_cast<float>(std::exp2(static_cast<double>(flushed(x)))));
}
float about_inverse(float x) {
  return flushed(static_cast<float>(1.0 / static_cast<double>(flushed(x))));
}
float inverse(float x) { return 1.0f / x; }
double about_inverse_64(double x) {  // the upper 20 bits of the mantissa
  return std::bit_cast<double>(std::bit_cast<uint64_t>(1.0 / x) & 0xffffffff00000000u);
}
float inverse_root(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
float root(float x) { return std::sqrt(x); }

uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (by & 31));
}
uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i) & 15;
    auto byte = static_cast<uint8_t>(bytes >> (8 * (nibble & 7)));
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= uint32_t{byte} << (8 * i);
  }
  return result;
}

Outcome logic(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<uint32_t> a(warp, i.operands[1]), b(warp, i.operands[2]), c(warp, i.operands[3]);
  const uint32_t table = Source<uint32_t>(warp, i.operands[4])[0];
  const Result<uint32_t> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      result |= (row & 4 ? a[lane] : ~a[lane]) & (row & 2 ? b[lane] : ~b[lane]) &
                (row & 1 ? c[lane] : ~c[lane]);
    }
    d.set(lane, result);
  });
  return Outcome::done;
}
template <typename T>
Outcome insert_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<T> a(warp, i.operands[1]), b(warp, i.operands[2]);
  const Source<uint32_t> at(warp, i.operands[3]), size(warp, i.operands[4]);
  const Result<T> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    const uint32_t from = at[lane] & 0xff, count = size[lane] & 0xff;
    const T ones = count >= sizeof(T) * 8 ? ~T{0} : (T{1} << count) - 1;
    const T mask = from >= sizeof(T) * 8 ? 0 : ones << from;
    d.set(lane, (b[lane] & ~mask) | (from >= sizeof(T) * 8 ? 0 : a[lane] << from & mask));
  });
  return Outcome::done;
}
template <typename T>
Outcome extract_bits(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<T> a(warp, i.operands[1]);
  const Source<uint32_t> at(warp, i.operands[2]), size(warp, i.operands[3]);
  const Result<T> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    const auto value = static_cast<int64_t>(a[lane]);
    const uint32_t from = at[lane] & 0xff, count = std::min(size[lane] & 0xff, 32u);
    const int unused = 64 - static_cast<int>(count);
    if (count == 0 || from > 31) {
      d.set(lane, count == 0 || !std::is_signed_v<T> || value >= 0 ? T{0} : static_cast<T>(-1));
    } else if constexpr (std::is_signed_v<T>) {
      d.set(lane, static_cast<T>((value >> from) << unused >> unused));
    } else {
      d.set(lane, static_cast<T>(static_cast<uint64_t>(value >> from) << unused >> unused));
    }
  });
  return Outcome::done;
}
Outcome dot_bytes(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<uint32_t> a(warp, i.operands[1]), b(warp, i.operands[2]);
  const Source<int32_t> c(warp, i.operands[3]);
  const Result<int32_t> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    int32_t sum = c[lane];
    for (int k = 0; k < 4; ++k) {
      sum += static_cast<int8_t>(a[lane] >> (8 * k)) * static_cast<int8_t>(b[lane] >> (8 * k));
    }
    d.set(lane, sum);
  });
  return Outcome::done;
}

template <typename T>
Outcome select(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<T> a(warp, i.operands[1]), b(warp, i.operands[2]);
  const Result<T> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    d.set(lane, warp.predicate(i.operands[3], lane) ? a[lane] : b[lane]);
  });
  return Outcome::done;
}
template <typename T, auto kCompare>
Outcome compare(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Source<T> a(warp, i.operands[1]), b(warp, i.operands[2]);
  const Result<uint32_t> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) { d.set(lane, kCompare(a[lane], b[lane]) ? 1 : 0); });
  return Outcome::done;
}
template <typename T>
bool eq(T a, T b) {
  return a == b;
}
template <typename T>
bool ne(T a, T b) {  // ordered: not of NaN
  if constexpr (!kInteger<T>) return a < b || a > b;
  return a != b;
}
template <typename T>
bool neu(T a, T b) {
  return !(a == b);
}
template <typename T>
bool lt(T a, T b) {
  return a < b;
}
template <typename T>
bool le(T a, T b) {
  return a <= b;
}
template <typename T>
bool gt(T a, T b) {
  return a > b;
}
template <typename T>
bool ge(T a, T b) {
  return a >= b;
}
template <typename T>
bool ltu(T a, T b) {
  return !(a >= b);
}
template <typename T>
bool leu(T a, T b) {
  return !(a > b);
}
template <typename T>
bool gtu(T a, T b) {
  return !(a <= b);
}
template <typename T>
bool geu(T a, T b) {
  return !(a < b);
}
template <typename T>
bool is_nan(T a, T b) {
  return a != a || b != b;
}

template <typename T>
bool are_numbers(T a, T b) {
  return !is_nan(a, b);
}

enum class Logic { and_, or_, xor_, not_, mov };
template <Logic kLogic>
Outcome predicates(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Result<uint32_t> d(warp, i.operands[0]);
  each_lane(lanes, [&](int lane) {
    const bool a = warp.predicate(i.operands[1], lane);
    const bool b = i.operands.size() > 2 && warp.predicate(i.operands[2], lane);
    d.set(lane, kLogic == Logic::and_   ? a && b
                : kLogic == Logic::or_  ? a || b
                : kLogic == Logic::xor_ ? a != b
                : kLogic == Logic::not_ ? !a
                                        : a);
  });
  return Outcome::done;
}

// Also in parts: {low, high} to one register, or from one. size: of the whole.
Outcome move(Warp& warp, const Instruction& i, uint32_t lanes) {
  const size_t count = i.operands.size();
  if (count == 2) {
    each_lane(lanes, [&](int lane) {
      warp.write<uint64_t>(i.operands[0], lane, warp.read<uint64_t>(i.operands[1], lane));
    });
    return Outcome::done;
  }
  const int bits = i.size * 8 / static_cast<int>(count - 1);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  each_lane(lanes, [&](int lane) {
    if (i.count == 1) {  // to one
      uint64_t whole = 0;
      for (size_t k = 1; k < count; ++k) {
        whole |= (warp.read<uint64_t>(i.operands[k], lane) & mask)
                 << (bits * static_cast<int>(k - 1));
      }
      warp.write<uint64_t>(i.operands[0], lane, whole);
    } else {
      const auto whole = warp.read<uint64_t>(i.operands[count - 1], lane);
      for (size_t k = 0; k + 1 < count; ++k) {
        warp.write<uint64_t>(i.operands[k], lane, whole >> (bits * static_cast<int>(k)) & mask);
      }
    }
  });
  return Outcome::done;
}

template <typename T>
void add_integers(Table& t, const std::string& type, const std::string& bits) {
  t["add." + type] = two<T, T, T, add<T>>;
  t["sub." + type] = two<T, T, T, subtract<T>>;
  t["mul.lo." + type] = two<T, T, T, multiply<T>>;
  t["mad.lo." + type] = three<T, T, T, T, multiply_add_low<T>>;
  t["div." + type] = two<T, T, T, divide<T>>;
  t["rem." + type] = two<T, T, T, remainder_of<T>>;
  t["min." + type] = two<T, T, T, smaller<T>>;
  t["max." + type] = two<T, T, T, larger<T>>;
  t["neg." + type] = one<T, T, negative<T>>;
  t["shr." + type] = two<T, T, uint32_t, shift_right<T>>;
  for (const auto& each : {type, bits}) {
    t["selp." + each] = select<T>;
    t["setp.eq." + each] = compare<T, eq<T>>;
    t["setp.ne." + each] = compare<T, ne<T>>;
  }
  t["setp.lt." + type] = compare<T, lt<T>>;
  t["setp.le." + type] = compare<T, le<T>>;
  t["setp.gt." + type] = compare<T, gt<T>>;
  t["setp.ge." + type] = compare<T, ge<T>>;
}
template <typename T>
void add_bits(Table& t, const std::string& type) {
  t["and." + type] = two<T, T, T, bit_and<T>>;
  t["or." + type] = two<T, T, T, bit_or<T>>;
  t["xor." + type] = two<T, T, T, bit_xor<T>>;
  t["not." + type] = one<T, T, bit_not<T>>;
  t["shl." + type] = two<T, T, uint32_t, shift_left<T>>;
}
template <typename T>
void add_floats(Table& t, const std::string& type) {
  for (const char* rounded : {"", "rn."}) {
    t[std::string("add.") + rounded + type] = two<T, T, T, add<T>>;
    t[std::string("sub.") + rounded + type] = two<T, T, T, subtract<T>>;
    t[std::string("mul.") + rounded + type] = two<T, T, T, multiply<T>>;
  }
  t["fma.rn." + type] = three<T, T, T, T, fused<T>>;
  t["div.rn." + type] = two<T, T, T, divide<T>>;
  t["min." + type] = two<T, T, T, smaller<T>>;
  t["max." + type] = two<T, T, T, larger<T>>;
  t["neg." + type] = one<T, T, negative<T>>;
  t["abs." + type] = one<T, T, absolute<T>>;
  t["selp." + type] = select<T>;
  t["setp.eq." + type] = compare<T, eq<T>>;
  t["setp.ne." + type] = compare<T, ne<T>>;
  t["setp.neu." + type] = compare<T, neu<T>>;
  t["setp.lt." + type] = compare<T, lt<T>>;
  t["setp.le." + type] = compare<T, le<T>>;
  t["setp.gt." + type] = compare<T, gt<T>>;
  t["setp.ge." + type] = compare<T, ge<T>>;
  t["setp.ltu." + type] = compare<T, ltu<T>>;
  t["setp.leu." + type] = compare<T, leu<T>>;
  t["setp.gtu." + type] = compare<T, gtu<T>>;
  t["setp.geu." + type] = compare<T, geu<T>>;
  t["setp.nan." + type] = compare<T, is_nan<T>>;
  t["setp.num." + type] = compare<T, are_numbers<T>>;
}
Table make_table() {
  Table t;
  add_integers<int16_t>(t, "s16", "b16");
  add_integers<uint16_t>(t, "u16", "b16");
  add_integers<int32_t>(t, "s32", "b32");
  add_integers<uint32_t>(t, "u32", "b32");
  add_integers<int64_t>(t, "s64", "b64");
  add_integers<uint64_t>(t, "u64", "b64");
  add_bits<uint16_t>(t, "b16");
  add_bits<uint32_t>(t, "b32");
  add_bits<uint64_t>(t, "b64");
  add_floats<float>(t, "f32");
  add_floats<double>(t, "f64");
  add_narrow_numbers(&t);
  t["mul.wide.s32"] = two<int64_t, int32_t, int32_t, multiply_wide<int64_t, int32_t>>;
  t["mul.wide.u32"] = two<uint64_t, uint32_t, uint32_t, multiply_wide<uint64_t, uint32_t>>;
  t["mul.wide.u16"] = two<uint32_t, uint16_t, uint16_t, multiply_wide<uint32_t, uint16_t>>;
  t["mul.wide.s16"] = two<int32_t, int16_t, int16_t, multiply_wide<int32_t, int16_t>>;
  t["mul.hi.s32"] = two<int32_t, int32_t, int32_t, multiply_high<int32_t>>;
  t["mul.hi.u16"] = two<uint16_t, uint16_t, uint16_t, multiply_high_16>;
  t["mul.hi.u32"] = two<uint32_t, uint32_t, uint32_t, multiply_high<uint32_t>>;
  t["max.NaN.f32"] = two<float, float, float, larger_or_nan>;
  t["ex2.approx.ftz.f32"] = one<float, float, power_of_two>;
  t["rcp.approx.ftz.f32"] = one<float, float, about_inverse>;
  t["rcp.approx.ftz.f64"] = one<double, double, about_inverse_64>;
  t["rcp.rn.f32"] = one<float, float, inverse>;
  t["rsqrt.approx.f32"] = one<float, float, inverse_root>;
  t["sqrt.rn.f32"] = one<float, float, root>;
  t["prmt.b32"] = three<uint32_t, uint32_t, uint32_t, uint32_t, permuted>;
  t["shf.r.wrap.b32"] = three<uint32_t, uint32_t, uint32_t, uint32_t, funnel_right>;
  t["lop3.b32"] = logic;
  t["bfe.s32"] = extract_bits<int32_t>;
  t["bfe.u32"] = extract_bits<uint32_t>;
  t["bfi.b32"] = insert_bits<uint32_t>;
  t["bfi.b64"] = insert_bits<uint64_t>;
  t["dp4a.s32.s32"] = dot_bytes;
  t["and.pred"] = predicates<Logic::and_>;
  t["or.pred"] = predicates<Logic::or_>;
  t["xor.pred"] = predicates<Logic::xor_>;
  t["not.pred"] = predicates<Logic::not_>;
  t["mov.pred"] = predicates<Logic::mov>;

  t["cvt.f64.f32"] = one<double, float, convert<double, float>>;
  t["cvt.rn.f32.f64"] = one<float, double, convert<float, double>>;
  t["cvt.rn.f32.s16"] = one<float, int16_t, convert<float, int16_t>>;
  t["cvt.rn.f32.u16"] = one<float, uint16_t, convert<float, uint16_t>>;
  t["cvt.rn.f32.s32"] = one<float, int32_t, convert<float, int32_t>>;
  t["cvt.rn.f32.u32"] = one<float, uint32_t, convert<float, uint32_t>>;
  t["cvt.rni.f32.f32"] = one<float, float, [](float a) { return std::nearbyint(a); }>;
  t["cvt.rni.s16.f32"] = one<int16_t, float, rounded_integer<int16_t>>;
  t["cvt.rni.s32.f32"] = one<int32_t, float, rounded_integer<int32_t>>;
  t["cvt.rzi.s32.f32"] = one<int32_t, float, truncated_integer<int32_t>>;
  t["cvt.rzi.u32.f32"] = one<uint32_t, float, truncated_integer<uint32_t>>;
  t["cvt.s32.s8"] = one<int32_t, int8_t, convert<int32_t, int8_t>>;
  t["cvt.s32.s16"] = one<int32_t, int16_t, convert<int32_t, int16_t>>;
  t["cvt.u32.u16"] = one<uint32_t, uint16_t, convert<uint32_t, uint16_t>>;
  t["cvt.u16.u32"] = one<uint16_t, uint32_t, convert<uint16_t, uint32_t>>;
  t["cvt.s64.s32"] = one<int64_t, int32_t, convert<int64_t, int32_t>>;
  t["cvt.u64.u32"] = one<uint64_t, uint32_t, convert<uint64_t, uint32_t>>;
  t["cvt.u32.u64"] = one<uint32_t, uint64_t, convert<uint32_t, uint64_t>>;
  // Addresses are the same in all spaces but that of shared memory, which has 32 bits.
  t["cvta.to.global.u64"] = t["cvta.param.u64"] = t["mov.any"] = move;
  for (const char* type :
       {"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    t[std::string("mov.") + type] = move;
  }
  return t;
}

}  // namespace

bool resolve_arithmetic(Instruction* instruction, const std::string& name) {
  static const Table table = make_table();
  const auto found = table.find(name);
  if (found == table.end()) return false;
  instruction->run = found->second;
  if (found->second == move) {
    instruction->size = name.ends_with("64") ? 8 : name.ends_with("32") ? 4 : 2;
    // Which side is in parts: the text says.
    const size_t brace = instruction->text.find('{'), comma = instruction->text.find(',');
    instruction->count = brace != std::string::npos && brace < comma ? 2 : 1;
  }
  return true;
}

}  // namespace model
