// The contiguous runs of the elementwise ops and the byte streams, over a level's vectors.
#pragma once

#include "cpu/common/math-inl.hpp"
#include "cpu/common/table.hpp"
#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

template <class V, class T>
void mul_add_run(const void* a, const void* b, const void* c, void* out, int64_t n) {
  const T* pa = static_cast<const T*>(a);
  const T* pb = static_cast<const T*>(b);
  const T* pc = static_cast<const T*>(c);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    const int64_t k = i + V::kLanes;
    const V first = fused_multiply_add(V::load(pa + i), V::load(pb + i), V::load(pc + i));
    const V second = fused_multiply_add(V::load(pa + k), V::load(pb + k), V::load(pc + k));
    first.store(to + i);
    second.store(to + k);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    fused_multiply_add(V::load_partial(pa + i, rest), V::load_partial(pb + i, rest),
                       V::load_partial(pc + i, rest))
        .store_partial(to + i, rest);
  }
}

template <bool kTanh, class V>
AC4K_INLINE V gelu(V v) {
  if constexpr (kTanh) {
    return gelu_tanh(v);
  } else {
    return gelu_exact(v);
  }
}

template <class V, class T, bool kTanh>
void add_gelu_run(const void* x, const void* bias, void* out, int64_t n) {
  const T* px = static_cast<const T*>(x);
  const T* pb = static_cast<const T*>(bias);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    gelu<kTanh>(V::load(px + i) + V::load(pb + i)).store(to + i);
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    gelu<kTanh>(V::load_partial(px + i, rest) + V::load_partial(pb + i, rest))
        .store_partial(to + i, rest);
  }
}

template <class B>
void xor_rows(const void* src, int64_t rows, int64_t stride, void* out, int64_t n) {
  const uint8_t* from = static_cast<const uint8_t*>(src);
  uint8_t* to = static_cast<uint8_t*>(out);
  constexpr int kUnroll = 4;
  int64_t i = 0;
  for (; i + kUnroll * B::kSize <= n; i += kUnroll * B::kSize) {
    B sum[kUnroll];
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) sum[u] = B::load(from + i + u * B::kSize);
    for (int64_t r = 1; r < rows; ++r) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll; ++u) {
        sum[u] = sum[u] ^ B::load(from + r * stride + i + u * B::kSize);
      }
    }
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) sum[u].store(to + i + u * B::kSize);
  }
  for (; i < n; ++i) {
    uint8_t sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum = static_cast<uint8_t>(sum ^ from[r * stride + i]);
    to[i] = sum;
  }
}

template <class B>
void xor_into(void* acc, const void* src, int64_t n) {
  const uint8_t* from = static_cast<const uint8_t*>(src);
  uint8_t* to = static_cast<uint8_t*>(acc);
  int64_t i = 0;
  for (; i + B::kSize <= n; i += B::kSize) (B::load(to + i) ^ B::load(from + i)).store(to + i);
  for (; i < n; ++i) to[i] = static_cast<uint8_t>(to[i] ^ from[i]);
}

template <class F32, class F64, class Bytes>
constexpr ElementwiseKernels elementwise_table() {
  return {
      .mul_add = {mul_add_run<F32, float>, mul_add_run<F64, double>, mul_add_run<F32, Half>,
                  mul_add_run<F32, BFloat16>},
      .add_gelu_exact = {add_gelu_run<F32, float, false>, add_gelu_run<F64, double, false>,
                         add_gelu_run<F32, Half, false>, add_gelu_run<F32, BFloat16, false>},
      .add_gelu_tanh = {add_gelu_run<F32, float, true>, add_gelu_run<F64, double, true>,
                        add_gelu_run<F32, Half, true>, add_gelu_run<F32, BFloat16, true>},
      .xor_rows = xor_rows<Bytes>,
      .xor_into = xor_into<Bytes>,
  };
}

}  // namespace
}  // namespace ac4k::cpu
