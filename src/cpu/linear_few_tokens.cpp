// Few tokens: activations become fixed-point numbers once, then each thread streams the weights of
// its tiles past them.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/linear_plan.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kBytesPerThread = 128 * 1024;
constexpr double kColumnsPerThread = 16 * 1024;  // of activations to prepare

int64_t num_groups(const LinearProblem& p) { return divide_up(p.args.K, kGroupColumns); }
// Tokens are taken four, two or one at a time; three are four, one of which is nothing.
int64_t padded_tokens(const LinearProblem& p) {
  const int64_t rest = p.args.num_tokens % kMaxDecodeTokens;
  return p.args.num_tokens + (rest == 3 ? 1 : 0);
}

bool prepare(const LinearProblem& p, const DecodeKernels& kernel, ActivationGroup* groups) {
  const int64_t per_token = num_groups(p), count = p.args.num_tokens * per_token;
  const auto widen = kernels().few_rows[p.element]->widen;
  const int threads = static_cast<int>(
      std::min<int64_t>(threads_for(static_cast<double>(count) * kGroupColumns, kColumnsPerThread),
                        std::max<int64_t>(count, 1)));
  std::atomic<bool> finite{true};
  run_threads(threads, [&](int thread) {
    alignas(64) float x[kGroupColumns];
    for (int64_t i = count * thread / threads; i < count * (thread + 1) / threads; ++i) {
      const int64_t token = i / per_token, column = i % per_token * kGroupColumns;
      const int64_t columns = std::min<int64_t>(kGroupColumns, p.args.K - column);
      widen(p.x(token, column), 1, columns, x);
      std::fill(x + columns, x + kGroupColumns, 0.0f);
      if (!kernel.prepare(x, p.args.format, groups + i)) {
        finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  std::memset(
      static_cast<void*>(groups + count), 0,
      static_cast<std::size_t>(padded_tokens(p) * per_token - count) * sizeof(ActivationGroup));
  return finite.load(std::memory_order_relaxed);
}

void multiply_tile(const LinearProblem& p, const DecodeKernels& kernel, int64_t tile,
                   const ActivationGroup* groups) {
  const int64_t row = tile * kPackedRows, rows = std::min<int64_t>(kPackedRows, p.args.N - row);
  alignas(64) float sums[kMaxDecodeTokens * kPackedRows];
  float bias[kPackedRows];
  load_bias(p, row, rows, bias);
  for (int64_t token = 0; token < p.args.num_tokens;) {
    const int64_t left = p.args.num_tokens - token;
    const int size = left >= 3 ? 2 : left == 2 ? 1 : 0;
    kernel.decode[static_cast<int>(p.args.format)][size](
        {.tile = p.tile(tile),
         .num_blocks = p.num_blocks(),
         .activations = groups + token * num_groups(p),
         .token_stride = num_groups(p),
         .sums = sums});
    const int64_t count = std::min<int64_t>(left, int64_t{1} << size);
    for (int64_t t = 0; t < count; ++t) {
      write_run(p, token + t, row, rows, bias, sums + t * kPackedRows);
    }
    token += count;
  }
}

// Deals out tiles in runs that get shorter: kernels fetch what lies behind the tile they read,
// which is for the same thread to use but at the end of a run; the last runs are single tiles, so
// that threads end together.
class TileRuns {
 public:
  TileRuns(int64_t tiles, int threads) : tiles_(tiles), threads_(threads) {}
  bool take(int64_t* first, int64_t* last) {
    int64_t begin = next_.load(std::memory_order_relaxed), end;
    do {
      if (begin >= tiles_) return false;
      end = begin + std::max<int64_t>(1, (tiles_ - begin) / (2 * threads_));
    } while (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    *first = begin;
    *last = end;
    return true;
  }

 private:
  const int64_t tiles_, threads_;
  std::atomic<int64_t> next_{0};
};

}  // namespace

int64_t few_tokens_bytes(const LinearProblem& p) {
  return padded_tokens(p) * num_groups(p) * static_cast<int64_t>(sizeof(ActivationGroup)) + 64;
}

Status linear_few_tokens(const LinearProblem& p, char* memory, bool* done) {
  const DecodeKernels& kernel = decode_kernels(p.args.format);
  auto* groups = reinterpret_cast<ActivationGroup*>(memory);
  *done = prepare(p, kernel, groups);
  if (!*done) return AC4K_OK;
  const int64_t tiles = p.num_tiles();
  const double bytes = static_cast<double>(tiles) * static_cast<double>(p.tile_bytes());
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_for(bytes, kBytesPerThread), tiles));
  TileRuns runs(tiles, threads);
  run_threads(threads, [&](int) {
    for (int64_t tile, last; runs.take(&tile, &last);) {
      for (; tile < last; ++tile) multiply_tile(p, kernel, tile, groups);
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
