// Few tokens of 16 bits: weights and tokens stream through a ring in shared memory, tokens by
// tensor copies.
//
// A block has one, two or four row tiles of 64 features and a share of K; the blocks of a cluster
// share the features and add up at the end.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mixed_product.cuh"
#include "sm90a/mixed_sums.cuh"

namespace ac4k {

template <typename Format, int kColumns, int kTiles>
struct FewLayout {
  static constexpr int kRowTiles = kTiles;
  static constexpr int kStageColumns = few_stage_columns(Format::kSubBlocks, kTiles);
  static constexpr int kStageBlocks = kStageColumns / (Format::kSubBlocks * kSubBlockK);
  static constexpr int kTileBytes = kStageBlocks * Format::kBytes;  // of a stage
  static constexpr int kStageBytes = kTiles * kTileBytes;
  static constexpr uint32_t kBoxBytes = kColumns * kSubBlockK * 2;
  static constexpr uint32_t kXBytes = kStageColumns / kSubBlockK * kBoxBytes;  // of a stage
  static constexpr int kGroups = few_groups(kColumns, kTiles, kPackedBlock<Format>);
  static constexpr uint32_t kPartialBytes = kGroups * kColumns * few_feature_stride(kTiles) * 4;

  uint32_t full, empty, all_received, partial, received, tokens, weights;  // addresses

  __device__ __forceinline__ FewLayout(uint32_t base, int stages)
      : full(base),
        empty(base + 8 * kFewMaxStages),
        all_received(base + 16 * kFewMaxStages),
        partial(base + kFewBarriers),
        received(partial + kPartialBytes),
        tokens(base + few_ring(kGroups, kColumns, kTiles)),
        weights(tokens + stages * kXBytes) {
    static_assert(16 * kFewMaxStages + 8 <= kFewBarriers);
  }
};

// A place in a ring of `stages`, and the parity of its present round.
struct FewPlace {
  int stage;
  uint32_t parity;

  __device__ __forceinline__ void advance(int by, int stages) {
    stage += by;
    if (stage >= stages) {
      stage -= stages;
      parity ^= 1;
    }
  }
};

// A lane's rows of the boxes of a stage, which are swizzled by 128 bytes and one after another:
// with fewer than eight tokens rows of the next box stand for those that do not exist.
template <int kBoxes>
struct TokenRows {
  uint32_t at[kBoxes];

  __device__ __forceinline__ TokenRows(int box_tokens, int lane) {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int row = box * box_tokens + lane % 8;
      at[box] = row * 128 + ((lane / 8 ^ row % 8) << 4);
    }
  }
};
// Those of a block of weights, from a box on.
template <int kBoxes>
struct TokensInBoxes {
  const TokenRows<kBoxes>& rows;
  uint32_t stage;
  int first;

  __device__ __forceinline__ uint32_t at(int /*c*/, int j, int half) const {
    return (stage + rows.at[first + j]) ^ (half * 64);
  }
};

// What a block has to do.
struct FewShare {
  int row_tile, first_token;    // the first of its row tiles
  int first_block, num_blocks;  // of K
  int num_stages;
};

// One thread each fills the ring with weights and with tokens; it is empty to begin with.
template <typename Format, typename Layout>
class WeightStream {
 public:
  // From stage `first` on.
  __device__ __forceinline__ WeightStream(const MixedParams& params, const FewShare& share,
                                          const Layout& layout, int first)
      : left_(share.num_blocks * Format::kBytes - first * Layout::kTileBytes),
        layout_(layout),
        place_{first, 1} {
    const int row_tiles = (params.num_features + kTileRows - 1) / kTileRows;
#pragma unroll
    for (int t = 0; t < Layout::kRowTiles; ++t) {
      // There may be no other row tile: the last one serves.
      const int row_tile = min(share.row_tile + t, row_tiles - 1);
      from_[t] =
          params.weights +
          (static_cast<int64_t>(row_tile) * params.k_blocks + share.first_block) * Format::kBytes +
          first * Layout::kTileBytes;
    }
  }
  // The first stages, which are empty: fewer than there are.
  __device__ __forceinline__ void begin(int stages) {
    for (; place_.stage < stages && left_ > 0; ++place_.stage) copy();
  }
  // Those that are left, each as soon as its place is empty.
  __device__ __forceinline__ void finish(int stages) {
    for (; left_ > 0; place_.advance(1, stages)) {
      wait_for(layout_.empty + 8 * place_.stage, place_.parity);
      copy();
    }
  }

