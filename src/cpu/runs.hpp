// Contiguous runs of strided inputs, for kernels that treat each element alone: dimensions are
// merged where all inputs allow it; inputs that then lie in memory like the output are read in
// place, the others are gathered in small blocks.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/element.hpp"
#include "cpu/kernels.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu::runs {

inline constexpr int kMaxInputs = 3;
inline constexpr int64_t kBlock = 1024;   // elements gathered at a time
inline constexpr int64_t kShortRun = 64;  // below, gathering beats calling the kernel per run
inline constexpr int64_t kUnit = 64;      // threads start at multiples: 64 bytes or more apart

// Inputs over a common index space, last dimension fastest.
struct Space {
  int ndim = 0;
  int num_inputs = 0;
  int64_t count = 1;
  int64_t shape[AC4K_MAX_DIMS];
  int64_t strides[kMaxInputs][AC4K_MAX_DIMS];
  const char* data[kMaxInputs];
  bool in_place[kMaxInputs];  // laid out as the output is
};

// Drops dimensions of one and merges neighbours that every input walks as one.
inline void merge_dims(Space& space, int ndim, const int64_t* shape,
                       const int64_t* const* strides) {
  for (int d = 0; d < ndim; ++d) {
    space.count *= shape[d];
    if (shape[d] == 1) continue;
    bool merges = space.ndim > 0;
    for (int t = 0; t < space.num_inputs && merges; ++t) {
      merges = space.strides[t][space.ndim - 1] == strides[t][d] * shape[d];
    }
    const int to = merges ? space.ndim - 1 : space.ndim++;
    space.shape[to] = merges ? space.shape[to] * shape[d] : shape[d];
    for (int t = 0; t < space.num_inputs; ++t) space.strides[t][to] = strides[t][d];
  }
  if (space.ndim == 0) {
    space.ndim = 1;
    space.shape[0] = 1;
    for (int t = 0; t < space.num_inputs; ++t) space.strides[t][0] = 1;
  }
  for (int t = 0; t < space.num_inputs; ++t) {
    int64_t expected = 1;
    space.in_place[t] = true;
    for (int d = space.ndim - 1; d >= 0; --d) {
      space.in_place[t] = space.in_place[t] && space.strides[t][d] == expected;
      expected *= space.shape[d];
    }
  }
}

// The position of a linear index in one input.
struct Cursor {
  int64_t index[AC4K_MAX_DIMS];
  int64_t offset = 0;

  Cursor(const Space& space, int input, int64_t linear) {
    for (int d = space.ndim - 1; d >= 0; --d) {
      index[d] = linear % space.shape[d];
      linear /= space.shape[d];
      offset += index[d] * space.strides[input][d];
    }
  }
  // `steps` stays within the last dimension's run.
  void advance(const Space& space, int input, int64_t steps) {
    int d = space.ndim - 1;
    index[d] += steps;
    offset += steps * space.strides[input][d];
    while (d > 0 && index[d] == space.shape[d]) {
      offset -= index[d] * space.strides[input][d];
      index[d] = 0;
      --d;
      ++index[d];
      offset += space.strides[input][d];
    }
  }
  int64_t run(const Space& space) const {
    return space.shape[space.ndim - 1] - index[space.ndim - 1];
  }
};

template <class Word>
void gather_run(const char* from, int64_t stride, int64_t n, Word* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(Word));
    return;
  }
  const Word* words = reinterpret_cast<const Word*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = words[i * stride];
}

template <class Word>
void gather(const Space& space, int input, Cursor& cursor, int64_t n, Word* to) {
  const int64_t stride = space.strides[input][space.ndim - 1];
  while (n > 0) {
    const int64_t run = std::min(n, cursor.run(space));
    gather_run(space.data[input] + cursor.offset * static_cast<int64_t>(sizeof(Word)), stride, run,
               to);
    cursor.advance(space, input, run);
    to += run;
    n -= run;
  }
}

// Calls body(pointers to inputs, first, count) over [first, last), where the pointers lead to
// `count` contiguous elements.
template <class Word, class Body>
void walk_blocks(const Space& space, int64_t first, int64_t last, const Body& body) {
  constexpr int64_t kSize = sizeof(Word);
  alignas(64) Word buffers[kMaxInputs][kBlock];
  Cursor cursors[kMaxInputs] = {Cursor(space, 0, first),
                                Cursor(space, space.num_inputs > 1 ? 1 : 0, first),
                                Cursor(space, space.num_inputs > 2 ? 2 : 0, first)};
  while (first < last) {
    const int64_t n = std::min(kBlock, last - first);
    const void* inputs[kMaxInputs] = {};
    for (int t = 0; t < space.num_inputs; ++t) {
      if (space.in_place[t]) {
        inputs[t] = space.data[t] + first * kSize;
      } else {
        gather(space, t, cursors[t], n, buffers[t]);
        inputs[t] = buffers[t];
      }
    }
    body(inputs, first, n);
    first += n;
  }
}

// As walk_blocks, where every input's last dimension is contiguous and long: nothing is copied.
template <class Body>
void walk_runs(const Space& space, int64_t size, int64_t first, int64_t last, const Body& body) {
  Cursor cursors[kMaxInputs] = {Cursor(space, 0, first),
                                Cursor(space, space.num_inputs > 1 ? 1 : 0, first),
                                Cursor(space, space.num_inputs > 2 ? 2 : 0, first)};
  while (first < last) {
    const int64_t n = std::min(cursors[0].run(space), last - first);
    const void* inputs[kMaxInputs] = {};
    for (int t = 0; t < space.num_inputs; ++t) {
      inputs[t] = space.data[t] + cursors[t].offset * size;
      cursors[t].advance(space, t, n);
    }
    body(inputs, first, n);
    first += n;
  }
}

// Runs `body` over the whole space on as many threads as `grain` elements each allow.
template <class Body>
void for_each_run(const Space& space, Element element, double grain, const Body& body) {
  const int64_t size = element_bytes(element);
  const int threads = threads_for(static_cast<double>(space.count), grain);
  const int64_t units = (space.count + kUnit - 1) / kUnit;
  bool runs = space.shape[space.ndim - 1] >= kShortRun || space.ndim == 1;
  for (int t = 0; t < space.num_inputs; ++t) {
    runs = runs && space.strides[t][space.ndim - 1] == 1;
  }
  run_threads(threads, [&](int thread) {
    const int64_t first = std::min(space.count, units * thread / threads * kUnit);
    const int64_t last = std::min(space.count, units * (thread + 1) / threads * kUnit);
    if (first >= last) return;
    if (runs) {
      walk_runs(space, size, first, last, body);
    } else if (size == 2) {
      walk_blocks<uint16_t>(space, first, last, body);
    } else if (size == 4) {
      walk_blocks<uint32_t>(space, first, last, body);
    } else {
      walk_blocks<uint64_t>(space, first, last, body);
    }
  });
}

}  // namespace ac4k::cpu::runs
