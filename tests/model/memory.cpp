// Loads, stores, barriers in shared memory, and copies that complete on them.
#include <algorithm>
#include <sstream>

#include "handlers.hpp"
#include "tensor_map.hpp"

namespace model {
namespace {

struct Range {
  int64_t begin, end;
  bool writable;
};
std::vector<Range>& global_ranges() {
  static std::vector<Range> ranges;
  return ranges;
}

std::string hex(int64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

// Parameters count as global memory: their addresses are generic ones.
unsigned char* checked_global(int64_t address, int64_t bytes, bool write) {
  if (address % bytes != 0 && (bytes & (bytes - 1)) == 0 && bytes <= 16) {
    throw Error("misaligned address " + hex(address));
  }
  const auto& ranges = global_ranges();
  if (!ranges.empty()) {
    const auto parameters = reinterpret_cast<intptr_t>(machine().parameters);
    const bool is_parameter =
        address >= parameters && address + bytes <= parameters + machine().kernel->parameter_bytes;
    const bool known = std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      return address >= range.begin && address + bytes <= range.end && (range.writable || !write);
    });
    if (!known && !(is_parameter && !write)) {
      throw Error(std::to_string(bytes) + " bytes " + (write ? "written" : "read") + " at " +
                  hex(address) + ", which is no argument's");
    }
  }
  return reinterpret_cast<unsigned char*>(address);
}

enum class Space : uint8_t { global, shared };

template <Space kSpace>
unsigned char* place(Warp& warp, int64_t address, int64_t bytes, bool write) {
  if constexpr (kSpace == Space::shared) {
    if (address % bytes != 0) throw Error("misaligned shared address " + hex(address));
    return shared_at(warp, address, bytes);
  } else {
    return checked_global(address, bytes, write);
  }
}

template <Space kSpace>
Outcome load(Warp& warp, const Instruction& i, uint32_t lanes) {
  const auto count = static_cast<size_t>(i.count);
  const Operand& from = i.operands[count];
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const unsigned char* bytes =
        place<kSpace>(warp, warp.address(from, lane), i.size * i.count, false);
    for (size_t k = 0; k < count; ++k) {
      uint64_t value = 0;
      std::memcpy(&value, bytes + k * static_cast<size_t>(i.size), static_cast<size_t>(i.size));
      if (i.is_signed) {
        const int unused = 64 - 8 * i.size;
        value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
      }
      warp.write(i.operands[k], lane, value);
    }
  }
  return Outcome::done;
}
template <Space kSpace>
Outcome store(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    unsigned char* bytes =
        place<kSpace>(warp, warp.address(i.operands[0], lane), i.size * i.count, true);
    for (int k = 0; k < i.count; ++k) {
      const auto value = warp.read<uint64_t>(i.operands[static_cast<size_t>(k) + 1], lane);
      std::memcpy(bytes + k * i.size, &value, static_cast<size_t>(i.size));
    }
  }
  return Outcome::done;
}
template <bool kAdd>
Outcome atomic_u32(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    unsigned char* bytes = checked_global(warp.address(i.operands[1], lane), 4, true);
    uint32_t before;
    std::memcpy(&before, bytes, 4);
    const auto value = warp.read<uint32_t>(i.operands[2], lane);
    const uint32_t after = kAdd ? before + value : std::max(before, value);
    std::memcpy(bytes, &after, 4);
    warp.write(i.operands[0], lane, before);
  }
  ++machine().events;
  return Outcome::done;
}

// A barrier's eight bytes: arrivals still to come and those of a phase, bytes still to come, the
// phase, and a mark.
struct PhaseBarrier {
  static constexpr uint64_t kMark = 0x2a;
  uint64_t pending : 18, arrivals : 18;
  int64_t bytes : 21;
  uint64_t phase : 1, mark : 6;

  void finish_if_full() {
    if (pending != 0 || bytes != 0) return;
    phase = phase ^ 1;
    pending = arrivals;
    ++machine().events;
  }
};
static_assert(sizeof(PhaseBarrier) == 8);

class BarrierAt {
 public:
  BarrierAt(unsigned char* bytes) : bytes_(bytes) {
    std::memcpy(&barrier_, bytes, sizeof barrier_);
    if (barrier_.mark != PhaseBarrier::kMark) throw Error("a barrier that is not initialised");
  }
  ~BarrierAt() { std::memcpy(bytes_, &barrier_, sizeof barrier_); }
  BarrierAt(const BarrierAt&) = delete;
  BarrierAt& operator=(const BarrierAt&) = delete;
  PhaseBarrier* operator->() { return &barrier_; }
  void arrive(uint32_t count) {
    if (barrier_.pending < count) throw Error("more arrivals at a barrier than it is for");
    barrier_.pending = barrier_.pending - count;
    barrier_.finish_if_full();
  }
  void complete(int64_t bytes) {
    barrier_.bytes = barrier_.bytes - bytes;
    barrier_.finish_if_full();
  }

