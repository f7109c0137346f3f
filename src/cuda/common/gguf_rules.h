// How numbers become the codes of GGUF blocks: the scalar rules and the searches for scales, once
// for host and device. Every operation rounds to nearest by itself (no fused multiply-add: on the
// host these files are compiled with -ffp-contract=off), so results are equal bit by bit.
//
// The searches are templates over F, which is one number on a GPU thread (Exact) or the lanes of a
// vector on the CPU: one sub-block a lane, so that sums run in the order of the definition. F has
// + - * / < > ==, masks with &, select(mask, a, b), magnitude(a) and round(a) to nearest even.
#pragma once

#if defined(__CUDACC__)
#define AC4K_RULE __device__ __forceinline__
#define AC4K_UNROLL _Pragma("unroll")
#else
#define AC4K_RULE inline __attribute__((always_inline))
#define AC4K_UNROLL
#endif

namespace ac4k::gguf {

// Every function is inlined, always: the host compiles this file once for each level, and no copy
// of a level may serve another.

constexpr float kLargest = 3.402823466e38f;
constexpr float kNoScaleBelow = 1e-15f;  // sub-blocks smaller than this count as zeros

// ---- Single numbers -------------------------------------------------------------------------

struct Exact {
  float v;
  Exact() = default;
  AC4K_RULE Exact(float value) : v(value) {}
};
#if defined(__CUDACC__)
AC4K_RULE Exact operator+(Exact a, Exact b) { return __fadd_rn(a.v, b.v); }
AC4K_RULE Exact operator-(Exact a, Exact b) { return __fsub_rn(a.v, b.v); }
AC4K_RULE Exact operator*(Exact a, Exact b) { return __fmul_rn(a.v, b.v); }
AC4K_RULE Exact operator/(Exact a, Exact b) { return __fdiv_rn(a.v, b.v); }
AC4K_RULE Exact square_root(Exact a) { return __fsqrt_rn(a.v); }
AC4K_RULE unsigned bits_of(float value) { return __float_as_uint(value); }
AC4K_RULE float from_bits(unsigned bits) { return __uint_as_float(bits); }
#else
AC4K_RULE Exact operator+(Exact a, Exact b) { return a.v + b.v; }
AC4K_RULE Exact operator-(Exact a, Exact b) { return a.v - b.v; }
AC4K_RULE Exact operator*(Exact a, Exact b) { return a.v * b.v; }
AC4K_RULE Exact operator/(Exact a, Exact b) { return a.v / b.v; }
AC4K_RULE Exact square_root(Exact a) { return __builtin_sqrtf(a.v); }
AC4K_RULE unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
AC4K_RULE float from_bits(unsigned bits) { return __builtin_bit_cast(float, bits); }
#endif
AC4K_RULE bool operator<(Exact a, Exact b) { return a.v < b.v; }
AC4K_RULE bool operator>(Exact a, Exact b) { return a.v > b.v; }
AC4K_RULE bool operator==(Exact a, Exact b) { return a.v == b.v; }
AC4K_RULE Exact select(bool condition, Exact a, Exact b) { return condition ? a : b; }
AC4K_RULE Exact magnitude(Exact a) { return from_bits(bits_of(a.v) & 0x7fffffffu); }

// The nearest integer, ties to even, for |a| <= 2^22.
template <class F>
AC4K_RULE F round(F a) {
  const F rounder(12582912.0f);  // 1.5 * 2^23
  return (a + rounder) - rounder;
}
// NaN gives the lower bound.
template <class F>
AC4K_RULE F clamp(F a, F low, F high) {
  const F raised = select(a > low, a, low);
  return select(raised < high, raised, high);
}
template <class F>
AC4K_RULE F code_of(F a, float low, float high) {
  return round(clamp(a, F(low), F(high)));
}
AC4K_RULE int to_int(Exact a, float low, float high) {
  return static_cast<int>(code_of(a, low, high).v);
}
constexpr float kAnyInt = 4194303.0f;

// What quantisers see of a number: NaN is 0, an infinity the largest number.
AC4K_RULE float cleaned(float x) {
  return x == x ? clamp(Exact(x), Exact(-kLargest), Exact(kLargest)).v : 0.0f;
}

// ---- Scales ---------------------------------------------------------------------------------

// 0.5 * 2^(e - 127).
AC4K_RULE float half_of_e8m0(unsigned e) {
  return from_bits(e < 2 ? 0x200000u << e : (e - 1) << 23);
}

// 0.5 times an unsigned e4m3; 0 for NaN's code. The sign bit does not count.
AC4K_RULE float half_of_ue4m3(unsigned code) {
  if (code == 0x7f) return 0.0f;
  const unsigned exponent = (code >> 3) & 15u, mantissa = code & 7u;
  if (exponent == 0) return static_cast<float>(mantissa) * 0.0009765625f;  // 2^-10
  return from_bits(((exponent + 119u) << 23) | (mantissa << 20));
}
// Rounds half up, saturates at 448.
AC4K_RULE unsigned ue4m3_of(float value) {
  if (!(value > 0.0f)) return 0;
  if (value > 448.0f) return 0x7e;
  const unsigned bits = bits_of(value);
  const int exponent = static_cast<int>(bits >> 23) - 120;
  if (exponent <= 0) {
    const int mantissa = static_cast<int>((Exact(value) * Exact(512.0f) + Exact(0.5f)).v);
    return static_cast<unsigned>(mantissa > 7 ? 7 : mantissa);
  }
  const unsigned rounded =
      static_cast<unsigned>(exponent * 8) + ((bits >> 20) & 7u) + ((bits >> 19) & 1u);
  return exponent >= 15 || rounded >= 120u ? 0x7eu : rounded;
}

// floor(log2(amax)) as float32 computes it: the logarithm is rounded before it is floored, so that
// a number just below 2^n counts as 2^n. 1 - 2^-24 j below it the logarithm is n - j / (2^24 ln 2);
// it becomes n when that is within half the spacing of floats below n.
AC4K_RULE int floor_log2(float amax) {
  int exponent = static_cast<int>(bits_of(amax) >> 23);
  unsigned mantissa = bits_of(amax) & 0x7fffffu;
  if (exponent == 0) {  // a denormal
    exponent = 1;
    while (mantissa < 0x800000u) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x7fffffu;
  }
  const int below = exponent - 127, next = below + 1;
  const int j = static_cast<int>(0x800000u - mantissa);
  // The exponent of the spacing on that side of `next`.
  int size = next > 0 ? next - 1 : -next, log_size = -1;
  for (; size > 0; size >>= 1) ++log_size;
  if (next == 0 || log_size < 0) return below;  // the logarithm is as fine as amax
  // j <= 2^log_size * ln 2, in whole numbers
  return j <= static_cast<int>((5814540u << log_size) >> 23) ? next : below;
}
// 2^(floor(log2(amax)) - 2), as e8m0.
AC4K_RULE unsigned mxfp4_scale(float amax) {
  if (!(amax > 0.0f)) return 0;
  const int e = floor_log2(amax) - 2 + 127;
  return e < 0 ? 0u : static_cast<unsigned>(e);
}

// ---- Values and codes -----------------------------------------------------------------------

// Twice the numbers of e2m1, without the sign.
AC4K_RULE int fp4_value(unsigned code) {
  const int magnitude = static_cast<int>(0xc8643210u >> (4 * (code & 7u)) & 15u);
  return code & 8u ? -magnitude : magnitude;
}
AC4K_RULE int iq4_value(unsigned code) {
  constexpr signed char kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  return kValues[code & 15u];
}

// The nearest of d times 0, 1, 2, 3, 4, 6, 8, 12, by the rounded error; the smaller one of two.
// Gives the code's magnitude.
template <class F>
AC4K_RULE F fp4_magnitude(F size, F d) {
  constexpr float kValues[] = {1, 2, 3, 4, 6, 8, 12};
  F best(0.0f), least = size;
  AC4K_UNROLL
  for (int i = 0; i < 7; ++i) {
    const F error = magnitude(F(kValues[i]) * d - size);
    const auto nearer = error < least;
    best = select(nearer, F(static_cast<float>(i + 1)), best);
    least = select(nearer, error, least);
  }
  return best;
}
// Negative numbers that come to nothing are +0.
AC4K_RULE unsigned fp4_code(float x, float d) {
  const float size = fp4_magnitude(magnitude(Exact(x)), Exact(d)).v;
  return static_cast<unsigned>(size) | (x < 0.0f && size > 0.0f ? 8u : 0u);
}

// The places halfway between the values of iq4, from which on the upper one is nearer, and the
// steps between the values.
#define AC4K_IQ4_STEPS(STEP) \
  STEP(-115.5f, 23)          \
  STEP(-93.5f, 21)           \
  STEP(-74.0f, 18)           \
  STEP(-57.0f, 16)           \
  STEP(-42.0f, 14)           \
  STEP(-28.5f, 13)           \
  STEP(-16.0f, 12)           \
  STEP(-4.5f, 11)            \
  STEP(7.0f, 12)             \
  STEP(19.0f, 12) STEP(31.5f, 13) STEP(45.5f, 15) STEP(61.0f, 16) STEP(79.0f, 20) STEP(101.0f, 24)
template <class F>
AC4K_RULE F iq4_nearest(F a) {
  F value(-127.0f);
#define AC4K_STEP(place, step) value = select(a < F(place), value, value + F(step));
  AC4K_IQ4_STEPS(AC4K_STEP)
#undef AC4K_STEP
  return select(a == a, value, F(-127.0f));
}
AC4K_RULE unsigned iq4_code(float a) {
  unsigned code = 0;
#define AC4K_STEP(place, step) code += a >= place ? 1u : 0u;
  AC4K_IQ4_STEPS(AC4K_STEP)
#undef AC4K_STEP
  return code;
}

// ---- Searches for scales --------------------------------------------------------------------

// x ~ scale * code + min. `code_scale` and `code_min` give the codes of the best candidate, which
// stay where the scale is too small to be stored: code = round(code_scale * (x - code_min)).
template <class F>
struct AffineFit {
  F scale, min, code_scale, code_min;
};

// Candidates divide the range into max_code + first + step * i parts; each is refitted by weighted
// least squares. Where one is better, the next candidates start from its minimum.
template <bool kAbsoluteError, int N, class F, class Weight>
AC4K_RULE AffineFit<F> fit_affine(const F (&x)[N], float max_code, float first, int last_try,
                                  const Weight& weight) {
  const F zero(0.0f), one(1.0f), top(max_code);
  F low = x[0], high = x[0], sum_w = weight(x[0]), sum_x = sum_w * x[0];
  AC4K_UNROLL
  for (int i = 1; i < N; ++i) {
    low = select(x[i] < low, x[i], low);
    high = select(x[i] > high, x[i], high);
    const F w = weight(x[i]);
    sum_w = sum_w + w;
    sum_x = sum_x + w * x[i];
  }
  low = select(low > zero, zero, low);
  const auto flat = high == low;
  F min = low, code_min = low, code_scale = top / (high - low), scale = one / code_scale;
  F least = zero;
  AC4K_UNROLL
  for (int i = 0; i < N; ++i) {
    const F code = code_of(code_scale * (x[i] - min), 0.0f, max_code);
    const F error = (scale * code + min) - x[i];
    least = least + weight(x[i]) * (kAbsoluteError ? magnitude(error) : error * error);
  }
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int candidate = 0; candidate <= last_try; ++candidate) {
    const Exact parts =
        (Exact(first) + Exact(0.1f) * Exact(static_cast<float>(candidate))) + Exact(max_code);
    const F factor = F(parts.v) / (high - min);
    F sum_l = zero, sum_l2 = zero, sum_xl = zero;
    AC4K_UNROLL
    for (int i = 0; i < N; ++i) {
      const F code = code_of(factor * (x[i] - min), 0.0f, max_code);
      const F weighted = weight(x[i]) * code;
      sum_l = sum_l + weighted;
      sum_l2 = sum_l2 + weighted * code;
      sum_xl = sum_xl + weighted * x[i];
    }
    const F determinant = sum_w * sum_l2 - sum_l * sum_l;
    F its_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    F its_min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
    const auto above = its_min > zero;
    its_scale = select(above, sum_xl / sum_l2, its_scale);
    its_min = select(above, zero, its_min);
    F total = zero;
    AC4K_UNROLL
    for (int i = 0; i < N; ++i) {
      const F code = code_of(factor * (x[i] - min), 0.0f, max_code);
      const F error = (its_scale * code + its_min) - x[i];
      total = total + weight(x[i]) * (kAbsoluteError ? magnitude(error) : error * error);
    }
    const auto better = (determinant > zero) & (total < least);
    least = select(better, total, least);
    scale = select(better, its_scale, scale);
    code_scale = select(better, factor, code_scale);
    code_min = select(better, min, code_min);
    min = select(better, its_min, min);
  }
  return {select(flat, zero, scale), zero - select(flat, low, min), select(flat, zero, code_scale),
          select(flat, low, code_min)};
}

