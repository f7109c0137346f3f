// The contiguous runs of the quantisers, over a level's vectors: the extent of a run, its codes
// for a given scale, and numbers from codes.
#pragma once

#include "cpu/common/formats-inl.hpp"
#include "cpu/common/table.hpp"

namespace ac4k::cpu {
namespace {

// max and min give their second argument where the first is NaN.
template <class V, class T>
float amax_run(const void* x, int64_t n) {
  const T* from = static_cast<const T*>(x);
  V first = V::broadcast(0.0f), second = first, third = first, fourth = first;
  int64_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    V a, b, c, d;
    V::load_pair(from + i, a, b);
    V::load_pair(from + i + 2 * V::kLanes, c, d);
    first = max(magnitude_of(a), first);
    second = max(magnitude_of(b), second);
    third = max(magnitude_of(c), third);
    fourth = max(magnitude_of(d), fourth);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    first = max(magnitude_of(V::load_partial(from + i, rest)), first);
  }
  return smaller(largest_lane(max(max(first, second), max(third, fourth))), kLargestFloat);
}

template <class V, class T>
void range_run(const void* x, int64_t n, float* low, float* high) {
  const T* from = static_cast<const T*>(x);
  const V zero = V::broadcast(0.0f);
  V low0 = zero, low1 = zero, high0 = zero, high1 = zero;
  int64_t i = 0;
  for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
    V a, b;
    V::load_pair(from + i, a, b);
    low0 = min(a, low0), high0 = max(a, high0);
    low1 = min(b, low1), high1 = max(b, high1);
  }
  for (; i < n; i += V::kLanes) {
    const int rest = static_cast<int>(n - i < V::kLanes ? n - i : V::kLanes);
    const V a = V::load_partial(from + i, rest);
    low0 = min(a, low0), high0 = max(a, high0);
  }
  *low = -smaller(largest_lane(zero - min(low0, low1)), kLargestFloat);
  *high = smaller(largest_lane(max(high0, high1)), kLargestFloat);
}

// Calls body(lanes, count) for whole vectors, and once for the rest.
template <class V, class Body>
AC4K_INLINE void for_each_vector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) body(i, V::kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}
template <class V, class T>
AC4K_INLINE V load_some(const T* p, int n) {
  return n == V::kLanes ? V::load(p) : V::load_partial(p, n);
}
template <class V, class T>
AC4K_INLINE void store_some(V a, T* p, int n) {
  if (n == V::kLanes) {
    a.store(p);
  } else {
    a.store_partial(p, n);
  }
}

// A column keeps its own extent.
template <class V, class T>
void amax_columns(const void* x, int64_t n, float* amax) {
  const T* from = static_cast<const T*>(x);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const V a = magnitude_of(load_some<V>(from + i, count));
    store_some(max(a, load_some<V>(amax + i, count)), amax + i, count);
  });
}
template <class V, class T>
void range_columns(const void* x, int64_t n, float* low, float* high) {
  const T* from = static_cast<const T*>(x);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const V a = load_some<V>(from + i, count);
    store_some(min(a, load_some<V>(low + i, count)), low + i, count);
    store_some(max(a, load_some<V>(high + i, count)), high + i, count);
  });
}

template <class Format, class V>
AC4K_INLINE Lanes<V> encode_at(V x, Lanes<V> zero) {
  if constexpr (__is_same(Format, Int8)) {
    using F = typename LanesOf<V>::Float;
    const V offset = V{__builtin_convertvector(zero, F)};
    return encode_int8(x, V::broadcast(-128.0f) - offset, V::broadcast(127.0f) - offset, zero);
  } else {
    return encode<Format>(x);
  }
}
template <class Format, class V>
AC4K_INLINE V decode_at(Lanes<V> codes, Lanes<V> zero) {
  if constexpr (__is_same(Format, Int8)) {
    return V{__builtin_convertvector(((codes ^ 0x80) - 0x80) - zero, typename LanesOf<V>::Float)};
  } else {
    return decode<Format, V>(codes);
  }
}

template <class V, class Codes>
AC4K_INLINE void store_codes(Lanes<V> codes, uint8_t* p, int n) {
  if (n == V::kLanes) {
    Codes::store(codes, p);
  } else {
    Codes::store_partial(codes, p, n);
  }
}
template <class V, class Codes>
AC4K_INLINE Lanes<V> load_codes(const uint8_t* p, int n) {
  return n == V::kLanes ? Codes::load(p) : Codes::load_partial(p, n);
}