 private:
  __device__ __forceinline__ void copy() {
    const uint32_t bytes = static_cast<uint32_t>(min(left_, Layout::kTileBytes));
    const uint32_t full = layout_.full + 8 * place_.stage;
    const uint32_t to = layout_.weights + place_.stage * Layout::kStageBytes;
    arrive_and_expect(full, bytes * Layout::kRowTiles);
#pragma unroll
    for (int t = 0; t < Layout::kRowTiles; ++t) {
      copy_bytes(to + t * Layout::kTileBytes, from_[t], bytes, full);
      from_[t] += Layout::kTileBytes;
    }
    left_ -= Layout::kTileBytes;
  }

  const unsigned char* from_[Layout::kRowTiles];
  int left_;  // bytes of a row tile
  const Layout& layout_;
  FewPlace place_;
};
template <typename Format, typename Layout>
__device__ __forceinline__ void stream_tokens(const MixedParams& params, const FewShare& share,
                                              const Layout& layout) {
  constexpr int kBoxes = Layout::kStageColumns / kSubBlockK;
  const int first = share.first_block * Format::kSubBlocks;
  const uint32_t bytes = kBoxes * kSubBlockK * 2 * params.box_tokens;
  FewPlace place{0, 1};
  for (int i = 0; i < share.num_stages; ++i) {
    wait_for(layout.empty + 8 * place.stage, place.parity);
    arrive_and_expect(layout.full + 8 * place.stage, bytes);
    copy_boxes(layout.tokens + place.stage * Layout::kXBytes, params.x_boxes, share.first_token,
               first + i * kBoxes, layout.full + 8 * place.stage);
    place.advance(1, params.few_stages);
  }
}

// The blocks of a stage, of all row tiles in turn: their headers are made together, as each of them
// takes a while. Places without a block give headers that are not used.
template <typename Format, typename T, typename Layout>
struct StageHeaders {
  static constexpr int kCount = Layout::kRowTiles * Layout::kStageBlocks;
  WeightHeader<Format, T> of[kCount];

  __device__ __forceinline__ StageHeaders(uint32_t stage, int thread) {
#pragma unroll
    for (int b = 0; b < kCount; ++b) of[b] = weight_header<Format, T>(block(stage, b), thread);
  }
  static __device__ __forceinline__ uint32_t block(uint32_t stage, int b) {
    return stage + b % Layout::kRowTiles * Layout::kTileBytes +
           b / Layout::kRowTiles * Format::kBytes;
  }
};

// Blocks b and on of a stage, as far as there are any.
template <typename Format, typename T, int kColumns, typename Layout, int b = 0>
__device__ __forceinline__ void multiply_blocks(uint32_t stage,
                                                const StageHeaders<Format, T, Layout>& headers,
                                                uint64_t x, int blocks, int thread,
                                                uint32_t (&a)[2][4][4],
                                                float (&sums)[Layout::kRowTiles][kColumns / 8][4]) {
  using Headers = StageHeaders<Format, T, Layout>;
  constexpr int kBlock = b / Layout::kRowTiles, kTile = b % Layout::kRowTiles;
  if (kBlock < blocks) {
    constexpr uint64_t kBoxes = Format::kSubBlocks * (Layout::kBoxBytes >> 4);
    multiply_weights<Format, T, kColumns, b * Format::kSubBlocks % 2>(
        Headers::block(stage, b), headers.of[b], x + kBlock * kBoxes, thread, a, sums[kTile]);
  }
  if constexpr (b + 1 < Headers::kCount) {
    multiply_blocks<Format, T, kColumns, Layout, b + 1>(stage, headers, x, blocks, thread, a, sums);
  }
}