// The number of largest magnitude, the first of several, and whether all count as zeros.
template <class F, int N>
AC4K_RULE F extreme_of(const F (&x)[N], F* size) {
  F extreme(0.0f);
  *size = extreme;
  AC4K_UNROLL
  for (int i = 0; i < N; ++i) {
    const F its = magnitude(x[i]);
    const auto larger = its > *size;
    extreme = select(larger, x[i], extreme);
    *size = select(larger, its, *size);
  }
  return extreme;
}

// x ~ scale * code, codes from -32 to 31. The codes kept are round(code_scale * x) + offset.
template <class F>
struct SymmetricFit {
  F scale, code_scale, offset;
};
template <class F>
AC4K_RULE SymmetricFit<F> fit_symmetric(const F (&x)[16]) {
  const F zero(0.0f);
  F size;
  const F extreme = extreme_of(x, &size);
  const auto nothing = size < F(kNoScaleBelow);
  F code_scale = F(-32.0f) / extreme, scale = zero, best = zero;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int candidate = -10; candidate <= 9; ++candidate) {  // -10: no change of the scale
    if (candidate == 0) continue;
    const bool is_first = candidate == -10;
    const Exact shift = Exact(0.1f) * Exact(static_cast<float>(is_first ? 0 : candidate));
    const F factor = F(-(Exact(32.0f) + shift).v) / extreme;
    F sum_lx = zero, sum_l2 = zero;
    AC4K_UNROLL
    for (int i = 0; i < 16; ++i) {
      const F code = code_of(factor * x[i], -32.0f, 31.0f), w = x[i] * x[i];
      sum_lx = sum_lx + (w * x[i]) * code;
      sum_l2 = sum_l2 + (w * code) * code;
    }
    const F its_scale = sum_lx / sum_l2;
    if (is_first) {
      scale = select(sum_l2 == zero, zero, its_scale);
      best = scale * sum_lx;
    } else {
      const auto better = (sum_l2 > zero) & (sum_lx * sum_lx > best * sum_l2);
      scale = select(better, its_scale, scale);
      best = select(better, its_scale * sum_lx, best);
      code_scale = select(better, factor, code_scale);
    }
  }
  return {select(nothing, zero, scale), select(nothing, zero, code_scale),
          select(nothing, zero, F(32.0f))};
}

