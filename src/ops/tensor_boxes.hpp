// Descriptions of boxes, as kernels take them.
#pragma once

#include <cstring>

#include "cuda/driver/tensor_map.hpp"
#include "cuda/sm90a/tensor_map.h"

namespace ac4k {

inline Status describe_boxes(const cuda::TensorMapSpec& spec, TensorMap* boxes) {
  static_assert(sizeof(TensorMap) == sizeof(cuda::CUtensorMap));
  cuda::CUtensorMap encoded;
  AC4K_TRY(cuda::make_tensor_map(&encoded, spec));
  std::memcpy(boxes, &encoded, sizeof(encoded));
  return AC4K_OK;
}

}  // namespace ac4k
