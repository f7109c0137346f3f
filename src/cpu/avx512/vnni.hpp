// Products of bytes at the avx512 level, on CPUs with VNNI: four of them into a 32-bit sum.
// Activations come as high and low bytes.
#pragma once

#include "cpu/avx512/simd.hpp"

namespace ac4k::cpu::avx512 {
namespace {

struct Vnni {
  static AC4K_INLINE void store_planes(const int16_t (&x)[64], int8_t* planes) {
    for (int i = 0; i < 64; ++i) {
      const int high = (x[i] + 128) >> 8;
      planes[i] = static_cast<int8_t>(high);
      planes[64 + i] = static_cast<int8_t>(x[i] - 256 * high);
    }
  }
  struct Sum {
    __m512i high = _mm512_setzero_si512(), low = _mm512_setzero_si512();
  };
  static AC4K_INLINE void add(__m512i codes, const int8_t* planes, Sum& sum) {
    sum.high = _mm512_dpbusd_epi32(sum.high, codes, _mm512_loadu_si512(planes));
    sum.low = _mm512_dpbusd_epi32(sum.low, codes, _mm512_loadu_si512(planes + 64));
  }
  static AC4K_INLINE __m512i total(const Sum& sum) {
    return _mm512_add_epi32(_mm512_slli_epi32(sum.high, 8), sum.low);
  }
  static AC4K_INLINE __m512i dot(__m512i codes, const int8_t* planes) {
    const __m512i high =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, _mm512_loadu_si512(planes));
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(high, 8), codes, _mm512_loadu_si512(planes + 64));
  }
};

}  // namespace
}  // namespace ac4k::cpu::avx512