// x ~ scale * (code - 4), codes from 0 to 7: codes are improved one by one. Gives the scale.
template <class F>
AC4K_RULE F fit_q3(const F (&x)[16], F (&codes)[16]) {
  const F zero(0.0f);
  F size;
  const F extreme = extreme_of(x, &size);
  const auto nothing = size < F(kNoScaleBelow);
  const F factor = F(-4.0f) / extreme;
  F sum_lx = zero, sum_l2 = zero;
  AC4K_UNROLL
  for (int i = 0; i < 16; ++i) {
    codes[i] = code_of(factor * x[i], -4.0f, 3.0f);
    const F w = x[i] * x[i];
    sum_lx = sum_lx + (w * x[i]) * codes[i];
    sum_l2 = sum_l2 + (w * codes[i]) * codes[i];
  }
  // A pass without a change is followed by others like it, so none need stop early.
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int pass = 0; pass < 5; ++pass) {
    AC4K_UNROLL
    for (int i = 0; i < 16; ++i) {
      const F w = x[i] * x[i], wx = w * x[i];
      const F rest_lx = sum_lx - wx * codes[i], rest_l2 = sum_l2 - (w * codes[i]) * codes[i];
      const F code = code_of((x[i] * rest_l2) / rest_lx, -4.0f, 3.0f);
      const F new_lx = rest_lx + wx * code, new_l2 = rest_l2 + (w * code) * code;
      const auto unchanged = code == codes[i];
      const auto better = (rest_lx > zero) & (new_l2 > zero) &
                          ((new_lx * new_lx) * sum_l2 > (sum_lx * sum_lx) * new_l2);
      const F kept = select(unchanged, codes[i], code);
      codes[i] = select(better, kept, codes[i]);
      sum_lx = select(better, select(unchanged, sum_lx, new_lx), sum_lx);
      sum_l2 = select(better, select(unchanged, sum_l2, new_l2), sum_l2);
    }
  }
  AC4K_UNROLL
  for (int i = 0; i < 16; ++i) codes[i] = select(nothing, zero, codes[i] + F(4.0f));
  return select(nothing, zero, select(sum_l2 > zero, sum_lx / sum_l2, zero));
}

