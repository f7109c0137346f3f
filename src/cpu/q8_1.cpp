// Products of raw GGUF blocks with q8_1: activations are prepared once, then threads share the rows
// of weights. Rows stream past a few activations at a time; where a level has vectors for it, 16
// rows are unpacked together for more of them, a stretch of K at a time, and stay near while
// activations pass by.
#include "cpu/q8_1.hpp"

#include <algorithm>

#include "cpu/shares.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kUnitRows = 64;      // of weights that are unpacked side by side
constexpr int64_t kUnitColumns = 512;  // of activations that pass by them
constexpr double kWorkPerThread = 1 << 18;
constexpr int64_t kActivationBlock = 36;
constexpr int64_t kFloat = sizeof(float);

int64_t whole_lines(int64_t bytes) { return divide_up(bytes, 64) * 64; }

int power_of_two_columns(int64_t left) {
  int columns = kMaxUnpackedColumns;
  while (columns > left) columns /= 2;
  return columns;
}

// How the work is cut.
struct Plan {
  bool unpacks;
  int threads;
  int64_t rows, columns;          // of a unit of work
  int64_t row_units, units;       // all columns of some rows come one after another
  int64_t x_bytes, thread_bytes;  // of the workspace

  Plan(const BlockProduct& p, const BlockProductKernels& kernel)
      : unpacks(p.N > kernel.most_columns && kernel.unpack[p.format] != nullptr) {
    const double work = static_cast<double>(p.M) * static_cast<double>(p.N) *
                        static_cast<double>(p.num_blocks) * kBlockValues;
    threads = threads_for(work, kWorkPerThread);
    columns = unpacks ? std::min(kUnitColumns, p.N) : p.N;
    const int64_t column_units = divide_up(p.N, columns);
    rows = unpacks ? kUnitRows : kUnpackedRows;
    while (rows > kUnpackedRows && divide_up(p.M, rows) * column_units < 2 * threads) rows /= 2;
    row_units = divide_up(p.M, rows);
    units = row_units * column_units;
    threads = static_cast<int>(std::min<int64_t>(threads, std::max(units, p.N)));
    x_bytes = whole_lines(p.N * p.num_blocks * (kernel.activation_bytes + 2 * kFloat));
    thread_bytes = unpacks ? weight_bytes() + rows * columns * kFloat : 0;
  }
  int64_t weight_bytes() const { return rows / kUnpackedRows * kUnpackedBlocks * kUnpackedBytes; }
};

class Product {
 public:
  Product(const BlockProduct& p, const BlockProductKernels& kernel, const Plan& plan,
          uint8_t* memory)
      : p_(p), kernel_(kernel), plan_(plan), memory_(memory) {
    const int64_t blocks = p.N * p.num_blocks;
    codes_ = reinterpret_cast<int8_t*>(memory);
    d_ = reinterpret_cast<float*>(codes_ + blocks * kernel.activation_bytes);
    sums_ = d_ + blocks;
  }

  void prepare(int64_t n) const {
    const int64_t at = n * p_.num_blocks;
    kernel_.prepare(p_.activation + at * kActivationBlock, p_.num_blocks,
                    codes_ + at * kernel_.activation_bytes, d_ + at, sums_ + at);
  }

  // `end`: of the units that this thread goes through.
  void multiply(int64_t unit, int64_t end, int thread) const {
    const int64_t column_units = plan_.units / plan_.row_units;
    const int64_t m = unit / column_units * plan_.rows, rows = std::min(plan_.rows, p_.M - m);
    const int64_t n = unit % column_units * plan_.columns;
    const int64_t columns = std::min(plan_.columns, p_.N - n);
    const int64_t end_row = std::min(divide_up(end, column_units) * plan_.rows, p_.M);
    const int64_t groups = plan_.unpacks ? rows / kUnpackedRows : 0;
    if (groups > 0) multiply_unpacked(m, groups, n, columns, thread);
    multiply_rows(m + groups * kUnpackedRows, m + rows, n, columns, end_row);
  }

