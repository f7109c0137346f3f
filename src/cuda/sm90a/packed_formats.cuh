// Packed weights (docs/packed_weights.md) as policies of the mixed-input engine: the bytes of a
// block, how its bits become integers in the fragments of a matrix product, and its scales.
//
// A policy gives, for a thread and a sub-block of 64 x 64 codes:
//   Header           what all sub-blocks of a block share, loaded once
//   Codes            the thread's bits of a sub-block, as loaded
//   fragment<T>      the integers of one step of 16 columns, exact in T: a_i is row r + 8 * (i & 1)
//   scales           of its two rows and each group: weight = scale * integer + offset
// Integers lie around zero, so that rounding a scale does little harm to weights around zero.
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

// A pair of T from a pair of unsigned integers below 128, minus kZero: as the last bits of 128
// (bfloat16) or 1024 (half), which is then taken away, all of it exact.
template <typename T>
inline constexpr uint32_t kIntegerBits = is_same<T, __half> ? 0x64006400u : 0x43004300u;
template <typename T, int kZero>
__device__ __forceinline__ uint32_t minus_zero(uint32_t biased) {
  if constexpr (is_same<T, __half>) {
    const __half2 pair =
        __hsub2(*reinterpret_cast<__half2*>(&biased), __float2half2_rn(1024.0f + kZero));
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair =
        __hsub2(*reinterpret_cast<__nv_bfloat162*>(&biased), __float2bfloat162_rn(128.0f + kZero));
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
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

template <int kGroups, bool kHasOffsets>
struct GroupScales {
  float scale[2][kGroups];
  float offset[2][kHasOffsets ? kGroups : 1];

  // Those that lane `kLane` of the four lanes with the same rows has.
  template <int kLane>
  __device__ __forceinline__ GroupScales of_lane() const {
    GroupScales theirs;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        theirs.scale[row][g] = __shfl_sync(0xffffffffu, scale[row][g], kLane, 4);
        if constexpr (kHasOffsets) {
          theirs.offset[row][g] = __shfl_sync(0xffffffffu, offset[row][g], kLane, 4);
        }
      }
    }
    return theirs;
  }
};

// Codes of kLowBits + kHighBits bits: a plane of four or two bits and one of the rest.
template <int kSubBlocks, int kLowBits, int kHighBits, int kZeroCode>
struct BitPlanes {
  static constexpr int kZero = kZeroCode;  // taken away from codes
  static constexpr int kLowBytes = Plane<kSubBlocks, kLowBits>::kBytes;
  static constexpr int kBytes =
      kLowBytes + (kHighBits > 0 ? Plane<kSubBlocks, kHighBits>::kBytes : 0);
  struct Codes {
    uint32_t low[kLowBits];  // words of a thread
    uint32_t high[kHighBits > 0 ? kHighBits : 1];
  };

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
    biased_fragment<T, kStep>(codes, a);
#pragma unroll
    for (uint32_t& pair : a) pair = minus_zero<T, kZero>(pair);
  }
  // Too large by kBias.
  template <typename T>
  static constexpr float kBias = (is_same<T, __half> ? 1024.0f : 128.0f) + kZero;
  template <typename T, int kStep>
  static __device__ __forceinline__ void biased_fragment(const Codes& codes, uint32_t (&a)[4]) {
    biased_part<T, kStep, 0>(codes, a);
    biased_part<T, kStep, 1>(codes, a);
    biased_part<T, kStep, 2>(codes, a);
    biased_part<T, kStep, 3>(codes, a);
  }

 private:
  // Fields of kBits bits in the planes' order: the place of step s and register i in its word.
  template <int kBits, int kStep, int i>
  static constexpr int kWord = kBits == 4   ? kStep
                               : kBits == 2 ? kStep / 2
                                            : 0;
  template <int kBits, int kStep, int i>
  static constexpr int kPlace = kBits == 4   ? 4 * i
                                : kBits == 2 ? 2 * (kStep % 2 * 4 + i)
                                             : 4 * kStep + i;

  template <typename T, int kStep, int i>
  static __device__ __forceinline__ void biased_part(const Codes& codes, uint32_t (&a)[4]) {
    constexpr uint32_t kMask = ((1u << kLowBits) - 1) * 0x00010001u;
    uint32_t bits =
        and_or(shift_right<kPlace<kLowBits, kStep, i>>(codes.low[kWord<kLowBits, kStep, i>]), kMask,
               kIntegerBits<T>);
    if constexpr (kHighBits > 0) {
      constexpr uint32_t kHighMask = (((1u << kHighBits) - 1) << kLowBits) * 0x00010001u;
      bits = and_or(shift_right<kPlace<kHighBits, kStep, i> - kLowBits>(
                        codes.high[kWord<kHighBits, kStep, i>]),
                    kHighMask, bits);
    }
    a[i] = bits;
  }
};

