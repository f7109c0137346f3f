// The table of a level's GGUF kernels.
#pragma once

#include "cpu/common/gguf_decode-inl.hpp"
#include "cpu/common/gguf_encode-inl.hpp"

namespace ac4k::cpu {
namespace {

// Numbers as the quantisers take them: NaN is 0, an infinity the largest number.
template <class V, class T>
void load_cleaned(const void* x, float* out, int64_t n) {
  const T* from = static_cast<const T*>(x);
  const V largest = V::broadcast(kLargestFloat), smallest = V::broadcast(-kLargestFloat);
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const V a = V::load(from + i);
    const V bounded = min(max(a, smallest), largest);
    V{a.v == a.v ? bounded.v : V::broadcast(0.0f).v}.store(out + i);
  }
}
template <class V, class T>
void store_rounded(const float* values, void* out, int64_t n) {
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i += V::kLanes) V::load(values + i).store(to + i);
}

template <class V, class Codes>
constexpr GgufKernels gguf_table() {
  return {
      .load = {load_cleaned<V, float>, nullptr, load_cleaned<V, Half>, load_cleaned<V, BFloat16>},
      .store = {store_rounded<V, float>, nullptr, store_rounded<V, Half>,
                store_rounded<V, BFloat16>},
#define AC4K_ENCODE(name, values, bytes) Encoder<V, Codes>::name,
      .quantize = {AC4K_BLOCK_FORMATS(AC4K_ENCODE)},
#undef AC4K_ENCODE
#define AC4K_DECODE(name, values, bytes) Decoder<V, Codes>::name,
      .dequantize = {AC4K_BLOCK_FORMATS(AC4K_DECODE)},
#undef AC4K_DECODE
  };
}

}  // namespace
}  // namespace ac4k::cpu