// The same with integers, whose products are a block's: scaled and added while the next block's
// are under way, or in the end.
template <typename Format, typename T, int kColumns, typename Layout, int b = 0>
__device__ __forceinline__ void multiply_integer_blocks(
    uint32_t stage, const StageHeaders<Format, T, Layout>& headers, uint64_t x, int blocks,
    int thread, uint32_t (&a)[2][4][4], float (&products)[2][kColumns / 8][4],
    float (&sums)[Layout::kRowTiles][kColumns / 8][4]) {
  using Headers = StageHeaders<Format, T, Layout>;
  using Planes = typename Format::Planes;
  static_assert(Format::kSubBlocks == 2);
  constexpr int kTiles = Layout::kRowTiles, kBlock = b / kTiles;
  constexpr uint64_t kBoxes = Format::kSubBlocks * (Layout::kBoxBytes >> 4);
  if (kBlock >= blocks) return;
  const uint32_t block = Headers::block(stage, b);
  const auto first = Planes::load(block, 0, thread);
  wait_for_products<1>();
  multiply_integers<Format, T, kColumns, 0>(first, x + kBlock * kBoxes, a[0], products[b % 2]);
  const auto second = Planes::load(block, 1, thread);
  wait_for_products<1>();
  if constexpr (b > 0) {
    const float2 scale = widen_pair<T>(headers.of[b - 1].words[0]);
    add_scaled<kColumns>(scale.x, scale.y, products[(b - 1) % 2], sums[(b - 1) % kTiles]);
  }
  multiply_integers<Format, T, kColumns, 1>(second, x + kBlock * kBoxes, a[1], products[b % 2]);
  if ((b + 1) / kTiles >= blocks) {
    wait_for_products<0>();
    const float2 scale = widen_pair<T>(headers.of[b].words[0]);
    add_scaled<kColumns>(scale.x, scale.y, products[b % 2], sums[b % kTiles]);
  }
  if constexpr (b + 1 < Headers::kCount) {
    multiply_integer_blocks<Format, T, kColumns, Layout, b + 1>(stage, headers, x, blocks, thread,
                                                                a, products, sums);
  }
}

