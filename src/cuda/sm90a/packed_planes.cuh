// Planes of bits (docs/packed_weights.md), and how they become integers in the fragments of a
// matrix product: Codes are a thread's bits of a sub-block of 64 x 64 codes, as loaded; fragment<T>
// makes the integers of one step of 16 columns, exact in T: a_i is row r + 8 * (i & 1).
//
// Integers of bfloat16 take fewer instructions as tiny numbers: its last eight bits count 2^-133
// each, subnormal or not, so that a code is a number as soon as the bits beside it are gone, and
// where it lies matters only to the scale. tiny_parts gives low and high bits of codes like that:
// those of register i are too large by the factor 2^place, and high bits by 2^-kLowBits too small.
#pragma once

#include "sm90a/mbarrier.cuh"
#include "sm90a/mixed.h"

namespace ac4k {

// --- Shared memory -----------------------------------------------------------------------------

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t load_shared_4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

// --- Bits to numbers ---------------------------------------------------------------------------

template <typename T>
struct PairOf {
  using type = __nv_bfloat162;
};
template <>
struct PairOf<__half> {
  using type = __half2;
};

__device__ __forceinline__ uint32_t and_or(uint32_t value, uint32_t mask, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(value), "r"(mask), "r"(bits));
  return result;
}
__device__ __forceinline__ uint32_t and_xor(uint32_t value, uint32_t mask, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(value), "r"(mask), "r"(bits));
  return result;
}
template <int kShift>
__device__ __forceinline__ uint32_t shift_right(uint32_t value) {
  if constexpr (kShift >= 0) {
    return value >> kShift;
  } else {
    return value << -kShift;
  }
}
__device__ __forceinline__ float2 halves(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
// Two numbers of T, as they lie next to each other.
template <typename T>
__device__ __forceinline__ float2 widen_pair(uint32_t pair) {
  if constexpr (is_same<T, __half>) {
    return halves(pair);
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
}

template <typename T>
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
  typename PairOf<T>::type pair;
  if constexpr (is_same<T, __half>) {
    pair = __floats2half2_rn(low, high);
  } else {
    pair = __floats2bfloat162_rn(low, high);
  }
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <typename Pair>
__device__ __forceinline__ uint32_t bits_of(const Pair& pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ __nv_bfloat162 bfloat_pair(uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
// One of two numbers, twice.
template <typename T, int kHigh>
__device__ __forceinline__ typename PairOf<T>::type twice(uint32_t bits) {
  const auto pair = *reinterpret_cast<const typename PairOf<T>::type*>(&bits);
  if constexpr (is_same<T, __half>) {
    return kHigh ? __high2half2(pair) : __low2half2(pair);
  } else {
    return kHigh ? __high2bfloat162(pair) : __low2bfloat162(pair);
  }
}

// A pair of T from a pair of unsigned integers below 128, minus kZero: as the last bits of 128
// (bfloat16) or 1024 (half), which is then taken away, all of it exact. In half they may begin at
// bit kAt, if they end within ten.
template <typename T>
inline constexpr uint32_t kIntegerBits = is_same<T, __half> ? 0x64006400u : 0x43004300u;
template <typename T, int kZero, int kAt = 0>
__device__ __forceinline__ uint32_t minus_zero(uint32_t biased) {
  static_assert(kAt == 0 || is_same<T, __half>);
  if constexpr (is_same<T, __half>) {
    constexpr float kUnit = 1.0f / (1 << kAt);
    __half2 pair = *reinterpret_cast<__half2*>(&biased);
    if constexpr (kAt == 0) {
      pair = __hsub2(pair, __float2half2_rn(1024.0f + kZero));
    } else {
      pair = __hfma2(pair, __float2half2_rn(kUnit), __float2half2_rn(-1024.0f * kUnit - kZero));
    }
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair =
        __hsub2(*reinterpret_cast<__nv_bfloat162*>(&biased), __float2bfloat162_rn(128.0f + kZero));
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}
// 2^exponent in bfloat16, which has subnormal numbers down to 2^-133.
inline constexpr int kTinyExponent = -133;
template <int kExponent>
inline constexpr uint32_t kPowerOfTwo =
    kExponent < -126 ? 1u << (kExponent - kTinyExponent) % 8
                     : static_cast<uint32_t>(kExponent + 127) << 7;
// Twice, or for the rows r and r + 8.
template <int kExponent, int kExponentRow8 = kExponent>
__device__ __forceinline__ __nv_bfloat162 powers_of_two() {
  static_assert(kExponent >= kTinyExponent && kExponent <= 127);
  static_assert(kExponentRow8 >= kTinyExponent && kExponentRow8 <= 127);
  constexpr uint32_t kBits = kPowerOfTwo<kExponentRow8> << 16 | kPowerOfTwo<kExponent>;
  return *reinterpret_cast<const __nv_bfloat162*>(&kBits);
}
template <int kExponent, int kExponentRow8>
__device__ __forceinline__ __nv_bfloat162 minus_powers_of_two() {
  constexpr uint32_t kBits =
      0x80008000u | kPowerOfTwo<kExponentRow8> << 16 | kPowerOfTwo<kExponent>;
  return *reinterpret_cast<const __nv_bfloat162*>(&kBits);
}

// A pair of T from a byte of each word, minus 128.
template <typename T, int kFirst, int kSecond>
__device__ __forceinline__ uint32_t bytes_minus_128(uint32_t first, uint32_t second) {
  if constexpr (is_same<T, __half>) {
    const uint32_t bytes = __byte_perm(first, second, kFirst | (4 + kSecond) << 4);
    uint32_t biased = __byte_perm(bytes, 0x64646464u, 0x4140);
    return minus_zero<T, 128>(biased);
  } else {
    // Seven bits as the last ones of 128; the eighth makes -128 of -256, which is then added.
    const uint32_t bytes = __byte_perm(first, second, kFirst | (4 + kSecond) << 8);
    uint32_t low = and_or(bytes, 0x007f007fu, kIntegerBits<T>);
    uint32_t high = and_xor(bytes, 0x00800080u, 0xc380c380u);
    const __nv_bfloat162 pair = __hadd2(*reinterpret_cast<__nv_bfloat162*>(&low),
                                        *reinterpret_cast<__nv_bfloat162*>(&high));
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// --- Planes of bits ----------------------------------------------------------------------------

// Where a thread's bits of sub-block j lie in the planes of a block with kSubBlocks.
template <int kSubBlocks, int kBits>
struct Plane {
  static constexpr int kThreadBytes = 4 * kBits;
  static constexpr int kBytes = kSubBlocks * 128 * kThreadBytes;
  static __device__ __forceinline__ uint32_t address(uint32_t plane, int j, int thread) {
    return plane + static_cast<uint32_t>(j * 128 + thread) * kThreadBytes;
  }
};

// Codes of kLowBits + kHighBits bits: a plane of four or two bits and one of the rest.
template <int kSubBlocks, int kLowBits, int kHighBits, int kZeroCode>
struct BitPlanes {
  static constexpr int kZero = kZeroCode;  // taken away from codes
  static constexpr int kTableBytes = 0;
  static constexpr int kLowBytes = Plane<kSubBlocks, kLowBits>::kBytes;
  static constexpr int kBytes =
      kLowBytes + (kHighBits > 0 ? Plane<kSubBlocks, kHighBits>::kBytes : 0);
  struct Codes {
    uint32_t low[kLowBits];  // words of a thread
    uint32_t high[kHighBits > 0 ? kHighBits : 1];
  };

  // Fields of kBits bits in the planes' order: the place of step s and register i in its word.
  template <int kBits, int kStep, int i>
  static constexpr int kWord = kBits == 4   ? kStep
                               : kBits == 2 ? kStep / 2
                                            : 0;
  template <int kBits, int kStep, int i>
  static constexpr int kPlace = kBits == 4   ? 4 * i
                                : kBits == 2 ? 2 * (kStep % 2 * 4 + i)
                                             : 4 * kStep + i;

  static __device__ __forceinline__ Codes load(uint32_t block, int j, int thread) {
    Codes codes;
    const uint32_t low = Plane<kSubBlocks, kLowBits>::address(block, j, thread);
    if constexpr (kLowBits == 4) {
      const uint4 words = load_shared_16(low);
      codes.low[0] = words.x, codes.low[1] = words.y, codes.low[2] = words.z,
      codes.low[3] = words.w;
    } else {
      const uint2 words = load_shared_8(low);
      codes.low[0] = words.x, codes.low[1] = words.y;
    }
    if constexpr (kHighBits > 0) {
      const uint32_t high = Plane<kSubBlocks, kHighBits>::address(block + kLowBytes, j, thread);
      if constexpr (kHighBits == 2) {
        const uint2 words = load_shared_8(high);
        codes.high[0] = words.x, codes.high[1] = words.y;
      } else {
        codes.high[0] = load_shared_4(high);
      }
    }
    return codes;
  }

  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    a[0] = part<T, kStep, 0>(codes);
    a[1] = part<T, kStep, 1>(codes);
    a[2] = part<T, kStep, 2>(codes);
    a[3] = part<T, kStep, 3>(codes);
  }
  // Too large by kBias.
  template <typename T>
  static constexpr float kBias = (is_same<T, __half> ? 1024.0f : 128.0f) + kZero;
  template <typename T, int kStep>
  static __device__ __forceinline__ void biased_fragment(const Codes& codes, uint32_t (&a)[4]) {
    a[0] = biased_part<T, kStep, 0, 0>(codes);
    a[1] = biased_part<T, kStep, 1, 0>(codes);
    a[2] = biased_part<T, kStep, 2, 0>(codes);
    a[3] = biased_part<T, kStep, 3, 0>(codes);
  }

  static constexpr bool kTiny = true;
  // What is taken away from codes, as a power of two.
  static constexpr int kTinyZeroExponent = kZero == 32 ? 5 : kZero == 16 ? 4 : kZero == 8 ? 3 : 2;
  static constexpr int kTinyLowBits = kLowBits, kTinyHighBits = kHighBits;
  template <int i>
  static constexpr int kTinyPlace = i % 2 * (kLowBits == 4 ? 4 : 2);
  template <int kStep, int i>
  static constexpr int kTinyHighPlace = kPlace<kHighBits, kStep, i> % 8;
  template <int kStep, int i>
  static __device__ __forceinline__ void tiny_parts(const Codes& codes, uint32_t& low,
                                                    uint32_t& high) {
    constexpr int kLowPlace = kTinyPlace<i>;
    constexpr uint32_t kLowMask = (((1u << kLowBits) - 1) << kLowPlace) * 0x00010001u;
    low =
        codes.low[kWord<kLowBits, kStep, i>] >> (kPlace<kLowBits, kStep, i> - kLowPlace) & kLowMask;
    if constexpr (kHighBits > 0) {
      constexpr int kHighPlace = kTinyHighPlace<kStep, i>;
      constexpr uint32_t kHighMask = (((1u << kHighBits) - 1) << kHighPlace) * 0x00010001u;
      high = codes.high[kWord<kHighBits, kStep, i>] >> (kPlace<kHighBits, kStep, i> - kHighPlace) &
             kHighMask;
    }
  }

 private:
  // Half has room for codes where they are in their byte, so that fewer of them have to be shifted.
  template <typename T, int kStep, int i>
  static __device__ __forceinline__ uint32_t part(const Codes& codes) {
    constexpr int kAt = is_same<T, __half> ? kPlace<kLowBits, kStep, i> % 8 : 0;
    return minus_zero<T, kZero, kAt>(biased_part<T, kStep, i, kAt>(codes));
  }
  // From bit kAt on: 2^kAt times as large.
  template <typename T, int kStep, int i, int kAt>
  static __device__ __forceinline__ uint32_t biased_part(const Codes& codes) {
    constexpr uint32_t kMask = (((1u << kLowBits) - 1) << kAt) * 0x00010001u;
    uint32_t bits =
        and_or(shift_right<kPlace<kLowBits, kStep, i> - kAt>(codes.low[kWord<kLowBits, kStep, i>]),
               kMask, kIntegerBits<T>);
    if constexpr (kHighBits > 0) {
      constexpr int kHighAt = kAt + kLowBits;
      constexpr uint32_t kHighMask = (((1u << kHighBits) - 1) << kHighAt) * 0x00010001u;
      bits = and_or(shift_right<kPlace<kHighBits, kStep, i> - kHighAt>(
                        codes.high[kWord<kHighBits, kStep, i>]),
                    kHighMask, bits);
    }
    return bits;
  }
};

// Bytes, biased by 128.
template <int kSubBlocks>
struct BytePlanes {
  static constexpr int kTableBytes = 0;
  static constexpr int kBytes = Plane<kSubBlocks, 8>::kBytes;
  struct Codes {
    uint4 halves[2];  // of two steps each
  };
  static __device__ __forceinline__ Codes load(uint32_t block, int j, int thread) {
    const uint32_t first = block + static_cast<uint32_t>(j * 256 + thread) * 16;
    return {{load_shared_16(first), load_shared_16(first + 2048)}};
  }
  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    const uint4& words = codes.halves[kStep / 2];
    const uint32_t row = kStep % 2 ? words.z : words.x, row_8 = kStep % 2 ? words.w : words.y;
    a[0] = bytes_minus_128<T, 0, 1>(row, row);
    a[1] = bytes_minus_128<T, 0, 1>(row_8, row_8);
    a[2] = bytes_minus_128<T, 2, 3>(row, row);
    a[3] = bytes_minus_128<T, 2, 3>(row_8, row_8);
  }

  static constexpr bool kTiny = true;
  static constexpr int kTinyZeroExponent = 7, kTinyLowBits = 8, kTinyHighBits = 0;
  template <int i>
  static constexpr int kTinyPlace = 0;
  template <int kStep, int i>
  static __device__ __forceinline__ void tiny_parts(const Codes& codes, uint32_t& low, uint32_t&) {
    const uint4& words = codes.halves[kStep / 2];
    const uint32_t row = kStep % 2 ? words.z : words.x, row_8 = kStep % 2 ? words.w : words.y;
    low = __byte_perm(i % 2 ? row_8 : row, 0, i < 2 ? 0x4140 : 0x4342);
  }
};

// Codes of four bits that are places in a table of 16 bytes, biased by 128. Pairs of codes are
// looked up in shared memory, where each lane has a table of its own, in its own bank. In registers
// eight codes take 23 integer instructions, which is more than the time of reading them allows.
template <int kSubBlocks, uint32_t kTable0, uint32_t kTable1, uint32_t kTable2, uint32_t kTable3>
struct TablePlanes : BitPlanes<kSubBlocks, 4, 0, 0> {
  using Codes = typename BitPlanes<kSubBlocks, 4, 0, 0>::Codes;
  static constexpr int kTableBytes = kCodeTableBytes;
  static constexpr bool kTiny = false;

  // By kThreads threads; all wait for each other before the first lookup.
  template <typename T, int kThreads>
  static __device__ __forceinline__ void fill_table(int thread) {
    constexpr int kVectors = kCodeTableBytes / 16;  // eight for each pair
#pragma unroll 4
    for (int i = thread; i < kVectors; i += kThreads) {
      Vector<T, 4> pair;
      pair.values[0] = narrow<T>(value(i / 8 % 16));
      pair.values[1] = narrow<T>(value(i / 128));
      const uint32_t bits = *reinterpret_cast<const uint32_t*>(&pair);
      reinterpret_cast<uint4*>(table())[i] = {bits, bits, bits, bits};
    }
  }
  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    // Codes 0 and 1, 2 and 3, ... of a word; wanted are 0 and 4, 1 and 5, ...
    const uint32_t word = codes.low[kStep];
    const uint32_t pairs[4] = {lookup<0>(word), lookup<1>(word), lookup<2>(word), lookup<3>(word)};
    a[0] = __byte_perm(pairs[0], pairs[2], 0x5410);
    a[1] = __byte_perm(pairs[0], pairs[2], 0x7632);
    a[2] = __byte_perm(pairs[1], pairs[3], 0x5410);
    a[3] = __byte_perm(pairs[1], pairs[3], 0x7632);
  }

 private:
  static __device__ __forceinline__ unsigned char* table() {
    __shared__ __align__(16) unsigned char bytes[kCodeTableBytes];
    return bytes;
  }
  static __device__ __forceinline__ float value(uint32_t code) {
    const uint32_t byte =
        code < 8 ? __byte_perm(kTable0, kTable1, code) : __byte_perm(kTable2, kTable3, code - 8);
    return static_cast<float>(static_cast<int>(byte & 0xff) - 128);
  }
  // Nothing but the word decides about it, so that the compiler may move it where it likes.
  template <int kByte>
  static __device__ __forceinline__ uint32_t lookup(uint32_t word) {
    const uint32_t lane = threadIdx.x % 32 * 4;
    const uint32_t place = and_or(shift_right<8 * kByte - 7>(word), 0xff << 7, lane);
    uint32_t pair;
    asm("ld.shared.u32 %0, [%1];" : "=r"(pair) : "r"(shared_address(table()) + place));
    return pair;
  }
};

// Codes of e2m1: sign, exponent and mantissa move to their places in T, as a number that is too
// small by the difference of the biases. As integers they are twice their values.
template <int kSubBlocks>
struct E2M1Planes : BitPlanes<kSubBlocks, 4, 0, 0> {
  using Codes = typename BitPlanes<kSubBlocks, 4, 0, 0>::Codes;
  static constexpr bool kTiny = false;
  // 2^-14 (half) or 2^-126 of their values.
  template <typename T, int kStep>
  static __device__ __forceinline__ void small_fragment(const Codes& codes, uint32_t (&a)[4]) {
    a[0] = small_part<T, 0>(codes.low[kStep]);
    a[1] = small_part<T, 1>(codes.low[kStep]);
    a[2] = small_part<T, 2>(codes.low[kStep]);
    a[3] = small_part<T, 3>(codes.low[kStep]);
  }
  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    small_fragment<T, kStep>(codes, a);
#pragma unroll
    for (uint32_t& pair : a) {
      if constexpr (is_same<T, __half>) {
        pair =
            bits_of(__hmul2(*reinterpret_cast<const __half2*>(&pair), __float2half2_rn(0x1p15f)));
      } else {
        pair = bits_of(__hmul2(bfloat_pair(pair), powers_of_two<127>()));
      }
    }
  }

 private:
  template <typename T, int i>
  static __device__ __forceinline__ uint32_t small_part(uint32_t word) {
    constexpr int kMantissa = is_same<T, __half> ? 9 : 6;  // its first bit in T
    constexpr uint32_t kMagnitude = (7u << kMantissa) * 0x00010001u;
    return and_or(shift_right<4 * i - 12>(word), 0x80008000u,
                  shift_right<4 * i - kMantissa>(word) & kMagnitude);
  }
};

}  // namespace ac4k
