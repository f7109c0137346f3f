// Products of raw GGUF blocks with q8_1: activations are unpacked once, then each thread takes 16
// rows of weights and goes through the activations a few at a time, while both are in its cache.
#include "cpu/q8_1.hpp"

#include <algorithm>
#include <atomic>

#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kRowsAtATime = kBlockRows;
constexpr double kWorkPerThread = 1 << 18;
constexpr int64_t kActivationBlock = 36;

// All activations of one or of kBlockRows rows of weights from row `m` on: `multiply` for as many
// at a time as it takes.
template <class Columns>
void multiply_row(const BlockProduct& p, const BlockProductArgs& activations, int64_t m,
                  void (*multiply)(const BlockProductArgs&), Columns columns_of) {
  BlockProductArgs args = activations;
  args.weight = p.weight + m * p.num_blocks * p.weight_bytes;
  for (int64_t n = 0; n < p.N; n += args.columns) {
    const int64_t at = n * p.num_blocks;
    args.codes = activations.codes + at * kActivationBytes;
    args.d = activations.d + at;
    args.sums = activations.sums + at;
    args.columns = columns_of(p.N - n);
    args.out = p.out + m * p.N + n;
    multiply(args);
  }
}

int few_columns(int64_t left) {
  return static_cast<int>(std::min<int64_t>(kMaxBlockColumns, left));
}
int power_of_two_columns(int64_t left) {
  return left >= kMaxRowsColumns ? kMaxRowsColumns : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

}  // namespace

Status multiply_q8_1(const BlockProduct& p) {
  if (p.M <= 0 || p.N <= 0) return AC4K_OK;
  const BlockProductKernels& kernel = block_product_kernels();
  const int64_t blocks = p.N * p.num_blocks;
  const int64_t bytes = blocks * (kActivationBytes + 2 * static_cast<int64_t>(sizeof(float))) + 64;
  auto* codes = static_cast<int8_t*>(workspace(static_cast<std::size_t>(bytes)));
  if (codes == nullptr) {
    return fail(AC4K_OUT_OF_MEMORY, "gemm_q8_1: no memory for ", bytes, " bytes of activations");
  }
  auto* d = reinterpret_cast<float*>(codes + blocks * kActivationBytes);
  float* sums = d + blocks;
  const double work = static_cast<double>(p.M) * static_cast<double>(blocks) * kBlockValues;
  const int64_t units = (p.M + kRowsAtATime - 1) / kRowsAtATime;
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_for(work, kWorkPerThread), std::max(units, p.N)));
  run_threads(threads, [&](int thread) {
    for (int64_t n = p.N * thread / threads; n < p.N * (thread + 1) / threads; ++n) {
      const int64_t at = n * p.num_blocks;
      kernel.prepare(p.activation + at * kActivationBlock, p.num_blocks,
                     codes + at * kActivationBytes, d + at, sums + at);
    }
  });
  const BlockProductArgs activations{.weight = nullptr,
                                     .num_blocks = p.num_blocks,
                                     .codes = codes,
                                     .d = d,
                                     .sums = sums,
                                     .columns = 0,
                                     .out = nullptr,
                                     .out_stride = p.N};
  std::atomic<int64_t> next{0};
  run_threads(threads, [&](int) {
    for (;;) {
      const int64_t first = next.fetch_add(1, std::memory_order_relaxed) * kRowsAtATime;
      if (first >= p.M) return;
      const int64_t last = std::min(first + kRowsAtATime, p.M);
      const auto multiply_rows = kernel.multiply_rows[p.format];
      if (multiply_rows != nullptr && last - first == kBlockRows) {
        multiply_row(p, activations, first, multiply_rows, power_of_two_columns);
        continue;
      }
      for (int64_t m = first; m < last; ++m) {
        multiply_row(p, activations, m, kernel.multiply[p.format], few_columns);
      }
    }
  });
  release_workspace();
  return AC4K_OK;
}

}  // namespace ac4k::cpu
