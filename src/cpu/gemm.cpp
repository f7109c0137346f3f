// Matrix multiplication: C is cut into tiles, a thread takes a tile at a time, packs the blocks of
// A and B it needs and runs the level's micro-kernel over them. Threads share nothing but a
// counter. Every element of C is the sum over the same blocks of K in the same order, whatever the
// tiling.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/element.hpp"
#include "cpu/few_rows.hpp"
#include "cpu/kernels.hpp"
#include "cpu/shares.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kScratchBytes = 64;  // packing may write this much past a panel
constexpr int kMaxMicroBytes = 4096;   // one register tile of accumulators

int64_t round_up(int64_t value, int64_t unit) { return divide_up(value, unit) * unit; }

struct Tiling {
  int64_t rows, cols;    // of a tile
  int64_t down, across;  // tiles
};

// The tiling with the least time on the busiest thread: multiply-adds plus packing.
Tiling choose_tiling(int64_t M, int64_t N, int threads, const GemmKernels& kernel) {
  const int64_t least_down = divide_up(M, kernel.max_rows);
  const int64_t least_across = divide_up(N, kernel.max_cols);
  Tiling best{};
  double best_time = 0;
  for (int64_t down = least_down; down < least_down + threads; ++down) {
    for (int rounds = 1; rounds <= 3; ++rounds) {
      const int64_t across = std::max(least_across, divide_up(int64_t{rounds} * threads, down));
      Tiling tiling;
      tiling.rows = round_up(divide_up(M, down), down == 1 ? kernel.row_unit : kernel.mr);
      tiling.cols = round_up(divide_up(N, across), kernel.nr);
      tiling.down = divide_up(M, tiling.rows);
      tiling.across = divide_up(N, tiling.cols);
      const auto rows = static_cast<double>(tiling.rows), cols = static_cast<double>(tiling.cols);
      const auto turns = static_cast<double>(divide_up(tiling.down * tiling.across, threads));
      const double time = turns * (rows * cols + kernel.pack_cost * (rows + cols));
      if (best.rows == 0 || time < best_time) {
        best = tiling;
        best_time = time;
      }
    }
  }
  return best;
}

// A multiplication with its sizes in bytes, shared by all threads.
struct Problem {
  const GemmArgs& args;
  const GemmKernels& kernel;
  int64_t element;  // bytes of an element
  int64_t depth;    // K of a block
  Tiling tiling;
  // Places in a thread's workspace: packed A at 0, packed B, sums of a tile.
  int64_t b_at, sums_at, workspace_bytes;
};

Problem plan(const GemmArgs& args, const GemmKernels& kernel, int64_t element, int threads) {
  Problem p{args, kernel, element, 0, choose_tiling(args.M, args.N, threads, kernel), 0, 0, 0};
  const int64_t blocks = divide_up(args.K, kernel.kc);
  p.depth = round_up(divide_up(args.K, blocks), kernel.k_unit);
  const int64_t line = 64;
  const int64_t a_rows = round_up(std::min<int64_t>(kernel.mc, p.tiling.rows), kernel.mr);
  p.b_at = round_up((a_rows + kernel.mr) * p.depth * kernel.packed_bytes + kScratchBytes, line);
  const int64_t b_bytes = p.tiling.cols * p.depth * kernel.packed_bytes + kScratchBytes;
  p.sums_at = p.b_at + round_up(b_bytes, line);
  const bool keeps_sums = kernel.narrow_output && p.depth < args.K;
  const int64_t sums = keeps_sums ? p.tiling.rows * p.tiling.cols * kernel.acc_bytes : 0;
  p.workspace_bytes = round_up(p.sums_at + sums, 4096);
  return p;
}

const char* at(const void* base, int64_t elements, int64_t bytes) {
  return static_cast<const char*>(base) + elements * bytes;
}
char* at(void* base, int64_t elements, int64_t bytes) {
  return static_cast<char*>(base) + elements * bytes;
}

