// Rows of a tensor on the CPU, and threads that share them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/threads.hpp"

namespace ac4k::cpu {

inline constexpr int kMaxRowLevels = 8;

// Row r begins at data plus, per level, its index there times the stride; level 0 is the fastest.
struct Rows {
  char* data = nullptr;
  int num_levels = 1;
  int64_t strides[kMaxRowLevels] = {};  // in bytes
  int64_t sizes[kMaxRowLevels] = {};    // the last level's is not used

  char* row(int64_t index) const {
    int64_t offset = 0;
    for (int level = 0; level + 1 < num_levels; ++level) {
      offset += index % sizes[level] * strides[level];
      index /= sizes[level];
    }
    return data + offset + index * strides[num_levels - 1];
  }
  // How many rows from this one on are stride() apart; `end` is one past the last row.
  int64_t run(int64_t index, int64_t end) const {
    return num_levels == 1 ? end - index : std::min(end - index, sizes[0] - index % sizes[0]);
  }
  int64_t stride() const { return strides[0]; }
};

// As many threads as rows deserve: each gets at least `grain` units of work of which a row has
// `work_per_row`.
inline int threads_for_rows(int64_t num_rows, double work_per_row, double grain) {
  const int threads = threads_for(static_cast<double>(num_rows) * work_per_row, grain);
  return static_cast<int>(std::clamp<int64_t>(num_rows, 1, threads));
}

// Calls body(thread, first, count) so that within a call the rows of every tensor are evenly apart.
template <class Body, class... Tensors>
void for_each_run_of_rows(int64_t num_rows, int threads, const Body& body,
                          const Tensors&... tensors) {
  run_threads(threads, [&](int thread) {
    int64_t first = num_rows * thread / threads;
    const int64_t last = num_rows * (thread + 1) / threads;
    while (first < last) {
      const int64_t count = std::min({tensors.run(first, last)...});
      body(thread, first, count);
      first += count;
    }
  });
}

}  // namespace ac4k::cpu
