// Many tokens: codes become 16-bit weights in the register operand of wgmma, tokens come from
// shared memory. Some warpgroups multiply 64 features each with the same tokens; threads of one
// more keep two rings filled: packed weights by bulk copies, tokens by tensor copies.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mixed_epilogue.cuh"
#include "sm90a/mixed_weights.cuh"
#include "sm90a/mma.cuh"

namespace ac4k {

template <typename Format, const ManyTile& kTile>
struct ManyLayout {
  static constexpr int kTokens = kTile.tokens;
  static constexpr int kConsumers = kTile.consumers;
  static constexpr int kFeatures = many_features(kTile);
  static constexpr int kXStages = many_x_stages(kTile, kPackedBlock<Format>);
  static constexpr int kWeightStages = many_weight_stages(kTile, kPackedBlock<Format>);
  static constexpr int kXBoxes = many_x_boxes(kTile);  // of a stage
  static constexpr uint32_t kBoxBytes = kTokens * kSubBlockK * 2;
  static constexpr uint32_t kXBytes = kXBoxes * kBoxBytes;
  static constexpr int kStageBlocks = many_stage_blocks(kPackedBlock<Format>);
  static constexpr uint32_t kConsumerBytes = kStageBlocks * Format::kBytes;
  static constexpr uint32_t kWeightBytes = kConsumers * kConsumerBytes;
  static constexpr uint32_t kWeights = kXStages * kXBytes;
  static constexpr uint32_t kRings = kWeights + kWeightStages * kWeightBytes;
  static constexpr int kFeatureStride = many_sums_stride(kTile);
  static constexpr uint32_t kSums = many_sums(kTile);
  static constexpr uint32_t kBarriers = kRings > kSums ? kRings : kSums;
  // As many registers as the threads of an SM can have: see setmaxnreg.
  static constexpr int kRegisters = kConsumers == 4 ? 112 : kConsumers == 3 ? 160 : 240;
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
  __device__ __forceinline__ uint32_t sums_received() const {
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
        count_(min(kShare, Layout::kConsumers - first_)) {
    const int row_tiles = (params.num_features + kTileRows - 1) / kTileRows;
#pragma unroll
    for (int c = 0; c < kShare; ++c) {
      // There may be fewer row tiles than consumers: some take the last one too.
      const int row_tile = min(feature_tile * Layout::kConsumers + first_ + c, row_tiles - 1);
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
  static constexpr int kShare = (Layout::kConsumers + kWeightWarps - 1) / kWeightWarps;

  __device__ __forceinline__ void copy() {
    const uint32_t bytes =
        static_cast<uint32_t>(min(left_, static_cast<int>(Layout::kConsumerBytes)));
    const uint32_t full = rings_.weights_full(place_.stage);
    arrive_and_expect(full, bytes * static_cast<uint32_t>(count_));
#pragma unroll
    for (int c = 0; c < kShare; ++c) {
      if (c < count_) {
        copy_bytes(rings_.weights(place_.stage) + (first_ + c) * Layout::kConsumerBytes, from_[c],
                   bytes, full);
      }
      from_[c] += Layout::kConsumerBytes;
    }
    left_ -= static_cast<int>(Layout::kConsumerBytes);
  }

  const Rings<Layout>& rings_;
  const unsigned char* from_[kShare];
  int left_;  // bytes of a consumer
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

// What a consumer carries from one sub-block to the next.
template <typename Layout>
struct ConsumerState {
  RingPlace<Layout::kXStages> x;
  int last_x = -1;      // the stage whose product is under way
  uint64_t x_matrix;    // of the present stage
  uint32_t a[2][4][4];  // one is read by a product while the other is made
  float sums[Layout::kTokens / 2];
};

// Sub-blocks j and on of a block; kHalf says which half of `a` is free for the first of them, and
// which box of a stage of x it meets; kLast that the block is the last of its stage.
template <typename Format, typename T, typename Layout, int kHalf, bool kLast, int j = 0>
__device__ __forceinline__ void multiply_sub_blocks(const Rings<Layout>& rings, uint32_t block,
                                                    const WeightHeader<Format, T>& header,
                                                    uint32_t weights_empty, int thread,
                                                    ConsumerState<Layout>& state) {
  auto& a = state.a[kHalf];
  const SubBlockWeights<Format, T, j> weights(block, header, thread);
  if constexpr (kLast && j + 1 == Format::kSubBlocks) {
    arrive_as_warp(weights_empty);
  }
  constexpr bool kFirst = Layout::kXBoxes == 1 || kHalf == 0,
                 kSecond = Layout::kXBoxes == 1 || kHalf == 1;
  weights.template make<0>(a[0]);
  weights.template make<1>(a[1]);
  weights.template make<2>(a[2]);
  weights.template make<3>(a[3]);
  if constexpr (kFirst) {
    wait_for(rings.x_full(state.x.stage), state.x.parity);
    state.x_matrix = matrix_at(rings.x(state.x.stage));
  }
  const uint64_t x = state.x_matrix + (kFirst ? 0 : Layout::kBoxBytes >> 4);
  constexpr uint64_t kSixteenColumns = 32 >> 4;
  fence_registers();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    WarpgroupProduct<Layout::kTokens>::template run<T>(state.sums, a[step],
                                                       x + step * kSixteenColumns);
  }
  commit_products();
  // The next weights are made while these products are under way.
  wait_for_products<1>();
  if constexpr (kFirst) {
    // The products before these have been made: their tokens may be overwritten.
    if (thread % 32 == 0 && state.last_x >= 0) arrive(rings.x_empty(state.last_x));
  }
  if constexpr (kSecond) {
    state.last_x = state.x.stage;
    state.x.advance();
  }
  if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_sub_blocks<Format, T, Layout, 1 - kHalf, kLast, j + 1>(rings, block, header,
                                                                    weights_empty, thread, state);
  }
}

// A stage of weights, or the first block of it. A block of one sub-block leaves the other half of
// `a` to the next: the compiler sees which half a product under way still reads.
template <typename Format, typename T, int kBlocks, typename Layout, typename WeightPlace>
__device__ __forceinline__ void multiply_stage(const Rings<Layout>& rings, WeightPlace& w,
                                               int group, int thread,
                                               ConsumerState<Layout>& state) {
  wait_for(rings.weights_full(w.stage), w.parity);
  const uint32_t block = rings.weights(w.stage) + group * Layout::kConsumerBytes;
  const uint32_t empty = rings.weights_empty(w.stage);
  // Headers are made together: each of them takes a while.
  WeightHeader<Format, T> headers[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    headers[b] = weight_header<Format, T>(block + b * Format::kBytes, thread);
  }
  multiply_sub_blocks<Format, T, Layout, 0, kBlocks == 1>(rings, block, headers[0], empty, thread,
                                                          state);
  if constexpr (kBlocks == 2) {
    multiply_sub_blocks<Format, T, Layout, Format::kSubBlocks % 2, true>(
        rings, block + Format::kBytes, headers[1], empty, thread, state);
  }
  w.advance();
}

// Sums go through shared memory, [token][feature], so that tokens are written in long runs. The
// blocks of a cluster write a share of the tokens each, get the others' sums of them, and add in
// the order of their ranks.
template <typename T, typename Layout>
__device__ __forceinline__ void write_sums(const MixedParams& params, unsigned char* shared,
                                           uint32_t base, uint32_t sums_received,
                                           const float (&sums)[Layout::kTokens / 2],
                                           int feature_tile, int first_token) {
  constexpr int kWorkers = Layout::kConsumers * 128, kStride = Layout::kFeatureStride;
  constexpr int kRuns = Layout::kFeatures / 8;  // of a token
  constexpr int kRowBytes = kStride * 4;
  float* own = reinterpret_cast<float*>(shared);
  const int splits = params.splits, split = splits > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int share = (Layout::kTokens + splits - 1) / splits;
  const int begin = split * share, end = min(begin + share, Layout::kTokens);
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  synchronise<1, kWorkers>();  // nobody reads the rings any more
#pragma unroll
  for (int i = 0; i < Layout::kTokens / 2; ++i) {
    const int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
    own[token * kStride + row + i % 4 / 2 * 8] = sums[i];
  }
  if (splits > 1) {
    publish_to_copies();
    cluster_announce();
    cluster_wait();  // nor in the other blocks
    // Shares of the others after the own sums, in the order of their ranks.
    const int to = static_cast<int>(threadIdx.x);
    if (to < splits && to != split) {
      const int first = to * share, count = min(first + share, Layout::kTokens) - first;
      const int slot = split - (split > to ? 1 : 0);
      copy_to_block(base + (Layout::kTokens + slot * share) * kRowBytes, base + first * kRowBytes,
                    static_cast<uint32_t>(count * kRowBytes), sums_received,
                    static_cast<uint32_t>(to));
    }
    wait_for(sums_received, 0);
    cluster_announce();  // what was sent here has left the others' shared memory
  }
  synchronise<1, kWorkers>();
  for (int run = threadIdx.x; run < (end - begin) * kRuns; run += kWorkers) {
    const int token = run / kRuns, feature = run % kRuns * 8;
    if (first_token + begin + token >= params.num_tokens) break;
    float values[8] = {};
    for (int rank = 0; rank < splits; ++rank) {
      const int slot = rank - (rank > split ? 1 : 0);
      const int place = rank == split ? begin : Layout::kTokens + slot * share;
      const float* from = own + (place + token) * kStride + feature;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 four = *reinterpret_cast<const float4*>(from + 4 * half);
        values[4 * half] += four.x, values[4 * half + 1] += four.y;
        values[4 * half + 2] += four.z, values[4 * half + 3] += four.w;
      }
    }
    write_features<T>(params, first_token + begin + token,
                      feature_tile * Layout::kFeatures + feature, values);
  }
  if (splits > 1) cluster_wait();  // nor is anything sent from here still read
}

// Grid: (tiles of features * splits, token tiles), clusters of `splits` blocks. Block:
// many_threads. Shared memory: many_tokens_shared. x lies at multiples of 16 bytes and so do its
// rows. Roofline: the tensor cores, or HBM below some hundred tokens.
template <typename Format, typename T, const ManyTile& kTile>
__device__ __forceinline__ void multiply_many_tokens(const MixedParams& params) {
  using Layout = ManyLayout<Format, kTile>;
  extern __shared__ __align__(1024) unsigned char unaligned[];
  const uint32_t start = shared_address(unaligned), base = (start + 1023) & ~1023u;
  unsigned char* shared = unaligned + (base - start);
  const Rings<Layout> rings{base, base + Layout::kBarriers};
  const int splits = params.splits, split = splits > 1 ? static_cast<int>(cluster_rank()) : 0;
  const int feature_tile = static_cast<int>(blockIdx.x) / splits;
  const int first_block = split * params.split_blocks;
  const int num_blocks = max(0, min(params.split_blocks, params.k_blocks - first_block));
  const int first_token = static_cast<int>(blockIdx.y) * Layout::kTokens;
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;

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
      init_barrier(rings.sums_received(), 1);
    }
    publish_barriers();
    if (warp == 3 && splits > 1) {
      const int share = (Layout::kTokens + splits - 1) / splits;
      const int own = min(share, Layout::kTokens - split * share);
      arrive_and_expect(rings.sums_received(),
                        static_cast<uint32_t>((splits - 1) * own * Layout::kFeatureStride * 4));
    }
  }
  if (group < Layout::kConsumers) {
    fill_code_table<Format, T, Layout::kConsumers * 128>(static_cast<int>(threadIdx.x));
  }
  __syncthreads();
  if (splits > 1) cluster_announce();

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
  if (splits > 1) cluster_wait();  // all blocks have started
  ConsumerState<Layout> state;
#pragma unroll
  for (int i = 0; i < Layout::kTokens / 2; ++i) {
    state.sums[i] = 0.0f;
    // Made here, not where a product is under way: that would keep products from overlapping.
    asm volatile("" : "+f"(state.sums[i])::"memory");
  }
  RingPlace<Layout::kWeightStages> w;
  constexpr int kStageBlocks = Layout::kStageBlocks;
  for (int left = num_blocks; left >= kStageBlocks; left -= kStageBlocks) {
    multiply_stage<Format, T, kStageBlocks>(rings, w, group, thread, state);
  }
  if (num_blocks % kStageBlocks != 0) multiply_stage<Format, T, 1>(rings, w, group, thread, state);
  wait_for_products<0>();
  if constexpr (kSumFactor<Format, T> != 1.0f) {
#pragma unroll
    for (float& sum : state.sums) sum *= kSumFactor<Format, T>;
  }
  write_sums<T, Layout>(params, shared, base, rings.sums_received(), state.sums, feature_tile,
                        first_token);
}

}  // namespace ac4k
