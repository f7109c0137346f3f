// Memory that a thread reads front to back, asked for ahead of time: from memory into the
// second-level cache, then into the first.
#pragma once

#include "cpu/common/types-inl.hpp"

namespace ac4k::cpu {
namespace {

class ReadAhead {
 public:
  // `end`: of what this thread reads, where another one's part may begin.
  explicit ReadAhead(const uint8_t* end) : end_(reinterpret_cast<uintptr_t>(end)) {}

  // Called for `kBytes` after `kBytes`, each about to be read. `kSoon`: how far from here the first
  // level should have it all; a kernel may read as much in any order.
  template <int64_t kBytes, int64_t kSoon>
  AC4K_INLINE void advance(const uint8_t* here) const {
#pragma GCC unroll 16
    for (int64_t line = 0; line < kBytes; line += kLine) {
      __builtin_prefetch(here + kSoon + line, 0, 3);
    }
    const uintptr_t from = reinterpret_cast<uintptr_t>(here) + kAhead;
    for (uintptr_t at = (from + kStep - 1) / kStep * kStep; at < from + kBytes; at += kStep) {
      ask_memory(at);
    }
  }

 private:
  // Hardware fetches ahead in each page for itself and starts anew in the next one. Walked one
  // after another, pages keep it waiting; so the lines of several are asked for in turn.
  static constexpr int64_t kLine = 64, kPage = 4096, kPages = 8;
  static constexpr uintptr_t kStep = kPages * kLine, kWindow = kPages * kPage;
  // The last line of a window's first page is asked for a window later than in plain order.
  static constexpr uintptr_t kAhead = 2 * kWindow;

  AC4K_INLINE void ask_memory(uintptr_t at) const {
    const uintptr_t window = at / kWindow * kWindow;
    const uintptr_t first = window + at % kWindow / kStep * kLine;
    if (window >= end_) return;
    const char* line = reinterpret_cast<const char*>(first);
#pragma GCC unroll 8
    for (int64_t page = 0; page < kPages; ++page) __builtin_prefetch(line + page * kPage, 0, 2);
  }

  uintptr_t end_;
};

}  // namespace
}  // namespace ac4k::cpu
