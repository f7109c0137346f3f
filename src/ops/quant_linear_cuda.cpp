// Which mixed-input kernel multiplies: by the number of tokens, and by how many blocks fill the
// GPU.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "cuda/driver/device.hpp"
#include "cuda/driver/launch.hpp"
#include "cuda/driver/tensor_map.hpp"
#include "cuda/sm90a/mixed.h"
#include "ops/quant_linear.hpp"

namespace ac4k {
namespace {

static_assert(sizeof(TensorMap) == sizeof(cuda::CUtensorMap));

// Kernels of one format, in the order of the types f16, bf16; float has one.
struct FormatKernels {
  cuda::Kernel few[2][2];  // 8 and 16 columns
  cuda::Kernel few_f32;
  cuda::Kernel many[kNumManyTiles][2];
};

#define AC4K_TYPES(module, name) \
  {cuda::Kernel{module, name "_f16"}, cuda::Kernel{module, name "_bf16"}}
#define AC4K_FORMAT(name, values, bytes, columns)                                              \
  FormatKernels{                                                                               \
      {AC4K_TYPES("sm90a/mixed_" #name, "few_8"), AC4K_TYPES("sm90a/mixed_" #name, "few_16")}, \
      cuda::Kernel{"sm90a/mixed_" #name, "few_16_f32"},                                        \
      {AC4K_TYPES("sm90a/mixed_" #name, "many_0"), AC4K_TYPES("sm90a/mixed_" #name, "many_1"), \
       AC4K_TYPES("sm90a/mixed_" #name, "many_2"), AC4K_TYPES("sm90a/mixed_" #name, "many_3")}},
static constinit FormatKernels kernels_of_formats[] = {AC4K_WEIGHT_FORMATS(AC4K_FORMAT)};
#undef AC4K_FORMAT
#undef AC4K_TYPES

constexpr int64_t kMaxClusterBlocks = 8;  // every GPU with clusters has this many

class Launcher {
 public:
  Launcher(const Call& call, const RowView& x, const QuantLinearArgs& args,
           const cuda::DeviceProperties& device)
      : call_(call),
        args_(args),
        device_(device),
        block_(block_of(args.format)),
        block_bytes_(packed_block_bytes(block_)),
        k_blocks_(packed_blocks(block_, args.K)),
        kernels_(kernels_of_formats[static_cast<size_t>(args.format)]),
        num_tokens_(x.num_rows()),
        type_(call.type() == DType::bf16) {
    params_.x = x.data();
    params_.x_rows = x.offsets();
    params_.weights = static_cast<const unsigned char*>(args.weight);
    params_.bias = args.bias;
    params_.out = args.out;
    params_.out_stride = args.N;
    params_.num_tokens = static_cast<int>(num_tokens_);
    params_.num_features = static_cast<int>(args.N);
    params_.num_columns = static_cast<int>(args.K);
    params_.k_blocks = static_cast<int>(k_blocks_);
    params_.aligned_x = x.is_aligned();
    params_.aligned_out = is_aligned(args.out) && args.N % 8 == 0;
  }

  Status run() {
    const bool is_float = call_.type() == DType::f32;
    // Tensor copies want rows one stride apart, at multiples of 16 bytes.
    const bool boxes = !is_float && params_.aligned_x && params_.x_rows.num_inner == 0;
    if (boxes && num_tokens_ > kFewTokens) return many();
    const int columns = !is_float && num_tokens_ <= 8 ? 8 : 16;
    const int64_t splits = few_splits(columns, is_float ? 2 : 1);
    if (splits == 0) {
      if (boxes) return many();
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name,
                  ": argument 'x': expected 16-bit rows, one stride apart and at multiples of 16 "
                  "bytes, for a K of ",
                  args_.K);
    }
    return few(columns, is_float ? 2 : 1, splits);
  }

 private:
  static constexpr int64_t kFewTokens = 16;

  int64_t row_tiles() const { return ceil_div(args_.N, kTileRows); }

  int stage_bytes() const {
    return static_cast<int>(kFewStageColumns / block_.packed_columns * block_bytes_);
  }
  int64_t few_shared(int columns, int parts, int64_t splits) const {
    const int64_t share = ceil_div(k_blocks_, splits) * block_.packed_columns;
    const int64_t rows = std::min<int64_t>(columns, num_tokens_ * parts);
    return few_tokens_fixed(stage_bytes(), columns) +
           rows * few_tokens_row(static_cast<int>(share));
  }
  // As few as fill the GPU, and as the tokens' numbers fit into shared memory with; 0 if none does.
  int64_t few_splits(int columns, int parts) const {
    const int64_t blocks = row_tiles() * ceil_div(num_tokens_, columns / parts);
    int64_t found = 0;
    for (int64_t splits = 1; splits <= kMaxClusterBlocks; splits *= 2) {
      if (few_shared(columns, parts, splits) > device_.shared_per_block) continue;
      if (found != 0 && ceil_div(k_blocks_ * block_.packed_columns, splits) < kFewStageColumns)
        break;
      found = splits;
      if (blocks * splits * 10 >= device_.sm_count * 9) break;
    }
    return found;
  }
  Status few(int columns, int parts, int64_t splits) {
    cuda::Kernel& kernel = parts == 2 ? kernels_.few_f32 : kernels_.few[columns == 16][type_];
    return launch(kernel, row_tiles(), ceil_div(num_tokens_, columns / parts), splits, kFewThreads,
                  few_shared(columns, parts, splits));
  }

  Status many() {
    size_t tile = 0;
    while (tile + 2 < kNumManyTiles && kManyTiles[tile].tokens < num_tokens_) ++tile;
    const int64_t pairs = ceil_div(args_.N, kManyFeatures);
    // Twice the tokens read the weights half as often, where that leaves enough blocks.
    if (tile + 1 < kNumManyTiles &&
        pairs * ceil_div(num_tokens_, kManyTiles[tile + 1].tokens) >= 2 * device_.sm_count) {
      ++tile;
    }
    const ManyTile& chosen = kManyTiles[tile];
    const int64_t token_tiles = ceil_div(num_tokens_, chosen.tokens);
    int64_t splits = 1;
    while (splits < kMaxClusterBlocks && pairs * token_tiles * splits * 2 <= device_.sm_count &&
           k_blocks_ >= 8 * splits) {
      splits *= 2;
    }
    const int sub_blocks = block_.packed_columns / kSubBlockK;
    AC4K_TRY(describe_tokens(chosen.tokens));
    return launch(kernels_.many[tile][type_], pairs, token_tiles, splits, kManyThreads,
                  many_tokens_shared(chosen, static_cast<int>(block_bytes_), sub_blocks));
  }

  Status describe_tokens(int tokens) {
    const auto bytes = static_cast<uint64_t>(size_of(call_.type()));
    // A single token has any stride; the driver wants one that holds a row.
    const auto stride =
        static_cast<uint64_t>(num_tokens_ > 1 ? params_.x_rows.stride : ceil_div(args_.K, 8) * 8);
    cuda::CUtensorMap map;
    AC4K_TRY(cuda::make_tensor_map(
        &map, {.type = type_ ? cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                             : cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
               .address = params_.x,
               .rank = 2,
               .dims = {static_cast<uint64_t>(args_.K), static_cast<uint64_t>(num_tokens_)},
               .strides = {stride * bytes},
               .box = {kSubBlockK, static_cast<uint32_t>(tokens)},
               .swizzle = cuda::CU_TENSOR_MAP_SWIZZLE_128B,
               .l2_promotion = cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_256B}));
    std::memcpy(&params_.x_boxes, &map, sizeof(map));
    return AC4K_OK;
  }

  Status launch(cuda::Kernel& kernel, int64_t tiles, int64_t token_tiles, int64_t splits,
                int threads, int64_t shared_bytes) {
    params_.split_blocks = static_cast<int>(ceil_div(k_blocks_, splits));
    cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(tiles * splits), static_cast<uint32_t>(token_tiles), 1},
        .block = {static_cast<uint32_t>(threads), 1, 1},
        .shared_bytes = static_cast<uint32_t>(shared_bytes),
        .dependent = cuda::dependent_launch()};
    if (splits > 1) config.cluster = {static_cast<uint32_t>(splits), 1, 1};
    return cuda::launch(kernel, config, call_.device.device_id, call_.stream, params_);
  }

  const Call& call_;
  const QuantLinearArgs& args_;
  const cuda::DeviceProperties& device_;
  const WeightBlock& block_;
  const int64_t block_bytes_, k_blocks_;
  FormatKernels& kernels_;
  const int64_t num_tokens_;
  const size_t type_;
  MixedParams params_{};
};

}  // namespace

Status quant_linear_on_cuda(const Call& call, const RowView& x, const QuantLinearArgs& args) {
  if (x.num_rows() == 0 || args.N == 0) return AC4K_OK;
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  Status status = AC4K_OK;
  const auto* device = cuda::device_properties(call.device.device_id, status);
  if (device == nullptr) return status;
  if (device->arch != "sm90a") {
    return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected a GPU of sm90a, got ",
                device->arch);
  }
  return Launcher(call, x, args, *device).run();
}

}  // namespace ac4k
