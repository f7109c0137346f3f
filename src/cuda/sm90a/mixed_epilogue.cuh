// What becomes of a sum of products: activation(alpha * sum + bias) + residual.
#pragma once

#include "common/activations.cuh"
#include "sm90a/mixed.h"

namespace ac4k {

template <typename T>
__device__ __forceinline__ float finish(const MixedParams& params, int token, int feature,
                                        float sum) {
  float value = sum * params.alpha;
  if (params.bias != nullptr) value += widen(static_cast<const T*>(params.bias)[feature]);
  switch (params.activation) {
    case MixedActivation::none:
      break;
    case MixedActivation::silu:
      value = silu(value);
      break;
    case MixedActivation::gelu:
      value = gelu<T, false>(value);
      break;
    case MixedActivation::gelu_tanh:
      value = gelu<T, true>(value);
      break;
  }
  if (params.residual != nullptr) {
    value += widen(static_cast<const T*>(params.residual)[token * params.out_stride + feature]);
  }
  return value;
}

}  // namespace ac4k
