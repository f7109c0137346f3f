// Tiles that pass through a block twice, for scales that need all numbers before the first can be
// encoded. As many as fit stay in shared memory in between; the others are read again, from L2 as
// long as they are still there.
#pragma once

#include "sm90a/bulk_copy.cuh"
#include "sm90a/kept_tiles.h"

namespace ac4k {

// Tiles 0 .. n - 1 are copied into a ring of kStages stages. The first ones are given up after the
// first pass, the last ones (at most kKept) kept. The second pass takes the kept ones in their
// order, then the others, the last first: L2 has seen that most recently. Stages are so released in
// the order in which they were filled, and the tiles of another round can follow.
//
// A thread of its own calls load(); all threads of kTileWarps warps call both passes, in turn.
// Invariants:
// - Copy number c of a block goes to stage c modulo kStages; it ends a phase of the stage's barrier
//   `full`, and the release by all warps one of `empty`.
// - Of the copies before number c all but the last kStages are released by what the consumers can
//   do before they wait for number c: nobody waits for ever.
// - A team has the same stages all the time: it would take a phase for the one after the next if it
//   did not wait for each.
template <int kStages, int kKept>
class KeptTiles {
 public:
  using Place = RingPlace<kStages>;
  static constexpr int kBytes = kStages * kTileBytes;
  struct Barriers {
    uint64_t full[kStages], empty[kStages];
  };

  // `stages`: kBytes, at a multiple of 128 bytes where boxes of a matrix are copied.
  __device__ __forceinline__ KeptTiles(const unsigned char* stages, const Barriers& barriers)
      : stages_(stages),
        full_(shared_address(barriers.full)),
        empty_(shared_address(barriers.empty)) {}

  // One thread, which publishes them; then the block synchronises.
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full_ + 8 * i, 1);
      init_barrier(empty_ + 8 * i, kTileWarps);
    }
  }

  // `copy(tile, to, barrier, is_last_use)` announces and asks for the bytes of a tile.
  template <typename Copy>
  __device__ __forceinline__ void load(int num_tiles, const Copy& copy) {
    const int given_up = num_given_up(num_tiles);
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) load_one(tile, tile >= given_up, copy);
#pragma unroll 1
    for (int tile = given_up - 1; tile >= 0; --tile) load_one(tile, true, copy);
  }

  // `use(tile, bytes)`: every tile once, in each pass.
  template <typename Use>
  __device__ __forceinline__ void first_pass(int num_tiles, const Use& use) {
    const int given_up = num_given_up(num_tiles);
#pragma unroll 1
    for (int tile = 0; tile < num_tiles; ++tile) {
      if (tile == given_up) kept_ = place_;
      wait_for(full_ + 8 * place_.stage, place_.parity);
      use(tile, bytes_of(place_));
      if (tile < given_up) release(place_);
      place_.advance();
    }
  }
  template <typename Use>
  __device__ __forceinline__ void second_pass(int num_tiles, const Use& use) {
    const int given_up = num_given_up(num_tiles);
#pragma unroll 1
    for (int tile = given_up; tile < num_tiles; ++tile) {
      use(tile, bytes_of(kept_));
      release(kept_);
      kept_.advance();
    }
#pragma unroll 1
    for (int tile = given_up - 1; tile >= 0; --tile) {
      wait_for(full_ + 8 * place_.stage, place_.parity);
      use(tile, bytes_of(place_));
      release(place_);
      place_.advance();
    }
  }
  // The same with kTeams tiles at once, each for a share of the warps.
  template <int kTeams, typename Use>
  __device__ __forceinline__ void second_pass_in_teams(int num_tiles, const Use& use) {
    static_assert(kStages % kTeams == 0);
    const int given_up = num_given_up(num_tiles), num_kept = num_tiles - given_up;
    const int team = static_cast<int>(threadIdx.x) / (kTileConsumers / kTeams);
    Place place = kept_;
    place.advance(team);
#pragma unroll 1
    for (int i = team; i < num_tiles; i += kTeams) {
      if (i >= num_kept) wait_for(full_ + 8 * place.stage, place.parity);
      use(i < num_kept ? given_up + i : num_tiles - 1 - i, bytes_of(place));
      release(place, kTeams);
      place.advance(kTeams);
    }
    place_.advance(given_up);
  }

 private:
  static __device__ __forceinline__ int num_given_up(int num_tiles) {
    return max(num_tiles - kKept, 0);
  }
  __device__ __forceinline__ const unsigned char* bytes_of(const Place& place) const {
    return stages_ + place.stage * kTileBytes;
  }
  // In the name of `num_warps` warps, of which the others do not use this tile.
  __device__ __forceinline__ void release(const Place& place, uint32_t num_warps = 1) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty_ + 8 * place.stage, num_warps);
  }
  template <typename Copy>
  __device__ __forceinline__ void load_one(int tile, bool is_last_use, const Copy& copy) {
    wait_for(empty_ + 8 * place_.stage, place_.parity ^ 1);
    copy(tile, shared_address(bytes_of(place_)), full_ + 8 * place_.stage, is_last_use);
    place_.advance();
  }

  const unsigned char* stages_;
  const uint32_t full_, empty_;
  Place place_;  // of the next copy to ask for, or to wait for
  Place kept_;   // of the first kept tile
};

}  // namespace ac4k