// Copies rows of a register tile.
void copy_rows(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t rows,
               int64_t row_bytes) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(static_cast<char*>(to) + i * to_stride,
                static_cast<const char*>(from) + i * from_stride,
                static_cast<std::size_t>(row_bytes));
  }
}

// Where one block of K stands in a tile's sum.
struct Pass {
  int64_t depth;  // padded
  bool first, last;
};

// A register tile of C in the accumulators' own type: straight into C unless it sticks out.
void multiply_direct(const Problem& p, const Pass& pass, int rows, int64_t cols, const void* a,
                     const void* b, char* c) {
  const GemmKernels& kernel = p.kernel;
  const int64_t ldc = p.args.c_row_stride;
  if (cols == kernel.nr) {
    kernel.micro(rows, pass.depth, a, b, c, ldc, !pass.first);
    return;
  }
  alignas(64) unsigned char sums[kMaxMicroBytes];
  const int64_t stride = int64_t{kernel.nr} * kernel.acc_bytes;
  const int64_t row_bytes = cols * p.element;
  if (!pass.first) {
    std::memset(sums, 0, sizeof sums);
    copy_rows(c, ldc * p.element, sums, stride, rows, row_bytes);
  }
  kernel.micro(rows, pass.depth, a, b, sums, kernel.nr, !pass.first);
  copy_rows(sums, stride, c, ldc * p.element, rows, row_bytes);
}

// A register tile whose accumulators are wider than C: they wait in `sums` between blocks of K.
void multiply_narrow(const Problem& p, const Pass& pass, int rows, int64_t cols, const void* a,
                     const void* b, char* c, char* sums) {
  const GemmKernels& kernel = p.kernel;
  alignas(64) unsigned char local[kMaxMicroBytes];
  const bool only = pass.first && pass.last;
  void* acc = only ? static_cast<void*>(local) : sums;
  const int64_t ld = only ? kernel.nr : p.tiling.cols;
  kernel.micro(rows, pass.depth, a, b, acc, ld, !pass.first);
  if (!pass.last) return;
  for (int i = 0; i < rows; ++i) {
    kernel.narrow(at(acc, i * ld, kernel.acc_bytes), at(c, i * p.args.c_row_stride, p.element),
                  cols);
  }
}

// One tile of C, from its first row and column.
void multiply_tile(const Problem& p, int64_t row0, int64_t col0, char* work) {
  const GemmArgs& args = p.args;
  const GemmKernels& kernel = p.kernel;
  const int64_t tile_rows = std::min(p.tiling.rows, args.M - row0);
  const int64_t tile_cols = std::min(p.tiling.cols, args.N - col0);
  char* packed_a = work;
  char* packed_b = work + p.b_at;
  char* sums = work + p.sums_at;
  for (int64_t k = 0; k < args.K; k += p.depth) {
    const int64_t depth = std::min(p.depth, args.K - k);
    const Pass pass{round_up(depth, kernel.k_unit), k == 0, k + depth == args.K};
    const int64_t panel_depth = pass.depth * kernel.packed_bytes;
    kernel.pack_b(at(args.b, k * args.b_row_stride + col0 * args.b_col_stride, p.element),
                  args.b_row_stride, args.b_col_stride, depth, tile_cols, packed_b);
    for (int64_t i0 = 0; i0 < tile_rows; i0 += kernel.mc) {
      const int64_t block_rows = std::min<int64_t>(kernel.mc, tile_rows - i0);
      const int64_t panels = divide_up(block_rows, kernel.mr);
      const int64_t even = round_up(divide_up(block_rows, panels), kernel.row_unit);
      const int height = static_cast<int>(std::min<int64_t>(even, kernel.mr));
      kernel.pack_a(at(args.a, (row0 + i0) * args.a_row_stride + k * args.a_col_stride, p.element),
                    args.a_row_stride, args.a_col_stride, block_rows, depth, height, packed_a);
      for (int64_t j = 0; j < tile_cols; j += kernel.nr) {
        const int64_t cols = std::min<int64_t>(kernel.nr, tile_cols - j);
        const char* b = packed_b + j * panel_depth;
        for (int64_t i = 0, panel = 0; i < block_rows; i += height, ++panel) {
          const int rows = static_cast<int>(std::min<int64_t>(height, block_rows - i));
          const char* a = packed_a + panel * kernel.mr * panel_depth;
          char* c = at(args.c, (row0 + i0 + i) * args.c_row_stride + col0 + j, p.element);
          if (kernel.narrow_output) {
            char* tile_sums =
                at(static_cast<void*>(sums), (i0 + i) * p.tiling.cols + j, kernel.acc_bytes);
            multiply_narrow(p, pass, rows, cols, a, b, c, tile_sums);
          } else {
            multiply_direct(p, pass, rows, cols, a, b, c);
          }
        }
      }
    }
  }
}

