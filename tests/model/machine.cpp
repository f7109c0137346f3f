#include "machine.hpp"

#include <algorithm>

namespace model {
namespace {

constexpr uint32_t kShortTurn = 32, kLongTurn = 4096;  // instructions of a warp, at most
constexpr int64_t kMostInstructions = 4'000'000'000;
constexpr uint32_t kMostShared = 228 * 1024;
constexpr int kQuietRounds = 64;  // after which nothing more will happen

[[noreturn]] void fail_at(const Kernel& kernel, const Warp& warp, const Instruction& instruction,
                          const std::string& why) {
  const Dim& block = warp.block->index;
  throw Error(kernel.name + ", block " + std::to_string(block.x) + "," + std::to_string(block.y) +
              "," + std::to_string(block.z) + ", warp " + std::to_string(warp.index) + ": " + why +
              ": " + instruction.text.substr(0, 200));
}

uint64_t special_value(const std::string& name, const Launch& launch, const Block& block,
                       uint32_t thread) {
  const auto axis = [&](const Dim& dim) {
    return name.back() == 'x' ? dim.x : name.back() == 'y' ? dim.y : dim.z;
  };
  const Dim& size = launch.block;
  if (name.starts_with("%tid.")) {
    return axis({thread % size.x, thread / size.x % size.y, thread / size.x / size.y});
  }
  if (name.starts_with("%ntid.")) return axis(size);
  if (name.starts_with("%ctaid.")) return axis(block.index);
  if (name.starts_with("%nctaid.")) return axis(launch.grid);
  if (name == "%laneid") return thread % 32;
  if (name == "%cluster_ctarank") return block.rank;
  if (name == "%cluster_nctarank") return launch.cluster.count();
  // Where the system keeps the barrier of a cooperative launch.
  static uint64_t grid_barrier[2];
  const auto address = reinterpret_cast<uintptr_t>(grid_barrier);
  if (name == "%envreg1") return address >> 32;
  if (name == "%envreg2") return address & 0xffffffffu;
  throw Error("special register " + name);
}

void prepare(const Kernel& kernel, const Launch& launch, const unsigned char* parameters,
             Block* block, const Dim& index) {
  block->index = index;
  block->threads = block->live_threads = static_cast<uint32_t>(launch.block.count());
  block->shared.assign(kernel.dynamic_shared() + launch.dynamic_shared, 0xcd);
  block->warps = std::vector<Warp>((block->threads + 31) / 32);
  for (size_t w = 0; w < block->warps.size(); ++w) {
    Warp& warp = block->warps[w];
    warp.block = block;
    warp.index = static_cast<int>(w);
    const uint32_t left = block->threads - static_cast<uint32_t>(w) * 32;
    warp.live = left >= 32 ? kAllLanes : (1u << left) - 1;
    warp.registers.assign(kernel.register_bytes, 0xcd);
    for (const Constant& constant : kernel.constants) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        uint64_t value = constant.value;
        switch (constant.kind) {
          case Constant::Kind::value:
            break;
          case Constant::Kind::parameter:
            value += reinterpret_cast<uintptr_t>(parameters);
            break;
          case Constant::Kind::dynamic_shared:
            value = kernel.dynamic_shared();
            break;
          case Constant::Kind::special:
            value = special_value(constant.special, launch, *block,
                                  static_cast<uint32_t>(w) * 32 + lane);
        }
        std::memcpy(&warp.registers[constant.at + lane * 8], &value, 8);
        std::memcpy(&warp.registers[constant.at + Operand::kNarrow + lane * 4], &value, 4);
      }
    }
  }
}

