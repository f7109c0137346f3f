// Tensors as rows: the offsets kernels compute are those of the strides.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ops/rows.hpp"

namespace ac4k {
namespace {

uint32_t divide_as_device(uint32_t n, const FastDivisor& by) {
  const auto high = static_cast<uint32_t>(uint64_t{n} * by.multiplier >> 32);
  return (high + n) >> by.shift;
}

TEST(Rows, FastDivisorDividesEverythingBelow2To31) {
  const uint32_t largest = 0x7fffffff;
  for (const uint32_t divisor : {1u, 2u, 3u, 5u, 7u, 12u, 40u, 127u, 128u, 641u, 65535u, 65536u,
                                 1000003u, 0x3fffffffu, 0x40000000u, 0x40000001u, largest}) {
    const FastDivisor fast = fast_divisor(divisor);
    const uint32_t step = largest / 1000;
    for (uint32_t n = 0; n < largest - step; n += step) {
      ASSERT_EQ(divide_as_device(n, fast), n / divisor) << n << " / " << divisor;
    }
    for (uint32_t k = 1; k <= largest / divisor; k = k * 2 + 1) {
      const uint32_t multiple = k * divisor;
      ASSERT_EQ(divide_as_device(multiple, fast), k) << divisor;
      ASSERT_EQ(divide_as_device(multiple - 1, fast), (multiple - 1) / divisor) << divisor;
    }
    ASSERT_EQ(divide_as_device(largest, fast), largest / divisor) << divisor;
  }
}

TEST(Rows, OffsetsAreThoseOfTheStrides) {
  float data[1];
  struct Case {
    std::vector<int64_t> shape, strides;
    int inner_levels;
  };
  const Case cases[] = {{{4, 5, 8}, {40, 8, 1}, 0},   // contiguous
                        {{4, 5, 8}, {80, 16, 1}, 0},  // a slice of columns
                        {{4, 5, 8}, {8, 32, 1}, 1},   // transposed
                        {{2, 3, 1, 5, 8}, {500, 50, 9, 8, 1}, 2},
                        {{8}, {1}, 0},                // one row
                        {{3, 4, 8}, {0, -8, 1}, 1}};  // broadcast, backwards
  for (const Case& c : cases) {
    const DLTensor tensor{.data = data,
                          .device = {kDLCPU, 0},
                          .ndim = static_cast<int>(c.shape.size()),
                          .dtype = {kDLFloat, 32, 1},
                          .shape = const_cast<int64_t*>(c.shape.data()),
                          .strides = const_cast<int64_t*>(c.strides.data()),
                          .byte_offset = 0};
    const RowView view(tensor);
    const RowOffsets offsets = view.offsets();
    const cpu::Rows rows = view;
    EXPECT_EQ(offsets.num_inner, c.inner_levels);
    for (int64_t row = 0; row < view.num_rows(); ++row) {
      int64_t expected = 0, rest = row;
      for (size_t d = c.shape.size() - 1; d-- > 0;) {
        expected += rest % c.shape[d] * c.strides[d];
        rest /= c.shape[d];
      }
      int64_t offset = 0;
      auto left = static_cast<uint32_t>(row);
      for (int i = 0; i < offsets.num_inner; ++i) {
        const RowLevel& level = offsets.inner[i];
        const uint32_t next = divide_as_device(left, level.size);
        offset += (left - next * level.size.divisor) * level.stride;
        left = next;
      }
      EXPECT_EQ(offset + left * offsets.stride, expected);
      EXPECT_EQ(rows.row(row) - rows.data, expected * 4);
    }
  }
}

}  // namespace
}  // namespace ac4k
