// Rows of a tensor, as host and device both see them: where row r begins, and how a row is spread
// over threads.
#pragma once

#include "fast_divisor.h"

namespace ac4k {

// The offset of row r in elements. Leading dims that can be walked as one are merged into a level.
// A contiguous tensor, or a slice of columns, has no level but the outermost.
inline constexpr int kMaxInnerRowLevels = 6;

struct RowLevel {
  long long stride;
  FastDivisor size;
};
struct RowOffsets {
  long long stride;  // of the outermost level
  int num_inner;
  RowLevel inner[kMaxInnerRowLevels];  // the fastest first
};

// How many threads share a row that is held in registers, by the row's number of 16-byte vectors:
// part of a warp (a power of two, at least kMinRowLanes, `rows` rows a thread) or a block. The
// first that fits is taken. Two vectors a thread and more, so that what is done once for a row does
// not weigh; many where rows are long, few where they may be few and wait for a barrier. An SM
// should hold several blocks, so that the loads of one hide the reduction of another.
struct RowVariant {
  int max_vectors;         // of a row
  int vectors_per_thread;  // of one row
  int rows_per_thread;
  bool whole_block;
  int max_threads;      // of a block
  int min_blocks;       // on an SM
  int min_full_blocks;  // the same where a bias or a residual takes registers besides
};
inline constexpr int kMinRowLanes = 4;       // those of a row of a matrix product
inline constexpr int kRowWarpThreads = 128;  // a block of warps with rows of their own
inline constexpr RowVariant kRowVariants[] = {
    {64, 2, 1, false, kRowWarpThreads, 12, 8},
    {128, 4, 1, false, kRowWarpThreads, 8, 6},
    {512, 2, 1, true, 256, 6, 5},
    {1024, 8, 1, true, 128, 7, 5},
    {2048, 4, 1, true, 512, 2, 2},
    {4096, 8, 1, true, 512, 1, 1},
};
// Where threads do more for each number, for a bias or for codes, they have two short rows. A row
// is spread over threads in the same way: its sums are those of the plain norm, bit by bit.
inline constexpr RowVariant kFullRowVariants[] = {
    {64, 2, 2, false, kRowWarpThreads, 8, 6},
    kRowVariants[1],
    kRowVariants[2],
    kRowVariants[3],
    kRowVariants[4],
    kRowVariants[5],
};
inline constexpr int kNumRowVariants = sizeof(kRowVariants) / sizeof(kRowVariants[0]);
static_assert(sizeof(kFullRowVariants) == sizeof(kRowVariants));
inline constexpr int kRowLoopThreads = 1024;  // at most, a row that is read more than once

}  // namespace ac4k