// Bytes, biased by 128.
template <int kSubBlocks>
struct BytePlanes {
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
};

// Codes of four bits that are places in a table of 16 bytes, biased by 128.
template <int kSubBlocks, uint32_t kTable0, uint32_t kTable1, uint32_t kTable2, uint32_t kTable3>
struct TablePlanes {
  using Planes = BitPlanes<kSubBlocks, 4, 0, 0>;
  static constexpr int kBytes = Planes::kBytes;
  using Codes = typename Planes::Codes;
  static __device__ __forceinline__ Codes load(uint32_t block, int j, int thread) {
    return Planes::load(block, j, thread);
  }
  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    const uint32_t word = codes.low[kStep];
    // The low three bits choose in each half of the table, the fourth between the halves.
    const uint32_t places = word & 0x77777777u;
    const uint32_t half = and_or(word >> 1, 0x44444444u, 0x32103210u);
    const uint32_t first = lookup(places, half), second = lookup(places >> 16, half >> 16);
    a[0] = bytes_minus_128<T, 0, 0>(first, second);
    a[1] = bytes_minus_128<T, 1, 1>(first, second);
    a[2] = bytes_minus_128<T, 2, 2>(first, second);
    a[3] = bytes_minus_128<T, 3, 3>(first, second);
  }

 private:
  static __device__ __forceinline__ uint32_t lookup(uint32_t places, uint32_t half) {
    return __byte_perm(__byte_perm(kTable0, kTable1, places), __byte_perm(kTable2, kTable3, places),
                       half);
  }
};

// Codes of e2m1, as twice their values: sign, exponent and mantissa move to their places in T, as a
// number that is too small by the difference of the biases.
template <int kSubBlocks>
struct E2M1Planes {
  using Planes = BitPlanes<kSubBlocks, 4, 0, 0>;
  static constexpr int kBytes = Planes::kBytes;
  using Codes = typename Planes::Codes;
  static __device__ __forceinline__ Codes load(uint32_t block, int j, int thread) {
    return Planes::load(block, j, thread);
  }
  template <typename T, int kStep>
  static __device__ __forceinline__ void fragment(const Codes& codes, uint32_t (&a)[4]) {
    part<T, 0>(codes.low[kStep], a);
    part<T, 1>(codes.low[kStep], a);
    part<T, 2>(codes.low[kStep], a);
    part<T, 3>(codes.low[kStep], a);
  }

