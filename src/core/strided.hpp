// Views with any strides over one index space: dims that can be walked as one are merged.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/op.hpp"

namespace ac4k {

template <size_t kOperands>
struct CollapsedViews {
  int ndim = 0;
  std::array<int64_t, AC4K_MAX_DIMS> shape{};
  std::array<std::array<int64_t, AC4K_MAX_DIMS>, kOperands> strides{};
};

// Strides of a view in elements, also where DLPack leaves them out.
inline std::array<int64_t, AC4K_MAX_DIMS> strides_of(const DLTensor& tensor) {
  std::array<int64_t, AC4K_MAX_DIMS> strides{};
  int64_t next = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = tensor.strides ? tensor.strides[i] : next;
    next *= tensor.shape[i];
  }
  return strides;
}

// All operands have the shape of `shape`; the order of elements is kept.
template <size_t kOperands>
CollapsedViews<kOperands> collapse(
    std::span<const int64_t> shape,
    const std::array<std::array<int64_t, AC4K_MAX_DIMS>, kOperands>& strides) {
  CollapsedViews<kOperands> views;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const auto last = static_cast<size_t>(views.ndim) - 1;
    bool merges = views.ndim > 0;
    for (size_t i = 0; merges && i < kOperands; ++i) {
      merges = views.strides[i][last] == strides[i][d] * shape[d];
    }
    const size_t target = merges ? last : static_cast<size_t>(views.ndim++);
    views.shape[target] = merges ? views.shape[last] * shape[d] : shape[d];
    for (size_t i = 0; i < kOperands; ++i) views.strides[i][target] = strides[i][d];
  }
  return views;
}

}  // namespace ac4k
