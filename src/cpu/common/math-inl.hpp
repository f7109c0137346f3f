// exp, SiLU and the two forms of GELU over a level's vectors. Coefficients are our own minimax fits
// (Remez exchange in 60 digits); errors given are of the fit alone.
#pragma once

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

template <class Scalar>
struct MathConstants;

template <>
struct MathConstants<float> {
  static constexpr float kRounder = 0x1.8p23f;  // adding it leaves a rounded integer
  static constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts; n * high is exact for |n| < 2^13.
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 on |r| <= 0.35: 4e-9 of exp(r).
  static constexpr float kExp[] = {0.500000009726f, 0.166665165589f, 0.0416661937855f,
                                   0.00836927023107f, 0.00139514348083f};
  // (t + kTailShift) * exp(t^2 / 2) * Phi(-t) in u = (t - kTailShift) / (t + kTailShift), for
  // 0 <= t <= 14.7: relative 9e-9.
  static constexpr float kTailShift = 4.0f;
  static constexpr float kTail[] = {
      0.75528513534f,    -0.60789658482f,   0.38713690688f,   -0.18652353029f, 0.060403695984f,
      -0.0075247406588f, -0.0035115979763f, 0.0015692700675f, 0.000177398757f, -0.00013289291218f};
  // Beyond these the result is zero (negative side) or v itself; exp stays within two factors.
  static constexpr float kExactLimit = 16.0f;
  static constexpr float kTanhLimit = 12.0f;
  static constexpr float kSiluLimit = 110.0f;
};

template <>
struct MathConstants<double> {
  static constexpr double kRounder = 0x1.8p52;
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr double kLn2High = 0x1.62e42fefap-1;  // n * high is exact for |n| < 2^15
  static constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
  static constexpr double kExp[] = {
      0.49999999999999999968,     0.16666666666666683758,   0.041666666666666723844,
      0.0083333333333165093972,   0.0013888888888858136355, 0.00019841269898117933254,
      0.000024801587374909956652, 2.7557232822750443596e-6, 2.7557232099241001419e-7,
      2.5112827157056733123e-8,   2.0927381498671074485e-9};
  // 0 <= t <= 39: relative 6e-18.
  static constexpr double kTailShift = 5.0;
  static constexpr double kTail[] = {
      0.76919304975006295591,     -0.6653825028900567812,      0.4953056159699772986,
      -0.3135331566712961944,     0.16502036617033743685,      -0.069118638706570038015,
      0.020795066800837354015,    -0.0029933767667050816281,   -0.00079786940800678559257,
      0.00054489903338621016558,  -0.000059375674808139955829, -0.000049762654890833007614,
      0.000016681041274681266348, 3.9803846492765475527e-6,    -2.768952589639936283e-6,
      -3.3553710539223751197e-7,  4.328842513861141738e-7,     4.0880403534056428919e-8,
      -6.6011648669073129256e-8,  -8.2947696199836263492e-9,   7.9422324321808058827e-9,
      1.4319698080215568933e-9,   -3.029054367127475679e-10};
  static constexpr double kExactLimit = 40.0;
  static constexpr double kTanhLimit = 24.0;
  static constexpr double kSiluLimit = 760.0;
};

template <class V, int N, class Scalar>
AC4K_INLINE V polynomial(V x, const Scalar (&coefficients)[N]) {
  V sum = V::broadcast(coefficients[N - 1]);
#pragma GCC unroll 32
  for (int i = N - 2; i >= 0; --i) sum = fma(sum, x, V::broadcast(coefficients[i]));
  return sum;
}

// exp(high + low) = mantissa * 2^exponent; mantissa within [0.7, 1.42], |low| far below |high|.
template <class V>
struct Exp {
  V mantissa, exponent;
};

template <class V>
AC4K_INLINE Exp<V> exp_parts(V high, V low) {
  using C = MathConstants<typename V::Scalar>;
  const V rounder = V::broadcast(C::kRounder);
  const V n = fma(high, V::broadcast(C::kLog2E), rounder) - rounder;
  V r = fma(n, V::broadcast(-C::kLn2High), high);
  r = fma(n, V::broadcast(-C::kLn2Low), r) + low;
  const V tail = fma(r * r, polynomial(r, C::kExp), r);
  return {tail + V::broadcast(1), n};
}

// GELU and SiLU are v * w(v) with w(v) + w(-v) = 1, so that
//   act(v) = relu(v) + s * w(s), s = -|v|,
// where w(s) is a small positive number known to full relative accuracy. relu(v) = v - min(v, 0)
// passes NaN on and makes -inf NaN. s is limited to where s * w(s) vanishes.
template <class V>
AC4K_INLINE V relu_or_nan(V v) {
  return v - min(v, V::broadcast(0));  // min(-0, +0) is +0, its second argument: keeps -0
}