Status packed_gemm(const GemmArgs& args, Element element) {
  const GemmKernels& kernel = *kernels().gemm[element];
  const double work =
      static_cast<double>(args.M) * static_cast<double>(args.N) * static_cast<double>(args.K);
  const int threads = threads_for(work, kernel.grain);
  const Problem p = plan(args, kernel, element_bytes(element), threads);
  const int64_t tiles = p.tiling.down * p.tiling.across;
  const int used = static_cast<int>(std::min<int64_t>(threads, tiles));
  const int64_t bytes = p.workspace_bytes * used;
  char* memory = static_cast<char*>(workspace(static_cast<std::size_t>(bytes)));
  if (memory == nullptr) {
    return fail(AC4K_OUT_OF_MEMORY, "gemm: no memory for ", bytes, " bytes of packed panels");
  }
  std::atomic<int64_t> next{0};
  run_threads(used, [&](int thread) {
    char* work = memory + thread * p.workspace_bytes;
    if (kernel.begin != nullptr) kernel.begin();
    for (;;) {
      const int64_t tile = next.fetch_add(1, std::memory_order_relaxed);
      if (tile >= tiles) break;
      const int64_t row = tile % p.tiling.down * p.tiling.rows;
      const int64_t col = tile / p.tiling.down * p.tiling.cols;
      multiply_tile(p, row, col, work);
    }
    if (kernel.end != nullptr) kernel.end();
  });
  release_workspace();
  return AC4K_OK;
}

}  // namespace

Status gemm(const GemmArgs& original) {
  Element element = kF32;
  AC4K_TRY(find_element("gemm", original.type, &element));
  if (original.M <= 0 || original.N <= 0) return AC4K_OK;
  if (original.K <= 0) {
    const auto row_bytes = static_cast<std::size_t>(original.N * element_bytes(element));
    for (int64_t i = 0; i < original.M; ++i) {
      std::memset(at(original.c, i * original.c_row_stride, element_bytes(element)), 0, row_bytes);
    }
    return AC4K_OK;
  }
  GemmArgs args = original;  // the stride of a dimension of one is free: 1 takes the fast paths
  if (args.M == 1) args.a_row_stride = args.K == 1 ? 1 : args.K * args.a_col_stride;
  if (args.K == 1) args.a_col_stride = args.b_row_stride = 1;
  if (args.N == 1 && args.K > 1) args.b_col_stride = 1;
  const auto one_is_unit = [](int64_t row, int64_t col) { return row == 1 || col == 1; };
  if (args.M <= kMaxFewRows && one_is_unit(args.b_row_stride, args.b_col_stride)) {
    few_rows({element, static_cast<int>(args.M), args.N, args.K, args.a, args.a_row_stride,
              args.a_col_stride, args.b, args.b_row_stride, args.b_col_stride, args.c,
              args.c_row_stride, 1});
    return AC4K_OK;
  }
  // C^T = B^T A^T
  if (args.N <= kMaxFewRows && one_is_unit(args.a_row_stride, args.a_col_stride)) {
    few_rows({element, static_cast<int>(args.N), args.M, args.K, args.b, args.b_col_stride,
              args.b_row_stride, args.a, args.a_col_stride, args.a_row_stride, args.c, 1,
              args.c_row_stride});
    return AC4K_OK;
  }
  return packed_gemm(args, element);
}

}  // namespace ac4k::cpu
