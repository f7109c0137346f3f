// GELU, accurate relative to the result also where it is tiny (1 + erf(x) would cancel there).
#pragma once

#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ float approximate_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float approximate_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

inline constexpr float kLog2E = 1.4426950408889634f;

// Upper tail of the normal distribution, Q(a) = erfc(a / sqrt 2) / 2 for a >= 0, as
// exp(-a^2 / 2) * t * P(t) with t = 1 / (1 + c a). P is a minimax fit on 0 <= a <= 14.
struct TailOfFloat {  // relative error 3e-8 exact, 3e-7 with float rounding
  static constexpr float kC = 0.34f;
  static __device__ __forceinline__ float polynomial(float t) {
    float p = fmaf(-0.026120543479919434f, t, 0.13949978351593018f);
    p = fmaf(p, t, -0.2731332778930664f);
    p = fmaf(p, t, 0.20218321681022644f);
    p = fmaf(p, t, -0.04471877962350845f);
    p = fmaf(p, t, 0.11535928398370743f);
    p = fmaf(p, t, 0.11519763618707657f);
    p = fmaf(p, t, 0.13611219823360443f);
    return fmaf(p, t, 0.13562050461769104f);
  }
};
struct TailOfHalf {  // relative error 3.1e-5, an eighth of half an ulp of float16
  static constexpr float kC = 0.375f;
  static __device__ __forceinline__ float polynomial(float t) {
    float p = fmaf(-0.09064291417598724f, t, 0.20028184354305267f);
    p = fmaf(p, t, 0.08356393873691559f);
    p = fmaf(p, t, 0.1577340066432953f);
    return fmaf(p, t, 0.14906102418899536f);
  }
};

template <typename Tail>
__device__ __forceinline__ float gelu_exact(float x) {
  const float a = fabsf(x);
  const float t = approximate_reciprocal(fmaf(Tail::kC, a, 1.0f));
  const float tail = Tail::polynomial(t) * t * approximate_exp2(x * x * (-0.5f * kLog2E));
  return x * (x > 0 ? 1.0f - tail : tail);
}

// x / (1 + exp(-x P(x^2))): two special functions and few products, since in 16 bits the time goes
// into arithmetic. `p` are the coefficients of P times -log2(e), lowest first.
template <int kTerms>
__device__ __forceinline__ float gelu_sigmoid(float x, const float (&p)[kTerms]) {
  const float square = x * x;
  float sum = p[kTerms - 1];
#pragma unroll
  for (int i = kTerms - 2; i >= 0; --i) sum = fmaf(sum, square, p[i]);
  return x * approximate_reciprocal(1.0f + approximate_exp2(x * sum));
}

// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kScale = -2.0f * 0.7978845608028654f * kLog2E;
  const float p[] = {kScale, kScale * 0.044715f};
  return gelu_sigmoid(x, p);
}

// The log-odds of the normal distribution, as x P(x^2): a minimax fit of their error on |x| <= 5.
// Relative error of the result at most 1.3e-3, a third of half an ulp of bfloat16.
__device__ __forceinline__ float gelu_bfloat16(float x) {
  const float p[] = {-kLog2E * 1.5926073789596558f, -kLog2E * 0.07582806050777435f,
                     kLog2E * 0.0009867355693131685f, -kLog2E * 9.033123205881566e-06f};
  return gelu_sigmoid(x, p);
}

template <typename T, bool kTanh>
__device__ __forceinline__ compute_t<T> gelu(compute_t<T> x) {
  if constexpr (sizeof(T) == 8) {
    if constexpr (kTanh) {
      return x / (1.0 + exp(-2.0 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    } else {
      return 0.5 * x * erfc(-x * 0.70710678118654752440);
    }
  } else if constexpr (kTanh) {
    return gelu_tanh(x);
  } else if constexpr (is_same<T, __nv_bfloat16>) {
    return gelu_bfloat16(x);
  } else if constexpr (is_same<T, __half>) {
    return gelu_exact<TailOfHalf>(x);
  } else {
    return gelu_exact<TailOfFloat>(x);
  }
}

}  // namespace ac4k
