// MXFP4 and NVFP4 as policies of the mixed-input engine (packed_formats.cuh says what that is).
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

// The weights of a step of 16 columns, where factors.weights<step, row> multiplies a pair.
template <typename Planes, typename T, int kStep, typename Factors>
__device__ __forceinline__ void make_exact(const typename Planes::Codes& codes,
                                           const Factors& factors, uint32_t (&a)[4]) {
  Planes::template small_fragment<T, kStep>(codes, a);
  a[0] = factors.template weights<kStep, 0>(a[0]);
  a[1] = factors.template weights<kStep, 1>(a[1]);
  a[2] = factors.template weights<kStep, 0>(a[2]);
  a[3] = factors.template weights<kStep, 1>(a[3]);
}

// Codes of e2m1 with powers of two for 32 columns as scales, one byte each.
struct MXFP4 {
  using Planes = E2M1Planes<1>;
  static constexpr int kSubBlocks = 1, kGroups = 2;
  static constexpr bool kHasOffsets = false;
  static constexpr int kBytes = Planes::kBytes + 32 * 4;
  using Scales = GroupScales<kGroups, kHasOffsets>;
  struct Header {
    uint32_t word;
  };
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    return {load_shared_4(block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * 4)};
  }
  // Halved, as integers are twice the values of their codes.
  template <int j>
  static __device__ __forceinline__ Scales scales(const Header& header) {
    Scales scales;
    scales.scale[0][0] = halved_power<0>(header.word);
    scales.scale[0][1] = halved_power<1>(header.word);
    scales.scale[1][0] = halved_power<2>(header.word);
    scales.scale[1][1] = halved_power<3>(header.word);
    return scales;
  }

  // bfloat16 has the exponents of scales and of weights.
  template <typename T>
    requires is_same<T, __nv_bfloat16>
  class ExactFactors {
   public:
    static constexpr float kSumFactor = 1.0f;

    __device__ __forceinline__ ExactFactors(const Header& header, int /*j*/) {
      constexpr uint32_t kExponents = 0x7f807f80u, kSmallest = 0x00400040u;  // 2^-127
      pairs_[0] = __vmaxu2(header.word << 7 & kExponents, kSmallest);
      pairs_[1] = __vmaxu2(header.word >> 1 & kExponents, kSmallest);
    }
    template <int kStep>
    __device__ __forceinline__ void make(const Planes::Codes& codes, uint32_t (&a)[4]) const {
      make_exact<Planes, T, kStep>(codes, *this, a);
    }

    template <int kStep, int kRow>
    __device__ __forceinline__ uint32_t weights(uint32_t small) const {
      const auto scale = twice<T, kRow>(pairs_[kStep / 2]);
      return bits_of(__hmul2(__hmul2(bfloat_pair(small), powers_of_two<126>()), scale));
    }

   private:
    uint32_t pairs_[2];  // [group]: rows r and r + 8
  };

 private:
  // Half of 2^(code - 127) for one byte of a word: the exponent of a float, but for code 0.
  template <int kByte>
  static __device__ __forceinline__ float halved_power(uint32_t codes) {
    const uint32_t bits = __byte_perm(codes, 0, kByte << 12 | 0x444) >> 1;
    return __uint_as_float(max(bits, 0x00400000u)) * 0.5f;
  }
};

// Scales of unsigned e4m3 for 16 columns. Six bits hold code times scale, so that weights are
// exact in T, by one multiplication: codes are too small by a power of two (packed_planes.cuh),
// scales as large as T has room for, and sums get the rest.
struct NVFP4 {
  using Planes = E2M1Planes<1>;
  static constexpr int kSubBlocks = 1, kGroups = 4;
  static constexpr bool kHasOffsets = false;
  static constexpr int kBytes = Planes::kBytes + 32 * 8;
  struct Header {
    uint32_t words[2];  // scales of row r, then of row r + 8
  };
  static __device__ __forceinline__ Header header(uint32_t block, int thread) {
    const uint2 v = load_shared_8(block + Planes::kBytes + static_cast<uint32_t>(thread / 4) * 8);
    Header header{{v.x, v.y}};
    // Without its sign 0xff is 480, as it should be; but 0x7f is zero.
    constexpr uint32_t kMagnitudes = 0x7f7f7f7fu, kOnes = 0x01010101u;
    const uint32_t carries = ((v.x & kMagnitudes) + kOnes) | ((v.y & kMagnitudes) + kOnes);
    if (__any_sync(0xffffffffu, (carries & 0x80808080u) != 0)) {
      // Hardly ever: the compiler shall not select where it can branch.
      asm volatile("" : "+r"(header.words[0]), "+r"(header.words[1]));
      for (uint32_t& codes : header.words) codes &= ~__vcmpeq4(codes, kMagnitudes);
    }
    return header;
  }

  template <typename T>
  class ExactFactors {
   public:
    static constexpr float kSumFactor = is_same<T, __half> ? 0x1p9f : 0x1p16f;

    __device__ __forceinline__ ExactFactors(const Header& header, int /*j*/) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t codes = header.words[row];
        pairs_[row][0] = scaled(codes << kUp & kMagnitudes);
        pairs_[row][1] = scaled(codes >> (8 - kUp) & kMagnitudes);
      }
    }
    template <int kStep>
    __device__ __forceinline__ void make(const Planes::Codes& codes, uint32_t (&a)[4]) const {
      make_exact<Planes, T, kStep>(codes, *this, a);
    }

    template <int kStep, int kRow>
    __device__ __forceinline__ uint32_t weights(uint32_t small) const {
      return bits_of(__hmul2(as_pair(small), twice<T, kStep / 2>(pairs_[kRow][kStep % 2])));
    }

   private:
    using Pair = typename PairOf<T>::type;
    // Seven bits of e4m3 are a number of T where exponent and mantissa meet its own: 2^-8 (half)
    // or 2^-120 of the scale, subnormal or not. kUp: how far that is from a byte's place.
    static constexpr int kUp = is_same<T, __half> ? 7 : 4;
    static constexpr uint32_t kMagnitudes = 0x007f007fu << kUp;

    static __device__ __forceinline__ Pair as_pair(uint32_t bits) {
      return *reinterpret_cast<const Pair*>(&bits);
    }
    // To 2^5 (half) or 2^110 times the scale.
    static __device__ __forceinline__ uint32_t scaled(uint32_t bits) {
      if constexpr (is_same<T, __half>) {
        return bits_of(__hmul2(as_pair(bits), __float2half2_rn(0x1p13f)));
      } else {
        const auto half_way = powers_of_two<115>();
        return bits_of(__hmul2(__hmul2(as_pair(bits), half_way), half_way));
      }
    }
    uint32_t pairs_[2][2];  // [row]: groups 0 and 2, groups 1 and 3
  };
};

}  // namespace ac4k