// Whether something can still happen in them.
bool run_round(const Kernel& kernel, std::vector<Cluster>& clusters, int64_t* instructions) {
  bool live = false;
  std::vector<Warp*> order;
  for (Cluster& cluster : clusters) {
    for (Block& block : cluster.blocks) {
      for (Warp& warp : block.warps) {
        if (warp.live != 0) order.push_back(&warp);
      }
    }
  }
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[machine().random(static_cast<uint32_t>(i))]);
  }
  for (Warp* warp : order) {
    const uint32_t most = machine().random(4) == 0 ? kShortTurn : kLongTurn;
    const int64_t turn = 1 + machine().random(most), count = warp->run(kernel, turn);
    if (count == turn) ++machine().events;  // it had not to wait
    *instructions += count;
    live |= warp->live != 0;
  }
  for (Cluster& cluster : clusters) {
    for (size_t left = cluster.copies.size(); left > 0; --left) {
      const auto copy = std::move(cluster.copies.front());
      cluster.copies.pop_front();
      ++machine().events;
      live = true;
      if (machine().random(4) == 0) {
        cluster.copies.push_back(copy);  // later
      } else {
        copy();
      }
    }
  }
  return live;
}

void run_side_by_side(const Kernel& kernel, std::vector<Cluster>& clusters) {
  int64_t instructions = 0;
  uint64_t events = machine().events;
  for (int quiet = 0; run_round(kernel, clusters, &instructions);) {
    quiet = machine().events == events ? quiet + 1 : 0;
    events = machine().events;
    if (instructions > kMostInstructions) throw Error(kernel.name + " does not end");
    if (quiet <= kQuietRounds) continue;
    for (Cluster& cluster : clusters) {
      for (Block& block : cluster.blocks) {
        for (Warp& warp : block.warps) {
          if (warp.live == 0) continue;
          const int lane = std::countr_zero(warp.live);
          fail_at(kernel, warp, kernel.code[static_cast<size_t>(warp.at[lane])],
                  "waits for what does not happen");
        }
      }
    }
  }
}

}  // namespace

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

uint32_t Warp::needed(const Instruction& instruction, uint32_t lanes) const {
  switch (instruction.together) {
    case Together::any:
      return 0;
    case Together::all:
      return live;
    case Together::mask:
      return read<uint32_t>(instruction.operands.back(), std::countr_zero(lanes)) & live;
  }
  return 0;
}

// The lanes to go on with: the lowest place of the code at which some can.
bool Warp::choose(const Kernel& kernel, uint32_t* lanes, int* next_other) const {
  uint32_t left = live & ~stalled & ~blocked;
  *lanes = 0;
  *next_other = INT32_MAX;
  while (left != 0) {
    int lowest = INT32_MAX;
    for (uint32_t m = left; m != 0; m &= m - 1) lowest = std::min(lowest, at[std::countr_zero(m)]);
    uint32_t group = 0;
    for (uint32_t m = left; m != 0; m &= m - 1) {
      if (at[std::countr_zero(m)] == lowest) group |= m & -m;
    }
    if (*lanes != 0) {
      *next_other = lowest;
      return true;
    }
    left &= ~group;
    const bool waits = (group & ~meeting) == 0;
    if (waits) {
      const uint32_t all = needed(kernel.code[static_cast<size_t>(lowest)], group);
      if ((group & all) != all) continue;
    }
    *lanes = group;
  }
  return *lanes != 0;
}

int64_t Warp::run(const Kernel& kernel, int64_t most) {
  stalled = 0;
  int64_t count = 0;
  uint32_t lanes = 0;
  int next_other = 0;
  while (count < most && choose(kernel, &lanes, &next_other)) {
    int place = at[std::countr_zero(lanes)];
    const auto put = [&](uint32_t which, int to) {
      for (uint32_t m = which; m != 0; m &= m - 1) at[std::countr_zero(m)] = to;
    };
    while (true) {
      const Instruction& instruction = kernel.code[static_cast<size_t>(place)];
      if (instruction.together != Together::any) {
        const uint32_t all = needed(instruction, lanes);
        if ((lanes & all) != all) {
          meeting |= lanes;
          put(lanes, place);
          break;
        }
        meeting &= ~lanes;
      }
      uint32_t active = lanes;
      if (instruction.guarded) {
        active = 0;
        for (uint32_t m = lanes; m != 0; m &= m - 1) {
          const int lane = std::countr_zero(m);
          if (predicate(instruction.guard, lane)) active |= 1u << lane;
        }
      }
      ++count;
      if (instruction.flow == Flow::branch) {
        put(active, instruction.target);
        put(lanes & ~active, place + 1);
        if (active != 0 && active != lanes) break;
        place = active != 0 ? instruction.target : place + 1;
      } else if (instruction.flow == Flow::leave) {
        put(lanes & ~active, place + 1);
        live &= ~active;
        const auto waits = [](const auto& group) { return !group.empty(); };
        if (live == 0 && std::any_of(products.begin(), products.end(), waits)) {
          fail_at(kernel, *this, instruction, "products are still under way");
        }
        if (active != 0) block->leave(*this, active);
        break;
      } else {
        Outcome outcome = Outcome::done;
        if (active != 0) {
          try {
            outcome = instruction.run(*this, instruction, active);
          } catch (const Error& error) {
            fail_at(kernel, *this, instruction, error.what());
          }
        }
        if (outcome == Outcome::again) {
          put(lanes, place);
          stalled |= lanes;
          break;
        }
        ++place;
        if (outcome != Outcome::done) {
          put(lanes, place);
          if (outcome == Outcome::stall) stalled |= lanes;
          break;
        }
      }
      if (place >= next_other || count >= most) {
        put(lanes, place);
        break;
      }
    }
  }
  return count;
}

