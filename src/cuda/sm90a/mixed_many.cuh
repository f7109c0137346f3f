// Many tokens: codes become 16-bit weights in the register operand of wgmma, tokens come from
// shared memory. Two warpgroups multiply 64 features each with the same tokens; one thread of a
// third keeps two rings filled: packed weights by bulk copies, tokens by tensor copies.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mma.cuh"
#include "sm90a/packed_formats.cuh"

namespace ac4k {

// scale * integer + offset, rounded once to T (bfloat16: computed in float).
template <typename T, bool kHasOffset>
__device__ __forceinline__ uint32_t scaled(uint32_t integers, float scale, float offset) {
  if constexpr (is_same<T, __half>) {
    const __half2 pair = *reinterpret_cast<const __half2*>(&integers);
    const __half2 factor = __float2half2_rn(scale);
    const __half2 result =
        kHasOffset ? __hfma2(pair, factor, __float2half2_rn(offset)) : __hmul2(pair, factor);
    return *reinterpret_cast<const uint32_t*>(&result);
  } else {
    const float low = __uint_as_float(integers << 16);
    const float high = __uint_as_float(integers & 0xffff0000u);
    const __nv_bfloat162 result = kHasOffset ? __floats2bfloat162_rn(__fmaf_rn(low, scale, offset),
                                                                     __fmaf_rn(high, scale, offset))
                                             : __floats2bfloat162_rn(low * scale, high * scale);
    return *reinterpret_cast<const uint32_t*>(&result);
  }
}

// The four steps of a sub-block.
template <typename Format, typename T, int j, int kStep = 0>
__device__ __forceinline__ void dequantise(const typename Format::Planes::Codes& codes,
                                           const typename Format::Scales& scales,
                                           uint32_t (&a)[4][4]) {
  Format::Planes::template fragment<T, kStep>(codes, a[kStep]);
  constexpr int kGroup = kStep * Format::kGroups / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[kStep][i] =
        scaled<T, Format::kHasOffsets>(a[kStep][i], scales.scale[i % 2][kGroup],
                                       scales.offset[i % 2][Format::kHasOffsets ? kGroup : 0]);
  }
  if constexpr (kStep + 1 < 4) dequantise<Format, T, j, kStep + 1>(codes, scales, a);
}

template <typename Format, const ManyTile& kTile>
struct ManyLayout {
  static constexpr int kTokens = kTile.tokens;
  static constexpr int kXStages = kTile.x_stages;
  static constexpr int kWeightStages = many_weight_stages(kTile, Format::kSubBlocks);
  static constexpr uint32_t kXBytes = kTokens * kSubBlockK * 2;  // of a stage
  static constexpr uint32_t kWeightBytes = kManyConsumers * Format::kBytes;
  static constexpr uint32_t kWeights = kXStages * kXBytes;
  static constexpr uint32_t kRings = kWeights + kWeightStages * kWeightBytes;
  static constexpr int kFeatureStride = kManyFeatures + 4;  // floats
  static constexpr uint32_t kSums = kTokens * kFeatureStride * 4;
  static constexpr uint32_t kBarriers = kRings > kSums ? kRings : kSums;
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
};

template <typename Format, typename Layout>
__device__ __forceinline__ void fill_rings(const MixedParams& params, const Rings<Layout>& rings,
                                           int feature_tile, int first_token, int first_block,
                                           int num_blocks) {
  const unsigned char* weights[kManyConsumers];
  const int row_tiles = (params.num_features + kTileRows - 1) / kTileRows;
#pragma unroll
  for (int c = 0; c < kManyConsumers; ++c) {
    // The last pair of row tiles may have one only: both consumers take it.
    const int row_tile = min(feature_tile * kManyConsumers + c, row_tiles - 1);
    weights[c] = params.weights +
                 (static_cast<int64_t>(row_tile) * params.k_blocks + first_block) * Format::kBytes;
  }
  const auto copy_weights = [&](int block, int stage) {
    arrive_and_expect(rings.weights_full(stage), Layout::kWeightBytes);
#pragma unroll
    for (int c = 0; c < kManyConsumers; ++c) {
      copy_bytes(rings.weights(stage) + c * Format::kBytes,
                 weights[c] + static_cast<int64_t>(block) * Format::kBytes, Format::kBytes,
                 rings.weights_full(stage));
    }
  };
  // Weights do not come from the kernel before: they are fetched while it still runs.
  const int early = min(num_blocks, Layout::kWeightStages);
  for (int block = 0; block < early; ++block) copy_weights(block, block);
  wait_for_previous_kernels();
  RingPlace<Layout::kXStages> x;
  RingPlace<Layout::kWeightStages> w;
  x.parity = 1;  // empty to begin with
  for (int block = 0; block < num_blocks; ++block) {
    if (block >= Layout::kWeightStages) {
      wait_for(rings.weights_empty(w.stage), w.parity);
      copy_weights(block, w.stage);
      w.advance();
    }
#pragma unroll 1
    for (int j = 0; j < Format::kSubBlocks; ++j, x.advance()) {
      wait_for(rings.x_empty(x.stage), x.parity);
      arrive_and_expect(rings.x_full(x.stage), Layout::kXBytes);
      copy_box(rings.x(x.stage), params.x_boxes,
               ((first_block + block) * Format::kSubBlocks + j) * kSubBlockK, first_token,
               rings.x_full(x.stage));
    }
  }
  allow_next_kernel();
}

