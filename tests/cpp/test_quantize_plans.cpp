// Kernels of sm90a that quantise a whole tensor: their launches cover it, once.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/quantize_flat.hpp"

namespace ac4k {
namespace {

TEST(FlatPlan, CoversTheTensor) {
  cuda::DeviceProperties device;
  device.sm_count = 132;
  EXPECT_FALSE(flat_plan(device, 1 << 20, kMaxClusterBlocks).found);
  device.arch = "sm90a";
  for (const int cluster_blocks : {kMaxClusterBlocks, kTensorClusterBlocks}) {
    for (const int64_t units :
         {int64_t{1}, int64_t{31}, int64_t{500}, int64_t{1024}, int64_t{1026}, int64_t{8192},
          int64_t{16'385}, int64_t{32'768}, int64_t{32'769}, int64_t{65'536}, int64_t{65'538},
          int64_t{1} << 22, int64_t{199'999'982}}) {
      const int64_t elements = units * kUnit;
      const FlatPlan plan = flat_plan(device, elements, cluster_blocks);
      ASSERT_TRUE(plan.found) << elements;
      const int64_t blocks = plan.config.grid.x, threads = plan.config.block.x;
      EXPECT_EQ(plan.in_cluster, units <= cluster_units(cluster_blocks)) << units;
      if (plan.in_cluster) {
        const int64_t in_cluster = std::max<int64_t>(plan.config.cluster.x, 1);
        EXPECT_LE(in_cluster, cluster_blocks);
        EXPECT_EQ(blocks,
                  in_cluster > 1 ? in_cluster * std::min(plan.units_a_thread, kTensorClusters) : 1);
        EXPECT_TRUE(in_cluster > 1 || 4 * plan.units_a_thread == kClusterTensorUnits);
        EXPECT_EQ(threads % 32, 0);
        EXPECT_LE(threads, kClusterTensorThreads);
        EXPECT_EQ(kClusterTensorUnits % plan.units_a_thread, 0);
        EXPECT_LE(kClusterTensorUnits, 4 * plan.units_a_thread);
        EXPECT_GE(in_cluster * threads * plan.units_a_thread, units);
      } else {
        EXPECT_TRUE(plan.config.cooperative);
        EXPECT_LE(blocks, device.sm_count);
        EXPECT_EQ(threads, kTileThreads);
        EXPECT_EQ(plan.share % (kShareUnits * kUnit), 0);
        EXPECT_GE(blocks * plan.share, elements);
        EXPECT_LT((blocks - 1) * plan.share, elements);
        EXPECT_GE(elements / 2, blocks * static_cast<int64_t>(sizeof(ExtentSlot)));  // 4-bit codes
      }
    }
  }
  EXPECT_FALSE(flat_plan(device, 0, kMaxClusterBlocks).found);
  EXPECT_FALSE(flat_plan(device, int64_t{1} << 34, kMaxClusterBlocks).found);
}

}  // namespace
}  // namespace ac4k