void Block::leave(const Warp& warp, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    --live_threads;
    --cluster->live_threads;
    // It does not count any more, and neither does its arrival.
    if (warp.cluster_generation[std::countr_zero(m)] > cluster->generation) --cluster->arrived;
  }
  ++machine().events;
  if (cluster->arrived > 0) cluster->finish_barrier_if_full();
  for (int i = 0; i < 16; ++i) release_if_full(i);
}

void Block::release_if_full(int barrier) {
  Barrier& at = barriers[barrier];
  if (at.waiting.empty() || at.arrived < (at.count == 0 ? live_threads : at.count)) return;
  for (Warp* warp : at.waiting) warp->blocked = 0;
  at = {};
  ++machine().events;
}

void Block::arrive(int barrier, uint32_t count, Warp* warp, uint32_t lanes) {
  Barrier& at = barriers[barrier];
  if (!at.waiting.empty() && at.count != count) throw Error("a barrier of two sizes");
  warp->blocked |= lanes;
  at.count = count;
  at.arrived += static_cast<uint32_t>(std::popcount(lanes));
  at.waiting.push_back(warp);
  ++machine().events;
  if (count != 0 && at.arrived > count) throw Error("more threads at a barrier than it is for");
  release_if_full(barrier);
}

void run(const Kernel& kernel, const Launch& launch, const void* parameters) {
  const uint32_t shared = kernel.dynamic_shared() + launch.dynamic_shared;
  if (shared > kMostShared) {
    throw Error(kernel.name + ": " + std::to_string(shared) + " bytes of shared memory");
  }
  const auto* bytes = static_cast<const unsigned char*>(parameters);
  machine().kernel = &kernel, machine().launch = launch, machine().parameters = bytes;
  const Dim clusters{launch.grid.x / launch.cluster.x, launch.grid.y / launch.cluster.y,
                     launch.grid.z / launch.cluster.z};
  const size_t count = clusters.count();
  const size_t side_by_side = launch.cooperative ? count : 1;
  for (size_t first = 0; first < count; first += side_by_side) {
    std::vector<Cluster> group(std::min(side_by_side, count - first));
    for (size_t i = 0; i < group.size(); ++i) {
      Cluster& cluster = group[i];
      cluster.blocks = std::vector<Block>(launch.cluster.count());
      const auto at = static_cast<uint32_t>(first + i);
      const Dim origin{at % clusters.x * launch.cluster.x,
                       at / clusters.x % clusters.y * launch.cluster.y,
                       at / clusters.x / clusters.y * launch.cluster.z};
      for (uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
        Block& block = cluster.blocks[rank];
        const Dim& size = launch.cluster;
        block.cluster = &cluster;
        block.rank = rank;
        prepare(kernel, launch, bytes, &block,
                {origin.x + rank % size.x, origin.y + rank / size.x % size.y,
                 origin.z + rank / size.x / size.y});
        cluster.live_threads += block.threads;
      }
    }
    run_side_by_side(kernel, group);
  }
}

}  // namespace model
