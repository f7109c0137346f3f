// Many tokens: the sums that warpgroups have in registers become results.
#pragma once

#include "common/cluster.cuh"
#include "sm90a/mbarrier.cuh"
#include "sm90a/mixed_epilogue.cuh"

namespace ac4k {

// Barriers of the block: one for each group of consumers.
inline constexpr int kGroupBarrier = 3;

// The sums of a row tile and some tokens in shared memory, [token][feature], so that tokens are
// written in long runs: features change places so that a fragment's stores meet all banks.
__device__ __forceinline__ float* sum_place(float* sums, int token, int feature) {
  return sums + token * kTileRows + (feature ^ token / 2 % 4 * 8);
}
// A thread's sums of eight tokens.
__device__ __forceinline__ void store_sums(float* sums, int first_token, int thread,
                                           const float (&of_thread)[4]) {
  const int lane = thread % 32, row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    *sum_place(sums, first_token + lane % 4 * 2 + i % 2, row + i / 2 * 8) = of_thread[i];
  }
}
template <int kCount>
__device__ __forceinline__ void load_sums(float* sums, int token, int feature,
                                          float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(sum_place(sums, token, feature + i));
    values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
  }
}

// What is left to do where a block has all of K: each warpgroup writes its own features.
template <typename T, typename Layout>
__device__ __forceinline__ void write_own_sums(
    const MixedParams& params, unsigned char* shared,
    const float (&sums)[Layout::kRowTiles][Layout::kTokens / 2], int feature_tile,
    int first_token) {
  constexpr int kTileSums = Layout::kTokens * kTileRows;
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128;
  float* own = reinterpret_cast<float*>(shared) + group * (Layout::kRowTiles * kTileSums);
#pragma unroll
  for (int r = 0; r < Layout::kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < Layout::kTokens / 2; i += 4) {
      store_sums(own + r * kTileSums, 2 * i, thread,
                 {sums[r][i], sums[r][i + 1], sums[r][i + 2], sums[r][i + 3]});
    }
  }
  synchronise_warpgroup(kGroupBarrier + group);
  constexpr int kRun = 8, kRuns = kTileRows / kRun;  // of a token
#pragma unroll 1
  for (int r = 0; r < Layout::kRowTiles; ++r) {
    const int first_feature =
        feature_tile * Layout::kFeatures + (group * Layout::kRowTiles + r) * kTileRows;
    for (int token = thread / kRuns; token < Layout::kTokens; token += 128 / kRuns) {
      if (first_token + token >= params.num_tokens) break;
      const int feature = thread % kRuns * kRun;
      float values[kRun];
      load_sums(own + r * kTileSums, token, feature, values);
      write_features<T>(params, first_token + token, first_feature + feature, values);
    }
  }
}

// Where the blocks of a cluster share K, each finishes some of the pieces of eight tokens and a row
// tile: it reads the others' sums of them, and adds in the order of their ranks.
template <typename T, typename Layout>
__device__ __forceinline__ void write_shared_sums(
    const MixedParams& params, unsigned char* shared,
    const float (&sums)[Layout::kRowTiles][Layout::kTokens / 2], int feature_tile,
    int first_token) {
  constexpr int kOctets = Layout::kTokens / 8, kPieces = Layout::kAllRowTiles * kOctets;
  constexpr int kPieceSums = 8 * kTileRows;
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128;
  const int splits = params.splits, split = static_cast<int>(cluster_rank());
  float* pieces = reinterpret_cast<float*>(shared);  // as the product leaves them
#pragma unroll
  for (int r = 0; r < Layout::kRowTiles; ++r) {
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      const int piece = (group * Layout::kRowTiles + r) * kOctets + octet;
      reinterpret_cast<float4*>(pieces + piece * kPieceSums)[thread] = {
          sums[r][4 * octet], sums[r][4 * octet + 1], sums[r][4 * octet + 2],
          sums[r][4 * octet + 3]};
    }
  }
  cluster_arrive();
  cluster_wait();
  // Several pieces at once where they have few parts: that many loads are on their way.
  const int at_once = kMostSplits / splits;
  const int end = (split + 1) * kPieces / splits;
  float* turned = pieces + (kPieces + group * kPiecesAtOnce) * kPieceSums;
#pragma unroll 1
  for (int first = split * kPieces / splits + group; first < end;
       first += at_once * Layout::kConsumers) {
    const int count = min(at_once, (end - first + Layout::kConsumers - 1) / Layout::kConsumers);
    float4 parts[kMostSplits];
    int piece = first, rank = 0;
#pragma unroll
    for (int i = 0; i < kMostSplits; ++i) {
      if (i < count * splits) {
        parts[i] = load_4_from_cluster(pieces + piece * kPieceSums + thread * 4,
                                       static_cast<uint32_t>(rank));
      }
      if (++rank == splits) rank = 0, piece += Layout::kConsumers;
    }
    float total[4] = {};
    int place = 0;
    rank = 0;
#pragma unroll
    for (int i = 0; i < kMostSplits; ++i) {
      if (i < count * splits) {
        total[0] += parts[i].x, total[1] += parts[i].y;
        total[2] += parts[i].z, total[3] += parts[i].w;
      }
      if (++rank == splits) {
        if (i < count * splits) store_sums(turned + place * kPieceSums, 0, thread, total);
        rank = 0, ++place;
        total[0] = total[1] = total[2] = total[3] = 0.0f;
      }
    }
    synchronise_warpgroup(kGroupBarrier + group);
    constexpr int kRun = 4, kRuns = kTileRows / kRun;
    const int feature = thread % kRuns * kRun;
    for (place = 0, piece = first; place < count; ++place, piece += Layout::kConsumers) {
      const int token = first_token + piece % kOctets * 8 + thread / kRuns;
      if (token >= params.num_tokens) continue;
      float values[kRun];
      load_sums(turned + place * kPieceSums, thread / kRuns, feature, values);
      write_features<T>(params, token,
                        feature_tile * Layout::kFeatures + piece / kOctets * kTileRows + feature,
                        values);
    }
    synchronise_warpgroup(kGroupBarrier + group);  // `turned` may be written again
  }
  cluster_announce();
  cluster_wait();  // the others have read what is here
}

}  // namespace ac4k
