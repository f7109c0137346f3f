// What the hosts of the quantise and dequantise ops hand to their kernels.
#pragma once

#include "rows.h"

namespace ac4k {

// The choices of the ops' parameter, in its order.
enum Granularity : int { kPerTensor, kPerToken, kPerChannel, kGroup128, kBlock128 };

inline constexpr int kGroupSize = 128;       // columns of a group; rows and columns of a block
inline constexpr int kUnit = 8;              // neighbours a thread handles at once
inline constexpr int kMaxClusterBlocks = 8;  // every GPU with clusters has this many

struct QuantizeParams {
  const void* x;
  void* codes;
  float* scale;        // output
  int* zero;           // output, with zero points only
  const float* given;  // scales from the caller
  RowOffsets rows;     // of x
  long long num_rows;
  long long num_columns;
  FastDivisor column_tiles;
  int granularity;        // a Granularity
  long long region_rows;  // what a scale is for, where every alignment will do
  long long region_columns;
  bool pow2_scale;
  // Per tensor: `given` holds the amax, negated; whoever sees it negative makes the scale of it.
  bool pending;
};

// For small tensors: what a kernel needs early lies within 64 bytes of constants. Offsets of
// elements fit into 31 bits.
struct FewQuantizeParams {
  const void* x;
  void* codes;
  float* scale;  // output
  int stride;    // of the rows of x, in elements
  int num_rows;
  int num_columns;
  int pow2_scale;  // a bool
  int* zero;       // output, with zero points only
};

struct DequantizeParams {
  const void* codes;
  const float* scale;
  const int* zero;  // may be null
  void* out;
  long long num_rows;
  long long num_columns;
  FastDivisor column_tiles;
  int granularity;
};

// Blocks of 16 or 32 along the rows.
struct BlockQuantizeParams {
  const void* x;
  void* codes;
  void* scales;
  float* global_scale;  // nvfp4: output
  const float* given;   // nvfp4: the global scale
  RowOffsets rows;      // of x
  long long num_rows;
  long long num_columns;
  FastDivisor column_tiles;
  bool tiled;
  bool pending;  // `given` holds minus the amax of all, or what someone made of it
};

struct BlockDequantizeParams {
  const void* codes;
  const void* scales;
  const float* global_scale;
  void* out;
  long long num_rows;
  long long num_columns;
  FastDivisor column_tiles;
  bool tiled;
};

// Small tensors, half a unit a thread on a grid of (column tiles, rows). The scale of a number is
// scales[(row >> row_shift) * scale_stride + (column >> column_shift)].
struct FewDequantizeParams {
  const void* codes;
  const void* scales;
  const float* global_scale;
  void* out;
  unsigned num_columns;
  unsigned scale_stride;
  unsigned row_shift, column_shift;
};
inline constexpr int kFewCodes = 4;  // a thread decodes

inline constexpr int kNvBlock = 16;
inline constexpr int kMxBlock = 32;
// Units of a row that a thread of MXFP4 has, of 16-bit numbers: their codes fill eight bytes.
inline constexpr int kMxfp4Units = 2;
inline constexpr int kScaleTileRows = 128;  // of the "tiled" layout
inline constexpr int kScaleTileBlocks = 4;

inline constexpr int kQuantizeThreads = 256;
inline constexpr int kTileRows = 2;  // rows a thread of a tile handles: loads in flight
inline constexpr int kBlockThreads = 512;

inline constexpr int kRowMaxThreads = 1024;
inline constexpr int kAnyThreads = 256;  // of the kernels for any alignment
// Columns: a block is 4 units wide.
inline constexpr int kColumnThreads = 512;
inline constexpr int kColumnUnits = 4;
inline constexpr int kColumnRows = kColumnThreads / kColumnUnits;  // rows at once
inline constexpr int kColumnKept = 8;                              // units a thread keeps
// Small tensors.
inline constexpr int kFewThreads = 128;       // groups: a block of warps with a group each
inline constexpr int kFewGroupNumbers = 4;    // a lane
inline constexpr int kFewGroupBlocks = 1024;  // at most: all run at once on a large GPU
inline constexpr int kFewBlockThreads = 256;  // blocks and columns
inline constexpr int kFewSlabRows = 16;       // rows at once
inline constexpr int kFewSlabs = 4;           // at most
inline constexpr int kFewRows = kFewSlabs * kFewSlabRows;
inline constexpr int kFewColumnPairs = 16;  // side by side
// One tensor in a cluster's registers.
inline constexpr int kTensorThreads = 1024;
inline constexpr int kTensorUnits = 4;  // a thread
inline constexpr int kAmaxUnits = 4;    // a thread of the amax kernel

}  // namespace ac4k
