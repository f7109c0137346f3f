// What the host hands to the mixed-input kernels, and the tiles it can choose.
#pragma once

#include "../common/rows.h"
#include "tensor_map.h"

#ifdef __CUDACC__
#define AC4K_ON_BOTH_SIDES __host__ __device__
#else
#define AC4K_ON_BOTH_SIDES
#endif

namespace ac4k {

enum class MixedActivation : int { none, silu, gelu, gelu_tanh };

// out[M, N] = activation(alpha * x[M, K] * W[N, K]^T + bias) + residual, W packed.
struct MixedParams {
  // Boxes of 64 columns: [tokens][columns], or [boxes][tokens][columns] for few tokens.
  TensorMap x_boxes;
  const void* x;                 // where there are no boxes
  const unsigned char* weights;  // [row tiles][k_blocks][block bytes]
  const void* bias;              // [N], or null
  const void* residual;          // as out, or null; may be out
  void* out;
  RowOffsets x_rows;     // of tokens; those of x_boxes are one stride apart
  long long out_stride;  // elements from token to token
  float alpha;
  MixedActivation activation;
  int num_tokens;
  int box_tokens;  // for few: those that do not exist would take the time of others
  int num_features;
  int num_columns;
  int k_blocks;                 // of a row tile
  int split_blocks;             // of them for one split
  int splits;                   // of K, for the blocks of a cluster
  int few_stages;               // a multiple of the groups: a stage is always the same group's
  bool aligned_x, aligned_out;  // 16 bytes at a time; out means bias and residual, too
  bool follows;                 // the kernel before has the first tokens of the same product
};

inline constexpr int kTileRows = 64;  // of packed weights
inline constexpr int kSubBlockK = 64;

// Packed weights of a row tile: a block, and the table in shared memory that its codes are places
// in, if they are: pairs of codes, 32 times.
struct PackedBlock {
  int bytes;
  int sub_blocks;
  int table_bytes;
};
inline constexpr int kCodeTableBytes = 256 * 32 * 4;

// Few tokens: groups of four warps take turns at the stages of a ring, one warp fills it with
// weights and one with tokens. A block has one row tile of weights or, so that tokens are read half
// as often, two or four.
inline constexpr int kFewStageColumns = 256;
AC4K_ON_BOTH_SIDES constexpr int few_stage_columns(int sub_blocks, int row_tiles) {
  const int block = sub_blocks * kSubBlockK, columns = kFewStageColumns / row_tiles;
  return columns > block ? columns : block;
}
// For 16 tokens four groups hide more of what they wait for, if the ring has stages for them.
AC4K_ON_BOTH_SIDES constexpr int few_groups(int columns, int row_tiles, const PackedBlock& block) {
  const int stage_bytes = kFewStageColumns / (block.sub_blocks * kSubBlockK) * block.bytes;
  return columns == 16 && row_tiles <= 2 && stage_bytes <= 14 * 1024 ? 4 : 3;
}
AC4K_ON_BOTH_SIDES constexpr int few_threads(int columns, int row_tiles, const PackedBlock& block) {
  return few_groups(columns, row_tiles, block) * 128 + 64;
}
// Floats of a column's sums: a fragment's stores meet all banks.
AC4K_ON_BOTH_SIDES constexpr int few_feature_stride(int row_tiles) {
  return row_tiles * kTileRows + 4;
}
// Sums of the groups, sums of other blocks.
AC4K_ON_BOTH_SIDES constexpr int few_sums(int groups, int columns, int row_tiles) {
  return (groups * few_feature_stride(row_tiles) + row_tiles * kTileRows) * columns * 4;
}
// Barriers and sums come first, so that only the weights' place depends on the number of stages.
inline constexpr int kFewMaxStages = 16;
inline constexpr int kFewBarriers = 512;  // bytes
AC4K_ON_BOTH_SIDES constexpr int few_ring(int groups, int columns, int row_tiles) {
  return (kFewBarriers + few_sums(groups, columns, row_tiles) + 1023) / 1024 * 1024;
}
// Bytes of a stage, and those that are there once, with what aligns them.
AC4K_ON_BOTH_SIDES constexpr int few_stage(int weight_bytes, int columns, int stage_columns) {
  return columns * stage_columns * 2 + weight_bytes;
}
AC4K_ON_BOTH_SIDES constexpr int few_once(int groups, int columns, int row_tiles) {
  return 1024 + few_ring(groups, columns, row_tiles);
}

// Few tokens of any type, at any address: those of a block's share of K stay in shared memory.
inline constexpr int kFewAnyColumns = 16;
inline constexpr int kFewAnyGroups = 2;
inline constexpr int kFewAnyThreads = kFewAnyGroups * 128 + 32;
AC4K_ON_BOTH_SIDES constexpr int few_any_stages(int stage_bytes) {
  return stage_bytes <= 10240 ? 6 : 4;
}
// Bytes before the rows of x, which come last: ring, partial sums, sums of other blocks, barriers.
AC4K_ON_BOTH_SIDES constexpr int few_any_fixed(int stage_bytes, int columns) {
  return few_any_stages(stage_bytes) * (stage_bytes + 16) + 16 +
         few_sums(kFewAnyGroups, columns, 1);
}
// Of a row of x: 16 bytes more, so that eight rows meet all banks.
AC4K_ON_BOTH_SIDES constexpr int few_any_row(int columns_of_k) { return columns_of_k * 2 + 16; }

// Many tokens: `consumers` warpgroups of `row_tiles` times 64 features each, one more fills the
// rings. With two row tiles what a warpgroup does besides making weights is done half as often.
struct ManyTile {
  int tokens;
  int consumers;
  int row_tiles;
};
inline constexpr ManyTile kManyTiles[] = {
    {64, 2, 1}, {64, 3, 1}, {64, 2, 2}, {128, 2, 1}, {256, 2, 1}};
inline constexpr int kNumManyTiles = sizeof(kManyTiles) / sizeof(kManyTiles[0]);
inline constexpr int kMostSplits = 8;  // kMaxSplits of the host
inline constexpr int kManyShared = 226 * 1024;
AC4K_ON_BOTH_SIDES constexpr int many_threads(const ManyTile& tile) {
  return (tile.consumers + 1) * 128;
}
AC4K_ON_BOTH_SIDES constexpr int many_row_tiles(const ManyTile& tile) {
  return tile.consumers * tile.row_tiles;
}
AC4K_ON_BOTH_SIDES constexpr int many_features(const ManyTile& tile) {
  return many_row_tiles(tile) * kTileRows;
}
// Stages of weights hold two sub-blocks or more of each row tile, those of tokens two boxes of 64
// columns while they are small.
AC4K_ON_BOTH_SIDES constexpr int many_x_boxes(const ManyTile& tile) {
  return tile.tokens <= 64 ? 2 : 1;
}
AC4K_ON_BOTH_SIDES constexpr int many_x_bytes(const ManyTile& tile) {
  return many_x_boxes(tile) * tile.tokens * kSubBlockK * 2;
}
AC4K_ON_BOTH_SIDES constexpr int many_stage_blocks(const PackedBlock& block) {
  return block.sub_blocks == 1 ? 2 : 1;
}
AC4K_ON_BOTH_SIDES constexpr int many_weight_bytes(const ManyTile& tile, const PackedBlock& block) {
  return many_row_tiles(tile) * many_stage_blocks(block) * block.bytes;
}
AC4K_ON_BOTH_SIDES constexpr int many_room(const PackedBlock& block) {  // for the rings
  return kManyShared - 1024 - 64 - block.table_bytes;
}
// Stages of tokens for one of weights.
AC4K_ON_BOTH_SIDES constexpr int many_x_share(const ManyTile& tile, const PackedBlock& block) {
  return many_stage_blocks(block) * block.sub_blocks / many_x_boxes(tile);
}
// The ring of tokens has as many rounds of that, so that one place says where both rings are; or,
// where they do not fit, a single one.
AC4K_ON_BOTH_SIDES constexpr int many_weight_stages(const ManyTile& tile,
                                                    const PackedBlock& block) {
  const int weights = many_weight_bytes(tile, block) + 16;
  const int x = many_x_share(tile, block) * (many_x_bytes(tile) + 16);
  const int fit = many_room(block) / (weights + x);
  const int most = 16 / (many_stage_blocks(block) * block.sub_blocks);
  return fit < 2 ? 2 : fit > most ? most : fit;
}
AC4K_ON_BOTH_SIDES constexpr int many_x_rounds(const ManyTile& tile, const PackedBlock& block) {
  const int stages = many_weight_stages(tile, block);
  const int weights = stages * (many_weight_bytes(tile, block) + 16);
  const int x = many_x_share(tile, block) * (many_x_bytes(tile) + 16);
  return weights + stages * x <= many_room(block) ? stages : 1;
}
AC4K_ON_BOTH_SIDES constexpr int many_x_stages(const ManyTile& tile, const PackedBlock& block) {
  return many_x_rounds(tile, block) * many_x_share(tile, block);
}
AC4K_ON_BOTH_SIDES constexpr int many_rings(const ManyTile& tile, const PackedBlock& block) {
  return many_x_stages(tile, block) * many_x_bytes(tile) +
         many_weight_stages(tile, block) * many_weight_bytes(tile, block);
}
// The sums of the largest tile take longer to travel than they save.
AC4K_ON_BOTH_SIDES constexpr bool many_can_split(const ManyTile& tile) { return tile.tokens < 256; }
// Pieces of eight tokens and a row tile that a consumer finishes at once: as many as have
// kMostSplits parts together, which is the most where two blocks share K.
inline constexpr int kPiecesAtOnce = kMostSplits / 2;
// Sums, and for each consumer the pieces that it finishes.
AC4K_ON_BOTH_SIDES constexpr int many_sums(const ManyTile& tile) {
  return (tile.tokens * many_features(tile) + tile.consumers * kPiecesAtOnce * 8 * kTileRows) * 4;
}
AC4K_ON_BOTH_SIDES constexpr int many_tokens_shared(const ManyTile& tile,
                                                    const PackedBlock& block) {
  const int rings = many_rings(tile, block), sums = many_sums(tile);
  return (rings > sums ? rings : sums) + 1024 + 64 +
         16 * (many_x_stages(tile, block) + many_weight_stages(tile, block));
}

}  // namespace ac4k

#undef AC4K_ON_BOTH_SIDES
