// Codes of packed weights as 16-bit weights, in the fragments of a matrix product.
#pragma once

#include "sm90a/packed_formats.cuh"

namespace ac4k {

// scale * integer + offset for the rows r (0) and r + 8 (1) of a group, as if rounded once.
template <typename T, bool kHasOffset>
struct RowFactors;

template <bool kHasOffset>
struct RowFactors<__half, kHasOffset> {
  __half2 scales, offsets;  // of the two rows

  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float offset_0,
                                        float offset_1)
      : scales(__floats2half2_rn(scale_0, scale_1)) {
    if constexpr (kHasOffset) offsets = __floats2half2_rn(offset_0, offset_1);
  }
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const __half2 pair = *reinterpret_cast<const __half2*>(&integers);
    const __half2 scale = kRow ? __high2half2(scales) : __low2half2(scales);
    __half2 result;
    if constexpr (kHasOffset) {
      result = __hfma2(pair, scale, kRow ? __high2half2(offsets) : __low2half2(offsets));
    } else {
      result = __hmul2(pair, scale);
    }
    return *reinterpret_cast<const uint32_t*>(&result);
  }
};

// The scale comes in two parts: the small product with the second is added to the product with the
// first as that is rounded.
template <>
struct RowFactors<__nv_bfloat16, false> {
  __nv_bfloat162 first, rest;

  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float, float) {
    const uint32_t bits_0 = __float_as_uint(scale_0), bits_1 = __float_as_uint(scale_1);
    const float rest_0 = scale_0 - __uint_as_float(bits_0 & 0xffff0000u);
    const float rest_1 = scale_1 - __uint_as_float(bits_1 & 0xffff0000u);
    first = upper_halves(bits_0, bits_1);
    rest = upper_halves(__float_as_uint(rest_0), __float_as_uint(rest_1));
  }
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const __nv_bfloat162 pair = *reinterpret_cast<const __nv_bfloat162*>(&integers);
    const __nv_bfloat162 large = kRow ? __high2bfloat162(first) : __low2bfloat162(first);
    const __nv_bfloat162 small = kRow ? __high2bfloat162(rest) : __low2bfloat162(rest);
    const __nv_bfloat162 result = __hfma2(pair, large, __hmul2(pair, small));
    return *reinterpret_cast<const uint32_t*>(&result);
  }

 private:
  static __device__ __forceinline__ __nv_bfloat162 upper_halves(uint32_t low, uint32_t high) {
    const uint32_t both = __byte_perm(low, high, 0x7632);
    return *reinterpret_cast<const __nv_bfloat162*>(&both);
  }
};

template <>
struct RowFactors<__nv_bfloat16, true> {
  float scales[2], offsets[2];

  __device__ __forceinline__ RowFactors(float scale_0, float scale_1, float offset_0,
                                        float offset_1)
      : scales{scale_0, scale_1}, offsets{offset_0, offset_1} {}
  template <int kRow>
  __device__ __forceinline__ uint32_t weights(uint32_t integers) const {
    const float low = __uint_as_float(integers << 16);
    const float high = __uint_as_float(integers & 0xffff0000u);
    const __nv_bfloat162 result = __floats2bfloat162_rn(
        __fmaf_rn(low, scales[kRow], offsets[kRow]), __fmaf_rn(high, scales[kRow], offsets[kRow]));
    return *reinterpret_cast<const uint32_t*>(&result);
  }
};

// Sub-block j on its way: the weights of one step after another, so that a product can take the
// first while the next are made. Formats with scales of type T multiply by them as they are.
template <typename Format, typename T, int j>
class SubBlockWeights {
 public:
  __device__ __forceinline__ SubBlockWeights(uint32_t block, const typename Format::Header& header,
                                             int thread)
      : codes_(Format::Planes::load(block, j, thread)), scales_(scales_of(header)) {}

  template <int kStep>
  __device__ __forceinline__ void make(uint32_t (&a)[4]) const {
    Format::Planes::template fragment<T, kStep>(codes_, a);
    if constexpr (kScalesInT) {
      Format::template scale_step<kStep>(scales_, a);
    } else {
      constexpr int g = kStep * Format::kGroups / 4, o = Format::kHasOffsets ? g : 0;
      const RowFactors<T, Format::kHasOffsets> factors(scales_.scale[0][g], scales_.scale[1][g],
                                                       scales_.offset[0][o], scales_.offset[1][o]);
      a[0] = factors.template weights<0>(a[0]);
      a[1] = factors.template weights<1>(a[1]);
      a[2] = factors.template weights<0>(a[2]);
      a[3] = factors.template weights<1>(a[3]);
    }
  }

 private:
  static constexpr bool kScalesInT = requires { Format::kScalesInT; };
  static __device__ __forceinline__ auto scales_of(const typename Format::Header& header) {
    if constexpr (kScalesInT) {
      return Format::pairs(header);
    } else {
      return Format::template scales<j>(header);
    }
  }

  typename Format::Planes::Codes codes_;
  decltype(scales_of(typename Format::Header{})) scales_;
};

}  // namespace ac4k
