// Which numbers share a scale, and which thread has them; the runs themselves are the levels'.
#include "cpu/quantize.hpp"

#include <algorithm>

#include "cpu/common/scale-inl.hpp"
#include "cpu/element.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kElementsPerThread = 16 * 1024;
constexpr int64_t kChunk = 4096;  // columns of a row that go through the caches at once

float largest_code(CodeFormat format) {
  constexpr float kLargest[] = {kLargestE4M3, kLargestE5M2, kLargestInt8};
  return kLargest[format];
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// body(item, thread) over [0, count), neighbours to the same thread.
template <class Body>
void for_each(int64_t count, int threads, const Body& body) {
  threads = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, count)));
  run_threads(threads, [&](int thread) {
    const int64_t last = count * (thread + 1) / threads;
    for (int64_t item = count * thread / threads; item < last; ++item) body(item, thread);
  });
}

// One quantise call: x and codes by row and column, scales by index.
class Quantizer {
 public:
  Quantizer(const QuantizeArgs& args, Element element)
      : args_(args),
        element_(element),
        size_(element_bytes(element)),
        table_(*kernels().quantize),
        runs_(table_.codes[args.format]),
        threads_(threads_for(static_cast<double>(args.num_rows * args.num_columns),
                             kElementsPerThread)) {}

  Status run() const {
    const int64_t groups = ceil_div(args_.num_columns, kGroupSize);
    switch (args_.granularity) {
      case kPerTensor:
        return per_tensor();
      case kPerToken:
        for_each(args_.num_rows, threads_,
                 [&](int64_t row, int) { region(row, row, row + 1, 0, args_.num_columns); });
        return AC4K_OK;
      case kPerChannel:
        return per_channel();
      case kGroup128:
        for_each(args_.num_rows, threads_, [&](int64_t row, int) {
          for (int64_t group = 0; group < groups; ++group) {
            region(row * groups + group, row, row + 1, group * kGroupSize, kGroupSize);
          }
        });
        return AC4K_OK;
      case kBlock128:
        for_each(ceil_div(args_.num_rows, kGroupSize) * groups, threads_, [&](int64_t block, int) {
          const int64_t row = block / groups * kGroupSize;
          region(block, row, row + kGroupSize, block % groups * kGroupSize, kGroupSize);
        });
        return AC4K_OK;
    }
    return AC4K_OK;
  }

 private:
  const void* x_at(int64_t row, int64_t column) const { return args_.x.row(row) + column * size_; }
  uint8_t* codes_at(int64_t row, int64_t column) const {
    return args_.codes + row * args_.num_columns + column;
  }

  struct Extent {
    float low = 0, high = 0;
    void include(const Extent& other) {
      low = smaller(low, other.low), high = larger(high, other.high);
    }
  };
  Extent extent_of(int64_t row, int64_t column, int64_t n) const {
    Extent extent;
    if (args_.zero != nullptr) {
      table_.range[element_](x_at(row, column), n, &extent.low, &extent.high);
    } else {
      extent.high = table_.amax[element_](x_at(row, column), n);
    }
    return extent;
  }
  // Writes the scale, and the zero point where there is one.
  ScaleAndZero rule_of(const Extent& extent, int64_t index) const {
    ScaleAndZero rule{};
    if (args_.zero != nullptr) {
      rule = scale_and_zero_of(extent.low, extent.high);
      args_.zero[index] = rule.zero;
    } else {
      rule.scale = scale_of(extent.high, largest_code(args_.format), args_.pow2_scale);
      rule.inverse = inverse_of(rule.scale);
    }
    args_.scale[index] = rule.scale;
    return rule;
  }
  ScaleAndZero given_rule(int64_t index) const {
    args_.scale[index] = args_.given[index];
    return {args_.given[index], inverse_of(args_.given[index]), 0};
  }