 private:
  template <typename T, int i>
  static __device__ __forceinline__ void part(uint32_t word, uint32_t (&a)[4]) {
    constexpr int kMantissa = is_same<T, __half> ? 9 : 6;  // its first bit in T
    constexpr uint32_t kMagnitude = (7u << kMantissa) * 0x00010001u;
    uint32_t bits = and_or(shift_right<4 * i - 12>(word), 0x80008000u,
                           shift_right<4 * i - kMantissa>(word) & kMagnitude);
    if constexpr (is_same<T, __half>) {
      const __half2 pair =
          __hmul2(*reinterpret_cast<const __half2*>(&bits), __float2half2_rn(0x1p15f));
      a[i] = *reinterpret_cast<const uint32_t*>(&pair);
    } else {
      const __nv_bfloat162 pair =
          __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&bits), __float2bfloat162_rn(0x1p127f));
      a[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
};

// --- Formats -----------------------------------------------------------------------------------

// Blocks of 64 columns, a half scale (and a minimum) for each row and 32 columns.
template <typename PlanesType, bool kMinimum>
struct ScaledBlocks {
  using Planes = PlanesType;
  static constexpr int kSubBlocks = 1, kGroups = 2;
  static constexpr bool kHasOffsets = kMinimum;
  static constexpr int kQuadBytes = kMinimum ? 16 : 8;
  static constexpr int kBytes = Planes::kBytes + 32 * kQuadBytes;
  using Scales = GroupScales<kGroups, kHasOffsets>;
  struct Header {
    uint32_t words[kQuadBytes / 4];
  };
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    const uint32_t quad = block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * kQuadBytes;
    if constexpr (kMinimum) {
      const uint4 v = load_shared_16(quad);
      return {{v.x, v.y, v.z, v.w}};
    } else {
      const uint2 v = load_shared_8(quad);
      return {{v.x, v.y}};
    }
  }
  // Scale and minimum of the row lane % 4 / 2 and the group lane % 2.
  static __device__ __forceinline__ uint32_t lane_header(uint32_t block, int thread)
    requires kMinimum
  {
    return load_shared_4(block + Planes::kBytes + static_cast<uint32_t>(thread) * 4);
  }
  template <int j>
  static __device__ __forceinline__ Scales scales(const Header& header) {
    Scales scales;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if constexpr (kMinimum) {
#pragma unroll
        for (int g = 0; g < 2; ++g) {
          const float2 both = halves(header.words[2 * row + g]);
          scales.scale[row][g] = both.x;
          scales.offset[row][g] = __fmaf_rn(both.x, Planes::kZero, both.y);
        }
      } else {
        const float2 both = halves(header.words[row]);
        scales.scale[row][0] = both.x;
        scales.scale[row][1] = both.y;
      }
    }
    return scales;
  }
};

// Signed 8-bit values of IQ4's codes plus 128.
#define AC4K_IQ4_TABLE 0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u

using Q4_0 = ScaledBlocks<BitPlanes<1, 4, 0, 8>, false>;
using Q4_1 = ScaledBlocks<BitPlanes<1, 4, 0, 8>, true>;
using Q5_0 = ScaledBlocks<BitPlanes<1, 4, 1, 16>, false>;
using Q5_1 = ScaledBlocks<BitPlanes<1, 4, 1, 16>, true>;
using Q8_0 = ScaledBlocks<BytePlanes<1>, false>;
using IQ4_NL = ScaledBlocks<TablePlanes<1, AC4K_IQ4_TABLE>, false>;

