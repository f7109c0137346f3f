// Formats with blocks of 256 columns as policies of the mixed-input engine (packed_formats.cuh says
// what that is).
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

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
  static __device__ __forceinline__ uint32_t quad_of(uint32_t block, int thread) {
    return block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * Decode::kQuadBytes;
  }
  // weight = scale * code + offset; the code counts from Planes::kZero where there is no offset.
  static __device__ __forceinline__ Scales decoded(uint32_t block, int thread) {
    Scales scales;
    Decode::decode(quad_of(block, thread), static_cast<uint32_t>(thread % 4), scales);
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
using IQ4_XS = SuperBlocks<IQ4Planes<4>, 2, false, DecodeIQ4_XS>;

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
struct Q2_K : SuperBlocks<BitPlanes<4, 2, 0, 2>, 4, true, DecodeQ2_K> {
  // sc * q and m: d and dmin are for all of a block.
  struct Integers {
    using Planes = Q2_K::Planes;
    static constexpr int kSubBlocks = 4, kGroups = 4;
    static constexpr bool kHasOffsets = false;
    struct Header {
      uint32_t words[2][4];  // of a row: sc and m of four groups for each sub-block
    };
    static __device__ __forceinline__ Header header(uint32_t block, int thread) {
      Header header;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t record = quad_of(block, thread) + 16 * row;
#pragma unroll
        for (int j = 0; j < 4; ++j) header.words[row][j] = load_shared_4(record + 4 * j);
      }
      return header;
    }

    template <typename T>
    class ExactFactors {
     public:
      static constexpr float kSumFactor = is_same<T, __half> ? 0x1p18f : 0x1p16f;
      static constexpr float kMinimumFactor = is_same<T, __half> ? 0x1p9f : 0x1p6f;

      __device__ __forceinline__ ExactFactors(const Header& header, int j) {
        // The last bits of T are as good as integers; row r + 8 has its codes two bits higher.
        constexpr int kUp = is_same<T, __half> ? 15 : 127, kOn = is_same<T, __half> ? 15 : 123;
        constexpr uint32_t kNibbles = 0x000f000fu;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            const uint32_t word = header.words[row][j];
            const Pair scale = times<kUp>(as_pair(word >> (8 * odd) & kNibbles));
            scales_[row][odd] = bits_of(row == 0 ? times<kOn>(scale) : times<kOn - 2>(scale));
            minimums_[row][odd] = bits_of(times<kUp>(as_pair(word >> (8 * odd + 4) & kNibbles)));
          }
        }
      }
      template <int kStep>
      __device__ __forceinline__ void make(const Planes::Codes& codes, uint32_t (&a)[4]) const {
        a[0] = weights<kStep, 0>(codes);
        a[1] = weights<kStep, 1>(codes);
        a[2] = weights<kStep, 2>(codes);
        a[3] = weights<kStep, 3>(codes);
      }
      template <int kStep>
      __device__ __forceinline__ void make_minimums(uint32_t (&m)[4]) const {
        m[0] = m[2] = bits_of(twice<T, kStep / 2>(minimums_[0][kStep % 2]));
        m[1] = m[3] = bits_of(twice<T, kStep / 2>(minimums_[1][kStep % 2]));
      }

     private:
      using Pair = typename PairOf<T>::type;
      static __device__ __forceinline__ Pair as_pair(uint32_t bits) {
        return *reinterpret_cast<const Pair*>(&bits);
      }
      template <int kExponent>
      static __device__ __forceinline__ Pair times(Pair pair) {
        if constexpr (is_same<T, __half>) {
          return __hmul2(pair, __float2half2_rn(static_cast<float>(1 << kExponent)));
        } else {
          return __hmul2(pair, powers_of_two<kExponent>());
        }
      }
      template <int kStep, int i>
      __device__ __forceinline__ uint32_t weights(const Planes::Codes& codes) const {
        uint32_t low, high;
        Planes::template tiny_parts<kStep, i>(codes, low, high);
        return bits_of(__hmul2(as_pair(low), twice<T, kStep / 2>(scales_[i % 2][kStep % 2])));
      }

      uint32_t scales_[2][2], minimums_[2][2];  // [row]: groups 0 and 2, groups 1 and 3
    };
  };
  // d of the rows r and r + 8, then dmin.
  static __device__ __forceinline__ float4 block_scales(uint32_t block, int thread) {
    const float2 first = halves(load_shared_4(quad_of(block, thread) + 32));
    const float2 second = halves(load_shared_4(quad_of(block, thread) + 36));
    return {first.x, second.x, first.y, second.y};
  }
};

// q3_k: d * (sc - 32) * (q - 4), six bits for 16 columns; or without d, for all of a block.
template <bool kWithD>
struct DecodeQ3_K {
  static constexpr int kQuadBytes = 28;
  static __device__ __forceinline__ void decode(uint32_t quad, uint32_t c,
                                                GroupScales<4, false>& scales) {
    const float2 d = kWithD ? halves(load_shared_4(quad + 24)) : float2{1.0f, 1.0f};
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
struct Q3_K : SuperBlocks<BitPlanes<4, 2, 1, 4>, 4, false, DecodeQ3_K<true>> {
  struct Integers : SuperBlocks<Planes, 4, false, DecodeQ3_K<false>> {
    static constexpr int kTinyRest = 16;  // scales are below 2^6
  };
  // d of the rows r and r + 8.
  static __device__ __forceinline__ float4 block_scales(uint32_t block, int thread) {
    const float2 d = halves(load_shared_4(quad_of(block, thread) + 24));
    return {d.x, d.y, 0.0f, 0.0f};
  }
};

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

}  // namespace ac4k