  // A rectangle with one scale, cut off at the edges.
  void region(int64_t index, int64_t first_row, int64_t last_row, int64_t column,
              int64_t width) const {
    last_row = std::min(last_row, args_.num_rows);
    width = std::min(width, args_.num_columns - column);
    ScaleAndZero rule;
    if (args_.given != nullptr) {
      rule = given_rule(index);
    } else {
      Extent extent;
      for (int64_t row = first_row; row < last_row; ++row) {
        extent.include(extent_of(row, column, width));
      }
      rule = rule_of(extent, index);
    }
    for (int64_t row = first_row; row < last_row; ++row) {
      runs_.encode[element_](x_at(row, column), rule.inverse, rule.zero, codes_at(row, column),
                             width);
    }
  }

  // Chunks of rows: body(row, column, width, thread).
  template <class Body>
  void for_each_chunk(const Body& body) const {
    const int64_t chunks = ceil_div(args_.num_columns, kChunk);
    for_each(args_.num_rows * chunks, threads_, [&](int64_t item, int thread) {
      const int64_t row = item / chunks, column = item % chunks * kChunk;
      body(row, column, std::min(kChunk, args_.num_columns - column), thread);
    });
  }

  Status per_tensor() const {
    ScaleAndZero rule;
    if (args_.given != nullptr) {
      rule = given_rule(0);
    } else {
      struct alignas(64) Slot {
        Extent extent;
      };
      Slot* slots = static_cast<Slot*>(workspace(sizeof(Slot) * static_cast<size_t>(threads_)));
      if (slots == nullptr) return out_of_memory();
      std::fill_n(slots, threads_, Slot{});
      for_each_chunk([&](int64_t row, int64_t column, int64_t width, int thread) {
        slots[thread].extent.include(extent_of(row, column, width));
      });
      Extent extent;
      for (int thread = 0; thread < threads_; ++thread) extent.include(slots[thread].extent);
      rule = rule_of(extent, 0);
      release_workspace();
    }
    for_each_chunk([&](int64_t row, int64_t column, int64_t width, int) {
      runs_.encode[element_](x_at(row, column), rule.inverse, rule.zero, codes_at(row, column),
                             width);
    });
    return AC4K_OK;
  }

  // Each thread finds the extents of all columns over its rows; then they are put together.
  Status per_channel() const {
    const int64_t N = args_.num_columns;
    const int threads =
        static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads_, args_.num_rows)));
    const auto width = static_cast<size_t>(ceil_div(N, 16) * 16);
    const size_t arrays = 2 * static_cast<size_t>(threads);
    float* found = static_cast<float*>(workspace(sizeof(float) * width * (arrays + 1)));
    if (found == nullptr) return out_of_memory();
    float* inverse = found + width * arrays;
    if (args_.given != nullptr) {
      for (int64_t i = 0; i < N; ++i) inverse[i] = given_rule(i).inverse;
    } else {
      std::fill_n(found, width * arrays, 0.0f);
      for_each(args_.num_rows, threads, [&](int64_t row, int thread) {
        float* high = found + width * 2 * static_cast<size_t>(thread);
        if (args_.zero != nullptr) {
          table_.range_columns[element_](x_at(row, 0), N, high + width, high);
        } else {
          table_.amax_columns[element_](x_at(row, 0), N, high);
        }
      });
      for (int64_t i = 0; i < N; ++i) {
        Extent extent;
        for (size_t thread = 0; thread < static_cast<size_t>(threads); ++thread) {
          const float* high = found + width * 2 * thread + i;
          extent.include({high[width], high[0]});
        }
        inverse[i] = rule_of(extent, i).inverse;
      }
    }
    for_each(args_.num_rows, threads, [&](int64_t row, int) {
      runs_.encode_columns[element_](x_at(row, 0), inverse, args_.zero, codes_at(row, 0), N);
    });
    release_workspace();
    return AC4K_OK;
  }

  static Status out_of_memory() {
    return fail(AC4K_RUNTIME_ERROR, "quantise: no memory for the extents of the columns");
  }

  const QuantizeArgs& args_;
  const Element element_;
  const int64_t size_;
  const QuantizeKernels& table_;
  const CodeRuns& runs_;
  const int threads_;
};

