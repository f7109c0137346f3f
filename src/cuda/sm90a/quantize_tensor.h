// What the host hands to the kernels that find the extent of a whole tensor and encode it in one
// launch.
#pragma once

#include "../common/fast_divisor.h"
#include "../common/quantize.h"
#include "kept_tiles.h"

namespace ac4k {

// A contiguous x. `Params`: QuantizeParams, or BlockQuantizeParams of NVFP4.
template <typename Params>
struct FlatParams {
  Params quantize;
  long long num_elements;  // below 2^34: blocks of 16 are numbered in 31 bits
  long long share;     // elements of a block where x has a grid; a multiple of kShareUnits units
  int units_a_thread;  // where x has a cluster: that a thread has room for
  FastDivisor blocks_a_row;  // NVFP4
};
inline constexpr int kShareUnits = 16;
// All stages keep tiles: nothing comes after this tensor.
inline constexpr int kTensorStages = 12;

// Where x has a grid, each block leaves its extent for the first one, which answers with the scale.
// The extents lie where the first codes will: nobody reads them once the scale is there.
using ExtentSlot = unsigned long long;  // 0: not there yet

// One cluster: most blocks, most threads of one, most units a thread keeps in registers (the others
// have half or a quarter of that). Rather units than threads: what a warp does once, whatever it
// has, takes as long as two units.
inline constexpr int kTensorClusterBlocks = 16;
inline constexpr int kClusterTensorThreads = 512;
inline constexpr int kClusterTensorUnits = 8;
// Clusters that share the encoding of x: of the largest, seven run at once on an H200.
inline constexpr int kTensorClusters = 4;

}  // namespace ac4k
