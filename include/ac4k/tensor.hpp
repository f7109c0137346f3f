// Views and errors for C++: what the functions of ops.hpp take and throw.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "ac4k.h"

namespace ac4k {

// What a failed call throws; code() tells a wrong argument from a missing kernel.
class Error : public std::runtime_error {
 public:
  Error(ac4k_status code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ac4k_status code() const { return code_; }

 private:
  ac4k_status code_;
};

inline void check(ac4k_status status) {
  if (status != AC4K_OK) throw Error(status, ac4k_last_error());
}

// DLPack's words for C++ element types; specialise it for types of your own (half, bfloat16).
template <typename T>
struct DLType;
template <>
struct DLType<float> {
  static constexpr DLDataType value = {kDLFloat, 32, 1};
};
template <>
struct DLType<double> {
  static constexpr DLDataType value = {kDLFloat, 64, 1};
};
template <>
struct DLType<uint8_t> {
  static constexpr DLDataType value = {kDLUInt, 8, 1};
};
template <>
struct DLType<int8_t> {
  static constexpr DLDataType value = {kDLInt, 8, 1};
};
template <>
struct DLType<int32_t> {
  static constexpr DLDataType value = {kDLInt, 32, 1};
};
template <>
struct DLType<int64_t> {
  static constexpr DLDataType value = {kDLInt, 64, 1};
};

// Memory somebody else owns, with a shape. Contiguous unless strides are given (in elements).
class TensorView {
 public:
  TensorView(void* data, DLDataType dtype, std::vector<int64_t> shape,
             DLDevice device = {kDLCPU, 0}, std::vector<int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    tensor_.data = data;
    tensor_.device = device;
    tensor_.ndim = static_cast<int32_t>(shape_.size());
    tensor_.dtype = dtype;
    tensor_.byte_offset = 0;
  }
  template <typename T>
  TensorView(T* data, std::vector<int64_t> shape, DLDevice device = {kDLCPU, 0},
             std::vector<int64_t> strides = {})
      : TensorView(const_cast<std::remove_const_t<T>*>(data), DLType<std::remove_const_t<T>>::value,
                   std::move(shape), device, std::move(strides)) {}

  const DLTensor* get() const {
    tensor_.shape = const_cast<int64_t*>(shape_.data());
    tensor_.strides = strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data());
    return &tensor_;
  }

 private:
  mutable DLTensor tensor_{};
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
};

}  // namespace ac4k
