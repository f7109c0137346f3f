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
    V a0, a1, b0, b1, c0, c1;
    V::load_pair(pa + i, a0, a1);
    V::load_pair(pb + i, b0, b1);
    V::load_pair(pc + i, c0, c1);
    V::store_pair(fused_multiply_add(a0, b0, c0), fused_multiply_add(a1, b1, c1), to + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    fused_multiply_add(V::load_partial(pa + i, rest), V::load_partial(pb + i, rest),
                       V::load_partial(pc + i, rest))
        .store_partial(to + i, rest);
  }
}

template <class V, class T, bool kTanh>
void add_gelu_run(const void* x, const void* bias, void* out, int64_t n) {
  const T* px = static_cast<const T*>(x);
  const T* pb = static_cast<const T*>(bias);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V x0, x1, b0, b1;
    V::load_pair(px + i, x0, x1);
    V::load_pair(pb + i, b0, b1);
    V::store_pair(gelu<T, kTanh>(x0 + b0), gelu<T, kTanh>(x1 + b1), to + i);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    gelu<T, kTanh>(V::load_partial(px + i, rest) + V::load_partial(pb + i, rest))
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
