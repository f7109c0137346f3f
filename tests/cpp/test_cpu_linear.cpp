// Kernels of packed weights that the dispatcher does not choose on this CPU, against those it does:
// products without VNNI, and of bf16 pairs where FMA is faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/common/table.hpp"
#include "cpu/kernels.hpp"

#if defined(__x86_64__)
#include "cpu/avx512/kernels.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kColumns = 512;

class PackedKernels : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (detected_isa() < Isa::avx512) GTEST_SKIP() << "this CPU has no AVX-512";
    const WeightBlock& block = kWeightBlocks[GetParam()];
    num_blocks_ = packed_blocks(block, kColumns);
    tile_.resize(static_cast<size_t>(num_blocks_ * packed_block_bytes(block)));
    std::mt19937 random(7);
    for (uint8_t& byte : tile_) byte = static_cast<uint8_t>(random() & 0xbf);  // finite scales
    std::normal_distribution<float> normal;
    for (float& x : x_) x = normal(random);
  }
  WeightFormat format() const { return static_cast<WeightFormat>(GetParam()); }

  std::vector<float> decode(const DecodeKernels& kernel) {
    constexpr int64_t kGroups = kColumns / kGroupColumns;
    std::vector<ActivationGroup> groups(4 * kGroups);
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_TRUE(kernel.prepare(x_ + i % kGroups * kGroupColumns, format(), &groups[i]));
    }
    std::vector<float> sums(4 * kPackedRows);
    kernel.decode[GetParam()][2]({.tile = tile_.data(),
                                  .num_blocks = num_blocks_,
                                  .end = tile_.data() + tile_.size(),
                                  .activations = groups.data(),
                                  .row_stride = kGroups,
                                  .sums = sums.data()});
    return sums;
  }

  // 32 rows times 16 tokens that are all the same.
  std::vector<float> multiply(const PanelKernels& kernel) {
    const int64_t sub_blocks = kColumns / kPackedColumns;
    const int64_t bytes = (kernel.kind == PieceKind::bf16 ? 2 : 4) * kPieceBytes;
    std::vector<uint8_t> weights(static_cast<size_t>(4 * sub_blocks * bytes));
    std::vector<uint8_t> activations(static_cast<size_t>(sub_blocks * bytes));
    kernel.widen[GetParam()](tile_.data(), 0, sub_blocks, weights.data(), sub_blocks * bytes);
    std::vector<float> columns(kPackedColumns * kPieceRows);
    for (int64_t i = 0; i < sub_blocks; ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        uint32_t bits;
        std::memcpy(&bits, &x_[i * kPackedColumns + static_cast<int64_t>(j) / kPieceRows], 4);
        bits &= 0xffff0000u;  // bf16 tokens
        std::memcpy(&columns[j], &bits, 4);
      }
      kernel.arrange(columns.data(), format(), activations.data() + i * bytes);
    }
    std::vector<float> sums(32 * kPieceRows);
    kernel.multiply({.columns = kColumns,
                     .weights = weights.data(),
                     .groups = 2,
                     .group_stride = sub_blocks * bytes,
                     .activations = activations.data(),
                     .panels = 1,
                     .panel_stride = 0,
                     .next_activations = nullptr,
                     .sums = sums.data(),
                     .ldc = kPieceRows,
                     .accumulate = false});
    return sums;
  }

  std::vector<uint8_t> tile_;
  int64_t num_blocks_ = 0;
  float x_[kColumns];
};

TEST_P(PackedKernels, IntegerProductsDoNotDependOnTheInstruction) {
  if (&decode_kernels(format()) == &avx512::kDecode) GTEST_SKIP() << "this CPU has no VNNI";
  const std::vector<float> expected = decode(avx512::kDecodeVnni);
  EXPECT_EQ(decode(avx512::kDecode), expected);
  if (&decode_kernels(format()) != &avx512::kDecodeVbmi) return;
  // Products that are looked up are summed in another order.
  const std::vector<float> sums = decode(avx512::kDecodeVbmi);
  float largest = 0;
  for (const float sum : expected) largest = std::max(largest, std::abs(sum));
  EXPECT_GT(largest, 0);
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], expected[i], 1e-6f * largest);
}

TEST_P(PackedKernels, PairsOfBf16AreAsExactAsRoundedWeights) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this CPU has no VDPBF16PS";
  const std::vector<float> exact = multiply(avx512::kPanelsF32);
  const std::vector<float> rounded = multiply(avx512::kPanelsBF16);
  double error = 0, total = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{rounded[i]} - double{exact[i]}, 2);
    total += std::pow(double{exact[i]}, 2);
  }
  // Scales span the range of f16 here, so that a few blocks make a sum and little averages out.
  EXPECT_LT(error / total, 1e-4);
  EXPECT_GT(total, 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedKernels, testing::Range(0, kNumWeightFormats),
                         [](const auto& info) { return kWeightBlocks[info.param].name; });

}  // namespace
}  // namespace ac4k::cpu
#endif
