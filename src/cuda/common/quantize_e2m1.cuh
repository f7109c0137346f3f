// Codes of four bits: units, and the blocks of NVFP4.
#pragma once

#include "common/quantize.cuh"

namespace ac4k {

__device__ __forceinline__ unsigned long long join(uint32_t low, uint32_t high) {
  return static_cast<unsigned long long>(high) << 32 | low;
}

template <typename T>
__device__ __forceinline__ uint32_t encode_e2m1(const Unit<T>& unit, float factor) {
  float x[kUnit];
  unit.widen(x);
#pragma unroll
  for (int i = 0; i < kUnit; ++i) x[i] = __fmul_rn(x[i], factor);
  return E2M1::encode8(x);
}

// A block of 16 with its scale.
struct Nvfp4Block {
  unsigned long long codes;
  unsigned char scale;
};
template <typename T>
__device__ __forceinline__ Nvfp4Block encode_nvfp4(const Unit<T> (&units)[2], float global_scale) {
  const float amax = fmaxf(units[0].amax(), units[1].amax());
  const BlockScale scale = nvfp4_block_scale(amax, global_scale);
  uint32_t low = encode_e2m1(units[0], scale.factor);
  uint32_t high = encode_e2m1(units[1], scale.factor);
  if (scale.factor == 0.0f) low = high = 0;
  return {join(low, high), static_cast<unsigned char>(scale.code)};
}

}  // namespace ac4k
