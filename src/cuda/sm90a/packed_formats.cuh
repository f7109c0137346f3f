// Packed weights (docs/packed_weights.md) as policies of the mixed-input engine: the bytes of a
// block, its planes and its scales.
//
// A policy gives, for a thread and a sub-block of 64 x 64 codes:
//   Planes           its bits, and how they become integers
//   Header           what all sub-blocks of a block share, loaded once
//   scales           of its two rows and each group: weight = scale * integer + offset
// Integers lie around zero, so that rounding a scale does little harm to weights around zero.
#pragma once

#include "sm90a/packed_planes.cuh"

namespace ac4k {

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
      // 480, not zero. It hardly ever occurs: a branch of the warp is cheaper than to select.
      const bool special = has_ff(header.words[0]) || has_ff(header.words[1]);
      if (__any_sync(0xffffffffu, special)) {
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
  // weight = scale * code + offset; the code counts from Planes::kZero where there is no offset.
  static __device__ __forceinline__ Scales decoded(uint32_t block, int thread) {
    const uint32_t quad =
        block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * Decode::kQuadBytes;
    Scales scales;
    Decode::decode(quad, static_cast<uint32_t>(thread % 4), scales);
    return scales;
  }
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    Scales scales = decoded(block, thread);
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