// Where the scale of block k of a row lies; cuda/common/quantize.cuh has the same.
int64_t tiled_scale_offset(int64_t row, int64_t k, int64_t tiles_a_row) {
  const int64_t r = row % kScaleTileRows;
  const int64_t tile = row / kScaleTileRows * tiles_a_row + k / kScaleTileBlocks;
  return tile * 512 + r % 32 * 16 + r / 32 * 4 + k % kScaleTileBlocks;
}

int threads_of(int64_t rows, int64_t columns) {
  return threads_for(static_cast<double>(rows * columns), kElementsPerThread);
}

}  // namespace

Status quantize(const QuantizeArgs& args) {
  Element element = kF32;
  AC4K_TRY(find_element("quantise", args.type, &element));
  return Quantizer(args, element).run();
}

Status dequantize(const DequantizeArgs& args) {
  Element element = kF32;
  AC4K_TRY(find_element("dequantise", args.type, &element));
  const CodeRuns& runs = kernels().quantize->codes[args.format];
  const int64_t N = args.num_columns, size = element_bytes(element);
  const int64_t groups = ceil_div(N, kGroupSize), chunks = ceil_div(N, kChunk);
  for_each(args.num_rows * chunks, threads_of(args.num_rows, N), [&](int64_t item, int) {
    const int64_t row = item / chunks, first = item % chunks * kChunk;
    const int64_t last = std::min(first + kChunk, N);
    const auto out_at = [&](int64_t column) {
      return static_cast<char*>(args.out) + (row * N + column) * size;
    };
    const auto decode = [&](int64_t column, int64_t end, int64_t index) {
      runs.decode[element](args.codes + row * N + column, args.scale[index],
                           args.zero ? args.zero[index] : 0, out_at(column), end - column);
    };
    switch (args.granularity) {
      case kPerTensor:
        return decode(first, last, 0);
      case kPerToken:
        return decode(first, last, row);
      case kPerChannel:
        return runs.decode_columns[element](args.codes + row * N + first, args.scale + first,
                                            args.zero ? args.zero + first : nullptr, out_at(first),
                                            last - first);
      case kGroup128:
      case kBlock128:
        for (int64_t column = first; column < last; column += kGroupSize) {
          const int64_t line = args.granularity == kGroup128 ? row : row / kGroupSize;
          decode(column, std::min(column + kGroupSize, last), line * groups + column / kGroupSize);
        }
    }
  });
  return AC4K_OK;
}