// What a consumer carries from one sub-block to the next.
template <typename Layout>
struct ConsumerState {
  RingPlace<Layout::kXStages> x;
  int last_x = -1;      // the stage whose product is under way
  uint32_t a[2][4][4];  // one is read by a product while the other is made
  float sums[Layout::kTokens / 2];
};

// Sub-blocks j and on of a block; kHalf says which half of `a` is free for the first of them.
template <typename Format, typename T, typename Layout, int kHalf, int j = 0>
__device__ __forceinline__ void multiply_sub_blocks(const Rings<Layout>& rings, uint32_t block,
                                                    const typename Format::Header& header,
                                                    uint32_t weights_empty, int thread,
                                                    ConsumerState<Layout>& state) {
  auto& a = state.a[kHalf];
  const auto codes = Format::Planes::load(block, j, thread);
  const auto scales = Format::template scales<j>(header);
  if constexpr (j + 1 == Format::kSubBlocks) {
    __syncwarp();
    if (thread % 32 == 0) arrive(weights_empty);
  }
  dequantise<Format, T, j>(codes, scales, a);
  wait_for(rings.x_full(state.x.stage), state.x.parity);
  fence_registers();
  const uint64_t x = matrix_descriptor(rings.x(state.x.stage));
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    constexpr uint64_t kSixteenColumns = 32 >> 4;
    WarpgroupProduct<Layout::kTokens>::template run<T>(state.sums, a[s], x + s * kSixteenColumns);
  }
  commit_products();
  wait_for_products<1>();
  // The product before this one has been made: its tokens may be overwritten.
  if (thread % 32 == 0 && state.last_x >= 0) arrive(rings.x_empty(state.last_x));
  state.last_x = state.x.stage;
  state.x.advance();
  if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_sub_blocks<Format, T, Layout, 1 - kHalf, j + 1>(rings, block, header, weights_empty,
                                                             thread, state);
  }
}

template <typename Format, typename T, int kHalf, typename Layout, typename WeightPlace>
__device__ __forceinline__ void multiply_next_block(const Rings<Layout>& rings, WeightPlace& w,
                                                    int group, int thread,
                                                    ConsumerState<Layout>& state) {
  wait_for(rings.weights_full(w.stage), w.parity);
  const uint32_t block = rings.weights(w.stage) + group * Format::kBytes;
  multiply_sub_blocks<Format, T, Layout, kHalf>(rings, block, Format::header(block, thread),
                                                rings.weights_empty(w.stage), thread, state);
  w.advance();
}

// Eight neighbouring features of a token.
template <typename T>
__device__ __forceinline__ void write_features(const MixedParams& params, int token, int feature,
                                               float (&values)[8]) {
  if (token >= params.num_tokens) return;
  const T* bias = static_cast<const T*>(params.bias);
  T* out = static_cast<T*>(params.out) + token * params.out_stride + feature;
  Vector<T> rounded;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (bias != nullptr && feature + i < params.num_features) values[i] += widen(bias[feature + i]);
    rounded.values[i] = narrow<T>(values[i]);
  }
  if (params.aligned_out && feature + 8 <= params.num_features) {
    *reinterpret_cast<Vector<T>*>(out) = rounded;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (feature + i < params.num_features) out[i] = rounded.values[i];
    }
  }
}

