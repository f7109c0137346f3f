// Few tokens: the sums of the groups of a block, and of the blocks of a cluster, become results.
#pragma once

#include "common/cluster.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mixed_epilogue.cuh"

namespace ac4k {

// Where sums meet, and whose they are.
struct FewSums {
  unsigned char* partial;           // of the groups: [group][column][feature] floats
  uint32_t received, all_received;  // those of the blocks, behind `partial`, and their barrier
  int row_tile, first_token, num_tokens;  // row_tile: the first
};

// Groups add up here, blocks in the shared memory of the one that owns the sum. A token has kParts
// columns of the product, a block kRowTiles.
template <typename T, int kColumns, int kGroups, int kParts, int kRowTiles>
__device__ __forceinline__ void add_up(const MixedParams& params, const FewSums& at,
                                       const float (&sums)[kRowTiles][kColumns / 8][4]) {
  constexpr int kWorkers = kGroups * 128;
  constexpr int kFeatures = kRowTiles * kTileRows, kStride = few_feature_stride(kRowTiles);
  const int thread = threadIdx.x % 128, lane = threadIdx.x % 32, group = threadIdx.x / 128;
  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int count = at.num_tokens * kFeatures, share = count / static_cast<int>(splits);
  float* partial = reinterpret_cast<float*>(at.partial);
  const float* received = partial + kGroups * kColumns * kStride;
  const int row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = c * 8 + lane % 4 * 2 + i % 2, feature = tile * kTileRows + row;
        partial[(group * kColumns + column) * kStride + feature + i / 2 * 8] = sums[tile][c][i];
      }
    }
  }
  synchronise<2, kWorkers>();
  // Features are finished four at a time: one by one takes a fifth of the time of 32 tokens.
  constexpr int kRun = 4;
  const auto add = [](float (&total)[kRun], const float* from) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    total[0] += four.x, total[1] += four.y, total[2] += four.z, total[3] += four.w;
  };
  const auto add_groups = [&](int index, float (&total)[kRun]) {
    const int token = index / kFeatures, feature = index % kFeatures;
#pragma unroll
    for (int part = 0; part < kParts * kGroups; ++part) {
      const int column = token * kParts + part / kGroups;
      add(total, partial + (part % kGroups * kColumns + column) * kStride + feature);
    }
  };
  const bool alone = splits == 1;
  if (!alone) {
    cluster_wait();  // all blocks have started
    for (int i = threadIdx.x * kRun; i < count; i += kWorkers * kRun) {
      float total[kRun] = {};
      add_groups(i, total);
      const int owner = i / share, place = static_cast<int>(split) * share + i - owner * share;
      send(at.received + place * 4, at.all_received, static_cast<uint32_t>(owner), total);
    }
    wait_for(at.all_received, 0);
  }
  const int first = static_cast<int>(split) * share;
  for (int i = threadIdx.x * kRun; i < share; i += kWorkers * kRun) {
    float total[kRun] = {};
    if (alone) {
      add_groups(i, total);
    } else {
      for (uint32_t rank = 0; rank < splits; ++rank) {
        add(total, received + static_cast<int>(rank) * share + i);
      }
    }
    const int token = (first + i) / kFeatures, feature = (first + i) % kFeatures;
    write_features<T>(params, at.first_token + token, at.row_tile * kTileRows + feature, total);
  }
}

}  // namespace ac4k
