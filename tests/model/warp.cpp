// Instructions of warps, warpgroups and blocks: exchanges, barriers, matrix products.
#include <algorithm>
#include <map>

#include "handlers.hpp"
#include "numbers.hpp"
#include "tensor_map.hpp"

namespace model {
namespace {

// --- Exchanges -----------------------------------------------------------------------------------

// Operands: value, whether it came from another lane, from, which, clamp and segments, lanes.
template <bool kButterfly>
Outcome shuffle(Warp& warp, const Instruction& i, uint32_t lanes) {
  const bool says = i.operands.size() == 6;  // whether it came from another lane
  const size_t from = says ? 2 : 1;
  uint32_t values[32];
  for (int lane = 0; lane < 32; ++lane) {
    values[lane] = warp.read<uint32_t>(i.operands[from], lane);
  }
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint32_t b = warp.read<uint32_t>(i.operands[from + 1], lane) & 31;
    const uint32_t c = warp.read<uint32_t>(i.operands[from + 2], lane);
    const uint32_t segments = c >> 8 & 31, clamp = c & 31;
    const auto own = static_cast<uint32_t>(lane);
    const uint32_t most = (own & segments) | (clamp & ~segments);
    uint32_t other = kButterfly ? own ^ b : (own & segments) | (b & ~segments);
    const bool valid = other <= most;
    if (!valid) other = own;
    if ((lanes >> other & 1) == 0) throw Error("a lane that does not take part");
    warp.write(i.operands[0], lane, values[other]);
    if (says) warp.write<uint32_t>(i.operands[1], lane, valid);
  }
  return Outcome::done;
}
template <bool kAll>
Outcome vote(Warp& warp, const Instruction& i, uint32_t lanes) {
  bool any = false, all = true;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const bool set = warp.predicate(i.operands[1], std::countr_zero(m));
    any |= set, all &= set;
  }
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    warp.write<uint32_t>(i.operands[0], std::countr_zero(m), kAll ? all : any);
  }
  return Outcome::done;
}
Outcome largest(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t most = 0;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    most = std::max(most, warp.read<uint32_t>(i.operands[1], std::countr_zero(m)));
  }
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    warp.write(i.operands[0], std::countr_zero(m), most);
  }
  return Outcome::done;
}
Outcome elect(Warp& warp, const Instruction& i, uint32_t lanes) {
  const int chosen = std::countr_zero(lanes);
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    warp.write<uint32_t>(i.operands[0], lane, static_cast<uint32_t>(chosen));
    warp.write<uint32_t>(i.operands[1], lane, lane == chosen);
  }
  return Outcome::done;
}

// --- Barriers ------------------------------------------------------------------------------------

Outcome block_barrier(Warp& warp, const Instruction& i, uint32_t lanes) {
  const int lane = std::countr_zero(lanes);
  const auto barrier = warp.read<uint32_t>(i.operands[0], lane);
  const uint32_t count = i.operands.size() > 1 ? warp.read<uint32_t>(i.operands[1], lane) : 0;
  if (barrier > 15) throw Error("no such barrier");
  warp.block->arrive(static_cast<int>(barrier), count, &warp, lanes);
  return warp.blocked != 0 ? Outcome::block : Outcome::done;
}
Outcome cluster_arrive(Warp& warp, const Instruction&, uint32_t lanes) {
  Cluster& cluster = *warp.block->cluster;
  const uint64_t generation = cluster.generation;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    warp.cluster_generation[std::countr_zero(m)] = generation + 1;
  }
  cluster.arrived += static_cast<uint32_t>(std::popcount(lanes));
  cluster.finish_barrier_if_full();
  ++machine().events;
  return Outcome::done;
}
Outcome cluster_wait(Warp& warp, const Instruction&, uint32_t lanes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const uint64_t wanted = warp.cluster_generation[std::countr_zero(m)];
    if (wanted == 0) throw Error("a wait without an arrival");
    if (warp.block->cluster->generation < wanted) return Outcome::again;
  }
  return Outcome::done;
}
Outcome nothing(Warp&, const Instruction&, uint32_t) { return Outcome::done; }

// --- Matrices ------------------------------------------------------------------------------------

Outcome load_matrices(Warp& warp, const Instruction& i, uint32_t) {
  uint32_t rows[32][4];  // of row r of matrix m, at 8 m + r
  for (int lane = 0; lane < 32; ++lane) {
    const int64_t address = warp.address(i.operands[4], lane);
    if (address % 16 != 0) throw Error("misaligned row of a matrix");
    std::memcpy(rows[lane], shared_at(warp, address, 16), 16);
  }
  for (size_t matrix = 0; matrix < 4; ++matrix) {
    for (int lane = 0; lane < 32; ++lane) {
      warp.write(i.operands[matrix], lane,
                 rows[matrix * 8 + static_cast<size_t>(lane / 4)][lane % 4]);
    }
  }
  return Outcome::done;
}

