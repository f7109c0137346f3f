// AMX tiles: TDPBF16PS makes 16 x 16 f32 += 16 x 32 bf16 * 32 x 16 bf16.
//
// Tile instructions are written in assembly: GCC 12's _tile_loadconfig declares 8 of its 64 bytes
// as read and drops the stores that fill them, and its tile loads order no memory accesses.
#pragma once

#include <cstdint>

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu::amx {
namespace {

constexpr int kTile = 16;       // rows of a tile
constexpr int kTileDepth = 32;  // bf16 in a row of a tile: 64 bytes

struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t bytes_per_row[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

inline void begin_tiles() {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.bytes_per_row[i] = 64;
    config.rows[i] = kTile;
  }
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

inline void end_tiles() { asm volatile("tilerelease" : : : "memory"); }

template <int kIndex>
AC4K_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kIndex));
}
template <int kIndex>
AC4K_INLINE void tile_load(const void* base, int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(base), "r"(stride_bytes), "i"(kIndex)
               : "memory");
}
// The same for numbers that pass by: they do not drive others out of the first-level cache.
template <int kIndex>
AC4K_INLINE void tile_load_passing(const void* base, int64_t stride_bytes) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
               :
               : "r"(base), "r"(stride_bytes), "i"(kIndex)
               : "memory");
}
template <int kIndex>
AC4K_INLINE void tile_store(void* base, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(base), "r"(stride_bytes), "i"(kIndex)
               : "memory");
}
template <int kSum, int kA, int kB>
AC4K_INLINE void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace ac4k::cpu::amx
