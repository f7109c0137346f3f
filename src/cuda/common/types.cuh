// Element types on the device: widening, rounding, and vectors of 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ac4k {

using int64_t = long long;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

inline constexpr int kVectorBytes = 16;  // the widest load of one thread

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

// Of what is counted: 32 bits where the host checked that they do.
template <bool kSmall>
struct IndexType {
  using type = unsigned;
};
template <>
struct IndexType<false> {
  using type = int64_t;
};

// Settles an address: where a load may be left out the compiler would otherwise find it only after
// it knows that, and addresses a step apart each from the beginning.
template <typename T>
__device__ __forceinline__ void find_now(T*& address) {
  asm volatile("" : "+l"(address));
}

// 16-bit types compute in float, the others in themselves.
template <typename T>
struct ComputeType {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};
template <typename T>
using compute_t = typename ComputeType<T>::type;

template <typename T>
__device__ __forceinline__ compute_t<T> widen(T value) {
  return static_cast<compute_t<T>>(value);
}
template <>
__device__ __forceinline__ float widen<__half>(__half value) {
  return __half2float(value);
}
template <>
__device__ __forceinline__ float widen<__nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

// Rounds to nearest, ties to even.
template <typename T>
__device__ __forceinline__ T narrow(compute_t<T> value) {
  return static_cast<T>(value);
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// a * b + c of pairs of 16-bit numbers, rounded once.
template <typename T>
__device__ __forceinline__ uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  if constexpr (is_same<T, __half>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
}

template <typename T, int kBytes = kVectorBytes>
struct alignas(kBytes) Vector {
  static constexpr int kSize = kBytes / static_cast<int>(sizeof(T));
  T values[kSize];
};

// The words of a vector of 16 or 8 bytes.
template <int kBytes>
struct VectorWords {
  using type = uint4;
};
template <>
struct VectorWords<8> {
  using type = uint2;
};

// One access each, which plain assignments of a struct would not always be. Cache hints were
// measured and left out: evict-first loads cost up to 10 % on buffers past L2.
template <typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> load(const Vector<T, kBytes>* address) {
  using Words = typename VectorWords<kBytes>::type;
  static_assert(sizeof(Words) == kBytes);
  const Words words = __ldca(reinterpret_cast<const Words*>(address));
  return *reinterpret_cast<const Vector<T, kBytes>*>(&words);
}
template <typename T, int kBytes>
__device__ __forceinline__ void store(Vector<T, kBytes>* address, const Vector<T, kBytes>& vector) {
  using Words = typename VectorWords<kBytes>::type;
  static_assert(sizeof(Words) == kBytes);
  __stwb(reinterpret_cast<Words*>(address), *reinterpret_cast<const Words*>(&vector));
}

// All values of a vector at once. 16-bit ones are taken in pairs, as 32-bit words: the compiler
// then keeps a vector in four registers and does not take it apart.
template <typename T, int kBytes>
__device__ __forceinline__ void widen(const Vector<T, kBytes>& vector,
                                      float (&values)[Vector<T, kBytes>::kSize]) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  if constexpr (sizeof(T) == 2 && kSize % 2 == 0) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(&vector);
#pragma unroll
    for (int i = 0; i < kSize; i += 2) {
      const uint32_t word = words[i / 2];
      if constexpr (is_same<T, __half>) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word));
        values[i] = pair.x, values[i + 1] = pair.y;
      } else {
        values[i] = __uint_as_float(word << 16);
        values[i + 1] = __uint_as_float(word & 0xffff0000u);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) values[i] = widen(vector.values[i]);
  }
}
template <typename T, int kBytes = kVectorBytes>
__device__ __forceinline__ Vector<T, kBytes> narrow(
    const float (&values)[Vector<T, kBytes>::kSize]) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  Vector<T, kBytes> vector;
  if constexpr (sizeof(T) == 2 && kSize % 2 == 0) {
    uint32_t* words = reinterpret_cast<uint32_t*>(&vector);
#pragma unroll
    for (int i = 0; i < kSize; i += 2) {
      if constexpr (is_same<T, __half>) {
        const __half2 pair = __floats2half2_rn(values[i], values[i + 1]);
        words[i / 2] = *reinterpret_cast<const uint32_t*>(&pair);
      } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(values[i], values[i + 1]);
        words[i / 2] = *reinterpret_cast<const uint32_t*>(&pair);
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) vector.values[i] = narrow<T>(values[i]);
  }
  return vector;
}

}  // namespace ac4k
