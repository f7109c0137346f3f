// Work in tiles, and how threads share them out.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ac4k::cpu {

constexpr int64_t divide_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// Tiles of a thread lie one behind another, so that what it fetches ahead is its own. Threads that
// are done help others from the end of their tiles.
class Shares {
 public:
  Shares(int64_t tiles, int threads) : count_(std::min(threads, kMaxShares)) {
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

}  // namespace ac4k::cpu
