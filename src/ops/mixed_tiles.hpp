// Which kernel of the mixed-input engine multiplies: its tile, and how many blocks of a cluster
// share K.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/weight_formats.hpp"
#include "ops/cluster_room.hpp"

namespace ac4k {

struct MixedTile {
  bool few;
  int index;  // in the table of such tiles
  int splits;
  int rest = 0;  // of the tiles along tokens: the last ones, left to the next smaller tile
};

// out[tokens, N] = x[tokens, K] W[N, K]^T with packed weights.
struct MixedShape {
  int64_t tokens, N;
  int64_t k_blocks;      // packed ones along K
  int sub_blocks;        // of 64 columns in one of them
  int64_t block_bytes;   // of one of them
  int table_bytes;       // of shared memory, for a table that codes are places in
  bool whole_columns;    // K is a multiple of 64: what kernels for few tokens want
  bool fine_groups;      // fewer than 128 columns have a scale of their own
  int most_row_tiles;    // of a block, for few tokens
  int shared_per_block;  // of the GPU

  bool operator==(const MixedShape&) const = default;
};

MixedShape mixed_shape(WeightFormat format, int64_t tokens, int64_t N, int64_t K,
                       int shared_per_block);

// Every tile that can multiply the shape.
std::vector<MixedTile> mixed_tiles(const MixedShape& shape);
// The one with this number, from 1, if there are so many: their count is returned.
int64_t mixed_tile_at(const MixedShape& shape, int64_t number, MixedTile* tile);
// The one that is expected to be the fastest; the shape must have one. A model has few shapes: a
// thread remembers those that it has asked for.
MixedTile best_mixed_tile(const MixedShape& shape, const ClusterRoom& room);
// The one that multiplies the rest, and the tokens before it.
MixedTile rest_tile(const MixedTile& tile);
int64_t tokens_before_rest(const MixedTile& tile, const MixedShape& shape);
// "few_16x64_split2": tokens x features; "rest1": of the tiles along tokens the last is left to
// smaller ones.
std::string name_of(const MixedTile& tile);

// What a launch of the tile needs.
int few_stages(const MixedTile& tile, const MixedShape& shape);
int64_t shared_bytes(const MixedTile& tile, const MixedShape& shape);
int threads_of(const MixedTile& tile, const MixedShape& shape);
int tokens_of(const MixedTile& tile);
int features_of(const MixedTile& tile);
int few_stage_columns_of(const MixedTile& tile, const MixedShape& shape);

}  // namespace ac4k
