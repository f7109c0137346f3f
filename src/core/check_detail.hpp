// What the checks of inputs and of outputs share.
#pragma once

#include <bit>
#include <string>

#include "core/op.hpp"

namespace ac4k::check {

constexpr int kOutput = -1;  // the index errors know outputs by

// Texts: only for errors, so they may take their time.

inline const char* name_of(const Op& op, int index) {
  return index == kOutput ? "out" : op.signature.params[static_cast<size_t>(index)].name.c_str();
}

template <typename... Parts>
[[gnu::cold, gnu::noinline]] Status argument_error(Status code, const Op& op, int index,
                                                   const Parts&... parts) {
  return fail(code, op.signature.name, ": argument '", name_of(op, index), "': ", parts...);
}

inline std::string shape_text(const DLTensor& tensor) {
  return ac4k::shape_text(tensor.ndim, tensor.shape);
}

inline std::string device_text(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
      return "cpu";
    case kDLCUDA:
      return "cuda:" + std::to_string(device.device_id);
    case kDLROCM:
      return "rocm:" + std::to_string(device.device_id);
    case kDLExtDev:
      return "another device";
    default:
      return "DLPack device type " + std::to_string(device.device_type);
  }
}

// Checks: on every call's path.

inline bool same(DLDevice a, DLDevice b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Pinned memory is CPU memory, managed memory belongs to the GPU that is asked to use it.
inline DLDevice normalised(DLDevice device) {
  if (device.device_type == kDLCUDA) return device;
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost:
      return {kDLCPU, 0};
    case kDLCUDAManaged:
      return {kDLCUDA, device.device_id};
    default:
      return device;
  }
}

[[gnu::cold, gnu::noinline]] inline void view_error(const Op& op, int index, const DLTensor& tensor,
                                                    Layout layout, bool overflow) {
  const auto size = static_cast<uintptr_t>((tensor.dtype.bits + 7) / 8);
  const auto misaligned = reinterpret_cast<uintptr_t>(data_of(tensor)) % size;
  if (tensor.ndim < 0 || tensor.ndim > AC4K_MAX_DIMS) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected at most ", AC4K_MAX_DIMS,
                         " dimensions, got ", tensor.ndim);
  } else if (tensor.ndim != 0 && tensor.shape == nullptr) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected a shape, got a null pointer");
  } else if (overflow) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index,
                         "expected fewer than 2^63 bytes, got shape ", shape_text(tensor));
  } else if (tensor.data == nullptr) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected data, got a null pointer");
  } else if (misaligned != 0) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected data aligned to ", size,
                         " bytes, got address modulo ", size, " = ", misaligned);
  } else {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected a contiguous ",
                         layout == Layout::row_strided ? "last dim" : "tensor", ", got shape ",
                         shape_text(tensor), " with strides ",
                         ac4k::shape_text(tensor.ndim, tensor.strides));
  }
}

// Whether a tensor of at least one element lies in memory as asked.
inline bool lies_as(const DLTensor& tensor, Layout layout) {
  if (layout == Layout::strided) return true;
  if (is_contiguous(tensor)) [[likely]]
    return true;
  const int last = tensor.ndim - 1;
  return layout == Layout::row_strided && (tensor.shape[last] == 1 || tensor.strides[last] == 1);
}

// What every tensor must be, whatever the op. Gives the number of elements, or -1 after an error.
[[gnu::always_inline]] inline int64_t check_view(const Op& op, int index, const DLTensor& tensor,
                                                 Layout layout) {
  if (static_cast<uint32_t>(tensor.ndim) > AC4K_MAX_DIMS ||
      (tensor.shape == nullptr && tensor.ndim != 0)) [[unlikely]] {
    view_error(op, index, tensor, layout, false);
    return -1;
  }
  const int64_t size = (tensor.dtype.bits + 7) / 8;
  int64_t elements = 1;
  bool overflow = false, empty = false;
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t extent = tensor.shape[i];
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(elements, extent, &elements) || extent < 0;
  }
  if (empty) return 0;
  int64_t bytes;
  overflow |= __builtin_mul_overflow(elements, size, &bytes);
  // Sizes of elements are powers of two.
  const auto misaligned =
      reinterpret_cast<uintptr_t>(data_of(tensor)) & static_cast<uintptr_t>(size - 1);
  if (overflow || tensor.data == nullptr || misaligned != 0 || !lies_as(tensor, layout))
      [[unlikely]] {
    view_error(op, index, tensor, layout, overflow);
    return -1;
  }
  return elements;
}

// No two elements of what will be written may be one.
Status check_writable_view(const Op& op, int index, const DLTensor& tensor);
// What an op writes into lies apart from its other arguments.
Status check_mutable_apart(const Call& call);

}  // namespace ac4k::check
