#include "ops/mixed_tiles.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "cuda/sm90a/mixed.h"
#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

// Microseconds of a block for 64 columns of K, and besides, as measured on an H200 with q4_0. In
// the order of the kernels.
struct FewTile {
  int columns;
  int row_tiles;
  double cost;
};
constexpr FewTile kFewTiles[] = {{8, 1, 0.055},  {16, 1, 0.067}, {32, 1, 0.083}, {8, 2, 0.115},
                                 {16, 2, 0.140}, {32, 2, 0.165}, {8, 4, 0.240},  {16, 4, 0.290}};
constexpr double kManyCosts[] = {0.235, 0.34, 0.46, 0.345, 0.63};
constexpr double kFewStart = 5.7, kManyStart = 4.5, kManySplit = 0.5, kNextTurn = 3.0;
static_assert(sizeof(kManyCosts) / sizeof(double) == kNumManyTiles);
static_assert(kMostSplits == kMaxSplits);
constexpr int kLargestTile = kNumManyTiles - 1;  // what it leaves goes to the one before

// When `count` blocks of `time` each are done, of which so many run at once; then `more_count` of
// `more_time` each take the places that become free.
double finish_time(int64_t count, double time, int64_t at_once, int64_t more_count,
                   double more_time) {
  const int64_t late = count % at_once, early = at_once - late;
  double early_end = static_cast<double>(count / at_once) * time;
  double late_end = late > 0 ? early_end + time : 0.0;
  for (int64_t left = more_count; left > 0;) {
    const bool at_early = late == 0 || early_end <= late_end;
    (at_early ? early_end : late_end) += more_time;
    left -= at_early ? early : late;
  }
  return std::max(early_end, late_end);
}

// Four row tiles wait for the instructions of their scales, where those are many.
double few_cost(const FewTile& tile, const MixedShape& shape) {
  return tile.row_tiles == 4 && shape.fine_groups ? 1.25 * tile.cost : tile.cost;
}

double estimated_time(const MixedTile& tile, const MixedShape& shape, const ClusterRoom& room) {
  const int64_t at_once = std::max(room[static_cast<size_t>(tile.splits)], 1);
  const int64_t before = tokens_before_rest(tile, shape);
  const int64_t steps = ceil_div(shape.k_blocks, tile.splits) * shape.sub_blocks;
  const auto turn = [&](double cost) { return static_cast<double>(steps) * cost + kNextTurn; };
  const auto clusters = [&](const MixedTile& of, int64_t tokens) {
    return ceil_div(shape.N, features_of(of)) * ceil_div(tokens, tokens_of(of));
  };
  const double cost = tile.few ? few_cost(kFewTiles[tile.index], shape) : kManyCosts[tile.index];
  const double rest_cost = tile.rest > 0 ? kManyCosts[rest_tile(tile).index] : 0.0;
  const int64_t rest = tile.rest > 0 ? clusters(rest_tile(tile), shape.tokens - before) : 0;
  const double start = tile.few ? kFewStart : kManyStart + kManySplit * tile.splits;
  return start - kNextTurn +
         finish_time(clusters(tile, before), turn(cost), at_once, rest, turn(rest_cost));
}

PackedBlock packed_block(const MixedShape& shape) {
  return {static_cast<int>(shape.block_bytes), shape.sub_blocks, shape.table_bytes};
}
int few_weight_bytes(const MixedTile& tile, const MixedShape& shape) {  // of a stage
  const int blocks = few_stage_columns_of(tile, shape) / (shape.sub_blocks * kSubBlockK);
  return kFewTiles[tile.index].row_tiles * blocks * static_cast<int>(shape.block_bytes);
}
int few_stage_bytes(const MixedTile& tile, const MixedShape& shape) {
  return few_stage(few_weight_bytes(tile, shape), kFewTiles[tile.index].columns,
                   few_stage_columns_of(tile, shape));
}
int few_groups(const MixedTile& tile, const MixedShape& shape) {
  return few_groups(tokens_of(tile), kFewTiles[tile.index].row_tiles, packed_block(shape));
}
int few_once_bytes(const MixedTile& tile, const MixedShape& shape) {
  return few_once(few_groups(tile, shape), tokens_of(tile), kFewTiles[tile.index].row_tiles);
}

// The order numbers them for users. It depends on the sizes and on what fits into shared memory,
// which is the same for all layouts of W4A16.
template <typename Visit>
void for_each_tile(const MixedShape& shape, const Visit& visit) {
  const int64_t most_splits = std::clamp<int64_t>(
      shape.k_blocks * shape.sub_blocks * kSubBlockK / kFewStageColumns, 1, kMaxSplits);
  const auto offer = [&](const MixedTile& tile) {
    if (shared_bytes(tile, shape) + shape.table_bytes <= shape.shared_per_block) visit(tile);
  };
  for (int i = 0; i < static_cast<int>(std::size(kFewTiles)) && shape.whole_columns; ++i) {
    // More tokens than a tile has would read the weights again.
    if (shape.tokens > kFewTiles[i].columns) continue;
    if (kFewTiles[i].row_tiles > shape.most_row_tiles) continue;
    // Several row tiles want two stages for each group.
    const int least_stages = std::min(kFewTiles[i].row_tiles, 2) * few_groups({true, i, 1}, shape);
    if (few_stages({true, i, 1}, shape) < least_stages) continue;
    for (int splits = 1; splits <= most_splits; splits *= 2) offer({true, i, splits});
  }
  for (int i = 0; i < kNumManyTiles; ++i) {
    const int64_t most = many_can_split(kManyTiles[i]) ? most_splits : 1;
    for (int splits = 1; splits <= most; ++splits) offer({false, i, splits});
  }
  // Smaller tiles at the end fill the last turn of the largest ones.
  const int64_t along_tokens = ceil_div(shape.tokens, kManyTiles[kLargestTile].tokens);
  constexpr int kMostRest = 2;
  for (int rest = 1; rest <= kMostRest && rest < along_tokens; ++rest) {
    offer({false, kLargestTile, 1, rest});
  }
}

}  // namespace

