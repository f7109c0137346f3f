// What becomes of sums of products: activation(alpha * sum + bias) + residual.
#pragma once

#include "common/activations.cuh"
#include "sm90a/mixed.h"

namespace ac4k {

// One decision for all of them: a branch takes longer than the sums of a thread.
template <typename T, int kCount>
__device__ __forceinline__ void activate(MixedActivation activation, float (&values)[kCount]) {
  switch (activation) {
    case MixedActivation::none:
      break;
    case MixedActivation::silu:
#pragma unroll
      for (float& value : values) value = silu(value);
      break;
    case MixedActivation::gelu:
#pragma unroll
      for (float& value : values) value = gelu<T, false>(value);
      break;
    case MixedActivation::gelu_tanh:
#pragma unroll
      for (float& value : values) value = gelu<T, true>(value);
      break;
  }
}

template <typename T>
__device__ __forceinline__ void write_feature(const MixedParams& params, int token, int feature,
                                              float sum) {
  const long long place = token * params.out_stride + feature;
  float value[1] = {sum * params.alpha};
  if (params.bias != nullptr) value[0] += widen(static_cast<const T*>(params.bias)[feature]);
  activate<T>(params.activation, value);
  if (params.residual != nullptr) {
    value[0] += widen(static_cast<const T*>(params.residual)[place]);
  }
  static_cast<T*>(params.out)[place] = narrow<T>(value[0]);
}

// Eight neighbouring features, 16 bytes at a time where params.aligned_out allows it.
template <typename T>
__device__ __forceinline__ void write_features(const MixedParams& params, int token, int feature,
                                               float (&values)[8]) {
  const int count = params.num_features - feature;
  if (count <= 0) return;
  const auto add = [&](const void* numbers, long long place) {
    const T* from = static_cast<const T*>(numbers) + place;
    Vector<T> eight{};
    if (params.aligned_out) {
      eight = *reinterpret_cast<const Vector<T>*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i < count) eight.values[i] = from[i];
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] += widen(eight.values[i]);
  };
  const long long place = token * params.out_stride + feature;
#pragma unroll
  for (float& value : values) value *= params.alpha;
  if (params.bias != nullptr) add(params.bias, feature);
  activate<T>(params.activation, values);
  if (params.residual != nullptr) add(params.residual, place);
  T* out = static_cast<T*>(params.out) + place;
  Vector<T> rounded;
#pragma unroll
  for (int i = 0; i < 8; ++i) rounded.values[i] = narrow<T>(values[i]);
  if (params.aligned_out) {
    *reinterpret_cast<Vector<T>*>(out) = rounded;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) out[i] = rounded.values[i];
    }
  }
}

}  // namespace ac4k
