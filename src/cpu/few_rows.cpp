// Multiplication with few rows: each thread takes columns and streams its part of B once, with the
// sums on its stack. The order of each sum does not depend on how columns are dealt out.
#include "cpu/few_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/element.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kColumns = 1024;   // sums of 4 rows in f32: 16 KiB
constexpr int64_t kColumnUnit = 64;  // so that threads do not share cache lines
constexpr int64_t kRowDepth = 512;   // of interleaved A
constexpr int64_t kDotDepth = 2048;  // of A's rows, and the length of one dot product
constexpr double kBytesPerThread = 256 * 1024;
constexpr int kScratchBytes = 64;

struct Scratch {
  alignas(64) unsigned char acc[kMaxFewRows * kColumns * sizeof(double)];
  alignas(64) unsigned char a[kMaxFewRows * kDotDepth * sizeof(double) + kScratchBytes];
};

const char* at(const void* base, int64_t elements, int64_t bytes) {
  return static_cast<const char*>(base) + elements * bytes;
}

void accumulate(const FewRowsProblem& p, const FewRowsKernels& kernel, int64_t first, int64_t count,
                Scratch& scratch) {
  const int64_t size = element_bytes(p.element);
  const bool by_rows = p.b_col_stride == 1;
  const int64_t step = by_rows ? kRowDepth : kDotDepth;
  std::memset(scratch.acc, 0, static_cast<std::size_t>(p.m * kColumns * kernel.acc_bytes));
  for (int64_t k = 0; k < p.K; k += step) {
    const int64_t depth = std::min(step, p.K - k);
    const void* a = at(p.a, k * p.a_col_stride, size);
    const void* b = at(p.b, k * p.b_row_stride + first * p.b_col_stride, size);
    if (by_rows) {
      kernel.interleave(a, p.a_row_stride, p.a_col_stride, p.m, depth, scratch.a);
      kernel.row_update(p.m, depth, count, scratch.a, b, p.b_row_stride, scratch.acc, kColumns);
    } else {
      for (int i = 0; i < p.m; ++i) {
        kernel.widen(at(a, i * p.a_row_stride, size), p.a_col_stride, depth,
                     scratch.a + i * kDotDepth * kernel.acc_bytes);
      }
      kernel.dot_update(p.m, depth, count, scratch.a, kDotDepth, b, p.b_col_stride, scratch.acc,
                        kColumns);
    }
  }
}

void write(const FewRowsProblem& p, const FewRowsKernels& kernel, int64_t first, int64_t count,
           Scratch& scratch) {
  const int64_t size = element_bytes(p.element);
  char* c = static_cast<char*>(p.c) + first * p.c_col_stride * size;
  for (int i = 0; i < p.m; ++i) {
    const unsigned char* acc = scratch.acc + i * kColumns * kernel.acc_bytes;
    char* row = c + i * p.c_row_stride * size;
    if (p.c_col_stride == 1) {
      kernel.narrow(acc, row, count);
      continue;
    }
    kernel.narrow(acc, scratch.a, count);
    for (int64_t j = 0; j < count; ++j) {
      std::memcpy(row + j * p.c_col_stride * size, scratch.a + j * size,
                  static_cast<std::size_t>(size));
    }
  }
}

}  // namespace

void few_rows(const FewRowsProblem& p) {
  const FewRowsKernels& kernel = *kernels().few_rows[p.element];
  const double bytes = static_cast<double>(p.N) * static_cast<double>(p.K) *
                       static_cast<double>(element_bytes(p.element));
  const int64_t units = (p.N + kColumnUnit - 1) / kColumnUnit;
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_for(bytes, kBytesPerThread), units));
  const int64_t share = (units + threads - 1) / threads * kColumnUnit;
  const int64_t chunk = std::min(kColumns, share);
  std::atomic<int64_t> next{0};
  run_threads(threads, [&](int) {
    Scratch scratch;
    for (;;) {
      const int64_t first = next.fetch_add(chunk, std::memory_order_relaxed);
      if (first >= p.N) return;
      const int64_t count = std::min(chunk, p.N - first);
      accumulate(p, kernel, first, count, scratch);
      write(p, kernel, first, count, scratch);
    }
  });
}

}  // namespace ac4k::cpu
