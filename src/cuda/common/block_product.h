// What the host hands to the products of raw GGUF blocks, and the tiles it can choose.
#pragma once

#ifdef __CUDACC__
#define AC4K_ON_BOTH_SIDES __host__ __device__
#else
#define AC4K_ON_BOTH_SIDES
#endif

namespace ac4k {

// out [M, N] = weight [M, K] * activation [N, K]^T.
struct BlockProductParams {
  const unsigned char* weight;      // [M, K / 32, bytes of the format]
  const unsigned char* activation;  // [N, K / 32, 36]
  float* out;
  long long weight_row_bytes, activation_row_bytes;
  int M, N;
  int num_steps;                     // of a row, each `step_blocks` of the tile
  int split_steps;                   // of them for one block of a cluster
  int num_stages;                    // of the ring
  int weight_unit, activation_unit;  // bytes that all rows are aligned to: 16, 4 or 1
  // kNibbleMask, from where the compiler cannot see its value: an instruction has room for one
  // constant, and masking with one and turning bits of another would be two.
  unsigned nibble_mask;
  bool aligned_out;  // four floats at a time
};
inline constexpr unsigned kNibbleMask = 0xf0f0f0f0u;

// What a block of threads computes: `tokens` columns of 16 * row_parts * row_warps rows. Its eight
// warps share the rows, the columns and the K of a step.
struct BlockProductTile {
  int tokens;
  int row_parts;  // times 16 rows, of a warp
  int row_warps, token_warps, k_warps;
  int step_blocks;  // of K: a multiple of 8, so that steps of all formats begin at 16 bytes
  int blocks_per_sm;
};
inline constexpr int kBlockProductThreads = 256;
// Up to 16 tokens the bytes of the weights decide: small tiles fill the GPU without splits. From 32
// on the tile is as large as keeps the tokens' traffic below that of the weights.
inline constexpr BlockProductTile kBlockProductTiles[] = {
    {8, 1, 1, 1, 8, 32, 2},  {8, 2, 1, 1, 8, 32, 2}, {16, 2, 1, 1, 8, 32, 2},
    {32, 2, 2, 1, 4, 16, 1}, {64, 2, 4, 1, 2, 8, 1}, {128, 2, 4, 2, 1, 8, 1},
};
inline constexpr int kNumBlockProductTiles =
    sizeof(kBlockProductTiles) / sizeof(kBlockProductTiles[0]);

inline constexpr int kActivationBlockBytes = 36;
inline constexpr int kGroupBlocks = 4;  // that a warp takes at a time
inline constexpr int kMaxBlockProductStages = 8;

AC4K_ON_BOTH_SIDES constexpr int tile_rows(const BlockProductTile& tile) {
  return 16 * tile.row_parts * tile.row_warps;
}
// An odd number of 16 bytes: the eight rows of a fragment then lie in different banks.
AC4K_ON_BOTH_SIDES constexpr int staged_row_bytes(const BlockProductTile& tile, int block_bytes) {
  return (tile.step_blocks * block_bytes / 16 | 1) * 16;
}
AC4K_ON_BOTH_SIDES constexpr int stage_bytes(const BlockProductTile& tile, int block_bytes) {
  return tile_rows(tile) * staged_row_bytes(tile, block_bytes) +
         tile.tokens * staged_row_bytes(tile, kActivationBlockBytes);
}
// Sums of the tokens' blocks, in two parts each; only formats with minimums have them, and where
// no two warps have the same blocks each makes its own.
AC4K_ON_BOTH_SIDES constexpr int totals_stride(const BlockProductTile& tile) {
  return tile.step_blocks + 4;
}
AC4K_ON_BOTH_SIDES constexpr int totals_bytes(const BlockProductTile& tile) {
  const bool shared = tile.row_warps * tile.token_warps > 1;
  return shared ? tile.tokens * totals_stride(tile) * 8 : 0;
}
// Floats from row to row of what warps hand to each other in the end.
AC4K_ON_BOTH_SIDES constexpr int partial_stride(const BlockProductTile& tile) {
  return tile.tokens == 8 ? 8 : tile.tokens + 8;
}
AC4K_ON_BOTH_SIDES constexpr int partial_bytes(const BlockProductTile& tile) {
  return tile.k_warps * tile_rows(tile) * partial_stride(tile) * 4;
}

}  // namespace ac4k

#undef AC4K_ON_BOTH_SIDES