// x ~ scale * iq4 value.
template <class F>
AC4K_RULE F fit_iq4(const F (&x)[32]) {
  const F zero(0.0f), one(1.0f);
  F size;
  const F extreme = extreme_of(x, &size);
  const auto nothing = size < F(kNoScaleBelow);
  F scale = zero, best = zero;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (int candidate = -8; candidate <= 7; ++candidate) {  // -8: the extreme becomes 127
    const bool is_first = candidate == -8;
    const F factor = is_first ? one / ((zero - extreme) / F(-127.0f))
                              : F(static_cast<float>(candidate - 127)) / extreme;
    F sum_qx = zero, sum_q2 = zero;
    AC4K_UNROLL
    for (int i = 0; i < 32; ++i) {
      const F value = iq4_nearest(factor * x[i]), weighted = (x[i] * x[i]) * value;
      sum_qx = sum_qx + weighted * x[i];
      sum_q2 = sum_q2 + weighted * value;
    }
    const F its_scale = sum_qx / sum_q2;
    if (is_first) {
      scale = select(sum_q2 > zero, its_scale, zero);
      best = scale * sum_qx;
    } else {
      const auto better = (sum_q2 > zero) & (sum_qx * sum_qx > best * sum_q2);
      scale = select(better, its_scale, scale);
      best = select(better, its_scale * sum_qx, best);
    }
  }
  return select(nothing, zero, scale);
}

}  // namespace ac4k::gguf
