// Which kernels of the mixed-input engine a product can take, and which it gets.
#include <gtest/gtest.h>

#include <set>

#include "ac4k/ac4k.h"
#include "core/weight_formats.hpp"
#include "ops/mixed_tiles.hpp"

namespace ac4k {
namespace {

// As an H200 has it.
const ClusterRoom kRoom{0, 132, 66, 39, 30, 22, 17, 15, 15};

MixedShape shape_of(WeightFormat format, int64_t tokens, int64_t N, int64_t K) {
  return mixed_shape(format, tokens, N, K, 232448);
}

std::string best(int64_t tokens, int64_t N, int64_t K, WeightFormat format = WeightFormat::q4_0) {
  return name_of(best_mixed_tile(shape_of(format, tokens, N, K), kRoom));
}

// Those that were the fastest when all were measured.
TEST(MixedTiles, TheFastestIsChosen) {
  EXPECT_EQ(best(1, 4096, 14336), "few_8x64_split2");
  EXPECT_EQ(best(16, 4096, 14336), "few_16x64_split2");
  EXPECT_EQ(best(32, 4096, 14336), "few_32x64_split2");
  EXPECT_EQ(best(64, 4096, 14336), "many_64x192_split5");
  EXPECT_EQ(best(128, 4096, 14336), "many_64x128_split2");
  EXPECT_EQ(best(256, 4096, 14336), "many_128x128_split2");
  EXPECT_EQ(best(512, 4096, 14336), "many_128x128_split1");
  EXPECT_EQ(best(2048, 4096, 14336), "many_256x128_split1");
  EXPECT_EQ(best(16, 14336, 4096), "few_16x128_split1");
  EXPECT_EQ(best(32, 14336, 4096), "few_32x128_split1");
  EXPECT_EQ(best(16, 28672, 8192), "few_16x128_split1");
  EXPECT_EQ(best(16, 8192, 28672), "few_16x64_split1");
  EXPECT_EQ(best(32, 8192, 28672), "few_32x128_split2");
  EXPECT_EQ(best(64, 14336, 4096), "many_64x128_split1");
  EXPECT_EQ(best(64, 8192, 28672), "many_64x128_split2");
  // Smaller tiles fill what would be a turn of a few.
  EXPECT_EQ(best(1024, 14336, 4096), "many_256x128_split1_rest1");
  // All row tiles at once rather than two turns.
  EXPECT_EQ(best(1, 14336, 4096), "few_8x128_split1");
  for (const WeightFormat format : {WeightFormat::w4_g128_f16, WeightFormat::w4_g128z_bf16}) {
    EXPECT_EQ(best(1, 28672, 8192, format), "few_8x256_split1");
    EXPECT_EQ(best(16, 28672, 8192, format), "few_16x256_split1");
    EXPECT_EQ(best(1, 14336, 4096, format), "few_8x128_split1");
    EXPECT_EQ(best(16, 14336, 4096, format), "few_16x128_split1");
    EXPECT_EQ(best(1, 8192, 28672, format), "few_8x64_split1");
    EXPECT_EQ(best(16, 8192, 28672, format), "few_16x64_split1");
  }
  // Too many scales for four row tiles.
  EXPECT_EQ(best(1, 28672, 8192, WeightFormat::w4_g64_bf16), "few_8x128_split1");
  EXPECT_EQ(best(16, 28672, 8192, WeightFormat::w4_g32_f16), "few_16x128_split1");
}

TEST(MixedTiles, WhatIsRememberedIsThatOfTheShapeAndTheGpu) {
  ClusterRoom small = kRoom;
  for (int& clusters : small) clusters /= 8;
  std::set<std::string> names;
  for (int round = 0; round < 2; ++round) {
    for (int64_t tokens = 1; tokens <= 300; tokens += 13) {
      const MixedShape shape = shape_of(WeightFormat::q4_0, tokens, 4096, 14336);
      names.insert(std::to_string(tokens) + name_of(best_mixed_tile(shape, kRoom)));
      names.insert(std::to_string(tokens) + "small" + name_of(best_mixed_tile(shape, small)));
    }
  }
  EXPECT_EQ(names.size(), 2u * 24u);  // the second round found the same
  EXPECT_EQ(best(1, 4096, 14336), "few_8x64_split2");
}

TEST(MixedTiles, TilesHaveNumbersFromOne) {
  const MixedShape shape = shape_of(WeightFormat::q4_0, 8, 4096, 4096);
  const auto tiles = mixed_tiles(shape);
  MixedTile tile{};
  for (size_t i = 0; i < tiles.size(); ++i) {
    const auto number = static_cast<int64_t>(i + 1);
    EXPECT_EQ(mixed_tile_at(shape, number, &tile), static_cast<int64_t>(tiles.size()));
    EXPECT_EQ(name_of(tile), name_of(tiles[i]));
  }
  const std::string last = name_of(tile);
  EXPECT_EQ(mixed_tile_at(shape, 1000, &tile), static_cast<int64_t>(tiles.size()));
  EXPECT_EQ(name_of(tile), last);
}

TEST(MixedTiles, EveryFormatHasTilesThatFit) {
  for (int f = 0; f < kNumWeightFormats; ++f) {
    const auto format = static_cast<WeightFormat>(f);
    for (const int64_t tokens : {1, 9, 33, 300}) {
      const MixedShape shape = shape_of(format, tokens, 192, 1024);
      std::set<std::string> names;
      for (const MixedTile& tile : mixed_tiles(shape)) {
        EXPECT_LE(shared_bytes(tile, shape) + shape.table_bytes, shape.shared_per_block)
            << name_of(tile);
        EXPECT_TRUE(names.insert(name_of(tile)).second) << name_of(tile);
        if (tile.few) {
          EXPECT_GE(few_stages(tile, shape), 2) << block_of(format).name;
          EXPECT_LE(tokens, tokens_of(tile));
        }
      }
      EXPECT_GE(names.size(), 4u) << block_of(format).name;
    }
  }
}

// A config is a number: it must mean the same for all layouts of W4A16.
TEST(MixedTiles, TheNumbersDoNotDependOnTheLayout) {
  for (const int64_t K : {64, 256, 1024, 4096}) {
    for (const int64_t tokens : {8, 16, 32, 600}) {
      const auto expected = mixed_tiles(shape_of(WeightFormat::w4_g32_f16, tokens, 4096, K));
      for (const auto format : {WeightFormat::w4_g128_f16, WeightFormat::w4_g64z_bf16,
                                WeightFormat::w4_g32z_bf16, WeightFormat::w4_g128z_f16}) {
        const auto tiles = mixed_tiles(shape_of(format, tokens, 4096, K));
        ASSERT_EQ(tiles.size(), expected.size()) << K << " " << tokens;
        for (size_t i = 0; i < tiles.size(); ++i) {
          EXPECT_EQ(name_of(tiles[i]), name_of(expected[i]));
        }
      }
    }
  }
}

// Tensor copies of three dims want whole boxes of columns.
TEST(MixedTiles, APartOfABoxIsLeftToTheOthers) {
  for (const MixedTile& tile : mixed_tiles(shape_of(WeightFormat::q4_0, 1, 64, 96))) {
    EXPECT_FALSE(tile.few) << name_of(tile);
  }
}

TEST(MixedTiles, NamesOfConfigsInC) {
  const char* names = nullptr;
  const DLDevice cpu{kDLCPU, 0};
  EXPECT_EQ(ac4k_quant_linear_configs("q4_k", cpu, 1, 64, 256, &names), AC4K_OK);
  EXPECT_STREQ(names, "[\"auto\"]");
  EXPECT_EQ(ac4k_quant_linear_configs("q4_k", cpu, 1, 64, 256, nullptr), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_quant_linear_configs(nullptr, cpu, 1, 64, 256, &names), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_quant_linear_configs("w4_g32_f16", cpu, 1, 64, 256, &names), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_quant_linear_configs("q4_k", cpu, 1, 64, 255, &names), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_quant_linear_configs("q4_k", {kDLMetal, 0}, 1, 64, 256, &names), AC4K_UNSUPPORTED);
}

}  // namespace
}  // namespace ac4k
