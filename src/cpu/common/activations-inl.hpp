// Contiguous runs of the activations, over a level's vectors.
#pragma once

#include "cpu/common/math-inl.hpp"
#include "cpu/common/table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

template <class T>
struct Silu {
  template <class V>
  static AC4K_INLINE V apply(V v) {
    if constexpr (use_short_math<T, V>) {
      return silu_short(v);
    } else {
      return silu(v);
    }
  }
};

template <class T>
struct GeluExact {
  template <class V>
  static AC4K_INLINE V apply(V v) {
    return gelu<T, false>(v);
  }
};

template <class T>
struct GeluTanh {
  template <class V>
  static AC4K_INLINE V apply(V v) {
    return gelu<T, true>(v);
  }
};

template <class V, class T, class Act>
void gated_run(const void* x, const void* factor, void* out, int64_t n) {
  const T* px = static_cast<const T*>(x);
  const T* pf = static_cast<const T*>(factor);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V x0, x1, f0, f1;
    V::load_pair(px + i, x0, x1);
    V::load_pair(pf + i, f0, f1);
    V::store_pair(Act::apply(x0) * f0, Act::apply(x1) * f1, to + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    (Act::apply(V::load_partial(px + i, rest)) * V::load_partial(pf + i, rest))
        .store_partial(to + i, rest);
  }
}

// max returns its second argument for NaN.
template <class V>
AC4K_INLINE V relu2(V v) {
  const V positive = max(V::broadcast(0), v);
  return positive * positive;
}

template <class V, class T>
void relu2_run(const void* x, void* out, int64_t n) {
  const T* px = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V x0, x1;
    V::load_pair(px + i, x0, x1);
    V::store_pair(relu2(x0), relu2(x1), to + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    relu2(V::load_partial(px + i, rest)).store_partial(to + i, rest);
  }
}

template <class V>
constexpr ActivationKernels activation_table() {
  return {
      .silu_and_mul = {gated_run<V, float, Silu<float>>, nullptr, gated_run<V, Half, Silu<Half>>,
                       gated_run<V, BFloat16, Silu<BFloat16>>},
      .gelu_and_mul_exact = {gated_run<V, float, GeluExact<float>>, nullptr,
                             gated_run<V, Half, GeluExact<Half>>,
                             gated_run<V, BFloat16, GeluExact<BFloat16>>},
      .gelu_and_mul_tanh = {gated_run<V, float, GeluTanh<float>>, nullptr,
                            gated_run<V, Half, GeluTanh<Half>>,
                            gated_run<V, BFloat16, GeluTanh<BFloat16>>},
      .relu2 = {relu2_run<V, float>, nullptr, relu2_run<V, Half>, relu2_run<V, BFloat16>},
  };
}

}  // namespace
}  // namespace ac4k::cpu
