#include "ops/block_product_tiles.hpp"

#include <limits>

#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

// Up to this many tokens the bytes of the weights decide, and two blocks share an SM.
constexpr int64_t kFewTokens = 16;

// Microseconds of a block of the larger tiles for 32 values of K, and besides, as measured on an
// H200 with q4_0; other formats have them in the same proportion.
constexpr int kFirstLargeTile = 3;
constexpr double kCosts[] = {0.078, 0.243, 0.440};
constexpr double kNextTurn = 2.0;
static_assert(kFirstLargeTile + sizeof(kCosts) / sizeof(double) == kNumBlockProductTiles);
static_assert(kBlockProductTiles[kFirstLargeTile - 1].tokens == kFewTokens);

int64_t num_tiles(int tile, const BlockProductShape& shape) {
  return ceil_div(shape.M, tile_rows(kBlockProductTiles[tile])) *
         ceil_div(shape.N, kBlockProductTiles[tile].tokens);
}
int64_t num_steps(int tile, const BlockProductShape& shape) {
  return ceil_div(shape.num_blocks, kBlockProductTiles[tile].step_blocks);
}
// Each split has some steps for its ring.
bool can_split(int tile, int splits, const BlockProductShape& shape) {
  return splits == 1 || num_steps(tile, shape) >= 2 * splits;
}
bool fits(int tile, const BlockProductShape& shape) {
  return stages_within(kBlockProductTiles[tile], shape, shape.shared_per_block) >= 2;
}

// The first tile that holds all tokens; of the two for up to 8 the one with more rows issues a
// fourth less instructions for the same bytes, if that leaves enough blocks. As few splits as fill
// the GPU.
BlockProductChoice choose_for_few(const BlockProductShape& shape, const ClusterRoom& room) {
  const int64_t at_once = room[1];
  int tile = shape.N > kBlockProductTiles[1].tokens   ? 2
             : num_tiles(1, shape) * 10 < at_once * 9 ? 0
                                                      : 1;
  while (tile > 0 && !fits(tile, shape)) --tile;
  int splits = 1;
  while (2 * splits <= kMaxSplits && room[static_cast<size_t>(2 * splits)] > 0 &&
         num_tiles(tile, shape) * splits * 2 <= at_once && can_split(tile, 2 * splits, shape)) {
    splits *= 2;
  }
  return {tile, splits};
}

double estimated_time(const BlockProductChoice& choice, const BlockProductShape& shape,
                      const ClusterRoom& room) {
  const auto at_once = room[static_cast<size_t>(choice.splits)];
  const auto turns = static_cast<double>(ceil_div(num_tiles(choice.tile, shape), at_once));
  const auto blocks = static_cast<double>(ceil_div(num_steps(choice.tile, shape), choice.splits) *
                                          kBlockProductTiles[choice.tile].step_blocks);
  return turns * (blocks * kCosts[choice.tile - kFirstLargeTile] + kNextTurn);
}

}  // namespace

BlockProductChoice choose_block_product(const BlockProductShape& shape, const ClusterRoom& room) {
  if (shape.N <= kFewTokens) return choose_for_few(shape, room);
  BlockProductChoice best{0, 1};  // fits everywhere
  double best_time = std::numeric_limits<double>::infinity();
  for (int tile = kFirstLargeTile; tile < kNumBlockProductTiles; ++tile) {
    if (!fits(tile, shape)) continue;
    for (int splits = 1; splits <= kMaxSplits; splits *= 2) {
      const BlockProductChoice choice{tile, splits};
      if (room[static_cast<size_t>(splits)] == 0 || !can_split(tile, splits, shape)) break;
      const double time = estimated_time(choice, shape, room);
      if (time < best_time) best = choice, best_time = time;
    }
  }
  return best;
}

int totals_for(const BlockProductTile& tile, const BlockProductShape& shape) {
  return shape.has_minimum ? totals_bytes(tile) : 0;
}
int64_t stages_within(const BlockProductTile& tile, const BlockProductShape& shape, int64_t bytes) {
  return (bytes - totals_for(tile, shape)) / stage_bytes(tile, shape.block_bytes);
}

}  // namespace ac4k