 private:
  unsigned char* bytes_;
  PhaseBarrier barrier_;
};

Outcome barrier_init(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const auto count = warp.read<uint32_t>(i.operands[1], lane);
    PhaseBarrier barrier = {};
    barrier.pending = barrier.arrivals = count;
    barrier.mark = PhaseBarrier::kMark;
    std::memcpy(place<Space::shared>(warp, warp.address(i.operands[0], lane), 8, true), &barrier,
                8);
  }
  return Outcome::done;
}
template <bool kExpect>
Outcome barrier_arrive(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    BarrierAt barrier(place<Space::shared>(warp, warp.address(i.operands[1], lane), 8, true));
    const uint32_t given = i.operands.size() > 2 ? warp.read<uint32_t>(i.operands[2], lane) : 1;
    if (kExpect) barrier->bytes = barrier->bytes + given;
    barrier.arrive(kExpect ? 1 : given);
  }
  return Outcome::done;
}
Outcome barrier_try(Warp& warp, const Instruction& i, uint32_t lanes) {
  bool all = true;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    BarrierAt barrier(place<Space::shared>(warp, warp.address(i.operands[1], lane), 8, true));
    const bool done = barrier->phase != (warp.read<uint32_t>(i.operands[2], lane) & 1);
    warp.write<uint32_t>(i.operands[0], lane, done);
    all &= done;
  }
  return all ? Outcome::done : Outcome::stall;
}

// One thread asks for each of these.
Outcome copy_bytes(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const auto bytes = warp.read<uint32_t>(i.operands[2], lane);
    const int64_t to = warp.address(i.operands[0], lane), from = warp.address(i.operands[1], lane);
    if (bytes % 16 != 0 || to % 16 != 0 || from % 16 != 0) throw Error("misaligned bulk copy");
    unsigned char* target = shared_at(warp, to, bytes);
    const unsigned char* source = checked_global(from, bytes, false);
    unsigned char* barrier = shared_at(warp, warp.address(i.operands[3], lane), 8);
    warp.block->cluster->copies.emplace_back([=] {
      std::memcpy(target, source, bytes);
      BarrierAt(barrier).complete(bytes);
    });
  }
  return Outcome::done;
}

Outcome copy_box(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    TensorMap map;
    std::memcpy(&map, checked_global(warp.address(i.operands[1], lane), sizeof map, false),
                sizeof map);
    if (map.rank != static_cast<uint32_t>(i.count)) throw Error("a tensor map of another rank");
    int64_t at[kMaxRank] = {};
    for (uint32_t d = 0; d < map.rank; ++d) {
      at[d] = warp.read<int32_t>(i.operands[2 + d], lane);
    }
    const int64_t to = warp.address(i.operands[0], lane);
    if (to % (map.swizzle_128 ? 1024 : 128) != 0) throw Error("misaligned box");
    const uint32_t bytes = map.box_bytes();
    unsigned char* target = shared_at(warp, to, bytes);
    unsigned char* barrier = shared_at(warp, warp.address(i.operands[2 + map.rank], lane), 8);
    const std::vector<unsigned char> box = map.read(at, [](const void* from, int64_t size) {
      return checked_global(reinterpret_cast<intptr_t>(from), size, false);
    });
    warp.block->cluster->copies.emplace_back([=] {
      for (uint32_t k = 0; k < bytes; k += 16) {
        const int64_t place = map.swizzle_128 ? swizzled_128(to + k) - to : k;
        std::memcpy(target + place, box.data() + k, 16);
      }
      BarrierAt(barrier).complete(bytes);
    });
  }
  return Outcome::done;
}

Outcome send(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (machine().launch.cluster.count() == 1) throw Error("a block alone sends to itself");
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    unsigned char* target =
        place<Space::shared>(warp, warp.address(i.operands[0], lane), 4 * i.count, true);
    uint32_t values[4] = {};
    for (int k = 0; k < i.count; ++k) {
      values[k] = warp.read<uint32_t>(i.operands[static_cast<size_t>(k) + 1], lane);
    }
    unsigned char* barrier = shared_at(warp, warp.address(i.operands.back(), lane), 8);
    const int bytes = 4 * i.count;
    warp.block->cluster->copies.emplace_back([=] {
      std::memcpy(target, values, static_cast<size_t>(bytes));
      BarrierAt(barrier).complete(bytes);
    });
  }
  return Outcome::done;
}

