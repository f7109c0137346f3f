// Many tokens: activations are arranged in pieces once; then a thread takes a few tiles of weights,
// widens a stretch of K of them into its cache and multiplies it with the tokens, stretch by
// stretch. Sums run over the same stretches whatever the number of threads.
#include <algorithm>
#include <atomic>
#include <iterator>

#include "cpu/linear_plan.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kMaxTokens = 512;  // whose sums a thread keeps at a time
constexpr int64_t kNearBytes = 1 << 19;
constexpr double kWorkPerThread = 1 << 18;

// Rows of sums lie a line further apart than they are long: 512 tokens are 2 KiB, and rows at such
// distances share two sets of the first-level cache.
constexpr int64_t sums_stride(int64_t tokens) { return tokens + kPieceRows; }

// Sizes of a product, shared by all threads.
struct Plan {
  const LinearProblem& problem;
  const PanelKernels& kernel;
  int64_t sub_blocks;       // of K
  int64_t sub_block_bytes;  // of 16 rows or 16 tokens
  int64_t stretch;          // sub-blocks that are widened at a time
  int64_t tiles;            // of weights that a thread takes at a time
  int64_t panels;           // of 16 tokens
  int64_t panel_bytes;
  bool near;                          // do activations stay in the second-level cache?
  int64_t weights_bytes, sums_bytes;  // of a thread's workspace

  Plan(const LinearProblem& p, const PanelKernels& k, int threads)
      : problem(p),
        kernel(k),
        sub_blocks(divide_up(p.args.K, kPackedColumns)),
        sub_block_bytes(k.kind == PieceKind::bf16 ? 2 * kPieceBytes : 4 * kPieceBytes),
        stretch(k.stretch),
        tiles(p.args.num_tokens <= k.one_tile_tokens    ? 1
              : p.args.num_tokens <= k.two_tiles_tokens ? 2
                                                        : 4),
        panels(divide_up(p.args.num_tokens, kPieceRows)),
        panel_bytes(sub_blocks * sub_block_bytes),
        near(panels * panel_bytes <= kNearBytes) {
    while (tiles > 1 && divide_up(p.num_tiles(), tiles) < 2 * threads) tiles /= 2;
    weights_bytes = tiles * 4 * group_bytes();
    const int64_t tokens = std::min(kMaxTokens, panels * kPieceRows);
    sums_bytes = tiles * kPackedRows * sums_stride(tokens) * static_cast<int64_t>(sizeof(float));
  }
  int64_t group_bytes() const { return stretch * sub_block_bytes; }
};

bool all_finite(const float* x, int64_t count) {
  float zero = 0;
  for (int64_t i = 0; i < count; ++i) zero += x[i] * 0.0f;
  return zero == 0;
}

// False when a number is not finite that is to be split.
bool arrange_panel(const Plan& plan, int64_t panel, uint8_t* to) {
  const LinearProblem& p = plan.problem;
  const auto gather = kernels().linear->tokens.gather[p.element];
  const int64_t token = panel * kPieceRows;
  const int tokens = static_cast<int>(std::min<int64_t>(kPieceRows, p.args.num_tokens - token));
  alignas(64) float columns[kPackedColumns * kPieceRows];
  for (int64_t i = 0; i < plan.sub_blocks; ++i, to += plan.sub_block_bytes) {
    const int64_t column = i * kPackedColumns;
    const int64_t count = std::min<int64_t>(kPackedColumns, p.args.K - column);
    gather(p.x(token, column), p.x_stride, tokens, count, columns);
    std::fill(columns + count * kPieceRows, columns + kPackedColumns * kPieceRows, 0.0f);
    if (plan.kernel.kind == PieceKind::split_bf16 && !all_finite(columns, std::size(columns))) {
      return false;
    }
    plan.kernel.arrange(columns, p.args.format, to);
  }
  return true;
}

// Outputs of a token lie N apart from those of the next: nothing in their order tells the CPU which
// comes when.
void fetch_to_write(const LinearProblem& p, int64_t row, int64_t token, int64_t tokens) {
  for (int64_t i = 0; i < tokens; ++i) __builtin_prefetch(p.out(token + i, row), 1);
}

