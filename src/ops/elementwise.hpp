// What the launchers of elementwise ops share.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "core/op.hpp"
#include "core/strided.hpp"
#include "cpu/kernels.hpp"
#include "cuda/common/fast_divisor.h"
#include "cuda/common/half_vectors.h"
#include "cuda/common/strided.h"
#include "cuda/driver/launch.hpp"

namespace ac4k {

inline constexpr int64_t kVectorBytes = 16;  // the widest load of one GPU thread

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline FastDivisor fast_divisor(uint32_t divisor) {
  const auto shift = static_cast<uint32_t>(std::bit_width(divisor - 1));  // ceil(log2)
  const uint64_t excess = (uint64_t{1} << shift) - divisor;
  return {divisor, static_cast<uint32_t>((excess << 32) / divisor + 1), shift};
}

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kVectorBytes == 0;
}
template <typename... Tensors>
bool all_aligned(const Tensors&... tensors) {
  return (is_aligned(data_of(tensors)) && ...);
}

// A DLTensor as the CPU kernels take it.
class CpuView : public cpu::View {
 public:
  explicit CpuView(const DLTensor& tensor)
      : cpu::View{data_of(tensor), tensor.ndim, tensor.shape, nullptr},
        strides_(strides_of(tensor)) {
    strides = strides_.data();
  }
  CpuView(const CpuView&) = delete;
  CpuView& operator=(const CpuView&) = delete;

 private:
  std::array<int64_t, AC4K_MAX_DIMS> strides_;
};

// A launch with blocks in a row; too many of them is the caller's mistake to hear about.
template <typename Params>
Status launch_1d(cuda::Kernel& kernel, const Call& call, int64_t blocks, cuda::Dim3 block,
                 const Params& params, bool dependent = cuda::dependent_launch()) {
  constexpr int64_t kMaxBlocks = 0x7fffffff;
  if (blocks > kMaxBlocks) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected at most ", kMaxBlocks,
                " blocks of work, got ", blocks);
  }
  const cuda::LaunchConfig config{
      .grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = block, .dependent = dependent};
  return cuda::launch(kernel, config, call.device.device_id, call.stream, params);
}
template <typename Params>
Status launch_1d(cuda::Kernel& kernel, const Call& call, int64_t blocks, int threads,
                 const Params& params, bool dependent = cuda::dependent_launch()) {
  return launch_1d(kernel, call, blocks, cuda::Dim3{static_cast<uint32_t>(threads), 1, 1}, params,
                   dependent);
}

// The grid of a kernel that takes half vectors (cuda/common/half_vectors.h).
struct HalfVectorGrid {
  int64_t column_tiles, rows, batches;

  HalfVectorGrid(int64_t row_bytes, int64_t num_rows, int64_t num_batches = 1)
      : column_tiles(ceil_div(row_bytes, kHalfVectorBytes * kHalfVectorThreads)),
        rows(num_rows),
        batches(num_batches) {}

  // Kernels multiply strides of 32 bits.
  bool is_small(int64_t row_stride = 0) const {
    return row_stride >= 0 && row_stride <= INT32_MAX && column_tiles <= kHalfVectorBlocks &&
           rows <= kHalfVectorBlocks && batches <= kHalfVectorBlocks &&
           column_tiles * rows * batches <= kHalfVectorBlocks;
  }
};
template <typename Params>
Status launch_half_vectors(cuda::Kernel& kernel, const Call& call, const HalfVectorGrid& grid,
                           const Params& params) {
  const cuda::LaunchConfig config{
      .grid = {static_cast<uint32_t>(grid.column_tiles), static_cast<uint32_t>(grid.rows),
               static_cast<uint32_t>(grid.batches)},
      .block = {kHalfVectorThreads, 1, 1},
      .dependent = cuda::dependent_launch()};
  return cuda::launch(kernel, config, call.device.device_id, call.stream, params);
}

template <int kOperands>
StridedParams<kOperands> strided_params(
    const DLTensor& out, const std::array<const void*, kOperands>& data,
    const std::array<std::array<int64_t, AC4K_MAX_DIMS>, kOperands>& strides) {
  const auto views = collapse<kOperands>({out.shape, static_cast<size_t>(out.ndim)}, strides);
  StridedParams<kOperands> params{};
  params.out = data_of(out);
  params.num_elements = num_elements(out);
  params.ndim = views.ndim;
  for (size_t d = 0; d < AC4K_MAX_DIMS; ++d) params.shape[d] = views.shape[d];
  for (size_t i = 0; i < kOperands; ++i) {
    params.data[i] = data[i];
    for (size_t d = 0; d < AC4K_MAX_DIMS; ++d) params.strides[i][d] = views.strides[i][d];
  }
  return params;
}
template <int kOperands>
StridedParams<kOperands> strided_params(const DLTensor& out,
                                        const std::array<const DLTensor*, kOperands>& inputs) {
  std::array<const void*, kOperands> data{};
  std::array<std::array<int64_t, AC4K_MAX_DIMS>, kOperands> strides{};
  for (size_t i = 0; i < kOperands; ++i) {
    data[i] = data_of(*inputs[i]);
    strides[i] = strides_of(*inputs[i]);
  }
  return strided_params<kOperands>(out, data, strides);
}

}  // namespace ac4k