template <typename T>
struct Factors {  // of 16 bits
  static constexpr int kEach = 2;
  static double value(uint32_t bits, int i) {
    return to_float(std::bit_cast<T>(static_cast<uint16_t>(bits >> (16 * i))));
  }
};
struct Tf32 {};
template <>
struct Factors<Tf32> {
  static constexpr int kEach = 1;
  static double value(uint32_t bits, int) { return std::bit_cast<float>(bits & 0xffffe000u); }
};
template <>
struct Factors<int8_t> {
  static constexpr int kEach = 4;
  static double value(uint32_t bits, int i) { return static_cast<int8_t>(bits >> (8 * i)); }
};
template <>
struct Factors<uint8_t> {
  static constexpr int kEach = 4;
  static double value(uint32_t bits, int i) { return static_cast<uint8_t>(bits >> (8 * i)); }
};

// d = a * b + c: a is 16 rows of four lanes' registers, b 8 columns of them. kHalves: registers of
// a lane along K; `a` has as many for the rows r + 8 behind each.
template <typename A, typename B, int kHalves, typename Sum>
Outcome product(Warp& warp, const Instruction& i, uint32_t) {
  constexpr int kEach = Factors<A>::kEach, kK = 4 * kEach * kHalves;
  double a[16][kK], b[8][kK];
  for (int lane = 0; lane < 32; ++lane) {
    for (int half = 0; half < kHalves; ++half) {
      const int k = (half * 4 + lane % 4) * kEach;
      for (int e = 0; e < kEach; ++e) {
        for (int row = 0; row < 2; ++row) {
          const auto& operand = i.operands[static_cast<size_t>(4 + half * 2 + row)];
          a[lane / 4 + 8 * row][k + e] = Factors<A>::value(warp.read<uint32_t>(operand, lane), e);
        }
        const auto& operand = i.operands[static_cast<size_t>(4 + 2 * kHalves + half)];
        b[lane / 4][k + e] = Factors<B>::value(warp.read<uint32_t>(operand, lane), e);
      }
    }
  }
  Sum sums[32][4];
  for (int lane = 0; lane < 32; ++lane) {
    for (int n = 0; n < 4; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) {
        sum += a[lane / 4 + n / 2 * 8][k] * b[lane % 4 * 2 + n % 2][k];
      }
      const auto& operand = i.operands[static_cast<size_t>(4 + 3 * kHalves + n)];
      sums[lane][n] = static_cast<Sum>(static_cast<double>(warp.read<Sum>(operand, lane)) + sum);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (size_t n = 0; n < 4; ++n) warp.write(i.operands[n], lane, sums[lane][n]);
  }
  return Outcome::done;
}

