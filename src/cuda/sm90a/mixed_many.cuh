// Many tokens: codes become 16-bit weights in the register operand of wgmma, tokens come from
// shared memory. Some warpgroups multiply one or two row tiles of 64 features each with the same
// tokens; threads of one more keep two rings filled: packed weights by bulk copies, tokens by
// tensor copies.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mixed_many_sums.cuh"
#include "sm90a/mixed_weights.cuh"
#include "sm90a/mma.cuh"

namespace ac4k {

template <typename Format, const ManyTile& kTile>
struct ManyLayout {
  static constexpr int kTokens = kTile.tokens;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr int kRowTiles = kTile.row_tiles;  // of a consumer
  static constexpr int kAllRowTiles = many_row_tiles(kTile);
  static constexpr int kFeatures = many_features(kTile);
  static constexpr int kXStages = many_x_stages(kTile, kPackedBlock<Format>);
  static constexpr int kXShare = many_x_share(kTile, kPackedBlock<Format>);
  static constexpr bool kOneXRound = many_x_rounds(kTile, kPackedBlock<Format>) == 1;
  static constexpr int kWeightStages = many_weight_stages(kTile, kPackedBlock<Format>);
  static constexpr int kXBoxes = many_x_boxes(kTile);  // of a stage
  static constexpr uint32_t kBoxBytes = kTokens * kSubBlockK * 2;
  static constexpr uint32_t kXBytes = kXBoxes * kBoxBytes;
  static constexpr int kStageBlocks = many_stage_blocks(kPackedBlock<Format>);
  static constexpr uint32_t kTileBytes = kStageBlocks * Format::kBytes;  // of a stage
  static constexpr uint32_t kWeightBytes = kAllRowTiles * kTileBytes;
  static constexpr uint32_t kWeights = kXStages * kXBytes;
  static constexpr uint32_t kRings = kWeights + kWeightStages * kWeightBytes;
  static constexpr uint32_t kSums = many_sums(kTile);
  static constexpr uint32_t kBarriers = kRings > kSums ? kRings : kSums;
  // As many registers as the threads of an SM can have: see setmaxnreg.
  static constexpr int kRegisters = kConsumers == 3 ? 160 : 240;
  static_assert(kXStages >= 3);
};

// The rings as a consumer walks through them.
template <typename Layout>
struct Rings {
  uint32_t base, barriers;

  __device__ __forceinline__ uint32_t x(int stage) const { return base + stage * Layout::kXBytes; }
  __device__ __forceinline__ uint32_t weights(int stage) const {
    return base + Layout::kWeights + stage * Layout::kWeightBytes;
  }
  __device__ __forceinline__ uint32_t x_full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ uint32_t x_empty(int stage) const {
    return barriers + 8 * (Layout::kXStages + stage);
  }
  __device__ __forceinline__ uint32_t weights_full(int stage) const {
    return barriers + 8 * (2 * Layout::kXStages + stage);
  }
  __device__ __forceinline__ uint32_t weights_empty(int stage) const {
    return barriers + 8 * (2 * Layout::kXStages + Layout::kWeightStages + stage);
  }
  // Nobody waits for it: where there is no stage to give back, it is this one.
  __device__ __forceinline__ uint32_t nothing() const {
    return barriers + 16 * (Layout::kXStages + Layout::kWeightStages);
  }
};

// The copies of a stage of weights are issued by this many threads: one alone is too slow.
inline constexpr int kWeightWarps = 2;

template <typename Format, typename Layout>
class ManyWeightStream {
 public:
  __device__ __forceinline__ ManyWeightStream(const MixedParams& params, const Rings<Layout>& rings,
                                              int feature_tile, int first_block, int num_blocks,
                                              int warp)
      : rings_(rings),
        left_(num_blocks * Format::kBytes),
        first_(warp * kShare),
        count_(min(kShare, Layout::kAllRowTiles - first_)) {
    const int row_tiles = (params.num_features + kTileRows - 1) / kTileRows;
#pragma unroll
    for (int c = 0; c < kShare; ++c) {
      // There may be fewer row tiles: the last one serves then.
      const int row_tile = min(feature_tile * Layout::kAllRowTiles + first_ + c, row_tiles - 1);
      from_[c] = params.weights +
                 (static_cast<int64_t>(row_tile) * params.k_blocks + first_block) * Format::kBytes;
    }
  }
  // The first stages, which are empty; then the others, each as soon as its place is empty.
  __device__ __forceinline__ void begin(int stages) {
#pragma unroll 1
    for (int s = 0; s < stages && left_ > 0; ++s, place_.advance()) copy();
  }
  __device__ __forceinline__ void finish() {
    for (; left_ > 0; place_.advance()) {
      wait_for(rings_.weights_empty(place_.stage), place_.parity);
      copy();
    }
  }

