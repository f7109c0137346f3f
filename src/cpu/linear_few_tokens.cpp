// Few tokens: activations become fixed-point numbers once, then each thread streams the weights of
// its tiles past them.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/outliers.hpp"
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

int64_t groups_bytes(const LinearProblem& p) {
  return padded_tokens(p) * num_groups(p) * static_cast<int64_t>(sizeof(ActivationGroup));
}

bool prepare(const LinearProblem& p, const DecodeKernels& kernel, ActivationGroup* groups,
             Outliers* outliers) {
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
      outliers->take(token, column, x);
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

// `end`: of the tiles that this thread multiplies from here on.
void multiply_tile(const LinearProblem& p, const DecodeKernels& kernel, int64_t tile, int64_t end,
                   const ActivationGroup* groups, const Outliers& outliers) {
  const int64_t row = tile * kPackedRows, rows = std::min<int64_t>(kPackedRows, p.args.N - row);
  alignas(64) float sums[kMaxDecodeTokens * kPackedRows];
  alignas(64) float besides[kPackedRows * kPieceRows];
  float bias[kPackedRows];
  load_bias(p, row, rows, bias);
  static_assert(kPieceRows % kMaxDecodeTokens == 0);
  for (int64_t token = 0; token < p.args.num_tokens;) {
    if (!outliers.none() && token % kPieceRows == 0) {
      outliers.multiply(tile, token / kPieceRows, besides);
    }
    const int64_t left = p.args.num_tokens - token;
    const int size = left >= 3 ? 2 : left == 2 ? 1 : 0;
    kernel.decode[static_cast<int>(p.args.format)][size](
        {.tile = p.tile(tile),
         .num_blocks = p.num_blocks(),
         .end = p.tile(end),
         .activations = groups + token * num_groups(p),
         .token_stride = num_groups(p),
         .sums = sums});
    const int64_t count = std::min<int64_t>(left, int64_t{1} << size);
    for (int64_t t = 0; t < count; ++t) {
      float* of_token = sums + t * kPackedRows;
      if (!outliers.none()) {
        const float* its = besides + (token + t) % kPieceRows;
        for (int r = 0; r < kPackedRows; ++r) of_token[r] += its[r * kPieceRows];
      }
      write_run(p, token + t, row, rows, bias, of_token);
    }
    token += count;
  }
}

// Tiles of a thread lie one behind another, so that what it fetches ahead is its own. Threads that
// are done help others from the end of their tiles.
class TileShares {
 public:
  TileShares(int64_t tiles, int threads) : count_(std::min(threads, kMaxShares)) {
    for (int i = 0; i < count_; ++i) {
      shares_[i].tiles.store({to_index(tiles * i / count_), to_index(tiles * (i + 1) / count_)},
                             std::memory_order_relaxed);
    }
  }
  // The next tile of `thread`, and where those end that will follow it.
  bool take(int thread, int64_t* tile, int64_t* end) {
    const auto first = [](Tiles t) { return Tiles{t.first + 1, t.end}; };
    const auto last = [](Tiles t) { return Tiles{t.first, t.end - 1}; };
    Tiles from;
    if (take_from(shares_[thread % count_], first, &from)) {
      *tile = from.first;
      *end = from.end;
      return true;
    }
    while (Share* other = longest()) {
      if (!take_from(*other, last, &from)) continue;
      *tile = from.end - 1;
      *end = from.end;
      return true;
    }
    return false;
  }

 private:
  static constexpr int kMaxShares = 64;  // more threads than that have some in common
  struct alignas(8) Tiles {
    uint32_t first, end;
    uint32_t size() const { return end - first; }
  };
  struct alignas(64) Share {
    std::atomic<Tiles> tiles;
  };

  static uint32_t to_index(int64_t tile) { return static_cast<uint32_t>(tile); }
  template <class Rest>
  static bool take_from(Share& share, const Rest& rest, Tiles* before) {
    *before = share.tiles.load(std::memory_order_relaxed);
    do {
      if (before->size() == 0) return false;
    } while (!share.tiles.compare_exchange_weak(*before, rest(*before), std::memory_order_relaxed));
    return true;
  }
  Share* longest() {
    Share* best = nullptr;
    uint32_t most = 0;
    for (int i = 0; i < count_; ++i) {
      const uint32_t size = shares_[i].tiles.load(std::memory_order_relaxed).size();
      if (size <= most) continue;
      most = size;
      best = &shares_[i];
    }
    return best;
  }

  const int count_;
  Share shares_[kMaxShares];
};

}  // namespace

int64_t few_tokens_bytes(const LinearProblem& p) { return groups_bytes(p) + Outliers::bytes(p); }

Status linear_few_tokens(const LinearProblem& p, char* memory, bool* done) {
  const DecodeKernels& kernel = decode_kernels(p.args.format);
  auto* groups = reinterpret_cast<ActivationGroup*>(memory);
  Outliers outliers(p, memory + groups_bytes(p));
  *done = prepare(p, kernel, groups, &outliers);
  if (!*done) return AC4K_OK;
  outliers.arrange();
  const int64_t tiles = p.num_tiles();
  const double bytes = static_cast<double>(tiles) * static_cast<double>(p.tile_bytes());
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_for(bytes, kBytesPerThread), tiles));
  TileShares shares(tiles, threads);
  run_threads(threads, [&](int thread) {
    for (int64_t tile, end; shares.take(thread, &tile, &end);) {
      multiply_tile(p, kernel, tile, end, groups, outliers);
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
