// Activations of one element, in float32.
#pragma once

#include "common/gelu.cuh"

namespace ac4k {

// x / (1 + exp(-x)) with t = exp(-|x| / 2): x / (1 + t^2), times t^2 for x < 0. Taking the root
// keeps t a normal number down to x = -174, so the tail is as accurate as the exponent's rounding.
// -inf gives -inf * 0 = NaN, as in PyTorch.
__device__ __forceinline__ float silu(float x) {
  const float t = approximate_exp2(fabsf(x) * (-0.5f * kLog2E));
  const float r = approximate_reciprocal(fmaf(t, t, 1.0f));
  return x < 0 ? (x * t) * (t * r) : x * r;
}

// NaN stays NaN, which fmaxf would drop.
__device__ __forceinline__ float relu2(float x) {
  const float positive = x < 0 ? 0.0f : x;
  return positive * positive;
}

// T is the type of input and output: it decides how accurate GELU has to be.
template <typename T>
struct Silu {
  static __device__ __forceinline__ float apply(float x) { return silu(x); }
};
template <typename T>
struct GeluExact {
  static __device__ __forceinline__ float apply(float x) { return gelu<T, false>(x); }
};
template <typename T>
struct GeluTanh {
  static __device__ __forceinline__ float apply(float x) { return gelu<T, true>(x); }
};

}  // namespace ac4k