Status quantize_nvfp4(const Nvfp4Args& args, const Rows& x, const float* given, uint8_t* codes,
                      uint8_t* scales, float* global_scale) {
  Element element = kF32;
  AC4K_TRY(find_element("quantize_nvfp4", args.type, &element));
  const QuantizeKernels& table = *kernels().quantize;
  const int64_t N = args.num_columns, size = element_bytes(element), blocks = N / kNvBlock;
  const int threads = threads_of(args.num_rows, N);
  float g = given ? *given : 1.0f;
  if (given == nullptr) {
    float* found = static_cast<float*>(workspace(sizeof(float) * static_cast<size_t>(threads)));
    if (found == nullptr) return fail(AC4K_RUNTIME_ERROR, "quantize_nvfp4: no memory");
    std::fill_n(found, threads, 0.0f);
    for_each(args.num_rows, threads, [&](int64_t row, int thread) {
      found[thread] = larger(table.amax[element](x.row(row), N), found[thread]);
    });
    g = nvfp4_global_scale(*std::max_element(found, found + threads));
    release_workspace();
  }
  *global_scale = g;
  const int64_t scale_tiles = ceil_div(blocks, kScaleTileBlocks);
  const int64_t rows =
      args.tiled ? ceil_div(args.num_rows, kScaleTileRows) * kScaleTileRows : args.num_rows;
  for_each(rows, threads, [&](int64_t row, int) {
    const bool inside = row < args.num_rows;
    if (!args.tiled) {
      return table.encode_nvfp4[element](x.row(row), g, codes + row * N / 2, scales + row * blocks,
                                         N);
    }
    for (int64_t first = 0; first < scale_tiles * kScaleTileBlocks; first += kChunk / kNvBlock) {
      uint8_t found[kChunk / kNvBlock] = {};
      const int64_t last =
          std::min<int64_t>(first + kChunk / kNvBlock, scale_tiles * kScaleTileBlocks);
      const int64_t n = (std::min(last, blocks) - first) * kNvBlock;
      if (inside && n > 0) {
        table.encode_nvfp4[element](x.row(row) + first * kNvBlock * size, g,
                                    codes + (row * N + first * kNvBlock) / 2, found, n);
      }
      for (int64_t k = first; k < last; ++k) {
        scales[tiled_scale_offset(row, k, scale_tiles)] = found[k - first];
      }
    }
  });
  return AC4K_OK;
}

Status dequantize_nvfp4(const Nvfp4Args& args, const uint8_t* codes, const uint8_t* scales,
                        float global_scale, void* out) {
  Element element = kF32;
  AC4K_TRY(find_element("dequantize_nvfp4", args.type, &element));
  const QuantizeKernels& table = *kernels().quantize;
  const int64_t N = args.num_columns, size = element_bytes(element), blocks = N / kNvBlock;
  const int64_t scale_tiles = ceil_div(blocks, kScaleTileBlocks);
  for_each(args.num_rows, threads_of(args.num_rows, N), [&](int64_t row, int) {
    for (int64_t first = 0; first < blocks; first += kChunk / kNvBlock) {
      const int64_t count = std::min<int64_t>(kChunk / kNvBlock, blocks - first);
      uint8_t gathered[kChunk / kNvBlock];
      const uint8_t* own = scales + row * blocks + first;
      if (args.tiled) {
        for (int64_t k = 0; k < count; ++k) {
          gathered[k] = scales[tiled_scale_offset(row, first + k, scale_tiles)];
        }
        own = gathered;
      }
      const int64_t index = row * N + first * kNvBlock;
      table.decode_nvfp4[element](codes + index / 2, own, global_scale,
                                  static_cast<char*>(out) + index * size, count * kNvBlock);
    }
  });
  return AC4K_OK;
}

Status quantize_mx(const MxArgs& args, const Rows& x, uint8_t* codes, uint8_t* scales) {
  Element element = kF32;
  AC4K_TRY(find_element("quantize_mx", args.type, &element));
  const auto encode = kernels().quantize->mx[args.format].encode[element];
  const int64_t N = args.num_columns;
  const int64_t row_bytes = args.format == kMxE2M1 ? N / 2 : N;
  for_each(args.num_rows, threads_of(args.num_rows, N), [&](int64_t row, int) {
    encode(x.row(row), codes + row * row_bytes, scales + row * (N / kMxBlock), N);
  });
  return AC4K_OK;
}

Status dequantize_mx(const MxArgs& args, const uint8_t* codes, const uint8_t* scales, void* out) {
  Element element = kF32;
  AC4K_TRY(find_element("dequantize_mx", args.type, &element));
  const auto decode = kernels().quantize->mx[args.format].decode[element];
  const int64_t N = args.num_columns, size = element_bytes(element);
  const int64_t row_bytes = args.format == kMxE2M1 ? N / 2 : N;
  for_each(args.num_rows, threads_of(args.num_rows, N), [&](int64_t row, int) {
    decode(codes + row * row_bytes, scales + row * (N / kMxBlock),
           static_cast<char*>(out) + row * N * size, N);
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