// One scale and zero point for the run.
template <class V, class Codes, class Format, class T>
void encode_run(const void* x, float inverse, int32_t zero, uint8_t* codes, int64_t n) {
  const T* from = static_cast<const T*>(x);
  const V factor = V::broadcast(inverse);
  const Lanes<V> zeros = lanes_of<V>(zero);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const V scaled = load_some<V>(from + i, count) * factor;
    store_codes<V, Codes>(encode_at<Format>(scaled, zeros), codes + i, count);
  });
}
// One for each column; without zero points where there are none.
template <class V, class Codes, class Format, class T>
void encode_columns(const void* x, const float* inverse, const int32_t* zero, uint8_t* codes,
                    int64_t n) {
  const T* from = static_cast<const T*>(x);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const V scaled = load_some<V>(from + i, count) * load_some<V>(inverse + i, count);
    const Lanes<V> zeros =
        zero ? bits_of(load_some<V>(reinterpret_cast<const float*>(zero + i), count)) : Lanes<V>{};
    store_codes<V, Codes>(encode_at<Format>(scaled, zeros), codes + i, count);
  });
}
template <class V, class Codes, class Format, class T>
void decode_run(const uint8_t* codes, float scale, int32_t zero, void* out, int64_t n) {
  T* to = static_cast<T*>(out);
  const V factor = V::broadcast(scale);
  const Lanes<V> zeros = lanes_of<V>(zero);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const V value = decode_at<Format, V>(load_codes<V, Codes>(codes + i, count), zeros);
    store_some(value * factor, to + i, count);
  });
}
template <class V, class Codes, class Format, class T>
void decode_columns(const uint8_t* codes, const float* scale, const int32_t* zero, void* out,
                    int64_t n) {
  T* to = static_cast<T*>(out);
  for_each_vector<V>(n, [&](int64_t i, int count) {
    const Lanes<V> zeros =
        zero ? bits_of(load_some<V>(reinterpret_cast<const float*>(zero + i), count)) : Lanes<V>{};
    const V value = decode_at<Format, V>(load_codes<V, Codes>(codes + i, count), zeros);
    store_some(value * load_some<V>(scale + i, count), to + i, count);
  });
}

// Blocks of `kBlock` numbers with a scale each; n is a multiple.
inline constexpr int kNvBlock = 16, kMxBlock = 32;

template <class V, int kBlock, class T>
AC4K_INLINE float load_block(const T* from, V (&values)[kBlock / V::kLanes]) {
  V largest = V::broadcast(0.0f);
#pragma GCC unroll 8
  for (int v = 0; v < kBlock / V::kLanes; ++v) {
    values[v] = V::load(from + v * V::kLanes);
    largest = max(magnitude_of(values[v]), largest);
  }
  return smaller(largest_lane(largest), kLargestFloat);
}

template <class V, class Codes, class T>
void encode_nvfp4(const void* x, float global_scale, uint8_t* codes, uint8_t* scales, int64_t n) {
  const T* from = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; i += kNvBlock) {
    V values[kNvBlock / V::kLanes];
    const float amax = load_block<V, kNvBlock>(from + i, values);
    const uint8_t code = encode_e4m3<V>(global_scale * (amax / 6.0f));
    const float scale = decode_e4m3<V>(code);
    const V factor = V::broadcast(scale == 0.0f ? 0.0f : global_scale / scale);
    scales[i / kNvBlock] = code;
#pragma GCC unroll 4
    for (int v = 0; v < kNvBlock / V::kLanes; ++v) {
      const Lanes<V> nibbles = scale == 0.0f ? Lanes<V>{} : encode<E2M1>(values[v] * factor);
      Codes::store_nibbles(nibbles, codes + (i + v * V::kLanes) / 2);
    }
  }
}
template <class V, class Codes, class T>
void decode_nvfp4(const uint8_t* codes, const uint8_t* scales, float global_scale, void* out,
                  int64_t n) {
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i += kNvBlock) {
    const V factor = V::broadcast(decode_e4m3<V>(scales[i / kNvBlock]) / global_scale);
#pragma GCC unroll 4
    for (int v = 0; v < kNvBlock / V::kLanes; ++v) {
      const int64_t at = i + v * V::kLanes;
      (decode<E2M1, V>(Codes::load_nibbles(codes + at / 2)) * factor).store(to + at);
    }
  }
}