Outcome copy_async(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const auto bytes = warp.read<uint32_t>(i.operands[2], lane);
    const uint32_t given =
        i.operands.size() > 3 ? std::min(bytes, warp.read<uint32_t>(i.operands[3], lane)) : bytes;
    unsigned char* target =
        place<Space::shared>(warp, warp.address(i.operands[0], lane), bytes, true);
    const unsigned char* source =
        given > 0 ? checked_global(warp.address(i.operands[1], lane), bytes, false) : nullptr;
    add_to_group(&warp.copies[lane], [=] {
      if (given > 0) std::memcpy(target, source, given);
      std::memset(target + given, 0, bytes - given);
    });
  }
  return Outcome::done;
}
Outcome close_copies(Warp& warp, const Instruction&, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) close_group(&warp.copies[std::countr_zero(m)]);
  return Outcome::done;
}
Outcome wait_for_copies(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    finish_groups(&warp.copies[lane], warp.read<uint32_t>(i.operands[0], lane) + 1);
  }
  return Outcome::done;
}

Outcome map_address(Warp& warp, const Instruction& i, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const auto rank = warp.read<uint32_t>(i.operands[2], lane);
    if (rank >= warp.block->cluster->blocks.size()) throw Error("no such block in the cluster");
    const uint32_t own = warp.read<uint32_t>(i.operands[1], lane) & 0xffffff;
    warp.write<uint32_t>(i.operands[0], lane, (rank + 1) << 24 | own);
  }
  return Outcome::done;
}
Outcome nothing(Warp&, const Instruction&, uint32_t) { return Outcome::done; }

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream text(name);
  while (std::getline(text, part, '.')) parts.push_back(part);
  return parts;
}

}  // namespace

unsigned char* shared_at(Warp& warp, int64_t address, int64_t bytes) {
  Block* block = warp.block;
  const int64_t rank = address >> 24;
  if (rank > 0) {
    auto& blocks = block->cluster->blocks;
    if (rank > static_cast<int64_t>(blocks.size())) throw Error("no such block in the cluster");
    block = &blocks[static_cast<size_t>(rank - 1)];
    if (block->live_threads == 0) throw Error("shared memory of a block that has ended");
  }
  const int64_t at = address & 0xffffff;
  if (address < 0 || at < kReservedShared ||
      at + bytes > static_cast<int64_t>(block->shared.size())) {
    throw Error("shared address " + hex(address) + " of " + std::to_string(block->shared.size()));
  }
  return &block->shared[static_cast<size_t>(at)];
}

void allow_global(const void* from, size_t bytes, bool writable) {
  const auto begin = reinterpret_cast<intptr_t>(from);
  global_ranges().push_back({begin, begin + static_cast<int64_t>(bytes), writable});
}
void forget_global() { global_ranges().clear(); }

bool resolve_memory(Instruction* instruction, const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  const bool is_load = parts[0] == "ld", is_store = parts[0] == "st";
  if ((is_load || is_store) && !name.starts_with("st.async")) {
    const bool shared = name.find(".shared") != std::string::npos;
    const std::string& type = parts.back();
    instruction->size = std::stoi(type.substr(type.find_first_of("0123456789"))) / 8;
    instruction->is_signed = type[0] == 's';
    for (const std::string& part : parts) {
      if (part == "v2") instruction->count = 2;
      if (part == "v4") instruction->count = 4;
    }
    instruction->run = is_load ? (shared ? load<Space::shared> : load<Space::global>)
                               : (shared ? store<Space::shared> : store<Space::global>);
    return true;
  }
  if (name.starts_with("cp.async.bulk.tensor.")) {
    instruction->run = copy_box;
    instruction->count = parts[4][0] - '0';
    return true;
  }
  if (name.starts_with("st.async.")) {
    instruction->run = send;
    instruction->count = name.find(".v4.") != std::string::npos ? 4 : 1;
    return true;
  }
  if (name.starts_with("createpolicy.")) {
    instruction->run = nothing;
    return true;
  }
  static const std::map<std::string, Run> table = {
      {"atom.add.release.gpu.global.u32", atomic_u32<true>},
      {"atom.global.max.u32", atomic_u32<false>},
      {"mbarrier.init.shared::cta.b64", barrier_init},
      {"mbarrier.arrive.shared::cta.b64", barrier_arrive<false>},
      {"mbarrier.arrive.expect_tx.shared::cta.b64", barrier_arrive<true>},
      {"mbarrier.try_wait.parity.shared::cta.b64", barrier_try},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", copy_bytes},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
       copy_bytes},
      {"cp.async.ca.shared.global", copy_async},
      {"cp.async.cg.shared.global", copy_async},
      {"cp.async.commit_group", close_copies},
      {"cp.async.wait_group", wait_for_copies},
      {"mapa.shared::cluster.u32", map_address},
      {"fence.mbarrier_init.release.cluster", nothing},
      {"griddepcontrol.wait", nothing},
      {"griddepcontrol.launch_dependents", nothing},
  };
  const auto found = table.find(name);
  if (found == table.end()) return false;
  instruction->run = found->second;
  return true;
}

}  // namespace model