// Scales of one byte: powers of two for 32 columns, or unsigned e4m3 for 16; halved, as the codes
// give twice the values.
template <bool kNv>
struct MicroBlocks {
  using Planes = E2M1Planes<1>;
  static constexpr int kSubBlocks = 1, kGroups = kNv ? 4 : 2;
  static constexpr bool kHasOffsets = false;
  static constexpr int kQuadBytes = kNv ? 8 : 4;
  static constexpr int kBytes = Planes::kBytes + 32 * kQuadBytes;
  using Scales = GroupScales<kGroups, kHasOffsets>;
  struct Header {
    uint32_t words[kQuadBytes / 4];
  };
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    const uint32_t quad = block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * kQuadBytes;
    if constexpr (kNv) {
      const uint2 v = load_shared_8(quad);
      return {{v.x, v.y}};
    } else {
      return {{load_shared_4(quad)}};
    }
  }
  template <int j>
  static __device__ __forceinline__ Scales scales(const Header& header) {
    Scales scales;
    if constexpr (kNv) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t codes = header.words[row] & 0x7f7f7f7fu;
        const float2 first = halved_e4m3(codes), second = halved_e4m3(codes >> 16);
        scales.scale[row][0] = first.x, scales.scale[row][1] = first.y;
        scales.scale[row][2] = second.x, scales.scale[row][3] = second.y;
      }
      if (has_ff(header.words[0]) || has_ff(header.words[1])) {  // 480, not zero
#pragma unroll
        for (int i = 0; i < 2 * kGroups; ++i) {
          const uint32_t code = header.words[i / kGroups] >> (8 * (i % kGroups)) & 0xffu;
          if (code == 0xffu) scales.scale[i / kGroups][i % kGroups] = 240.0f;
        }
      }
    } else {
      scales.scale[0][0] = halved_power<0>(header.words[0]);
      scales.scale[0][1] = halved_power<1>(header.words[0]);
      scales.scale[1][0] = halved_power<2>(header.words[0]);
      scales.scale[1][1] = halved_power<3>(header.words[0]);
    }
    return scales;
  }

 private:
  static __device__ __forceinline__ bool has_ff(uint32_t bytes) {
    return (~bytes - 0x01010101u) & bytes & 0x80808080u;
  }
  // Two codes in the low half; 0x7f stands for zero, where the conversion gives NaN.
  static __device__ __forceinline__ float2 halved_e4m3(uint32_t codes) {
    uint32_t bits;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"(static_cast<unsigned short>(codes)));
    const __half2 scales = *reinterpret_cast<const __half2*>(&bits);
    return __half22float2(__hmul2(__hmax2(scales, __float2half2_rn(0.0f)), __float2half2_rn(0.5f)));
  }
  // Half of 2^(code - 127) for one byte of a word: the exponent of a float, but for code 0.
  template <int kByte>
  static __device__ __forceinline__ float halved_power(uint32_t codes) {
    const uint32_t bits = __byte_perm(codes, 0, kByte << 12 | 0x444) >> 1;
    return __uint_as_float(max(bits, 0x00400000u)) * 0.5f;
  }
};
using MXFP4 = MicroBlocks<false>;
using NVFP4 = MicroBlocks<true>;

// Blocks of 256 columns: half scales of a row, and small integers that multiply them. They take
// many instructions to decode, and four lanes have the same rows: each decodes those of one of the
// four sub-blocks, and gets the others' when their turn comes.
__device__ __forceinline__ float small_integer(uint32_t value) {
  return __uint_as_float(value | 0x4b000000u) - 8388608.0f;
}
// Group c of 24 bits in the three words at `address`, in the low bits.
__device__ __forceinline__ uint32_t group_of_24(uint32_t address, uint32_t c) {
  const uint32_t word = c * 3 / 4, next = min(word + 1, 2u);
  return __funnelshift_r(load_shared_4(address + 4 * word), load_shared_4(address + 4 * next),
                         c * 24 % 32);
}

// What they have in common; `Decode` gives a quad's bytes and the scales of sub-block c.
template <typename PlanesType, int kGroupsOf, bool kOffsets, typename Decode>
struct SuperBlocks {
  using Planes = PlanesType;
  static constexpr int kSubBlocks = 4, kGroups = kGroupsOf;
  static constexpr bool kSharedByLanes = true;
  static constexpr bool kHasOffsets = kOffsets;
  static constexpr int kBytes = Planes::kBytes + 32 * Decode::kQuadBytes;
  using Scales = GroupScales<kGroups, kHasOffsets>;
  using Header = Scales;
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    const uint32_t quad =
        block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * Decode::kQuadBytes;
    Scales scales;
    Decode::decode(quad, static_cast<uint32_t>(thread % 4), scales);
    if constexpr (kHasOffsets) {
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i) {
        float& offset = scales.offset[i / kGroups][i % kGroups];
        offset = __fmaf_rn(scales.scale[i / kGroups][i % kGroups], Planes::kZero, offset);
      }
    }
    return scales;
  }
  template <int j>
  static __device__ __forceinline__ Scales scales(const Header& header) {
    return header.template of_lane<j>();
  }
};

