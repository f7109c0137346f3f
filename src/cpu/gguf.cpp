// Which thread has which GGUF blocks. They go through the caches in chunks, as float32: the levels'
// kernels know nothing of 16-bit types.
#include "cpu/gguf.hpp"

#include <algorithm>

#include "cpu/common/table.hpp"
#include "cpu/element.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kChunk = 2048;  // numbers; whole blocks of every format

// Numbers below which a thread is not worth waking.
double grain_of(BlockFormat format, bool quantizes) {
  const bool searches = kBlockSizes[format].values == 256 || format == kBlock_iq4_nl;
  return quantizes && searches ? 512 : 16 * 1024;
}

// body(row, column, count) over chunks of rows, neighbours to the same thread.
template <class Body>
void for_each_chunk(int64_t num_rows, int64_t num_columns, double grain, const Body& body) {
  const int64_t chunks = (num_columns + kChunk - 1) / kChunk, items = num_rows * chunks;
  const int wanted = threads_for(static_cast<double>(num_rows * num_columns), grain);
  const int threads = static_cast<int>(std::clamp<int64_t>(items, 1, wanted));
  run_threads(threads, [&](int thread) {
    const int64_t last = items * (thread + 1) / threads;
    for (int64_t item = items * thread / threads; item < last; ++item) {
      const int64_t column = item % chunks * kChunk;
      body(item / chunks, column, std::min(kChunk, num_columns - column));
    }
  });
}

}  // namespace

Status quantize_gguf(const GgufArgs& args, const Rows& x, uint8_t* blocks) {
  Element element = kF32;
  AC4K_TRY(find_element("quantize", args.type, &element));
  const auto load = kernels().gguf->load[element];
  const auto quantize = kernels().gguf->quantize[args.format];
  const BlockSize& size = kBlockSizes[args.format];
  const int64_t bytes = element_bytes(element);
  int64_t rows = args.num_rows, columns = args.num_columns;
  if (x.num_levels == 1 && x.stride() == columns * bytes) columns *= rows, rows = 1;
  for_each_chunk(rows, columns, grain_of(args.format, true),
                 [&](int64_t row, int64_t column, int64_t count) {
                   alignas(64) float numbers[kChunk];
                   load(x.row(row) + column * bytes, numbers, count);
                   quantize(numbers, blocks + (row * columns + column) / size.values * size.bytes,
                            count / size.values);
                 });
  return AC4K_OK;
}

Status dequantize_gguf(const GgufArgs& args, const uint8_t* blocks, void* out) {
  Element element = kF32;
  AC4K_TRY(find_element("dequantize", args.type, &element));
  const auto store = kernels().gguf->store[element];
  const auto dequantize = kernels().gguf->dequantize[args.format];
  const BlockSize& size = kBlockSizes[args.format];
  const int64_t bytes = element_bytes(element);
  for_each_chunk(1, args.num_rows * args.num_columns, grain_of(args.format, false),
                 [&](int64_t, int64_t first, int64_t count) {
                   const uint8_t* from = blocks + first / size.values * size.bytes;
                   char* to = static_cast<char*>(out) + first * bytes;
                   if (element == kF32) {
                     dequantize(from, reinterpret_cast<float*>(to), count / size.values);
                     return;
                   }
                   alignas(64) float numbers[kChunk];
                   dequantize(from, numbers, count / size.values);
                   store(numbers, to, count);
                 });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
