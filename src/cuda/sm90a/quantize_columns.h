// What the host hands to the kernels that quantise long columns.
#pragma once

#include "../common/quantize.h"
#include "kept_tiles.h"
#include "tensor_map.h"

namespace ac4k {

// A cluster has a stripe of columns, its blocks have tiles of rows: 128 bytes side by side in
// memory are read, 64 written, for 16-bit types.
inline constexpr int kStripeColumns = 64;
// Of a cluster. More than eight are not to be had on every GPU, but on those of sm90a.
inline constexpr int kMaxStripeBlocks = 16;

// Stages, and tiles of a stripe that a block keeps. Four are left for the next stripe while the
// block waits for others and encodes: at 20 to 30 bytes a nanosecond and SM, two to three
// microseconds.
inline constexpr int kStripeStages = 13;
inline constexpr int kStripeTilesKept = kStripeStages - 4;

struct ColumnRingParams {
  TensorMap boxes;  // of x: a tile each
  QuantizeParams quantize;
  int num_stripes;
};

}  // namespace ac4k
