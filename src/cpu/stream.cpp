// Byte streams: read some bytes, write some bytes, as fast as memory goes. XOR is associative, so
// any split among threads gives the same bytes.
#include <algorithm>
#include <cstring>

#include "cpu/common/table.hpp"
#include "cpu/kernels.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kBytesPerThread = 256 * 1024;
constexpr int64_t kSmallOutput = 256 * 1024;  // an accumulator of this size stays in the cache
constexpr int64_t kPeriod = 4096;
constexpr int64_t kLine = 64;

int64_t share(int64_t total, int64_t unit, int thread, int threads) {
  const int64_t units = (total + unit - 1) / unit;
  return std::min(total, units * thread / threads * unit);
}

// out[i] = src[i % read]
void repeat(const uint8_t* src, int64_t read, uint8_t* out, int64_t write, int threads) {
  // A short source is first repeated to a period worth a copy of its own.
  uint8_t buffer[2 * kPeriod];
  if (read < kPeriod) {
    const int64_t period = kPeriod / read * read;
    for (int64_t i = 0; i < period; i += read) {
      std::memcpy(buffer + i, src, static_cast<std::size_t>(read));
    }
    src = buffer;
    read = period;
  }
  run_threads(threads, [&](int thread) {
    const int64_t last = share(write, kLine, thread + 1, threads);
    for (int64_t i = share(write, kLine, thread, threads); i < last;) {
      const int64_t from = i % read;
      const int64_t n = std::min(last - i, read - from);
      std::memcpy(out + i, src + from, static_cast<std::size_t>(n));
      i += n;
    }
  });
}

// A large output: each thread makes its part of it from all rows.
void fold_wide(const uint8_t* src, int64_t read, uint8_t* out, int64_t write, int threads) {
  const int64_t whole_rows = read / write;
  const int64_t longer = read % write;  // columns that have one row more
  const auto xor_rows = kernels().elementwise->xor_rows;
  run_threads(threads, [&](int thread) {
    const int64_t first = share(write, kLine, thread, threads);
    const int64_t last = share(write, kLine, thread + 1, threads);
    const int64_t middle = std::clamp(longer, first, last);
    if (first < middle) xor_rows(src + first, whole_rows + 1, write, out + first, middle - first);
    if (middle < last) xor_rows(src + middle, whole_rows, write, out + middle, last - middle);
  });
}

// A small output: each thread folds a part of the source into sums of `period` bytes, a multiple
// of the output; these are folded at the end.
Status fold_narrow(const uint8_t* src, int64_t read, uint8_t* out, int64_t write, int threads) {
  const int64_t period = (kPeriod + write - 1) / write * write;
  const int64_t place = (period + kLine - 1) / kLine * kLine;
  auto* sums = static_cast<uint8_t*>(workspace(static_cast<std::size_t>(place * threads)));
  if (sums == nullptr) return fail(AC4K_OUT_OF_MEMORY, "stream_bytes: no memory for sums");
  std::memset(sums, 0, static_cast<std::size_t>(place * threads));
  const auto xor_into = kernels().elementwise->xor_into;
  run_threads(threads, [&](int thread) {
    const int64_t last = share(read, period, thread + 1, threads);
    for (int64_t i = share(read, period, thread, threads); i < last; i += period) {
      xor_into(sums + thread * place, src + i, std::min(period, last - i));
    }
  });
  std::memset(out, 0, static_cast<std::size_t>(write));
  for (int thread = 0; thread < threads; ++thread) {
    for (int64_t i = 0; i < period; i += write) xor_into(out, sums + thread * place + i, write);
  }
  return AC4K_OK;
}

}  // namespace

Status stream_bytes(const void* src, int64_t read_bytes, void* out, int64_t write_bytes) {
  if (write_bytes <= 0) return AC4K_OK;
  const auto* from = static_cast<const uint8_t*>(src);
  auto* to = static_cast<uint8_t*>(out);
  if (read_bytes <= 0) {
    std::memset(to, 0, static_cast<std::size_t>(write_bytes));
    return AC4K_OK;
  }
  const double bytes = static_cast<double>(read_bytes) + static_cast<double>(write_bytes);
  const int threads = threads_for(bytes, kBytesPerThread);
  if (write_bytes > read_bytes) {
    repeat(from, read_bytes, to, write_bytes, threads);
  } else if (write_bytes > kSmallOutput || read_bytes / write_bytes < 4) {
    fold_wide(from, read_bytes, to, write_bytes, threads);
  } else {
    return fold_narrow(from, read_bytes, to, write_bytes, threads);
  }
  return AC4K_OK;
}

}  // namespace ac4k::cpu
