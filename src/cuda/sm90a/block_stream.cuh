// Raw GGUF weights times q8_1 activations, both by tensor copies: with few tokens two fifths of the
// instructions of threads that copy are for that.
#pragma once

#include "common/block_product.cuh"
#include "sm90a/block_stream.h"
#include "sm90a/bulk_copy.cuh"

namespace ac4k {

// One thread copies; a barrier a stage counts weights and tokens.
template <typename Format, int kIndex>
class BoxCopies {
  using Layout = BlockProductLayout<Format, kIndex>;
  static_assert(8 * kMaxBlockProductStages <= kStreamBarrierBytes);
  static_assert(Layout::kTokensAt % 128 == 0 && Layout::kStageBytes % 128 == 0);

 public:
  static constexpr int kSharedBytes = kStreamBarrierBytes;

  __device__ __forceinline__ BoxCopies(const BlockStreamParams& params,
                                       const BlockProductShare& share, unsigned char* barriers)
      : params_(params),
        share_(share),
        full_(shared_address(barriers)),
        ring_(full_ + kStreamBarrierBytes) {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int s = 0; s < kMaxBlockProductStages; ++s) init_barrier(full_ + 8 * s, 2);
      publish_barriers();
    }
  }
  __device__ __forceinline__ void copy_weights(int stage, int step) const {
    copy<Layout::kWeightSegment>(0, params_.weight_boxes, share_.first_row, Layout::kTokensAt,
                                 stage, step);
  }
  __device__ __forceinline__ void copy_tokens(int stage, int step) const {
    copy<Layout::kTokenSegment>(Layout::kTokensAt, params_.token_boxes, share_.first_token,
                                params_.box_tokens * Layout::kTokenStride, stage, step);
  }
  __device__ __forceinline__ void close_step() const {}
  __device__ __forceinline__ void begin_step() const { __syncthreads(); }
  __device__ __forceinline__ void wait_for_step(int stage, uint32_t parity) const {
    wait_for(full_ + 8 * stage, parity);
  }

 private:
  template <int kSegment>
  __device__ __forceinline__ void copy(int at, const TensorMap& boxes, int row, uint32_t bytes,
                                       int stage, int step) const {
    if (threadIdx.x != 0) return;
    arrive_and_expect(full_ + 8 * stage, bytes);
    copy_box(ring_ + stage * Layout::kStageBytes + at, boxes,
             (share_.first_step + step) * (kSegment / kStreamElementBytes), row, full_ + 8 * stage);
  }

  const BlockStreamParams& params_;
  const BlockProductShare share_;
  uint32_t full_, ring_;  // addresses
};

}  // namespace ac4k

#define AC4K_BLOCK_STREAM(Format, index)                                                           \
  extern "C" __global__ void                                                                       \
      __launch_bounds__(ac4k::kBlockProductThreads, ac4k::kBlockProductTiles[index].blocks_per_sm) \
      multiply_##index(const __grid_constant__ ac4k::BlockStreamParams params) {                   \
    ac4k::multiply_blocks<ac4k::Blocks##Format, index,                                             \
                          ac4k::BoxCopies<ac4k::Blocks##Format, index>>(params);                   \
  }
#define AC4K_BLOCK_STREAMS(Format) \
  AC4K_BLOCK_STREAM(Format, 0)     \
  AC4K_BLOCK_STREAM(Format, 1)     \
  AC4K_BLOCK_STREAM(Format, 2)     \
  AC4K_BLOCK_STREAM(Format, 3)     \
  AC4K_BLOCK_STREAM(Format, 4)     \
  AC4K_BLOCK_STREAM(Format, 5)
