// Few tokens: activations become fixed-point numbers once, then each thread streams the weights of
// its tiles past them.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/linear_plan.hpp"
#include "cpu/outliers.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kBytesPerThread = 128 * 1024;
constexpr double kColumnsPerThread = 16 * 1024;  // of activations to prepare
constexpr int kMostRows = 3;                     // of a token; further ones are for float32

int64_t num_groups(const LinearProblem& p) { return divide_up(p.args.K, kGroupColumns); }

// Activations as the kernels want them: a token's rows one after another, the first of which is
// all there is but for outliers.
class ActivationRows {
 public:
  // One token more: rows are taken four, two or one at a time; three are four, the last of which is
  // nothing.
  static int64_t bytes(const LinearProblem& p) {
    return group_bytes(p) + p.args.num_tokens * (num_groups(p) + 1);
  }
  ActivationRows(const LinearProblem& p, char* memory)
      : p_(p),
        num_groups_(num_groups(p)),
        groups_(reinterpret_cast<ActivationGroup*>(memory)),
        rows_of_groups_(reinterpret_cast<uint8_t*>(memory + group_bytes(p))),
        rows_of_tokens_(rows_of_groups_ + p.args.num_tokens * num_groups_),
        row_stride_(kMostRows * num_groups_) {}

  // False when float32 has to do it.
  bool prepare(const DecodeKernels& kernel);

  int64_t count() const { return count_; }
  int rows_of(int64_t token) const { return rows_of_tokens_[token]; }
  const ActivationGroup* row(int64_t index) const { return groups_ + index * row_stride_; }
  int64_t row_stride() const { return row_stride_; }

 private:
  static int64_t group_bytes(const LinearProblem& p) {
    return (p.args.num_tokens + 1) * kMostRows * num_groups(p) *
           static_cast<int64_t>(sizeof(ActivationGroup));
  }
  bool prepare_group(const DecodeKernels& kernel, int64_t token, int64_t group);
  void arrange();

  const LinearProblem& p_;
  const int64_t num_groups_;
  ActivationGroup* groups_;
  uint8_t* rows_of_groups_;  // [token][group]
  uint8_t* rows_of_tokens_;
  int64_t row_stride_;  // in groups
  int64_t count_ = 0;
};

bool ActivationRows::prepare(const DecodeKernels& kernel) {
  const int64_t count = p_.args.num_tokens * num_groups_;
  const int threads = static_cast<int>(
      std::min<int64_t>(threads_for(static_cast<double>(count) * kGroupColumns, kColumnsPerThread),
                        std::max<int64_t>(count, 1)));
  std::atomic<bool> done{true};
  run_threads(threads, [&](int thread) {
    for (int64_t i = count * thread / threads; i < count * (thread + 1) / threads; ++i) {
      if (!prepare_group(kernel, i / num_groups_, i % num_groups_)) {
        done.store(false, std::memory_order_relaxed);
      }
    }
  });
  if (!done.load(std::memory_order_relaxed)) return false;
  arrange();
  return true;
}

bool ActivationRows::prepare_group(const DecodeKernels& kernel, int64_t token, int64_t group) {
  alignas(64) float x[kGroupColumns];
  alignas(64) float outliers[kGroupColumns];
  const int64_t column = group * kGroupColumns;
  const int64_t columns = std::min<int64_t>(kGroupColumns, p_.args.K - column);
  kernels().few_rows[p_.element]->widen(p_.x(token, column), 1, columns, x);
  std::fill(x + columns, x + kGroupColumns, 0.0f);
  for (int row = 0; row < kMostRows; ++row) {
    const Outliers found = take_outliers(x, outliers);
    if (found == Outliers::too_large) return false;
    ActivationGroup* to = groups_ + (token * kMostRows + row) * num_groups_ + group;
    if (!kernel.prepare(x, p_.args.format, to)) return false;
    if (found == Outliers::none) {
      rows_of_groups_[token * num_groups_ + group] = static_cast<uint8_t>(row + 1);
      return true;
    }
    std::copy_n(outliers, kGroupColumns, x);
  }
  return false;
}

