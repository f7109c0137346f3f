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

// Codes of IQ4, with their signed 8-bit values plus 128.
template <int kSubBlocks>
using IQ4Planes = TablePlanes<kSubBlocks, 0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u>;

using Q4_0 = ScaledBlocks<BitPlanes<1, 4, 0, 8>, false>;
using Q4_1 = ScaledBlocks<BitPlanes<1, 4, 0, 8>, true>;
using Q5_0 = ScaledBlocks<BitPlanes<1, 4, 1, 16>, false>;
using Q5_1 = ScaledBlocks<BitPlanes<1, 4, 1, 16>, true>;
using Q8_0 = ScaledBlocks<BytePlanes<1>, false>;
using IQ4_NL = ScaledBlocks<IQ4Planes<1>, false>;

}  // namespace ac4k
