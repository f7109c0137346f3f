// Which tile the product of raw GGUF blocks gets.
#include <gtest/gtest.h>

#include "ops/block_product_tiles.hpp"

namespace ac4k {
namespace {

// As an H200 has it.
const ClusterRoom kRoom{0, 132, 66, 39, 30, 22, 17, 15, 15};

BlockProductShape shape_of(int64_t N, int64_t M = 4096, int64_t K = 14336, int block_bytes = 18) {
  return {.M = M,
          .N = N,
          .num_blocks = K / 32,
          .block_bytes = block_bytes,
          .has_minimum = block_bytes % 4 == 0,
          .shared_per_block = 232448};
}
// Tokens of the tile and splits.
std::pair<int, int> choice(const BlockProductShape& shape, const ClusterRoom& room = kRoom) {
  const BlockProductChoice chosen = choose_block_product(shape, room);
  return {kBlockProductTiles[chosen.tile].tokens, chosen.splits};
}

TEST(BlockProductTiles, AllBlocksRunAtOnce) {
  EXPECT_EQ(choice(shape_of(1)), std::pair(8, 1));
  EXPECT_EQ(choice(shape_of(16)), std::pair(16, 1));
  EXPECT_EQ(choice(shape_of(32)), std::pair(32, 2));
  // 32 clusters of four would take two turns: 30 run at once.
  EXPECT_EQ(choice(shape_of(64)), std::pair(32, 1));
  EXPECT_EQ(choice(shape_of(128)), std::pair(64, 2));
  EXPECT_EQ(choice(shape_of(512)), std::pair(128, 1));
}

TEST(BlockProductTiles, NoClustersWhereThereAreNone) {
  ClusterRoom none{};
  none[1] = 128;
  for (const int64_t N : {1, 16, 17, 64, 300}) {
    EXPECT_EQ(choice(shape_of(N), none).second, 1) << N;
    EXPECT_EQ(choice(shape_of(N, 64, 4096), none).second, 1) << N;
  }
}

TEST(BlockProductTiles, TheRingFits) {
  for (const int bytes : {18, 20, 22, 24, 34}) {
    for (const int shared : {101376, 166912, 232448}) {
      for (const int64_t N : {1, 9, 17, 40, 100, 1000}) {
        BlockProductShape shape = shape_of(N, 4096, 4096, bytes);
        shape.shared_per_block = shared;
        const BlockProductChoice chosen = choose_block_product(shape, kRoom);
        EXPECT_GE(stages_within(kBlockProductTiles[chosen.tile], shape, shared), 2)
            << bytes << " " << shared << " " << N;
      }
    }
  }
}

TEST(BlockProductTiles, EverySplitHasSteps) {
  for (const int64_t K : {32, 96, 256, 512, 1024, 4096}) {
    for (const int64_t N : {1, 16, 32, 128}) {
      const BlockProductShape shape = shape_of(N, 64, K);
      const BlockProductChoice chosen = choose_block_product(shape, kRoom);
      const int step = kBlockProductTiles[chosen.tile].step_blocks;
      const int64_t steps = (shape.num_blocks + step - 1) / step;
      EXPECT_TRUE(chosen.splits == 1 || steps >= 2 * chosen.splits) << K << " " << N;
    }
  }
}

}  // namespace
}  // namespace ac4k
