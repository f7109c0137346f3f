// Tiles that pass through a block twice: what host and device agree on.
#pragma once

namespace ac4k {

inline constexpr int kTileBytes = 16 * 1024;
inline constexpr int kTileWarps = 16;                     // that compute
inline constexpr int kTileConsumers = 32 * kTileWarps;    // their threads
inline constexpr int kTileThreads = kTileConsumers + 32;  // and the warp that asks for copies

}  // namespace ac4k
