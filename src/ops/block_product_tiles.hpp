// Which tile multiplies raw GGUF blocks, and how many blocks of a cluster share K.
#pragma once

#include <cstdint>

#include "cuda/common/block_product.h"
#include "ops/cluster_room.hpp"

namespace ac4k {

// out[M, N] = weight[M, K] activation[N, K]^T with N tokens.
struct BlockProductShape {
  int64_t M, N;
  int64_t num_blocks;    // of 32 values, of a row
  int block_bytes;       // of the weights
  bool has_minimum;      // the format's blocks have one
  int shared_per_block;  // of the GPU
};
struct BlockProductChoice {
  int tile;  // of kBlockProductTiles
  int splits;
};

BlockProductChoice choose_block_product(const BlockProductShape& shape, const ClusterRoom& room);

// Of the format's tokens, for the tile; and stages of its ring that fit into `bytes` with them.
int totals_for(const BlockProductTile& tile, const BlockProductShape& shape);
int64_t stages_within(const BlockProductTile& tile, const BlockProductShape& shape, int64_t bytes);

}  // namespace ac4k
