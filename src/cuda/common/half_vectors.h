// Small tensors: half a vector a thread, on a grid of (column tiles, rows). The arithmetic is
// spread over twice as many threads and no row has to be found by a division, which is what counts
// as long as everything runs at once (H200, 64 rows of 4096: gelu 1.87 -> 1.81 us).
#pragma once

namespace ac4k {

inline constexpr int kHalfVectorBytes = 8;
inline constexpr int kHalfVectorThreads = 256;
inline constexpr long long kHalfVectorBlocks = 528;  // at most

}  // namespace ac4k