// Sums go through shared memory, [token][feature], so that tokens are written in long runs; the
// blocks of a cluster write a share of the tokens each, and add in the order of their ranks.
template <typename T, typename Layout>
__device__ __forceinline__ void write_sums(const MixedParams& params, float* shared,
                                           const float (&sums)[Layout::kTokens / 2],
                                           int feature_tile, int first_token) {
  constexpr int kWorkers = kManyConsumers * 128, kStride = Layout::kFeatureStride;
  constexpr int kRuns = kManyFeatures / 8;  // of a token
  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  synchronise<1, kWorkers>();  // nobody reads the rings any more
#pragma unroll
  for (int i = 0; i < Layout::kTokens / 2; ++i) {
    const int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
    shared[token * kStride + row + i % 4 / 2 * 8] = sums[i];
  }
  if (splits == 1) {
    synchronise<1, kWorkers>();
  } else {
    cluster_arrive();
    cluster_wait();
  }
  const int share = Layout::kTokens / static_cast<int>(splits);
  for (int run = threadIdx.x; run < share * kRuns; run += kWorkers) {
    const int token = static_cast<int>(split) * share + run / kRuns, feature = run % kRuns * 8;
    const float* from = shared + token * kStride + feature;
    float values[8] = {};
    for (uint32_t rank = 0; rank < splits; ++rank) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 four = splits == 1 ? *reinterpret_cast<const float4*>(from + 4 * half)
                                        : load_4_from_cluster(from + 4 * half, rank);
        values[4 * half] += four.x, values[4 * half + 1] += four.y;
        values[4 * half + 2] += four.z, values[4 * half + 3] += four.w;
      }
    }
    write_features<T>(params, first_token + token, feature_tile * kManyFeatures + feature, values);
  }
  if (splits > 1) {
    cluster_arrive();  // shared memory stays until all have read it
    cluster_wait();
  }
}

// Grid: (pairs of row tiles * splits, token tiles), clusters of `splits` blocks. Block:
// kManyThreads. Shared memory: many_tokens_shared. x lies at multiples of 16 bytes and so do its
// rows. Roofline: the tensor cores, or HBM below some hundred tokens.
template <typename Format, typename T, const ManyTile& kTile>
__device__ __forceinline__ void multiply_many_tokens(const MixedParams& params) {
  using Layout = ManyLayout<Format, kTile>;
  extern __shared__ unsigned char unaligned[];
  unsigned char* shared = reinterpret_cast<unsigned char*>(
      (reinterpret_cast<uint64_t>(unaligned) + 1023) & ~uint64_t{1023});
  const uint32_t base = shared_address(shared);
  const Rings<Layout> rings{base, base + Layout::kBarriers};
  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int feature_tile = static_cast<int>(blockIdx.x / splits);
  const int first_block = static_cast<int>(split) * params.split_blocks;
  const int num_blocks = max(0, min(params.split_blocks, params.k_blocks - first_block));
  const int first_token = static_cast<int>(blockIdx.y) * Layout::kTokens;
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;

  if (threadIdx.x == 0) {
    for (int s = 0; s < Layout::kXStages; ++s) {
      init_barrier(rings.x_full(s), 1);
      init_barrier(rings.x_empty(s), kManyConsumers * 4);
    }
    for (int s = 0; s < Layout::kWeightStages; ++s) {
      init_barrier(rings.weights_full(s), 1);
      init_barrier(rings.weights_empty(s), kManyConsumers * 4);
    }
    publish_barriers();
  }
  __syncthreads();

  if (group == kManyConsumers) {
    give_registers<24>();
    if (thread == 0) {
      fill_rings<Format>(params, rings, feature_tile, first_token, first_block, num_blocks);
    }
    return;
  }
  take_registers<240>();
  ConsumerState<Layout> state;
#pragma unroll
  for (int i = 0; i < Layout::kTokens / 2; ++i) {
    state.sums[i] = 0.0f;
    // Made here, not where a product is under way: that would keep products from overlapping.
    asm volatile("" : "+f"(state.sums[i])::"memory");
  }
  RingPlace<Layout::kWeightStages> w;
  // A block of one sub-block leaves the other half of `a` to the next. Pairs of them, so that the
  // compiler sees which half a product under way still reads.
  constexpr int kTurn = Format::kSubBlocks % 2 ? 2 : 1;
  for (int i = 0; i + kTurn <= num_blocks; i += kTurn) {
    multiply_next_block<Format, T, 0>(rings, w, group, thread, state);
    if constexpr (kTurn == 2) multiply_next_block<Format, T, 1>(rings, w, group, thread, state);
  }
  if (num_blocks % kTurn != 0) multiply_next_block<Format, T, 0>(rings, w, group, thread, state);
  wait_for_products<0>();
  write_sums<T, Layout>(params, reinterpret_cast<float*>(shared), state.sums, feature_tile,
                        first_token);
}

}  // namespace ac4k