 private:
  static constexpr int kShare = (Layout::kAllRowTiles + kWeightWarps - 1) / kWeightWarps;

  __device__ __forceinline__ void copy() {
    const uint32_t bytes = static_cast<uint32_t>(min(left_, static_cast<int>(Layout::kTileBytes)));
    const uint32_t full = rings_.weights_full(place_.stage);
    arrive_and_expect(full, bytes * static_cast<uint32_t>(count_));
#pragma unroll
    for (int c = 0; c < kShare; ++c) {
      if (c < count_) {
        copy_bytes(rings_.weights(place_.stage) + (first_ + c) * Layout::kTileBytes, from_[c],
                   bytes, full);
      }
      from_[c] += Layout::kTileBytes;
    }
    left_ -= static_cast<int>(Layout::kTileBytes);
  }

  const Rings<Layout>& rings_;
  const unsigned char* from_[kShare];
  int left_;  // bytes of a row tile
  const int first_, count_;
  RingPlace<Layout::kWeightStages> place_{.parity = 1};  // empty to begin with
};
template <typename Layout>
__device__ __forceinline__ void stream_tokens(const MixedParams& params, const Rings<Layout>& rings,
                                              int first_token, int first_column, int num_boxes) {
  RingPlace<Layout::kXStages> place;
  place.parity = 1;
  int column = first_column;
  for (int left = num_boxes; left > 0; left -= Layout::kXBoxes, place.advance()) {
    const uint32_t full = rings.x_full(place.stage), to = rings.x(place.stage);
    wait_for(rings.x_empty(place.stage), place.parity);
    arrive_and_expect(full, min(left, Layout::kXBoxes) * Layout::kBoxBytes);
#pragma unroll
    for (int box = 0; box < Layout::kXBoxes; ++box, column += kSubBlockK) {
      if (box < left) {
        copy_box(to + box * Layout::kBoxBytes, params.x_boxes, column, first_token, full);
      }
    }
  }
}

// What a consumer carries from one stage to the next.
template <typename Layout>
struct ConsumerState {
  int stage = 0;        // of weights
  uint32_t parity = 0;  // of its present round
  uint32_t x_parity = 0;
  uint32_t done_x;      // the barrier of tokens whose last products are under way
  bool speaks;          // one lane of a warp
  uint32_t a[2][4][4];  // one is read by a product while the other is made
  float sums[Layout::kRowTiles][Layout::kTokens / 2];