// Rows `row` to `row + rows` and tokens `token` on, from sums [rows][ldc] to the output.
void write_out(const LinearProblem& p, int64_t row, int64_t rows, int64_t token, int64_t tokens,
               const float* sums, int64_t ldc) {
  const TokenKernels& kernels = cpu::kernels().linear->tokens;
  const auto write = kernels.write[p.element];
  const bool plain = p.args.activation == LinearActivation::none && p.args.residual == nullptr;
  const int64_t whole = plain ? rows / kPieceRows * kPieceRows : 0;
  float bias[kMaxOutputRun];
  load_bias(p, row, rows, bias);
  alignas(64) float block[kPieceRows * kPieceRows];
  alignas(64) float lines[kPieceRows][kMaxOutputRun];
  for (int64_t t = 0; t < tokens; t += kPieceRows) {
    const auto count = static_cast<int>(std::min<int64_t>(kPieceRows, tokens - t));
    const int64_t next = std::min<int64_t>(kPieceRows, tokens - t - count);
    for (int64_t r = 0; r < whole; r += kPieceRows) {
      fetch_to_write(p, row + r, token + t + kPieceRows, next);
      write(sums + r * ldc + t, ldc, count, p.args.alpha, bias + r, p.out(token + t, row + r),
            p.args.N);
    }
    if (whole == rows) continue;
    for (int64_t r = whole; r < rows; r += kPieceRows) {
      kernels.transpose(sums + r * ldc + t, ldc, block);
      for (int i = 0; i < kPieceRows; ++i) {
        std::copy_n(block + i * kPieceRows, kPieceRows, lines[i] + r);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      write_run(p, token + t + i, row + whole, rows - whole, bias + whole, lines[i] + whole);
    }
  }
}

// Some tiles of weights times up to kMaxTokens tokens.
void multiply_unit(const Plan& plan, int64_t first_tile, int64_t first_panel,
                   const uint8_t* activations, uint8_t* weights, float* sums) {
  const LinearProblem& p = plan.problem;
  const int64_t tiles = std::min(plan.tiles, p.num_tiles() - first_tile);
  const int64_t panels = std::min(kMaxTokens / kPieceRows, plan.panels - first_panel);
  const int64_t tokens = panels * kPieceRows, ldc = sums_stride(tokens);
  const auto widen = plan.kernel.widen[static_cast<int>(p.args.format)];
  const auto x_at = [&](int64_t panel, int64_t sub_block) {
    return activations + (first_panel + panel) * plan.panel_bytes +
           sub_block * plan.sub_block_bytes;
  };
  for (int64_t at = 0; at < plan.sub_blocks; at += plan.stretch) {
    const int64_t count = std::min(plan.stretch, plan.sub_blocks - at);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      widen(p.tile(first_tile + tile), at, count, weights + tile * 4 * plan.group_bytes(),
            plan.group_bytes());
    }
    for (int64_t panel = 0; panel < panels; panel += plan.kernel.max_token_panels) {
      const int width =
          static_cast<int>(std::min<int64_t>(plan.kernel.max_token_panels, panels - panel));
      const bool last = panel + width == panels;
      plan.kernel.multiply({.columns = count * kPackedColumns,
                            .weights = weights,
                            .groups = tiles * 4,
                            .group_stride = plan.group_bytes(),
                            .activations = x_at(panel, at),
                            .panels = width,
                            .panel_stride = plan.panel_bytes,
                            .next_activations = plan.near ? nullptr
                                                : !last   ? x_at(panel + width, at)
                                                : at + count < plan.sub_blocks ? x_at(0, at + count)
                                                                               : nullptr,
                            .sums = sums + panel * kPieceRows,
                            .ldc = ldc,
                            .accumulate = at > 0});
    }
  }
  const int64_t row = first_tile * kPackedRows, token = first_panel * kPieceRows;
  write_out(p, row, std::min(tiles * kPackedRows, p.args.N - row), token,
            std::min(tokens, p.args.num_tokens - token), sums, ldc);
}

}  // namespace

Status linear_many_tokens(const LinearProblem& p, const PanelKernels& kernel, bool* done) {
  const double work = static_cast<double>(p.args.num_tokens) * static_cast<double>(p.args.N) *
                      static_cast<double>(p.args.K);
  const int threads = threads_for(work, kWorkPerThread);
  const Plan plan(p, kernel, threads);
  const int64_t x_bytes = plan.panels * plan.panel_bytes;
  const int64_t thread_bytes = plan.weights_bytes + plan.sums_bytes;
  const int64_t bytes = x_bytes + threads * thread_bytes + 64;
  auto* memory = static_cast<uint8_t*>(workspace(static_cast<std::size_t>(bytes)));
  if (memory == nullptr) {
    return fail(AC4K_OUT_OF_MEMORY, p.args.op, ": no memory for ", bytes, " bytes of workspace");
  }
  std::atomic<int64_t> next_panel{0};
  std::atomic<bool> finite{true};
  run_threads(static_cast<int>(std::min<int64_t>(threads, plan.panels)), [&](int) {
    for (;;) {
      const int64_t panel = next_panel.fetch_add(1, std::memory_order_relaxed);
      if (panel >= plan.panels) return;
      if (!arrange_panel(plan, panel, memory + panel * plan.panel_bytes)) {
        finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  *done = finite.load(std::memory_order_relaxed);
  if (!*done) return AC4K_OK;
  const int64_t chunks = divide_up(plan.panels, kMaxTokens / kPieceRows);
  const int64_t units = divide_up(p.num_tiles(), plan.tiles) * chunks;
  std::atomic<int64_t> next{0};
  run_threads(static_cast<int>(std::min<int64_t>(threads, units)), [&](int thread) {
    uint8_t* weights = memory + x_bytes + thread * thread_bytes;
    auto* sums = reinterpret_cast<float*>(weights + plan.weights_bytes);
    if (kernel.begin != nullptr) kernel.begin();
    for (;;) {
      const int64_t unit = next.fetch_add(1, std::memory_order_relaxed);
      if (unit >= units) break;
      multiply_unit(plan, unit / chunks * plan.tiles, unit % chunks * (kMaxTokens / kPieceRows),
                    memory, weights, sums);
    }
    if (kernel.end != nullptr) kernel.end();
  });
  release_workspace();
  return AC4K_OK;
}

}  // namespace ac4k::cpu