 private:
  const uint8_t* row(int64_t m) const { return p_.weight + m * p_.num_blocks * p_.weight_bytes; }
  float* out(int64_t m, int64_t n) const { return p_.out + m * p_.N + n; }
  PreparedRows x(int64_t n) const {
    const int64_t at = n * p_.num_blocks;
    return {codes_ + at * kernel_.activation_bytes, d_ + at, sums_ + at, p_.num_blocks};
  }
  uint8_t* weights(int thread, int64_t group) const {
    return memory_ + plan_.x_bytes + thread * plan_.thread_bytes +
           group * kUnpackedBlocks * kUnpackedBytes;
  }
  // [columns][kUnpackedRows]
  float* sums(int thread, int64_t group) const {
    return reinterpret_cast<float*>(weights(thread, 0) + plan_.weight_bytes()) +
           group * plan_.columns * kUnpackedRows;
  }

  void multiply_rows(int64_t first, int64_t last, int64_t n, int64_t columns,
                     int64_t end_row) const {
    const uint8_t* end = row(end_row);
    for (const int64_t end_column = n + columns; n < end_column; n += kernel_.most_columns) {
      const auto count = static_cast<int>(std::min<int64_t>(kernel_.most_columns, end_column - n));
      for (int64_t m = first; m < last; ++m) {
        kernel_.multiply[p_.format](
            {.weight = row(m), .end = end, .x = x(n), .columns = count, .out = out(m, n)});
      }
      end = nullptr;  // the rows are near now
    }
  }

  // Whole groups of rows.
  void multiply_unpacked(int64_t m, int64_t groups, int64_t n, int64_t columns, int thread) const {
    for (int64_t group = 0; group < groups; ++group) {
      std::fill_n(sums(thread, group), columns * kUnpackedRows, 0.0f);
    }
    for (int64_t b = 0; b < p_.num_blocks; b += kUnpackedBlocks) {
      const int64_t count = std::min(kUnpackedBlocks, p_.num_blocks - b);
      for (int64_t group = 0; group < groups; ++group) {
        kernel_.unpack[p_.format](row(m + group * kUnpackedRows) + b * p_.weight_bytes,
                                  p_.num_blocks * p_.weight_bytes, count, weights(thread, group));
      }
      add_stretch(b, count, groups, n, columns, thread);
    }
    for (int64_t group = 0; group < groups; ++group) {
      const float* from = sums(thread, group);
      for (int64_t r = 0; r < kUnpackedRows; ++r) {
        float* to = out(m + group * kUnpackedRows + r, n);
        for (int64_t c = 0; c < columns; ++c) to[c] = from[c * kUnpackedRows + r];
      }
    }
  }

  // `count` unpacked blocks from block `b` on.
  void add_stretch(int64_t b, int64_t count, int64_t groups, int64_t n, int64_t columns,
                   int thread) const {
    int at_once = 0;
    for (int64_t c = 0; c < columns; c += at_once) {
      at_once = power_of_two_columns(columns - c);
      for (int64_t group = 0; group < groups; ++group) {
        kernel_.multiply_unpacked[p_.format]({.weight = weights(thread, group),
                                              .first = b,
                                              .count = count,
                                              .x = x(n + c),
                                              .columns = at_once,
                                              .sums = sums(thread, group) + c * kUnpackedRows});
      }
    }
  }

  const BlockProduct& p_;
  const BlockProductKernels& kernel_;
  const Plan& plan_;
  uint8_t* memory_;  // prepared activations, then what each thread has for itself
  int8_t* codes_;
  float *d_, *sums_;
};

}  // namespace

Status multiply_q8_1(const BlockProduct& p) {
  if (p.M <= 0 || p.N <= 0) return AC4K_OK;
  const BlockProductKernels& kernel = block_product_kernels();
  const Plan plan(p, kernel);
  const int64_t bytes = plan.x_bytes + plan.threads * plan.thread_bytes;
  auto* memory = static_cast<uint8_t*>(workspace(static_cast<std::size_t>(bytes)));
  if (memory == nullptr) {
    return fail(AC4K_OUT_OF_MEMORY, "gemm_q8_1: no memory for ", bytes, " bytes of activations");
  }
  const Product product(p, kernel, plan, memory);
  run_threads(plan.threads, [&](int thread) {
    const int64_t end = p.N * (thread + 1) / plan.threads;
    for (int64_t n = p.N * thread / plan.threads; n < end; ++n) product.prepare(n);
  });
  Shares shares(plan.units, plan.threads);
  run_threads(plan.threads, [&](int thread) {
    for (int64_t unit, end; shares.take(thread, &unit, &end);) product.multiply(unit, end, thread);
  });
  release_workspace();
  return AC4K_OK;
}

}  // namespace ac4k::cpu