// q4_k and q5_k: d * sc * q - dmin * m, six bits each for 32 columns.
struct Decode32 {
  static constexpr int kQuadBytes = 32;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<2, true>& scales) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 d = halves(load_shared_4(quad + 16 * row));
      const uint32_t group = group_of_24(quad + 16 * row + 4, c);
      scales.scale[row][0] = d.x * small_integer(group & 63);
      scales.offset[row][0] = -d.y * small_integer(group >> 6 & 63);
      scales.scale[row][1] = d.x * small_integer(group >> 12 & 63);
      scales.offset[row][1] = -d.y * small_integer(group >> 18 & 63);
    }
  }
};
using Q4_K = SuperBlocks<BitPlanes<4, 4, 0, 8>, 2, true, Decode32>;
using Q5_K = SuperBlocks<BitPlanes<4, 4, 1, 16>, 2, true, Decode32>;

// iq4_xs: d * (sc - 32) * T[q], six bits for 32 columns, 48 of them behind d.
struct DecodeIQ4_XS {
  static constexpr int kQuadBytes = 16;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<2, false>& scales) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint2 words = load_shared_8(quad + 8 * row);
      const float d = halves(words.x).x;
      const uint32_t group =
          (c < 2 ? __funnelshift_r(words.x, words.y, 16) : words.y >> 8) >> (c % 2 * 12);
      scales.scale[row][0] = d * (small_integer(group & 63) - 32.0f);
      scales.scale[row][1] = d * (small_integer(group >> 6 & 63) - 32.0f);
    }
  }
};
using IQ4_XS = SuperBlocks<TablePlanes<4, AC4K_IQ4_TABLE>, 2, false, DecodeIQ4_XS>;

// q2_k: d * sc * q - dmin * m, four bits each for 16 columns.
struct DecodeQ2_K {
  static constexpr int kQuadBytes = 40;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<4, true>& scales) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float2 d = halves(load_shared_4(quad + 32 + 4 * row));
      const uint32_t codes = load_shared_4(quad + 16 * row + 4 * c);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        scales.scale[row][g] = d.x * small_integer(codes >> (8 * g) & 15);
        scales.offset[row][g] = -d.y * small_integer(codes >> (8 * g + 4) & 15);
      }
    }
  }
};
using Q2_K = SuperBlocks<BitPlanes<4, 2, 0, 2>, 4, true, DecodeQ2_K>;

// q3_k: d * (sc - 32) * (q - 4), six bits for 16 columns.
struct DecodeQ3_K {
  static constexpr int kQuadBytes = 28;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<4, false>& scales) {
    const float2 d = halves(load_shared_4(quad + 24));
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint32_t group = group_of_24(quad + 12 * row, c);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        scales.scale[row][g] = (row ? d.y : d.x) * (small_integer(group >> (6 * g) & 63) - 32.0f);
      }
    }
  }
};
using Q3_K = SuperBlocks<BitPlanes<4, 2, 1, 4>, 4, false, DecodeQ3_K>;

// q6_k: d * sc * (q - 32), a signed byte for 16 columns.
struct DecodeQ6_K {
  static constexpr int kQuadBytes = 36;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<4, false>& scales) {
    const float2 d = halves(load_shared_4(quad + 32));
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const uint32_t codes = load_shared_4(quad + 16 * row + 4 * c);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const int code = static_cast<signed char>(codes >> (8 * g));
        scales.scale[row][g] = (row ? d.y : d.x) * static_cast<float>(code);
      }
    }
  }
};
using Q6_K = SuperBlocks<BitPlanes<4, 4, 2, 32>, 4, false, DecodeQ6_K>;

#undef AC4K_IQ4_TABLE

}  // namespace ac4k
