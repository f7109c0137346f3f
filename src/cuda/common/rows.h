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
// part of a warp (a power of two, `rows` rows a thread) or a block. The first that fits is taken.
// More than two vectors a thread only where a block would otherwise pass 256 or 512 threads, or
// where they keep a row within one warp: then nothing waits for a barrier. An SM should hold
// several blocks, so that the loads of one hide the reduction of another.
struct RowVariant {
  int max_vectors;         // of a row
  int vectors_per_thread;  // of one row
  int rows_per_thread;
  bool whole_block;
  int max_threads;  // of a block
  int min_blocks;   // on an SM
};
inline constexpr int kRowWarpThreads = 128;  // a block of warps with rows of their own
inline constexpr RowVariant kRowVariants[] = {
    {32, 1, 2, false, kRowWarpThreads, 12},
    {64, 2, 1, false, kRowWarpThreads, 12},
    {128, 4, 1, false, kRowWarpThreads, 8},
    {512, 2, 1, true, 256, 6},
    {2048, 4, 1, true, 512, 2},
    {4096, 8, 1, true, 512, 2},
};
inline constexpr int kNumRowVariants = sizeof(kRowVariants) / sizeof(kRowVariants[0]);
inline constexpr int kRowLoopThreads = 1024;  // at most, a row that is read more than once

}  // namespace ac4k
