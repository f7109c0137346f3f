// Descriptors for the tensor memory accelerator (compute capability 9.0 and later).
#pragma once

#include <array>
#include <cstdint>

#include "core/status.hpp"
#include "cuda/driver/driver.hpp"

namespace ac4k::cuda {

inline constexpr uint32_t kMaxTensorMapRank = 5;

// A tensor in global memory and the box a copy moves. Dimension 0 is the innermost and contiguous.
struct TensorMapSpec {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  const void* address = nullptr;
  uint32_t rank = 0;
  std::array<uint64_t, kMaxTensorMapRank> dims = {};         // elements
  std::array<uint64_t, kMaxTensorMapRank - 1> strides = {};  // bytes, of dimensions 1 and up
  std::array<uint32_t, kMaxTensorMapRank> box = {};          // elements
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

// Bytes of one element; 0 for a type this library does not use.
uint32_t size_of(CUtensorMapDataType type);

// The driver's rules, each with a message of its own: the driver only says INVALID_VALUE.
Status check_tensor_map(const TensorMapSpec& spec);
Status make_tensor_map(CUtensorMap* map, const TensorMapSpec& spec);

}  // namespace ac4k::cuda
