// Launches the product of raw GGUF blocks.
#include <algorithm>

#include "cuda/common/block_product.h"
#include "cuda/driver/device.hpp"
#include "cuda/driver/launch.hpp"
#include "cuda/sm90a/block_stream.h"
#include "ops/block_product_tiles.hpp"
#include "ops/elementwise.hpp"
#include "ops/gemm_q8_1.hpp"
#include "ops/tensor_boxes.hpp"

namespace ac4k {
namespace {

#define AC4K_TILES(module)                                                    \
  {                                                                           \
      cuda::Kernel{module, "multiply_0"}, cuda::Kernel{module, "multiply_1"}, \
      cuda::Kernel{module, "multiply_2"}, cuda::Kernel{module, "multiply_3"}, \
      cuda::Kernel{module, "multiply_4"}, cuda::Kernel{module, "multiply_5"}, \
  }
#define AC4K_FORMATS(kind)                                                       \
  {AC4K_TILES(kind "_q4_0"), AC4K_TILES(kind "_q4_1"), AC4K_TILES(kind "_q5_0"), \
   AC4K_TILES(kind "_q5_1"), AC4K_TILES(kind "_q8_0")}
// In the order of cpu::BlockProductFormat. Those of sm90a want rows aligned to 16 bytes.
using FormatKernels = cuda::Kernel[kNumBlockProductTiles];
static constinit FormatKernels kernels_for_any[cpu::kNumRawFormats] =
    AC4K_FORMATS("common/block_product");
static constinit FormatKernels kernels_of_sm90a[cpu::kNumRawFormats] =
    AC4K_FORMATS("sm90a/block_stream");
#undef AC4K_FORMATS
#undef AC4K_TILES

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
        shape_{.M = product.M,
               .N = product.N,
               .num_blocks = product.num_blocks,
               .block_bytes = static_cast<int>(product.weight_bytes),
               .has_minimum = product.format == cpu::kRawQ4_1 || product.format == cpu::kRawQ5_1,
               .shared_per_block = device.shared_per_block - kStreamBarrierBytes} {}

  Status run() {
    BlockProductChoice choice{};
    AC4K_TRY(choose(&choice));
    const auto& [index, splits] = choice;
    const BlockProductTile& chosen = kBlockProductTiles[index];
    const int64_t row_tiles = ceil_div(product_.M, tile_rows(chosen));
    const int64_t token_tiles = ceil_div(product_.N, chosen.tokens);
    if (token_tiles > kMaxTokenTiles) {
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name, ": argument 'N': expected at most ",
                  kMaxTokenTiles * chosen.tokens, ", got ", product_.N);
    }
    const int64_t steps = ceil_div(product_.num_blocks, chosen.step_blocks);
    const int64_t blocks = row_tiles * token_tiles * splits;
    const bool shares_sm = chosen.blocks_per_sm > 1 && blocks > device_.sm_count;
    const int64_t budget = shares_sm ? device_.shared_per_sm / chosen.blocks_per_sm -
                                           kReservedShared - kStreamBarrierBytes
                                     : shape_.shared_per_block;
    const int64_t split_steps = ceil_div(steps, splits);
    const int64_t stages = std::clamp<int64_t>(
        std::min<int64_t>(stages_within(chosen, shape_, budget), split_steps + 1), 2,
        kMaxBlockProductStages);

    const int64_t weight_row = product_.num_blocks * product_.weight_bytes;
    const int64_t token_row = product_.num_blocks * kActivationBlockBytes;
    BlockStreamParams params{};
    static_cast<BlockProductParams&>(params) = {
        .weight = product_.weight,
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
        std::max<int64_t>(stages * stage_bytes(chosen, shape_.block_bytes), partial_bytes(chosen));
    const bool streamed = device_.arch == "sm90a" && steps > 0 && params.weight_unit == 16 &&
                          params.activation_unit == 16;
    const int64_t barriers = streamed ? kStreamBarrierBytes : 0;
    cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(row_tiles * splits), static_cast<uint32_t>(token_tiles), 1},
        .block = {kBlockProductThreads, 1, 1},
        .shared_bytes = static_cast<uint32_t>(totals_for(chosen, shape_) + barriers + ring),
        .dependent = cuda::dependent_launch()};
    if (splits > 1) config.cluster = {static_cast<uint32_t>(splits), 1, 1};
    if (streamed) return stream(config, index, &params);
    const BlockProductParams& plain = params;
    return cuda::launch(kernels_for_any[product_.format][index], config, call_.device.device_id,
                        call_.stream, plain);
  }

 private:
  Status stream(const cuda::LaunchConfig& config, int index, BlockStreamParams* params) const {
    const BlockProductTile& tile = kBlockProductTiles[index];
    params->box_tokens = static_cast<int>(std::min<int64_t>(product_.N, tile.tokens));
    AC4K_TRY(describe(product_.weight, params->weight_row_bytes, product_.M,
                      staged_row_bytes(tile, shape_.block_bytes), tile_rows(tile),
                      &params->weight_boxes));
    AC4K_TRY(describe(product_.activation, params->activation_row_bytes, product_.N,
                      staged_row_bytes(tile, kActivationBlockBytes), params->box_tokens,
                      &params->token_boxes));
    return cuda::launch(kernels_of_sm90a[product_.format][index], config, call_.device.device_id,
                        call_.stream, *params);
  }
  static Status describe(const void* rows, int64_t row_bytes, int64_t num_rows, int box_bytes,
                         int box_rows, TensorMap* map) {
    return describe_boxes({.type = cuda::CU_TENSOR_MAP_DATA_TYPE_UINT64,
                           .address = rows,
                           .rank = 2,
                           .dims = {static_cast<uint64_t>(row_bytes / kStreamElementBytes),
                                    static_cast<uint64_t>(num_rows)},
                           .strides = {static_cast<uint64_t>(row_bytes)},
                           .box = {static_cast<uint32_t>(box_bytes / kStreamElementBytes),
                                   static_cast<uint32_t>(box_rows)}},
                          map);
  }
  Status choose(BlockProductChoice* choice) const {
    ClusterRoom room{};
    if (device_.major >= 9) {
      AC4K_TRY(find_room(kernels_for_any[product_.format][0], kBlockProductThreads,
                         device_.shared_per_block, device_, call_.stream, &room));
    } else {
      room[1] = device_.sm_count;  // no clusters
    }
    *choice = choose_block_product(shape_, room);
    return AC4K_OK;
  }

  const Call& call_;
  const cpu::BlockProduct& product_;
  const cuda::DeviceProperties& device_;
  const BlockProductShape shape_;
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