  __device__ __forceinline__ void advance() {
    if constexpr (Layout::kOneXRound) x_parity ^= 1;
    if (++stage == Layout::kWeightStages) {
      stage = 0;
      parity ^= 1;
    }
    if constexpr (!Layout::kOneXRound) x_parity = parity;
  }
};

// Sub-blocks j and on of block b of a stage, whose row tiles take turns. Everything but the ring's
// present place is known to the compiler, so that it sees which half of `a` a product under way
// still reads.
template <typename Format, typename T, typename Layout, int kBlocks, int b, int j = 0, int r = 0>
__device__ __forceinline__ void multiply_sub_blocks(
    const Rings<Layout>& rings, uint32_t block,
    const WeightHeader<Format, T> (&headers)[Layout::kRowTiles][kBlocks], int x_stage, uint64_t x,
    uint32_t weights_empty, int thread, ConsumerState<Layout>& state) {
  constexpr int kSubBlock = b * Format::kSubBlocks + j;  // of the stage
  constexpr int kBox = kSubBlock % Layout::kXBoxes, kXStage = kSubBlock / Layout::kXBoxes;
  constexpr bool kLast = r + 1 == Layout::kRowTiles;
  auto& a = state.a[(kSubBlock * Layout::kRowTiles + r) % 2];
  const SubBlockWeights<Format, T, j> weights(block + r * Layout::kTileBytes + b * Format::kBytes,
                                              headers[r][b], thread);
  if constexpr (kLast && b + 1 == kBlocks && j + 1 == Format::kSubBlocks) {
    arrive_as_warp(weights_empty);
  }
  weights.template make<0>(a[0]);
  weights.template make<1>(a[1]);
  weights.template make<2>(a[2]);
  weights.template make<3>(a[3]);
  if constexpr (kBox == 0 && r == 0) wait_for(rings.x_full(x_stage + kXStage), state.x_parity);
  fence_registers();
  constexpr uint64_t kSixteenColumns = 32 >> 4;
  constexpr uint64_t kMatrix = (kXStage * Layout::kXBytes + kBox * Layout::kBoxBytes) >> 4;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    WarpgroupProduct<Layout::kTokens>::template run<T>(state.sums[r], a[step],
                                                       x + (kMatrix + step * kSixteenColumns));
  }
  commit_products();
  // The next weights are made while these products are under way.
  wait_for_products<1>();
  if constexpr (kBox == 0 && r == 0) {
    // The products before these have been made: their tokens may be overwritten.
    if (state.speaks) arrive(state.done_x);
    state.done_x = rings.x_empty(x_stage + kXStage);
  }
  if constexpr (!kLast) {
    multiply_sub_blocks<Format, T, Layout, kBlocks, b, j, r + 1>(rings, block, headers, x_stage, x,
                                                                 weights_empty, thread, state);
  } else if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_sub_blocks<Format, T, Layout, kBlocks, b, j + 1>(rings, block, headers, x_stage, x,
                                                              weights_empty, thread, state);
  } else if constexpr (b + 1 < kBlocks) {
    multiply_sub_blocks<Format, T, Layout, kBlocks, b + 1>(rings, block, headers, x_stage, x,
                                                           weights_empty, thread, state);
  }
}

// A stage of weights, or the first block of it.
template <typename Format, typename T, int kBlocks, typename Layout>
__device__ __forceinline__ void multiply_stage(const Rings<Layout>& rings, int group, int thread,
                                               ConsumerState<Layout>& state) {
  wait_for(rings.weights_full(state.stage), state.parity);
  const uint32_t block =
      rings.weights(state.stage) + group * (Layout::kRowTiles * Layout::kTileBytes);
  // Headers are made together: each of them takes a while.
  WeightHeader<Format, T> headers[Layout::kRowTiles][kBlocks];
#pragma unroll
  for (int r = 0; r < Layout::kRowTiles; ++r) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      headers[r][b] =
          weight_header<Format, T>(block + r * Layout::kTileBytes + b * Format::kBytes, thread);
    }
  }
  const int x_stage = Layout::kOneXRound ? 0 : state.stage * Layout::kXShare;
  multiply_sub_blocks<Format, T, Layout, kBlocks, 0>(
      rings, block, headers, x_stage, matrix_at(rings.x(x_stage)), rings.weights_empty(state.stage),
      thread, state);
  state.advance();
}

