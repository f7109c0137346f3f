#include "cpu/outliers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr float kNoLimit = std::numeric_limits<float>::infinity();
constexpr double kSlotsPerThread = 8;

// Larger numbers are outliers. Of 16 interleaved parts of x that hold anything the middle one says
// what is usual: so many digits stay for those that the squares of errors are below 2^-18 of
// theirs.
float limit_of(const float* x) {
  constexpr int kParts = 16;
  constexpr float kRange = 32;
  float most[kParts] = {};
  for (int i = 0; i < kGroupColumns; i += kParts) {
    for (int j = 0; j < kParts; ++j) {
      const float magnitude = std::fabs(x[i + j]);
      most[j] = most[j] < magnitude ? magnitude : most[j];
    }
  }
  const float largest = *std::max_element(most, most + kParts);
  // Numbers that are not finite are found elsewhere.
  if (largest == 0 || largest > std::numeric_limits<float>::max()) return kNoLimit;
  const auto usual = [&](float m) { return m * kRange >= largest; };
  const auto parts = std::count_if(most, most + kParts, [](float m) { return m > 0; });
  float limit = kNoLimit;
  if (std::count_if(most, most + kParts, usual) <= parts / 2) {
    float* middle = most + parts / 2;
    std::nth_element(most, middle, most + kParts, std::greater<>());
    limit = kRange * *middle;
  }
  return std::min(limit, largest) < kSmallestActivation ? 0 : limit;
}

}  // namespace

Outliers::Outliers(const LinearProblem& p, char* memory)
    : p_(p),
      groups_(divide_up(p.args.K, kGroupColumns)),
      sub_blocks_(num_sub_blocks(p)),
      limits_(reinterpret_cast<float*>(memory)),
      taken_(reinterpret_cast<uint8_t*>(memory + limits_bytes(p))),
      slots_(reinterpret_cast<uint8_t*>(memory + first_piece(p))) {}

void Outliers::take(int64_t token, int64_t column, float* x) {
  const float limit = limit_of(x);
  limits_[token * groups_ + column / kGroupColumns] = limit;
  if (limit == kNoLimit) return;
  any_.store(true, std::memory_order_relaxed);
  for (int i = 0; i < kGroupColumns; ++i) x[i] = std::fabs(x[i]) > limit ? 0 : x[i];
}

void Outliers::arrange() {
  if (none()) return;
  const int64_t slots = num_slots(p_);
  const int threads =
      std::min(threads_for(static_cast<double>(slots), kSlotsPerThread), static_cast<int>(slots));
  run_threads(threads, [&](int thread) {
    for (int64_t i = slots * thread / threads; i < slots * (thread + 1) / threads; ++i) {
      arrange_slot(i % sub_blocks_, i / sub_blocks_);
    }
  });
}

void Outliers::arrange_slot(int64_t sub_block, int64_t panel) {
  const int64_t slot = panel * sub_blocks_ + sub_block, first = panel * kPieceRows;
  const int64_t column = sub_block * kPackedColumns, group = column / kGroupColumns;
  const int64_t tokens = std::min<int64_t>(kPieceRows, p_.args.num_tokens - first);
  const int64_t columns = std::min<int64_t>(kPackedColumns, p_.args.K - column);
  const auto limit = [&](int64_t token) { return limits_[(first + token) * groups_ + group]; };
  taken_[slot] = 0;
  alignas(64) float taken[kPackedColumns * kPieceRows];
  alignas(64) float x[kPackedColumns];
  for (int64_t token = 0; token < tokens; ++token) {
    if (limit(token) == kNoLimit) continue;
    if (taken_[slot] == 0) std::fill_n(taken, std::size(taken), 0.0f);
    taken_[slot] = 1;
    kernels().few_rows[p_.element]->widen(p_.x(first + token, column), 1, columns, x);
    for (int64_t i = 0; i < columns; ++i) {
      if (std::fabs(x[i]) > limit(token)) taken[i * kPieceRows + token] = x[i];
    }
  }
  if (taken_[slot] == 0) return;
  // Whole groups have limits, most of their columns nothing that is larger.
  taken_[slot] = std::any_of(taken, std::end(taken), [](float v) { return v != 0; });
  if (taken_[slot] != 0) {
    kernels().linear->exact->arrange(taken, p_.args.format, slots_ + slot * kSlotBytes);
  }
}

void Outliers::multiply(int64_t tile, int64_t panel, float* sums) const {
  const PanelKernels& kernel = *kernels().linear->exact;
  constexpr int64_t kGroups = kPackedRows / kPieceRows;
  alignas(64) uint8_t weights[kGroups * kSlotBytes];
  std::fill_n(sums, kPackedRows * kPieceRows, 0.0f);
  for (int64_t sub_block = 0; sub_block < sub_blocks_; ++sub_block) {
    const int64_t slot = panel * sub_blocks_ + sub_block;
    if (taken_[slot] == 0) continue;
    kernel.widen[static_cast<int>(p_.args.format)](p_.tile(tile), sub_block, 1, weights,
                                                   kSlotBytes);
    kernel.multiply({.columns = kPackedColumns,
                     .weights = weights,
                     .groups = kGroups,
                     .group_stride = kSlotBytes,
                     .activations = slots_ + slot * kSlotBytes,
                     .panels = 1,
                     .panel_stride = kSlotBytes,
                     .next_activations = nullptr,
                     .sums = sums,
                     .ldc = kPieceRows,
                     .accumulate = true});
  }
}

}  // namespace ac4k::cpu
