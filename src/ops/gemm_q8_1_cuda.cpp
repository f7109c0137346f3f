// Which tile multiplies raw GGUF blocks: by the number of tokens, and by what fits and fills the
// GPU.
#include <algorithm>

#include "cuda/common/block_product.h"
#include "cuda/driver/device.hpp"
#include "cuda/driver/launch.hpp"
#include "ops/elementwise.hpp"
#include "ops/gemm_q8_1.hpp"

namespace ac4k {
namespace {

#define AC4K_TILES(module)                                                    \
  {                                                                           \
      cuda::Kernel{module, "multiply_0"}, cuda::Kernel{module, "multiply_1"}, \
      cuda::Kernel{module, "multiply_2"}, cuda::Kernel{module, "multiply_3"}, \
      cuda::Kernel{module, "multiply_4"}, cuda::Kernel{module, "multiply_5"}, \
  }
// In the order of cpu::BlockProductFormat.
static constinit cuda::Kernel kernels[cpu::kNumRawFormats][kNumBlockProductTiles] = {
    AC4K_TILES("common/block_product_q4_0"), AC4K_TILES("common/block_product_q4_1"),
    AC4K_TILES("common/block_product_q5_0"), AC4K_TILES("common/block_product_q5_1"),
    AC4K_TILES("common/block_product_q8_0")};
#undef AC4K_TILES

constexpr int64_t kMaxClusterBlocks = 8;   // every GPU with clusters has this many
constexpr int64_t kMaxRowBytes = 1 << 24;  // 128 rows are addressed with 32 bits
constexpr int64_t kMaxTokenTiles = 65535;  // the grid's y
constexpr int64_t kReservedShared = 1024;  // of each block, by the driver

// The largest copy that all rows are aligned to.
int copy_unit(const void* first, int64_t row_bytes) {
  const auto bits =
      static_cast<uint64_t>(reinterpret_cast<uintptr_t>(first)) | static_cast<uint64_t>(row_bytes);
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
}

class Launcher {
 public:
  Launcher(const Call& call, const cpu::BlockProduct& product, const cuda::DeviceProperties& device)
      : call_(call),
        product_(product),
        device_(device),
        block_bytes_(static_cast<int>(product.weight_bytes)),
        minimum_(product.format == cpu::kRawQ4_1 || product.format == cpu::kRawQ5_1) {}

  Status run() {
    int index = preferred_tile();
    while (index > 0 && stages_within(tile(index), device_.shared_per_block) < 2) --index;
    const BlockProductTile& chosen = tile(index);
    const int64_t row_tiles = ceil_div(product_.M, tile_rows(chosen));
    const int64_t token_tiles = ceil_div(product_.N, chosen.tokens);
    if (token_tiles > kMaxTokenTiles) {
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name, ": argument 'N': expected at most ",
                  kMaxTokenTiles * chosen.tokens, ", got ", product_.N);
    }
    const int64_t steps = ceil_div(product_.num_blocks, chosen.step_blocks);
    // As few splits of K as fill the GPU, each with some steps for its ring.
    int64_t splits = 1;
    while (device_.major >= 9 && splits < kMaxClusterBlocks &&
           row_tiles * token_tiles * splits * 2 <= device_.sm_count && steps >= 4 * splits) {
      splits *= 2;
    }
    const int64_t blocks = row_tiles * token_tiles * splits;
    const bool shares_sm = chosen.blocks_per_sm > 1 && blocks > device_.sm_count;
    const int64_t budget = shares_sm
                               ? device_.shared_per_sm / chosen.blocks_per_sm - kReservedShared
                               : device_.shared_per_block;
    const int64_t split_steps = ceil_div(steps, splits);
    const int64_t stages =
        std::clamp<int64_t>(std::min<int64_t>(stages_within(chosen, budget), split_steps + 1), 2,
                            kMaxBlockProductStages);

    const int64_t weight_row = product_.num_blocks * product_.weight_bytes;
    const int64_t token_row = product_.num_blocks * kActivationBlockBytes;
    const BlockProductParams params{.weight = product_.weight,
                                    .activation = product_.activation,
                                    .out = product_.out,
                                    .weight_row_bytes = weight_row,
                                    .activation_row_bytes = token_row,
                                    .M = static_cast<int>(product_.M),
                                    .N = static_cast<int>(product_.N),
                                    .num_steps = static_cast<int>(steps),
                                    .split_steps = static_cast<int>(split_steps),
                                    .num_stages = static_cast<int>(stages),
                                    .weight_unit = copy_unit(product_.weight, weight_row),
                                    .activation_unit = copy_unit(product_.activation, token_row),
                                    .nibble_mask = kNibbleMask,
                                    .aligned_out = is_aligned(product_.out) && product_.N % 4 == 0};
    const int64_t ring =
        std::max<int64_t>(stages * stage_bytes(chosen, block_bytes_), partial_bytes(chosen));
    cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(row_tiles * splits), static_cast<uint32_t>(token_tiles), 1},
        .block = {kBlockProductThreads, 1, 1},
        .shared_bytes = static_cast<uint32_t>(totals(chosen) + ring),
        .dependent = cuda::dependent_launch()};
    if (splits > 1) config.cluster = {static_cast<uint32_t>(splits), 1, 1};
    return cuda::launch(kernels[product_.format][index], config, call_.device.device_id,
                        call_.stream, params);
  }

 private:
  static const BlockProductTile& tile(int index) { return kBlockProductTiles[index]; }

  // The first tile that holds all tokens, or the largest. Of the two for up to 8 tokens the one
  // with more rows issues a fourth less instructions for the same bytes, if that leaves enough
  // blocks.
  int preferred_tile() const {
    if (product_.N <= tile(0).tokens &&
        ceil_div(product_.M, tile_rows(tile(1))) * 10 < device_.sm_count * 9) {
      return 0;
    }
    int index = 1;
    while (index + 1 < kNumBlockProductTiles && tile(index).tokens < product_.N) ++index;
    return index;
  }
  int64_t totals(const BlockProductTile& tile) const { return minimum_ ? totals_bytes(tile) : 0; }
  int64_t stages_within(const BlockProductTile& tile, int64_t bytes) const {
    return (bytes - totals(tile)) / stage_bytes(tile, block_bytes_);
  }

  const Call& call_;
  const cpu::BlockProduct& product_;
  const cuda::DeviceProperties& device_;
  const int block_bytes_;
  const bool minimum_;
};

}  // namespace

Status multiply_q8_1_on_cuda(const Call& call, const cpu::BlockProduct& product) {
  if (product.M == 0 || product.N == 0) return AC4K_OK;
  constexpr int64_t kMaxRows = INT32_MAX;
  if (product.M > kMaxRows || product.N > kMaxRows ||
      product.num_blocks * kActivationBlockBytes > kMaxRowBytes) {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected M and N of at most ",
                kMaxRows, " and K of at most ",
                kMaxRowBytes / kActivationBlockBytes * cpu::kBlockValues, ", got M ", product.M,
                ", N ", product.N, ", K ", product.num_blocks * cpu::kBlockValues);
  }
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  return Launcher(call, product, *device).run();
}

}  // namespace ac4k
