// W4A16 weights as policies of the mixed-input engine (packed_formats.cuh says what that is): 4-bit
// codes with a scale of type T for each row and 32 columns, or for a block of 64 or 128 columns.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

// Two numbers of T, as they lie next to each other.
template <typename T>
__device__ __forceinline__ float2 widen_pair(uint32_t pair) {
  if constexpr (is_same<T, __half>) {
    return halves(pair);
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
}

// kGroupColumns: 32 and 64 (blocks of 64 columns) or 128 (blocks of 128).
template <typename T, int kGroupColumns, bool kZeros>
struct W4 {
  static constexpr int kSubBlocks = kGroupColumns == 128 ? 2 : 1;
  using Planes = BitPlanes<kSubBlocks, 4, 0, kZeros ? 0 : 8>;
  // Of a sub-block: the engine wants at least two, and takes the scale of a step by its group.
  static constexpr int kGroups = 2;
  static constexpr bool kHasOffsets = kZeros;
  static constexpr bool kHasZeroPoints = kZeros;
  static constexpr int kRowEntries = kGroupColumns == 32 ? 2 : 1;
  static constexpr int kQuadWords = kRowEntries * (kZeros ? 2 : 1);
  static constexpr int kBytes = Planes::kBytes + 32 * 4 * kQuadWords;
  // weight = scale * (integer - zero): offset = -scale * zero is exact in float, `zero` is for
  // those that subtract it before they multiply.
  struct Scales : GroupScales<kGroups, kZeros> {
    float zero[2][kZeros ? kGroups : 1];
  };
  // Scales of row r, then of row r + 8; with zero points, each with its own behind it.
  struct Header {
    uint32_t words[kQuadWords];
  };

  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    const uint32_t quad =
        block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * (4 * kQuadWords);
    if constexpr (kQuadWords == 4) {
      const uint4 v = load_shared_16(quad);
      return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (kQuadWords == 2) {
      const uint2 v = load_shared_8(quad);
      return {{v.x, v.y}};
    } else {
      return {{load_shared_4(quad)}};
    }
  }
  template <int j>
  static __device__ __forceinline__ Scales scales(const Header& header) {
    Scales scales;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int entry = row * kRowEntries + (kRowEntries == 2 ? g : 0);
        if constexpr (kZeros) {
          const float2 both = widen_pair<T>(header.words[entry]);
          scales.scale[row][g] = both.x;
          scales.offset[row][g] = -both.x * both.y;
          scales.zero[row][g] = both.y;
        } else {
          const float2 both = widen_pair<T>(header.words[entry / 2]);
          scales.scale[row][g] = entry % 2 ? both.y : both.x;
        }
      }
    }
    return scales;
  }
};

}  // namespace ac4k
