// The rules of cuTensorMapEncodeTiled, checked before it is called.
#include "cuda/driver/tensor_map.hpp"

namespace ac4k::cuda {
namespace {

constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint64_t kMaxStride = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256;
constexpr uint32_t kAlignment = 16;

uint32_t swizzle_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
  }
  return 0;
}

template <typename... Parts>
Status broken(const Parts&... parts) {
  return fail(AC4K_INVALID_VALUE, "tensor map: ", parts...);
}

bool is_float(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ||
         type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace

uint32_t size_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
  }
  return 0;
}

Status check_tensor_map(const TensorMapSpec& spec) {
  const uint32_t element = size_of(spec.type);
  if (element == 0) return broken("unknown element type ", static_cast<int>(spec.type));
  if (spec.rank < 1 || spec.rank > kMaxTensorMapRank) {
    return broken("rank must be 1 to ", kMaxTensorMapRank, ", got ", spec.rank);
  }
  if (spec.address == nullptr) return broken("the address is null");
  if (reinterpret_cast<uintptr_t>(spec.address) % kAlignment != 0) {
    return broken("the address must be a multiple of 16, got ", spec.address);
  }
  for (uint32_t i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] < 1 || spec.dims[i] > kMaxDim) {
      return broken("dimension ", i, " must be 1 to 2^32, got ", spec.dims[i]);
    }
    if (spec.box[i] < 1 || spec.box[i] > kMaxBox) {
      return broken("box size ", i, " must be 1 to 256, got ", spec.box[i]);
    }
  }
  for (uint32_t i = 0; i + 1 < spec.rank; ++i) {
    const uint64_t stride = spec.strides[i];
    if (stride % kAlignment != 0 || stride >= kMaxStride) {
      return broken("the stride of dimension ", i + 1,
                    " must be a multiple of 16 bytes below 2^40, got ", stride);
    }
  }
  const uint32_t box_bytes = spec.box[0] * element;
  if (box_bytes % kAlignment != 0) {
    return broken("the innermost box must be a multiple of 16 bytes, got ", spec.box[0], " x ",
                  element, " = ", box_bytes);
  }
  const uint32_t span = swizzle_bytes(spec.swizzle);
  if (spec.swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && box_bytes > span) {
    return broken("the innermost box must be at most ", span, " bytes, the swizzle's span, got ",
                  box_bytes);
  }
  if (spec.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !is_float(spec.type)) {
    return broken("only floating-point elements can be filled with NaN");
  }
  return AC4K_OK;
}

Status make_tensor_map(CUtensorMap* map, const TensorMapSpec& spec) {
  AC4K_TRY(check_tensor_map(spec));
  if (reinterpret_cast<uintptr_t>(map) % alignof(CUtensorMap) != 0) {
    return broken("the descriptor itself must be aligned to 64 bytes");
  }
  const Driver* api = nullptr;
  AC4K_TRY(require_driver(&api));
  constexpr uint32_t kElementStrides[kMaxTensorMapRank] = {1, 1, 1, 1, 1};
  AC4K_CUDA_TRY(*api, cuTensorMapEncodeTiled, map, spec.type, spec.rank,
                const_cast<void*>(spec.address), spec.dims.data(), spec.strides.data(),
                spec.box.data(), kElementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE, spec.swizzle,
                spec.l2_promotion, spec.fill);
  return AC4K_OK;
}

}  // namespace ac4k::cuda