MixedShape mixed_shape(WeightFormat format, int64_t tokens, int64_t N, int64_t K,
                       int shared_per_block) {
  const WeightBlock& block = block_of(format);
  const bool has_table = format == WeightFormat::iq4_nl || format == WeightFormat::iq4_xs;
  return {.tokens = tokens,
          .N = N,
          .k_blocks = packed_blocks(block, K),
          .sub_blocks = block.packed_columns / kSubBlockK,
          .block_bytes = packed_block_bytes(block),
          .table_bytes = has_table ? kCodeTableBytes : 0,
          .whole_columns = K % kSubBlockK == 0,
          .fine_groups = block.values < 128,
          .most_row_tiles = is_w4(format) ? 4 : 2,
          .shared_per_block = shared_per_block};
}

int tokens_of(const MixedTile& tile) {
  return tile.few ? kFewTiles[tile.index].columns : kManyTiles[tile.index].tokens;
}
int features_of(const MixedTile& tile) {
  return tile.few ? kFewTiles[tile.index].row_tiles * kTileRows
                  : many_features(kManyTiles[tile.index]);
}
int threads_of(const MixedTile& tile, const MixedShape& shape) {
  return tile.few
             ? few_threads(tokens_of(tile), kFewTiles[tile.index].row_tiles, packed_block(shape))
             : many_threads(kManyTiles[tile.index]);
}
int few_stage_columns_of(const MixedTile& tile, const MixedShape& shape) {
  return few_stage_columns(shape.sub_blocks, kFewTiles[tile.index].row_tiles);
}
MixedTile rest_tile(const MixedTile& tile) { return {tile.few, tile.index - 1, tile.splits}; }
int64_t tokens_before_rest(const MixedTile& tile, const MixedShape& shape) {
  if (tile.rest == 0) return shape.tokens;
  return (ceil_div(shape.tokens, tokens_of(tile)) - tile.rest) * tokens_of(tile);
}
int few_stages(const MixedTile& tile, const MixedShape& shape) {
  // More on their way than keep the memory busy make it serve some blocks long before others.
  constexpr int kWeightBytes = 90 * 1024;
  const int groups = few_groups(tile, shape);
  const int room = shape.shared_per_block - shape.table_bytes;
  const int fit = (room - few_once_bytes(tile, shape)) / few_stage_bytes(tile, shape);
  const int wanted = kWeightBytes / few_weight_bytes(tile, shape) + groups / 2;
  return std::max(std::min({fit, wanted, kFewMaxStages}) / groups, 1) * groups;
}
int64_t shared_bytes(const MixedTile& tile, const MixedShape& shape) {
  if (tile.few) {
    return few_once_bytes(tile, shape) + few_stages(tile, shape) * few_stage_bytes(tile, shape);
  }
  return many_tokens_shared(kManyTiles[tile.index], packed_block(shape));
}

std::string name_of(const MixedTile& tile) {
  return (tile.few ? "few_" : "many_") + std::to_string(tokens_of(tile)) + "x" +
         std::to_string(features_of(tile)) + "_split" + std::to_string(tile.splits) +
         (tile.rest > 0 ? "_rest" + std::to_string(tile.rest) : "");
}

std::vector<MixedTile> mixed_tiles(const MixedShape& shape) {
  std::vector<MixedTile> tiles;
  for_each_tile(shape, [&](const MixedTile& tile) { tiles.push_back(tile); });
  return tiles;
}

int64_t mixed_tile_at(const MixedShape& shape, int64_t number, MixedTile* tile) {
  int64_t count = 0;
  for_each_tile(shape, [&](const MixedTile& each) {
    if (++count == number) *tile = each;
  });
  return count;
}

MixedTile best_mixed_tile(const MixedShape& shape, const ClusterRoom& room) {
  struct Known {
    MixedShape shape;
    ClusterRoom room;
    MixedTile tile;
  };
  constexpr size_t kPlaces = 32;
  thread_local Known known[kPlaces] = {};
  const auto key = static_cast<uint64_t>(shape.tokens * 31 + shape.N * 7 + shape.k_blocks * 3 +
                                         shape.block_bytes);
  Known& place = known[key * 0x9e3779b97f4a7c15u >> 59];
  if (place.shape == shape && place.room == room) return place.tile;

  MixedTile best{};
  double best_time = std::numeric_limits<double>::infinity();
  for_each_tile(shape, [&](const MixedTile& tile) {
    const double time = estimated_time(tile, shape, room);
    if (time < best_time) best = tile, best_time = time;
  });
  place = {shape, room, best};
  return best;
}

}  // namespace ac4k