// A warp's 16 rows of a product of a warpgroup: `a` in registers, `b` in shared memory, rows of 64
// columns of K swizzled by 128 bytes. count: columns.
template <typename T>
void multiply_as_warpgroup(Warp& warp, const Instruction& i, uint64_t descriptor, bool adds) {
  const auto columns = static_cast<size_t>(i.count), sums = columns / 2;
  const int64_t start = static_cast<int64_t>(descriptor & 0x3fff) << 4;
  const int64_t stride = static_cast<int64_t>(descriptor >> 32 & 0x3fff) << 4;
  float a[16][16];
  for (int lane = 0; lane < 32; ++lane) {
    for (int n = 0; n < 4; ++n) {
      const auto bits = warp.read<uint32_t>(i.operands[sums + static_cast<size_t>(n)], lane);
      for (int e = 0; e < 2; ++e) {
        a[lane / 4 + n % 2 * 8][lane % 4 * 2 + n / 2 * 8 + e] =
            static_cast<float>(Factors<T>::value(bits, e));
      }
    }
  }
  for (size_t column = 0; column < columns; ++column) {
    float b[16];
    const auto c = static_cast<int64_t>(column);
    for (int64_t k = 0; k < 16; k += 8) {
      const int64_t at = swizzled_128(start + c / 8 * stride + c % 8 * 128 + k * 2);
      uint32_t bits[4];
      std::memcpy(bits, shared_at(warp, at, 16), 16);
      for (int e = 0; e < 8; ++e) {
        b[k + e] = static_cast<float>(Factors<T>::value(bits[e / 2], e % 2));
      }
    }
    for (int row = 0; row < 16; ++row) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += static_cast<double>(a[row][k]) * static_cast<double>(b[k]);
      const int lane = row % 8 * 4 + static_cast<int>(column % 8 / 2);
      const auto& operand =
          i.operands[column / 8 * 4 + static_cast<size_t>(row / 8) * 2 + column % 2];
      if (adds) sum += static_cast<double>(warp.read<float>(operand, lane));
      warp.write(operand, lane, static_cast<float>(sum));
    }
  }
}
// It happens when it is asked for, or as late as it may: where registers or shared memory change
// too early, or sums are read, one of the two gives something else.
template <typename T>
Outcome warpgroup_product(Warp& warp, const Instruction& i, uint32_t) {
  const auto sums = static_cast<size_t>(i.count) / 2;
  const auto descriptor = warp.read<uint64_t>(i.operands[sums + 4], 0);
  if (descriptor >> 62 != 1) throw Error("a matrix that is not swizzled by 128 bytes");
  if (!warp.fenced) throw Error("a product before wgmma.fence");
  const bool adds = warp.read<uint32_t>(i.operands[sums + 5], 0) != 0;
  add_to_group(&warp.products, [&warp, &i, descriptor, adds] {
    multiply_as_warpgroup<T>(warp, i, descriptor, adds);
  });
  if (machine().random(2) == 0) finish_groups(&warp.products, 0);
  return Outcome::done;
}
Outcome fence_registers(Warp& warp, const Instruction&, uint32_t) {
  warp.fenced = true;
  return Outcome::done;
}
Outcome close_products(Warp& warp, const Instruction&, uint32_t) {
  warp.fenced = false;
  close_group(&warp.products);
  return Outcome::done;
}
Outcome wait_for_products(Warp& warp, const Instruction& i, uint32_t) {
  finish_groups(&warp.products, warp.read<uint32_t>(i.operands[0], 0) + 1);
  return Outcome::done;
}

struct Entry {
  Run run;
  Together together = Together::all;
};

}  // namespace

bool resolve_warp(Instruction* instruction, const std::string& name) {
  static const std::map<std::string, Entry> table = {
      {"shfl.sync.bfly.b32", {shuffle<true>, Together::mask}},
      {"shfl.sync.idx.b32", {shuffle<false>, Together::mask}},
      {"vote.sync.any.pred", {vote<false>, Together::mask}},
      {"vote.sync.all.pred", {vote<true>, Together::mask}},
      {"redux.sync.max.u32", {largest, Together::mask}},
      {"elect.sync", {elect, Together::mask}},
      {"bar.warp.sync", {nothing, Together::mask}},
      {"bar.sync", {block_barrier}},
      {"barrier.cluster.arrive.relaxed", {cluster_arrive, Together::any}},
      {"barrier.cluster.arrive.release", {cluster_arrive, Together::any}},
      {"barrier.cluster.wait.acquire", {cluster_wait, Together::any}},
      {"setmaxnreg.inc.sync.aligned.u32", {nothing}},
      {"setmaxnreg.dec.sync.aligned.u32", {nothing}},
      {"wgmma.fence.sync.aligned", {fence_registers}},
      {"wgmma.commit_group.sync.aligned", {close_products}},
      {"wgmma.wait_group.sync.aligned", {wait_for_products}},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", {load_matrices}},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", {product<Half, Half, 2, float>}},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", {product<Bfloat, Bfloat, 2, float>}},
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", {product<Half, Half, 1, float>}},
      {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", {product<Bfloat, Bfloat, 1, float>}},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", {product<Tf32, Tf32, 2, float>}},
      {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", {product<int8_t, int8_t, 2, int32_t>}},
      {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", {product<uint8_t, int8_t, 2, int32_t>}},
  };
  const auto found = table.find(name);
  if (found != table.end()) {
    instruction->run = found->second.run;
    instruction->together = found->second.together;
    return true;
  }
  constexpr std::string_view kProduct = "wgmma.mma_async.sync.aligned.m64n";
  if (!name.starts_with(kProduct)) return false;
  instruction->count = std::stoi(name.substr(kProduct.size()));
  instruction->run =
      name.find("bf16") != std::string::npos ? warpgroup_product<Bfloat> : warpgroup_product<Half>;
  instruction->together = Together::all;
  return true;
}

void resolve(Instruction* instruction, const std::string& name) {
  if (!resolve_arithmetic(instruction, name) && !resolve_memory(instruction, name) &&
      !resolve_warp(instruction, name)) {
    throw Error("the model has no instruction " + name + ": " + instruction->text);
  }
}

}  // namespace model