// Grid: (tiles of features * splits, token tiles), clusters of `splits` blocks. Block:
// many_threads. Shared memory: many_tokens_shared. x lies at multiples of 16 bytes and so do its
// rows. Roofline: the tensor cores, or HBM below some hundred tokens.
template <typename Format, typename T, const ManyTile& kTile>
__device__ __forceinline__ void multiply_many_tokens(const MixedParams& params) {
  using Layout = ManyLayout<Format, kTile>;
  extern __shared__ __align__(1024) unsigned char unaligned[];
  const uint32_t start = shared_address(unaligned);
  // Kept rather than made again for every stage, which takes it long to find out its block's rank.
  const auto base = static_cast<uint32_t>(same_in_warp(static_cast<int>((start + 1023) & ~1023u)));
  unsigned char* shared = unaligned + (base - start);
  const Rings<Layout> rings{base, base + Layout::kBarriers};
  const int splits = params.splits, split = splits > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int feature_tile = static_cast<int>(blockIdx.x) / splits;
  const int first_block = split * params.split_blocks;
  const int num_blocks = max(0, min(params.split_blocks, params.k_blocks - first_block));
  const int first_token = static_cast<int>(blockIdx.y) * Layout::kTokens;
  const int group = same_in_warp(static_cast<int>(threadIdx.x / 128));
  const int thread = threadIdx.x % 128;
  const int warp = thread / 32;
  const bool streams_weights = group == Layout::kConsumers && warp < kWeightWarps;
  ManyWeightStream<Format, Layout> weights(params, rings, feature_tile, first_block, num_blocks,
                                           warp);
  constexpr uint32_t kWarps = Layout::kConsumers * 4;
  if (streams_weights) {
    if (thread == 0) {
      for (int s = 0; s < Layout::kWeightStages; ++s) {
        init_barrier(rings.weights_full(s), kWeightWarps);
      }
      publish_barriers();
    }
    synchronise<2, kWeightWarps * 32>();
    // Weights do not come from the kernel before: they are fetched while it still runs. The first
    // are on their way before anything else is done here.
    if (thread % 32 == 0) weights.begin(2);
    __syncwarp();
  } else if (group == 0 && thread % 32 == 0) {
    // A warp for each kind: they take a while.
    if (warp == 0) {
      for (int s = 0; s < Layout::kXStages; ++s) init_barrier(rings.x_full(s), 1);
    } else if (warp == 1) {
      for (int s = 0; s < Layout::kXStages; ++s) init_barrier(rings.x_empty(s), kWarps);
    } else if (warp == 2) {
      for (int s = 0; s < Layout::kWeightStages; ++s) init_barrier(rings.weights_empty(s), kWarps);
    } else {
      init_barrier(rings.nothing(), kWarps);
    }
    publish_barriers();
  }
  if (group < Layout::kConsumers) {
    fill_code_table<Format, T, Layout::kConsumers * 128>(static_cast<int>(threadIdx.x));
  }
  __syncthreads();

  if (group == Layout::kConsumers) {
    give_registers<24>();
    if (streams_weights) {
      if (thread % 32 == 0) weights.finish();
    } else if (thread == kWeightWarps * 32) {
      // The kernel before, where it is the first part of this product, has waited for the tokens.
      if (!params.follows) wait_for_previous_kernels();
      allow_next_kernel();  // not earlier: no more than two kernels at a time
      stream_tokens(params, rings, first_token, first_block * Format::kSubBlocks * kSubBlockK,
                    num_blocks * Format::kSubBlocks);
      // This one must not be done earlier; one block sees to it, the others make room.
      const bool last = blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y;
      if (params.follows && last) wait_for_previous_kernels();
    }
    return;
  }
  take_registers<Layout::kRegisters>();
  ConsumerState<Layout> state;
  state.done_x = rings.nothing();
  state.speaks = thread % 32 == 0;
#pragma unroll
  for (int i = 0; i < Layout::kRowTiles * Layout::kTokens / 2; ++i) {
    float& sum = state.sums[i / (Layout::kTokens / 2)][i % (Layout::kTokens / 2)];
    sum = 0.0f;
    // Made here, not where a product is under way: that would keep products from overlapping.
    asm volatile("" : "+f"(sum)::"memory");
  }
  constexpr int kStageBlocks = Layout::kStageBlocks;
  for (int left = num_blocks; left >= kStageBlocks; left -= kStageBlocks) {
    multiply_stage<Format, T, kStageBlocks>(rings, group, thread, state);
  }
  if (num_blocks % kStageBlocks != 0) multiply_stage<Format, T, 1>(rings, group, thread, state);
  wait_for_products<0>();
  if constexpr (kSumFactor<Format, T> != 1.0f) {
#pragma unroll
    for (int i = 0; i < Layout::kRowTiles * Layout::kTokens / 2; ++i) {
      state.sums[i / (Layout::kTokens / 2)][i % (Layout::kTokens / 2)] *= kSumFactor<Format, T>;
    }
  }
  synchronise<1, Layout::kConsumers * 128>();  // nobody reads the rings any more
  if (splits == 1) {
    write_own_sums<T, Layout>(params, shared, state.sums, feature_tile, first_token);
  } else {
    write_shared_sums<T, Layout>(params, shared, state.sums, feature_tile, first_token);
  }
}

}  // namespace ac4k