// Grid: (row tiles / kRowTiles * splits, tiles of kColumns tokens), clusters of `splits` blocks.
// Block: few_threads. Shared memory: few_once and few_stages times few_stage. Weights are aligned
// to 16 bytes. Roofline: HBM, the weights.
template <typename Format, typename T, int kColumns, int kRowTiles>
__device__ __forceinline__ void multiply_few_tokens(const MixedParams& params) {
  using Layout = FewLayout<Format, kColumns, kRowTiles>;
  constexpr int kGroups = Layout::kGroups, kWorkers = kGroups * 128;
  extern __shared__ __align__(1024) unsigned char unaligned[];
  const uint32_t start = shared_address(unaligned), base = (start + 1023) & ~1023u;
  const int stages = params.few_stages;
  const Layout layout(base, stages);

  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int first_block = static_cast<int>(split) * params.split_blocks;
  const int num_blocks = max(0, min(params.split_blocks, params.k_blocks - first_block));
  const FewShare work{static_cast<int>(blockIdx.x / splits) * kRowTiles,
                      static_cast<int>(blockIdx.y) * kColumns, first_block, num_blocks,
                      (num_blocks + Layout::kStageBlocks - 1) / Layout::kStageBlocks};
  const int num_tokens = min(kColumns, params.num_tokens - work.first_token);
  const int lane = threadIdx.x % 32;
  const int group = kColumns == 8 ? threadIdx.x / 128 : same_in_warp(threadIdx.x / 128);
  const int count = num_tokens * kRowTiles * kTileRows;  // of sums

  constexpr int kEarlyStages = 2;
  if (threadIdx.x == kWorkers) {
    // All of them: at places that the compiler knows that takes less time than a loop.
#pragma unroll
    for (int s = 0; s < kFewMaxStages; ++s) init_barrier(layout.full + 8 * s, 2);
    publish_barriers();
    // Weights do not come from the kernel before: they are fetched while it still runs. The first
    // are on their way before anything else is done here.
    WeightStream<Format, Layout>(params, work, layout, 0).begin(kEarlyStages);
#pragma unroll
    for (int s = 0; s < kFewMaxStages; ++s) init_barrier(layout.empty + 8 * s, 4);
    init_barrier(layout.all_received, 1);
    publish_barriers();
    arrive_and_expect(layout.all_received, static_cast<uint32_t>(count) * 4);
  }
  __syncwarp();
  cluster_announce();
  if (group < kGroups) fill_code_table<Format, T, kWorkers>(static_cast<int>(threadIdx.x));
  __syncthreads();
  if (group == kGroups) {
    if (threadIdx.x == kWorkers) {
      WeightStream<Format, Layout>(params, work, layout, kEarlyStages).finish(stages);
    } else if (threadIdx.x == kWorkers + 32) {
      wait_for_previous_kernels();
      allow_next_kernel();  // not earlier: no more than two kernels at a time
      stream_tokens<Format>(params, work, layout);
    }
    return;
  }

  const int thread = threadIdx.x % 128;
  float sums[kRowTiles][kColumns / 8][4] = {};
  constexpr int kBoxes = Layout::kStageColumns / kSubBlockK;
  // With offsets there are no registers for that: boxes are whole.
  [[maybe_unused]] const TokenRows<kBoxes> rows(Format::kHasOffsets ? 8 : params.box_tokens, lane);
  FewPlace place{group, 0};
  const auto multiply_stage = [&](int blocks) {
    wait_for(layout.full + 8 * place.stage, place.parity);
    const uint32_t stage = layout.weights + place.stage * Layout::kStageBytes;
    const uint32_t tokens = layout.tokens + place.stage * Layout::kXBytes;
    if constexpr (kColumns == 8) {
#pragma unroll
      for (int b = 0; b < kRowTiles * Layout::kStageBlocks; ++b) {
        if (b / kRowTiles < blocks) {
          const uint32_t block = StageHeaders<Format, T, Layout>::block(stage, b);
          const TokensInBoxes<kBoxes> x{rows, tokens, b / kRowTiles * Format::kSubBlocks};
          multiply_block<Format, T, kColumns>(block, x, thread, sums[b % kRowTiles]);
        }
      }
    } else {
      uint32_t a[2][4][4];
      const StageHeaders<Format, T, Layout> headers(stage, thread);
      if constexpr (kScalesSums<Format>) {
        float products[2][kColumns / 8][4];
        multiply_integer_blocks<Format, T, kColumns, Layout>(stage, headers, matrix_at(tokens),
                                                             blocks, thread, a, products, sums);
      } else {
        multiply_blocks<Format, T, kColumns, Layout>(stage, headers, matrix_at(tokens), blocks,
                                                     thread, a, sums);
        wait_for_products<0>();
      }
    }
    arrive_as_warp(layout.empty + 8 * place.stage);
    place.advance(kGroups, stages);
  };
  // Whole stages have no branches: the work of their blocks overlaps.
  const int whole_stages = num_blocks / Layout::kStageBlocks;
  int i = group;
  for (; i < whole_stages; i += kGroups) multiply_stage(Layout::kStageBlocks);
  if (i < work.num_stages) multiply_stage(num_blocks - i * Layout::kStageBlocks);

  if constexpr ((kColumns > 8 || kWarpsTakeWeights<Format, T>) && kSumFactor<Format, T> != 1.0f) {
#pragma unroll
    for (int n = 0; n < kRowTiles * kColumns / 2; ++n) {
      sums[n / (kColumns / 2)][n / 4 % (kColumns / 8)][n % 4] *= kSumFactor<Format, T>;
    }
  }
  add_up<T, kColumns, kGroups, 1, kRowTiles>(
      params,
      {unaligned + (layout.partial - start), layout.received, layout.all_received, work.row_tile,
       work.first_token, num_tokens},
      sums);
}

}  // namespace ac4k
