// What the hosts of the GGUF ops hand to their kernels.
#pragma once

#include "rows.h"

namespace ac4k {

struct GgufQuantizeParams {
  const void* x;
  void* blocks;
  RowOffsets rows;  // of x
  long long num_blocks;
  long long blocks_per_row;
  bool x_contiguous;  // rows lie behind each other
  bool x_aligned;     // every row begins at a multiple of 16 bytes
  bool out_aligned;   // so do the blocks
};

struct GgufDequantizeParams {
  const void* blocks;
  void* out;
  long long num_values;
  bool blocks_aligned;  // to 16 bytes
  bool out_aligned;
};

inline constexpr int kGgufThreads = 256;
inline constexpr int kGgufTile = 4096;          // values a block of threads decodes
inline constexpr int kGgufBlocks = 64;          // blocks of 32 that a block of threads encodes
inline constexpr int kGgufSearchThreads = 128;  // a sub-block each

}  // namespace ac4k
