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

// Neighbouring features, all at a time where params.aligned_out allows it.
template <typename T, int kCount>
__device__ __forceinline__ void write_features(const MixedParams& params, int token, int feature,
                                               float (&values)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  using Features = Vector<T, kBytes>;
  const int count = params.num_features - feature;
  if (count <= 0) return;
  const auto add = [&](const void* numbers, long long place) {
    const T* from = static_cast<const T*>(numbers) + place;
    Features added{};
    if (params.aligned_out) {
      added = *reinterpret_cast<const Features*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (i < count) added.values[i] = from[i];
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] += widen(added.values[i]);
  };
  const long long place = token * params.out_stride + feature;
#pragma unroll
  for (float& value : values) value *= params.alpha;
  if (params.bias != nullptr) add(params.bias, feature);
  activate<T>(params.activation, values);
  if (params.residual != nullptr) add(params.residual, place);
  T* out = static_cast<T*>(params.out) + place;
  Features rounded;
#pragma unroll
  for (int i = 0; i < kCount; ++i) rounded.values[i] = narrow<T>(values[i]);
  if (params.aligned_out) {
    *reinterpret_cast<Features*>(out) = rounded;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) out[i] = rounded.values[i];
    }
  }
}

}  // namespace ac4k
