// Warps, blocks and clusters while a kernel runs. One host thread takes them in turns, in an order
// and for times that a seed decides: what a kernel gets right by luck on a GPU fails here, and the
// same seed fails again.
//
// Lanes of a warp that have parted go on from the lowest place of the code first. Copies that run
// beside the threads happen in any later round.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>

#include "program.hpp"

namespace model {

struct Cluster;
struct Block;

inline constexpr uint32_t kAllLanes = 0xffffffffu;

struct Dim {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct Launch {
  Dim grid, block, cluster;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
};

// Work that goes on beside a thread, in groups; the last of them is open.
using Groups = std::deque<std::vector<std::function<void()>>>;
inline void add_to_group(Groups* groups, std::function<void()> work) {
  if (groups->empty()) groups->emplace_back();
  groups->back().push_back(std::move(work));
}
inline void close_group(Groups* groups) {
  if (groups->empty()) groups->emplace_back();
  groups->emplace_back();
}
// All but so many, the newest, are done.
inline void finish_groups(Groups* groups, size_t pending) {
  for (; groups->size() > pending; groups->pop_front()) {
    for (const auto& work : groups->front()) work();
  }
}

struct Warp {
  Block* block = nullptr;
  int index = 0;
  std::vector<unsigned char> registers;
  int at[32] = {};  // of each lane
  uint32_t live = 0;
  uint32_t stalled = 0;                  // waits for another turn
  uint32_t blocked = 0;                  // at a barrier of the block
  uint32_t meeting = 0;                  // waits for other lanes of the warp
  uint64_t cluster_generation[32] = {};  // at which a lane arrived at the cluster's barrier
  Groups copies[32];                     // of lanes, cp.async
  Groups products;                       // of the warpgroup, wgmma
  bool fenced = false;                   // registers may be what a new group of products reads

  template <typename T>
  T read(const Operand& operand, int lane) const {
    if (operand.bytes == 8) {
      uint64_t bits;
      std::memcpy(&bits, &registers[operand.at + static_cast<uint32_t>(lane) * 8], 8);
      return from_bits<T>(bits);
    }
    uint32_t bits;
    std::memcpy(&bits, &registers[operand.at + static_cast<uint32_t>(lane) * 4], 4);
    return from_bits<T>(bits);
  }
  template <typename T>
  void write(const Operand& operand, int lane, T value) {
    if (operand.bytes == 8) {
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      std::memcpy(&registers[operand.at + static_cast<uint32_t>(lane) * 8], &bits, 8);
    } else {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, std::min(sizeof(T), sizeof bits));
      std::memcpy(&registers[operand.at + static_cast<uint32_t>(lane) * 4], &bits, 4);
    }
  }
  bool predicate(const Operand& operand, int lane) const {
    return (read<uint32_t>(operand, lane) != 0) != operand.negated;
  }
  int64_t address(const Operand& operand, int lane) const {
    const uint64_t base = operand.bytes == 8 ? read<uint64_t>(operand, lane)
                                             : uint64_t{read<uint32_t>(operand, lane)};
    return static_cast<int64_t>(base) + operand.offset;
  }

  // Goes on until it has to wait, or for so many instructions. How many it was.
  int64_t run(const Kernel& kernel, int64_t most);

 private:
  template <typename T>
  static T from_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  bool choose(const Kernel& kernel, uint32_t* lanes, int* next_other) const;
  uint32_t needed(const Instruction& instruction, uint32_t lanes) const;
};

struct Barrier {
  uint32_t arrived = 0, count = 0;  // count: 0 for all that live
  std::vector<Warp*> waiting;
};

struct Block {
  Cluster* cluster = nullptr;
  Dim index;
  uint32_t rank = 0;
  uint32_t threads = 0, live_threads = 0;
  std::vector<unsigned char> shared;
  std::vector<Warp> warps;
  Barrier barriers[16];

  void arrive(int barrier, uint32_t count, Warp* warp, uint32_t lanes);
  void release_if_full(int barrier);
  void leave(const Warp& warp, uint32_t lanes);
};

struct Cluster {
  std::vector<Block> blocks;
  std::deque<std::function<void()>> copies;  // that threads do not wait for
  uint32_t live_threads = 0, arrived = 0;
  uint64_t generation = 0;

  void finish_barrier_if_full() {
    if (live_threads > 0 && arrived < live_threads) return;
    arrived = 0;
    ++generation;
  }
};

// What a kernel's threads see of the machine while one runs.
struct Machine {
  uint64_t seed = 1;
  const Kernel* kernel = nullptr;
  Launch launch;
  const unsigned char* parameters = nullptr;
  uint64_t events = 0;  // that show that it goes on

  uint32_t random(uint32_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return static_cast<uint32_t>(seed >> 32) % below;
  }
};
Machine& machine();

// Runs all of it. Throws Error: what went wrong, in which instruction.
void run(const Kernel& kernel, const Launch& launch, const void* parameters);

// --- Memory (memory.cpp) -------------------------------------------------------------------------

// `bytes` at an address of the block's window of the cluster's shared memory.
unsigned char* shared_at(Warp& warp, int64_t address, int64_t bytes);
// Memory that kernels may touch. Once there is some, nothing else may be.
void allow_global(const void* from, size_t bytes, bool writable);
void forget_global();

}  // namespace model
