// What the W4A16 ops declare alike: the choice of a layout, shapes that depend on it, and which
// groups it takes.
#pragma once

#include "core/op.hpp"
#include "core/weight_formats.hpp"

// Columns that share a scale, z: with zero points. The order of WeightFormat's W4A16 formats.
#define AC4K_W4_CHOICE "{g32, g64, g128, g32z, g64z, g128z}"
// [row tiles, packed blocks, bytes]
#define AC4K_W4_SHAPE                                                   \
  "layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2176" \
  " | ceil(N/64), ceil(K/128), 4224 | ceil(N/64), ceil(K/64), 2560"     \
  " | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/128), 4352"

namespace ac4k {

// The choice of a call, with scales of `type`.
inline WeightFormat w4_format(int64_t choice, DType type) {
  const auto first = static_cast<int64_t>(type == DType::bf16 ? WeightFormat::w4_g32_bf16
                                                              : WeightFormat::w4_g32_f16);
  return static_cast<WeightFormat>(first + choice);
}

// K columns in `groups` groups fit a format: groups of its size, or of whole blocks where that is
// 128, or one group.
inline bool w4_groups_fit(WeightFormat format, int64_t K, int64_t groups) {
  const int values = block_of(format).values;
  if (K == 0 || groups == 0) return K == groups;
  if (K % groups != 0) return false;
  const int64_t group = K / groups;
  return values == 128 ? group % 128 == 0 || groups == 1 : group == values;
}

}  // namespace ac4k