// max returns its second argument for NaN.
template <class V>
AC4K_INLINE V limited_magnitude(V v, typename V::Scalar limit) {
  return max(negative_magnitude(v), V::broadcast(-limit));
}

// w(s) = Phi(s) = exp(-s^2 / 2) * tail(-s). s^2 is carried in two parts: its rounding error alone
// would cost s^2 / 2 units in the last place.
template <class V>
AC4K_INLINE V gelu_exact(V v) {
  using C = MathConstants<typename V::Scalar>;
  const V s = limited_magnitude(v, C::kExactLimit);
  const V square = s * s;
  const V minus_half = V::broadcast(-0.5f);
  const Exp<V> e = exp_parts(square * minus_half, square_error(s, square) * minus_half);
  const V shift = V::broadcast(C::kTailShift);
  const V q = V::broadcast(1) / (shift - s);
  const V u = fma(q, V::broadcast(-2 * C::kTailShift), V::broadcast(1));
  const V weight = polynomial(u, C::kTail) * q * e.mantissa;
  return relu_or_nan(v) + scale(s * weight, e.exponent);
}

// w(s) = e / (1 + e), e = exp(2 sqrt(2 / pi) (s + 0.044715 s^3)).
template <class V>
AC4K_INLINE V gelu_tanh(V v) {
  using C = MathConstants<typename V::Scalar>;
  using Scalar = typename V::Scalar;
  const V s = limited_magnitude(v, C::kTanhLimit);
  const V linear = V::broadcast(static_cast<Scalar>(1.5957691216057307117598));
  const V cubic = V::broadcast(static_cast<Scalar>(0.0713548162726002527));
  const Exp<V> e = exp_parts(s * fma(s * s, cubic, linear), V::broadcast(0));
  const V one_plus = V::broadcast(1) + scale(e.mantissa, e.exponent);
  return relu_or_nan(v) + scale(s * e.mantissa / one_plus, e.exponent);
}

// w(s) = e / (1 + e), e = exp(s).
template <class V>
AC4K_INLINE V silu(V v) {
  const V s = limited_magnitude(v, MathConstants<typename V::Scalar>::kSiluLimit);
  const Exp<V> e = exp_parts(s, V::broadcast(0));
  const V one_plus = V::broadcast(1) + scale(e.mantissa, e.exponent);
  return relu_or_nan(v) + scale(s * e.mantissa / one_plus, e.exponent);
}

// For results of 16 bits: the same to about 2^-17, a 64th of a unit of f16, at half the cost. The
// tail is fitted to 3.2e-6.
template <class V>
AC4K_INLINE V gelu_exact_short(V v) {
  static constexpr float kTail[] = {0.7290824969f,   -0.5093489859f, 0.2300754656f,
                                    -0.04704212566f, -0.0107925054f, 0.006146196317f,
                                    0.001384896546f};
  constexpr float kShift = 3.0f, kMinusHalfLog2E = -0.721347520444f;
  const V s = limited_magnitude(v, MathConstants<float>::kExactLimit);
  const V q = reciprocal(V::broadcast(kShift) - s);
  const V u = fma(q, V::broadcast(-2 * kShift), V::broadcast(1));
  const V factor = polynomial(u, kTail) * (q * s);
  return relu_or_nan(v) + scaled_exp2(factor, s * s * V::broadcast(kMinusHalfLog2E));
}

template <class V>
AC4K_INLINE V gelu_tanh_short(V v) {
  constexpr float kLinear = 2.30220819814f, kCubic = 0.10294323958f;  // times log2(e)
  const V s = limited_magnitude(v, MathConstants<float>::kTanhLimit);
  const V y = s * fma(s * s, V::broadcast(kCubic), V::broadcast(kLinear));
  const V e = scaled_exp2(V::broadcast(1), y);
  return fma(s * e, reciprocal(V::broadcast(1) + e), relu_or_nan(v));
}

template <class V>
AC4K_INLINE V silu_short(V v) {
  const V s = limited_magnitude(v, MathConstants<float>::kSiluLimit);
  const V e = scaled_exp2(V::broadcast(1), s * V::broadcast(MathConstants<float>::kLog2E));
  return fma(s * e, reciprocal(V::broadcast(1) + e), relu_or_nan(v));
}

// Whether results of type T come from the short forms.
template <class T, class V>
inline constexpr bool use_short_math = sizeof(T) == 2 && V::kHasShortMath;

template <class T, bool kTanh, class V>
AC4K_INLINE V gelu(V v) {
  if constexpr (use_short_math<T, V>) {
    return kTanh ? gelu_tanh_short(v) : gelu_exact_short(v);
  } else {
    return kTanh ? gelu_tanh(v) : gelu_exact(v);
  }
}

}  // namespace
}  // namespace ac4k::cpu