template <class V, class Codes, class Format, class T>
void encode_mx(const void* x, uint8_t* codes, uint8_t* scales, int64_t n) {
  const T* from = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; i += kMxBlock) {
    V values[kMxBlock / V::kLanes];
    const float amax = load_block<V, kMxBlock>(from + i, values);
    const uint32_t code = mx_scale_code(amax, Format::kMaxExponent);
    const V factor = V::broadcast(mx_inverse(code));
    scales[i / kMxBlock] = static_cast<uint8_t>(code);
#pragma GCC unroll 8
    for (int v = 0; v < kMxBlock / V::kLanes; ++v) {
      const int64_t at = i + v * V::kLanes;
      const Lanes<V> lanes = encode<Format>(values[v] * factor);
      if constexpr (__is_same(Format, E2M1)) {
        Codes::store_nibbles(lanes, codes + at / 2);
      } else {
        Codes::store(lanes, codes + at);
      }
    }
  }
}
template <class V, class Codes, class Format, class T>
void decode_mx(const uint8_t* codes, const uint8_t* scales, void* out, int64_t n) {
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; i += kMxBlock) {
    const V factor = V::broadcast(decode_e8m0(scales[i / kMxBlock]));
#pragma GCC unroll 8
    for (int v = 0; v < kMxBlock / V::kLanes; ++v) {
      const int64_t at = i + v * V::kLanes;
      V value;
      if constexpr (__is_same(Format, E2M1)) {
        value = decode<E2M1, V>(Codes::load_nibbles(codes + at / 2));
      } else {
        value = decode<Format, V>(Codes::load(codes + at));
      }
      (value * factor).store(to + at);
    }
  }
}

template <class V, class Codes, class Format>
constexpr CodeRuns code_runs() {
  return {
      .encode = {encode_run<V, Codes, Format, float>, nullptr, encode_run<V, Codes, Format, Half>,
                 encode_run<V, Codes, Format, BFloat16>},
      .encode_columns = {encode_columns<V, Codes, Format, float>, nullptr,
                         encode_columns<V, Codes, Format, Half>,
                         encode_columns<V, Codes, Format, BFloat16>},
      .decode = {decode_run<V, Codes, Format, float>, nullptr, decode_run<V, Codes, Format, Half>,
                 decode_run<V, Codes, Format, BFloat16>},
      .decode_columns = {decode_columns<V, Codes, Format, float>, nullptr,
                         decode_columns<V, Codes, Format, Half>,
                         decode_columns<V, Codes, Format, BFloat16>},
  };
}
template <class V, class Codes, class Format>
constexpr MxRuns mx_runs() {
  return {
      .encode = {encode_mx<V, Codes, Format, float>, nullptr, encode_mx<V, Codes, Format, Half>,
                 encode_mx<V, Codes, Format, BFloat16>},
      .decode = {decode_mx<V, Codes, Format, float>, nullptr, decode_mx<V, Codes, Format, Half>,
                 decode_mx<V, Codes, Format, BFloat16>},
  };
}

template <class V, class Codes>
constexpr QuantizeKernels quantize_table() {
  return {
      .amax = {amax_run<V, float>, nullptr, amax_run<V, Half>, amax_run<V, BFloat16>},
      .range = {range_run<V, float>, nullptr, range_run<V, Half>, range_run<V, BFloat16>},
      .amax_columns = {amax_columns<V, float>, nullptr, amax_columns<V, Half>,
                       amax_columns<V, BFloat16>},
      .range_columns = {range_columns<V, float>, nullptr, range_columns<V, Half>,
                        range_columns<V, BFloat16>},
      .codes = {code_runs<V, Codes, E4M3>(), code_runs<V, Codes, E5M2>(),
                code_runs<V, Codes, Int8>()},
      .encode_nvfp4 = {encode_nvfp4<V, Codes, float>, nullptr, encode_nvfp4<V, Codes, Half>,
                       encode_nvfp4<V, Codes, BFloat16>},
      .decode_nvfp4 = {decode_nvfp4<V, Codes, float>, nullptr, decode_nvfp4<V, Codes, Half>,
                       decode_nvfp4<V, Codes, BFloat16>},
      .mx = {mx_runs<V, Codes, E4M3>(), mx_runs<V, Codes, E5M2>(), mx_runs<V, Codes, E2M1>()},
  };
}

}  // namespace
}  // namespace ac4k::cpu
