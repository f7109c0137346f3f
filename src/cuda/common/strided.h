// Views with any strides, as host and device both see them.
#pragma once

namespace ac4k {

inline constexpr int kMaxStridedDims = 8;

// `kOperands` inputs over one index space; the output is contiguous. Strides count elements.
template <int kOperands>
struct StridedParams {
  void* out;
  const void* data[kOperands];
  long long num_elements;
  int ndim;
  long long shape[kMaxStridedDims];
  long long strides[kOperands][kMaxStridedDims];
};

}  // namespace ac4k
