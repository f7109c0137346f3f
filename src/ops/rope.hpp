// What the RoPE ops share: q and k as tokens of heads, for the CPU and for the GPU.
#pragma once

#include <algorithm>
#include <array>

#include "core/op.hpp"
#include "core/strided.hpp"
#include "cpu/rope.hpp"
#include "cuda/common/rope.h"
#include "cuda/common/rope_store_kvcache.h"
#include "ops/elementwise.hpp"

namespace ac4k {

// Few heads are at most kFewHeads: times such a stride, 32 bits hold their offsets.
inline constexpr int64_t kFewHeads = 1 << 12, kMostFewStride = 1 << 18;

// q, or q and k: [tokens..., heads, head_dim], the last dim contiguous, and where they go. Token
// dims that all of them can walk as one are merged.
class RopeTensors {
 public:
  RopeTensors(const DLTensor& q, const DLTensor& q_out) : RopeTensors(q, q_out, nullptr, nullptr) {}
  RopeTensors(const DLTensor& q, const DLTensor& q_out, const DLTensor* k, const DLTensor* k_out)
      : in_{&q, k}, out_{&q_out, k_out}, count_(k ? 2 : 1) {
    const auto leading = static_cast<size_t>(q.ndim) - 2;
    views_ =
        collapse<4>({q.shape, leading}, {strides_of(q), strides_of(q_out), strides_of(k ? *k : q),
                                         strides_of(k_out ? *k_out : q_out)});
    for (size_t d = 0; d < leading; ++d) num_tokens_ *= q.shape[d];
    if (views_.ndim == 0) {
      views_.ndim = 1;
      views_.shape[0] = 1;
    }
  }
  RopeTensors(const RopeTensors&) = delete;
  RopeTensors& operator=(const RopeTensors&) = delete;

  int64_t num_tokens() const { return num_tokens_; }
  int64_t head_dim() const { return in_[0]->shape[in_[0]->ndim - 1]; }
  int64_t num_heads() const {  // of all tokens
    return num_tokens_ * (num_heads(0) + (count_ > 1 ? num_heads(1) : 0));
  }
  // So small that latency is all there is: more threads are better than more work for each.
  bool is_small() const { return num_heads() <= kFewHeads; }

  cpu::RopeArgs cpu_args(DType type) const;
  // Everything but weights and what depends on the kernel's shape.
  RopeHeads cuda_heads() const;
  // The same for the kernel of few tokens; false where it is none of its cases.
  bool few_heads(FewRopeParams& params) const;
  // Whether the heads of a token lie in a row, in and out.
  bool heads_in_a_row() const;
  // Whether all heads begin at multiples of 16 bytes.
  bool allows_vectors(DType type) const;

 private:
  struct Strides {
    int64_t head;
    const int64_t* tokens;
  };
  Strides in_strides(size_t i) const {
    return {strides_of(*in_[i])[last_dim() - 1], views_.strides[2 * i].data()};
  }
  Strides out_strides(size_t i) const {
    return {strides_of(*out_[i])[last_dim() - 1], views_.strides[2 * i + 1].data()};
  }
  size_t last_dim() const { return static_cast<size_t>(in_[0]->ndim) - 1; }
  int64_t num_heads(size_t i) const { return in_[i]->shape[last_dim() - 1]; }

  std::array<const DLTensor*, 2> in_;
  std::array<const DLTensor*, 2> out_;
  size_t count_;
  int64_t num_tokens_ = 1;
  CollapsedViews<4> views_;  // q, its output, k, its output
};

// How a kernel shares heads out over threads.
struct RopeShape {
  int64_t num_slots;  // threads a head asks for
  int64_t heads_a_thread;
  bool vectors;                    // 16 bytes at a time; otherwise element by element
  int64_t threads = kRopeThreads;  // of a block
};
inline RopeHeads& rope_heads(RopeParams& params) { return params.heads; }
inline RopeHeads& rope_heads(Rope3dParams& params) { return params.heads; }
inline RopeHeads& rope_heads(RopeStoreParams& params) { return params.rope.heads; }

// Completes the heads of params and launches. `width`: threads side by side, 0 for as many as
// slots; `more_heads`: others that the kernel handles, too.
template <typename Params>
Status launch_rope(cuda::Kernel& kernel, const Call& call, const RopeShape& shape, Params params,
                   int64_t width = 0, int64_t more_heads = 0) {
  RopeHeads& heads = rope_heads(params);
  heads.num_slots = static_cast<int>(shape.num_slots);
  heads.heads_a_group = static_cast<int>(shape.heads_a_thread);
  int64_t num_groups = ceil_div(more_heads, shape.heads_a_thread);
  for (RopeTensor& tensor : heads.tensors) {
    tensor.num_groups = static_cast<int>(ceil_div(tensor.num_heads, shape.heads_a_thread));
    num_groups += tensor.num_groups;
  }
  heads.num_items = heads.num_tokens * num_groups;
  if (heads.num_items == 0 || shape.num_slots == 0) return AC4K_OK;
  heads.num_groups = fast_divisor(static_cast<uint32_t>(num_groups));
  if (width == 0) width = std::min<int64_t>(shape.num_slots, shape.vectors ? shape.threads : 32);
  const int64_t height = shape.threads / width;
  return launch_1d(kernel, call, ceil_div(heads.num_items, height),
                   cuda::Dim3{static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1},
                   params);
}

// Few heads, `num_heads` of a token with as many slots each (rotate_few of rope.cuh).
template <typename Params>
Status launch_few_heads(cuda::Kernel& kernel, const Call& call, int64_t num_slots,
                        int64_t num_heads, const Params& params) {
  const FewRopeParams& rope = params;
  if (rope.num_tokens == 0 || num_heads == 0 || num_slots == 0) return AC4K_OK;
  const int64_t height = kRopeTableThreads / num_slots;
  const cuda::LaunchConfig config{
      .grid = {static_cast<uint32_t>(ceil_div(num_heads, height)),
               static_cast<uint32_t>(rope.num_tokens), 1},
      .block = {static_cast<uint32_t>(num_slots), static_cast<uint32_t>(height), 1},
      .dependent = cuda::dependent_launch()};
  return cuda::launch(kernel, config, call.device.device_id, call.stream, params);
}

// The vector kernels of rope: a thread's pairs are a vector of both elements, or two halves of one
// with the first and with the second elements (neox). `vector` counts elements, R of the D elements
// are rotated.
inline RopeShape vector_shape(int64_t D, int64_t vector) { return {D / vector, 4, true}; }
inline bool rotates_whole_vectors(int64_t R, int64_t D, int64_t vector) {
  return R % vector == 0 && D % vector == 0;
}
Status check_rotary_dim(const Call& call, int64_t R, int64_t D);
// GPU kernels count positions in 32 bits.
Status check_num_positions(const Call& call, int64_t P);

// Whether `num_slots` threads and 32-bit indices are enough, as the vector kernels need.
bool fits_vector_kernel(const RopeTensors& tensors, int64_t num_slots);

// The row of f32, f16 and bf16 in a table of kernels.
inline size_t rope_type_index(DType type) {
  return type == DType::f32 ? 0 : type == DType::f16 ? 1 : 2;
}

inline cpu::Integers integers_of(const DLTensor& tensor, DType type) {
  return {data_of(tensor), type == DType::i64};
}

}  // namespace ac4k
