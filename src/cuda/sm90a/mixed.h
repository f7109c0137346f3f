// What the host hands to the mixed-input kernels, and the tiles it can choose.
#pragma once

#include "../common/rows.h"

#ifdef __CUDACC__
#define AC4K_ON_BOTH_SIDES __host__ __device__
#else
#define AC4K_ON_BOTH_SIDES
#endif

namespace ac4k {

// What the driver encodes; a kernel only hands on its address.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

// out[M, N] = x[M, K] * W[N, K]^T + bias, W packed.
struct MixedParams {
  TensorMap x_boxes;  // of 64 columns; many tokens only
  const void* x;
  const unsigned char* weights;  // [row tiles][k_blocks][block bytes]
  const void* bias;              // [N], or null
  void* out;
  RowOffsets x_rows;     // of tokens; those of x_boxes are one stride apart
  long long out_stride;  // elements from token to token
  int num_tokens;
  int num_features;
  int num_columns;
  int k_blocks;                 // of a row tile
  int split_blocks;             // of them for one split
  bool aligned_x, aligned_out;  // 16 bytes at a time
};

inline constexpr int kTileRows = 64;  // of packed weights
inline constexpr int kSubBlockK = 64;

// Few tokens: kFewGroups groups of four warps take turns at the stages of a ring, one warp fills
// it. Shared memory: see few_tokens_shared.
inline constexpr int kFewGroups = 2;
inline constexpr int kFewThreads = kFewGroups * 128 + 32;
inline constexpr int kFewStageColumns = 256;
inline constexpr int kFewFeatureStride = 68;  // floats: a fragment's stores meet all banks
AC4K_ON_BOTH_SIDES constexpr int few_tokens_stages(int stage_bytes) {
  return stage_bytes <= 10240 ? 6 : 4;
}
// Bytes before the rows of x, which come last: ring, partial sums, sums of other blocks, barriers.
AC4K_ON_BOTH_SIDES constexpr int few_tokens_fixed(int stage_bytes, int columns) {
  return few_tokens_stages(stage_bytes) * (stage_bytes + 16) + 16 +
         (kFewGroups * columns * kFewFeatureStride + columns * kTileRows) * 4;
}
// Of a row of x: 16 bytes more, so that eight rows meet all banks.
AC4K_ON_BOTH_SIDES constexpr int few_tokens_row(int columns_of_k) { return columns_of_k * 2 + 16; }

// Many tokens: two warpgroups of 64 features each, a third fills the rings.
inline constexpr int kManyConsumers = 2;
inline constexpr int kManyThreads = kManyConsumers * 128 + 128;
inline constexpr int kManyFeatures = kManyConsumers * kTileRows;
struct ManyTile {
  int tokens;
  int x_stages;       // of 64 columns
  int weight_blocks;  // sub-blocks of weights in flight, for each consumer
};
inline constexpr ManyTile kManyTiles[] = {{32, 16, 16}, {64, 12, 12}, {128, 8, 8}, {256, 4, 4}};
inline constexpr int kNumManyTiles = sizeof(kManyTiles) / sizeof(kManyTiles[0]);
AC4K_ON_BOTH_SIDES constexpr int many_weight_stages(const ManyTile& tile, int sub_blocks) {
  return tile.weight_blocks / sub_blocks < 2 ? 2 : tile.weight_blocks / sub_blocks;
}
AC4K_ON_BOTH_SIDES constexpr int many_tokens_shared(const ManyTile& tile, int block_bytes,
                                                    int sub_blocks) {
  const int x = tile.x_stages * tile.tokens * kSubBlockK * 2;
  const int weights = many_weight_stages(tile, sub_blocks) * kManyConsumers * block_bytes;
  const int ring = x + weights;
  const int sums = tile.tokens * (kManyFeatures + 4) * 4;
  return (ring > sums ? ring : sums) + 16 * (tile.x_stages + many_weight_stages(tile, sub_blocks)) +
         1024;
}

}  // namespace ac4k

#undef AC4K_ON_BOTH_SIDES
