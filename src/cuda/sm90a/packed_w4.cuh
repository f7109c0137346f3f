// W4A16 weights as policies of the mixed-input engine (packed_formats.cuh says what that is): 4-bit
// codes with a scale of type T for each row and 32 columns, or for a block of 64 or 128 columns.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

template <bool kFirst, typename First, typename Second>
struct Either {
  using type = First;
};
template <typename First, typename Second>
struct Either<false, First, Second> {
  using type = Second;
};

// kGroupColumns: 32 and 64 (blocks of 64 columns) or 128 (blocks of 128).
template <typename T, int kGroupColumns, bool kZeros>
struct W4 {
  static constexpr int kSubBlocks = kGroupColumns == 128 ? 2 : 1;
  using Planes = BitPlanes<kSubBlocks, 4, 0, kZeros ? 0 : 8>;
  static constexpr int kGroups = kGroupColumns == 32 ? 2 : 1;  // of a sub-block
  static constexpr bool kHasOffsets = kZeros;
  static constexpr int kRowEntries = kGroupColumns == 32 ? 2 : 1;
  static constexpr int kQuadWords = kRowEntries * (kZeros ? 2 : 1);
  static constexpr int kBytes = Planes::kBytes + 32 * 4 * kQuadWords;
  // weight = scale * integer + offset, where offset = -scale * zero is exact in float.
  using Scales = GroupScales<kGroups, kZeros>;
  // weight = scale * (integer - zero) in T, an instruction or two for two weights, and what float
  // would round to: a zero point's integer is taken away exactly, its fraction comes in with the
  // one rounding.
  static constexpr bool kScalesInT = true;
  // Or integers are multiplied, and their scale comes in with the sums of a block.
  static constexpr bool kScalesSums = is_same<T, __half> && kGroupColumns == 128 && !kZeros;
  static constexpr bool kTiny = is_same<T, __nv_bfloat16>;
  static constexpr int kUnit = -6;  // codes and zero points count 2^kUnit each, if there are any
  static constexpr int kTinyRest = kZeros ? -kUnit : 48;  // without, scales are below 2^42
  struct WholePairs {                                     // each number twice
    uint32_t scale[2][kRowEntries], zero[2][kZeros ? kRowEntries : 1];
    uint32_t rest[2][kZeros ? kRowEntries : 1];
  };
  struct TinyPairs {  // as in the header; scale and zero point as the codes want them
    uint32_t words[kQuadWords], addends[kQuadWords], scales[kZeros ? kQuadWords : 1];
  };
  using Pairs = typename Either<kTiny, TinyPairs, WholePairs>::type;
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
        } else {
          const float2 both = widen_pair<T>(header.words[entry / 2]);
          scales.scale[row][g] = entry % 2 ? both.y : both.x;
        }
      }
    }
    return scales;
  }

  static __device__ __forceinline__ Pairs pairs(const Header& header) {
    if constexpr (kTiny) {
      return tiny_pairs(header);
    } else {
      return whole_pairs(header);
    }
  }
  // The weights of a step of 16 columns.
  template <int kStep>
  static __device__ __forceinline__ void make(const typename Planes::Codes& codes,
                                              const Pairs& pairs, uint32_t (&a)[4]) {
    if constexpr (kTiny) {
      a[0] = tiny_weights<kStep, 0>(codes, pairs);
      a[1] = tiny_weights<kStep, 1>(codes, pairs);
      a[2] = tiny_weights<kStep, 2>(codes, pairs);
      a[3] = tiny_weights<kStep, 3>(codes, pairs);
    } else {
      Planes::template fragment<T, kStep>(codes, a);
      scale_step<kStep>(pairs, a);
    }
  }

 private:
  static __device__ __forceinline__ WholePairs whole_pairs(const Header& header) {
    constexpr uint32_t kLow = 0x1010, kHigh = 0x3232;  // that half of a word, twice
    WholePairs pairs;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int g = 0; g < kRowEntries; ++g) {
        const int entry = row * kRowEntries + g;
        if constexpr (kZeros) {
          const auto as_pair = [](uint32_t bits) { return *reinterpret_cast<__half2*>(&bits); };
          const uint32_t scale = __byte_perm(header.words[entry], 0, kLow);
          const __half2 zero = as_pair(__byte_perm(header.words[entry], 0, kHigh));
          const __half2 whole = __half2half2(hrint(__low2half(zero)));
          pairs.scale[row][g] = scale;
          pairs.zero[row][g] = bits_of(whole);
          pairs.rest[row][g] = bits_of(__hmul2(__hsub2(whole, zero), as_pair(scale)));
        } else {
          pairs.scale[row][g] = __byte_perm(header.words[entry / 2], 0, entry % 2 ? kHigh : kLow);
        }
      }
    }
    return pairs;
  }
  // Integers of a step of 16 columns to weights.
  template <int kStep>
  static __device__ __forceinline__ void scale_step(const WholePairs& pairs, uint32_t (&a)[4]) {
    using Pair = typename PairOf<T>::type;
    constexpr int kEntry = kStep * kRowEntries / 4;
    const auto as_pair = [](const uint32_t& bits) { return *reinterpret_cast<const Pair*>(&bits); };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pair value = as_pair(a[i]), scale = as_pair(pairs.scale[i % 2][kEntry]);
      if constexpr (kZeros) {
        const Pair code = __hsub2(value, as_pair(pairs.zero[i % 2][kEntry]));
        a[i] = bits_of(__hfma2(code, scale, as_pair(pairs.rest[i % 2][kEntry])));
      } else {
        a[i] = bits_of(__hmul2(value, scale));
      }
    }
  }

  // bfloat16, with codes as tiny numbers (packed_planes.cuh). One rounding of scale * code + addend
  // does it; with zero points, their integers are first taken away from codes, in units of 2^kUnit.
  static __device__ __forceinline__ TinyPairs tiny_pairs(const Header& header) {
    TinyPairs pairs;
    if constexpr (kZeros) {
      const auto round = twice<__nv_bfloat16, 0>(0x4040);  // 3: sums with it are whole units
#pragma unroll
      for (int w = 0; w < kQuadWords; ++w) {
        const auto scale = twice<__nv_bfloat16, 0>(header.words[w]);
        const auto zero = twice<__nv_bfloat16, 1>(header.words[w]);
        const auto rounded = __hfma2(zero, powers_of_two<kUnit>(), round);
        const auto rest =
            __hfma2(zero, minus_powers_of_two<kUnit, kUnit>(), __hsub2(rounded, round));
        pairs.words[w] = bits_of(__hsub2(round, rounded));
        pairs.scales[w] = bits_of(scale);
        pairs.addends[w] = bits_of(__hmul2(rest, scale));
      }
    } else {
      tiny_word<0>(header, pairs);
      if constexpr (kQuadWords == 2) tiny_word<1>(header, pairs);
    }
    return pairs;
  }
  // Two groups of a row, or both rows.
  template <int w>
  static __device__ __forceinline__ void tiny_word(const Header& header, TinyPairs& pairs) {
    constexpr int kScale = -kTinyRest - kTinyExponent, kEight = 3 + kTinyExponent;
    constexpr int kPlace = Planes::template kTinyPlace<2 * w / kRowEntries>;
    constexpr int kNextPlace = Planes::template kTinyPlace<(2 * w + 1) / kRowEntries>;
    const auto scales = __hmul2(bfloat_pair(header.words[w]),
                                powers_of_two<kScale - kPlace, kScale - kNextPlace>());
    pairs.words[w] = bits_of(scales);
    pairs.addends[w] =
        bits_of(__hmul2(scales, minus_powers_of_two<kEight + kPlace, kEight + kNextPlace>()));
  }
  template <int kStep, int i>
  static __device__ __forceinline__ uint32_t tiny_weights(const typename Planes::Codes& codes,
                                                          const TinyPairs& pairs) {
    constexpr int kEntry = i % 2 * kRowEntries + kStep * kRowEntries / 4;
    uint32_t low, high;
    Planes::template tiny_parts<kStep, i>(codes, low, high);
    if constexpr (kZeros) {
      constexpr int kExponent = kUnit - kTinyExponent - Planes::template kTinyPlace<i>;
      const __nv_bfloat162 code =
          __hfma2(bfloat_pair(low), powers_of_two<kExponent>(), bfloat_pair(pairs.words[kEntry]));
      return bits_of(
          __hfma2(code, bfloat_pair(pairs.scales[kEntry]), bfloat_pair(pairs.addends[kEntry])));
    } else {
      return bits_of(__hfma2(bfloat_pair(low),
                             twice<__nv_bfloat16, kEntry % 2>(pairs.words[kEntry / 2]),
                             twice<__nv_bfloat16, kEntry % 2>(pairs.addends[kEntry / 2])));
    }
  }
};

}  // namespace ac4k