// Where there are outliers, the rows that tokens have come one behind another, zeros where a group
// has none of them.
void ActivationRows::arrange() {
  const int64_t row_bytes = num_groups_ * static_cast<int64_t>(sizeof(ActivationGroup));
  const auto clear = [&](ActivationGroup* groups, int64_t bytes) {
    std::memset(static_cast<void*>(groups), 0, static_cast<std::size_t>(bytes));
  };
  for (int64_t token = 0; token < p_.args.num_tokens; ++token) {
    const uint8_t* of_groups = rows_of_groups_ + token * num_groups_;
    rows_of_tokens_[token] = *std::max_element(of_groups, of_groups + num_groups_);
    count_ += rows_of_tokens_[token];
  }
  if (count_ > p_.args.num_tokens) {
    row_stride_ = num_groups_;
    ActivationGroup* to = groups_;
    for (int64_t token = 0; token < p_.args.num_tokens; ++token) {
      for (int row = 0; row < rows_of_tokens_[token]; ++row, to += num_groups_) {
        ActivationGroup* from = groups_ + (token * kMostRows + row) * num_groups_;
        for (int64_t group = 0; group < num_groups_; ++group) {
          if (rows_of_groups_[token * num_groups_ + group] <= row) {
            clear(from + group, sizeof(ActivationGroup));
          }
        }
        std::memmove(static_cast<void*>(to), from, static_cast<std::size_t>(row_bytes));
      }
    }
  }
  if (count_ % kMaxDecodeRows == 3) clear(groups_ + count_ * row_stride_, row_bytes);
}

// `end`: of the tiles that this thread multiplies from here on.
void multiply_tile(const LinearProblem& p, const DecodeKernels& kernel, int64_t tile, int64_t end,
                   const ActivationRows& activations) {
  const int64_t first = tile * kPackedRows, rows = std::min<int64_t>(kPackedRows, p.args.N - first);
  alignas(64) float sums[kMaxDecodeRows * kPackedRows];
  alignas(64) float before[kPackedRows];  // sums of the token's earlier rows
  float bias[kPackedRows];
  load_bias(p, first, rows, bias);
  int64_t token = 0;
  int row_of_token = 0;
  for (int64_t row = 0; row < activations.count();) {
    const int64_t left = activations.count() - row;
    const int size = left >= 3 ? 2 : left == 2 ? 1 : 0;
    kernel.decode[static_cast<int>(p.args.format)][size]({.tile = p.tile(tile),
                                                          .num_blocks = p.num_blocks(),
                                                          .end = p.tile(end),
                                                          .activations = activations.row(row),
                                                          .row_stride = activations.row_stride(),
                                                          .sums = sums});
    const int64_t count = std::min<int64_t>(left, int64_t{1} << size);
    for (float* its = sums; its < sums + count * kPackedRows; its += kPackedRows) {
      if (row_of_token > 0) {
        for (int r = 0; r < kPackedRows; ++r) its[r] += before[r];
      }
      if (++row_of_token < activations.rows_of(token)) {
        std::copy_n(its, kPackedRows, before);
      } else {
        write_run(p, token, first, rows, bias, its);
        ++token;
        row_of_token = 0;
      }
    }
    row += count;
  }
}

}  // namespace

int64_t few_tokens_bytes(const LinearProblem& p) { return ActivationRows::bytes(p); }

Status linear_few_tokens(const LinearProblem& p, char* memory, bool* done) {
  const DecodeKernels& kernel = decode_kernels(p.args.format);
  ActivationRows activations(p, memory);
  *done = activations.prepare(kernel);
  if (!*done) return AC4K_OK;
  const int64_t tiles = p.num_tiles();
  const double bytes = static_cast<double>(tiles) * static_cast<double>(p.tile_bytes());
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_for(bytes, kBytesPerThread), tiles));
  Shares shares(tiles, threads);
  run_threads(threads, [&](int thread) {
    for (int64_t tile, end; shares.take(thread, &tile, &end);) {
      multiply_tile(p, kernel, tile, end, activations);
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
