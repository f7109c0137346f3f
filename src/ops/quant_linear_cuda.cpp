// Launches the kernels of the mixed-input engine.
#include <algorithm>
#include <type_traits>

#include "cuda/driver/device.hpp"
#include "cuda/driver/launch.hpp"
#include "cuda/sm90a/mixed.h"
#include "ops/cluster_room.hpp"
#include "ops/elementwise.hpp"
#include "ops/mixed_tiles.hpp"
#include "ops/quant_linear.hpp"
#include "ops/tensor_boxes.hpp"

namespace ac4k {
namespace {

constexpr int64_t kMaxGridY = 65535;

// Kernels of one format for f16 or bf16.
struct TypeKernels {
  // Of 8, 16 and 32 columns with one row tile, then with two; of 8 and 16 with four.
  cuda::Kernel few[8];
  cuda::Kernel few_any;
  cuda::Kernel many[kNumManyTiles];
};
struct FormatKernels {
  TypeKernels types[2];
  cuda::Kernel few_any_f32;
};

#define AC4K_TYPE(module, type)                                                         \
  TypeKernels {                                                                         \
    {{module, "few_8_1_" type}, {module, "few_16_1_" type}, {module, "few_32_1_" type}, \
     {module, "few_8_2_" type}, {module, "few_16_2_" type}, {module, "few_32_2_" type}, \
     {module, "few_8_4_" type}, {module, "few_16_4_" type}},                            \
        {module, "few_any_" type}, {                                                    \
      {module, "many_0_" type}, {module, "many_1_" type}, {module, "many_2_" type},     \
          {module, "many_3_" type}, {                                                   \
        module, "many_4_" type                                                          \
      }                                                                                 \
    }                                                                                   \
  }
#define AC4K_FORMAT(name, values, bytes, columns)                                                  \
  FormatKernels{{AC4K_TYPE("sm90a/mixed_" #name, "f16"), AC4K_TYPE("sm90a/mixed_" #name, "bf16")}, \
                {"sm90a/mixed_" #name, "few_any_f32"}},
static constinit FormatKernels kernels_of_formats[] = {AC4K_WEIGHT_FORMATS(AC4K_FORMAT)};
#undef AC4K_FORMAT
#undef AC4K_TYPE

Status device_of(const std::string& op, int device_id, const cuda::DeviceProperties** device) {
  Status status = AC4K_OK;
  *device = cuda::device_properties(device_id, status);
  if (*device == nullptr) return status;
  if ((*device)->arch == "sm90a") return AC4K_OK;
  return fail(AC4K_UNSUPPORTED, op, ": expected a GPU of sm90a, got ", (*device)->arch);
}

class Launcher {
 public:
  Launcher(const Call& call, const RowView& x, const QuantLinearArgs& args,
           const cuda::DeviceProperties& device)
      : call_(call),
        args_(args),
        device_(device),
        kernels_(kernels_of_formats[static_cast<size_t>(args.format)]),
        type_(call.type() == DType::bf16),
        shape_(mixed_shape(args.format, x.num_rows(), args.N, args.K, device.shared_per_block)) {
    params_.x = x.data();
    params_.x_rows = x.offsets();
    params_.weights = static_cast<const unsigned char*>(args.weight);
    params_.bias = args.bias;
    params_.residual = args.residual;
    params_.out = args.out;
    params_.out_stride = args.N;
    params_.alpha = args.alpha;
    params_.activation = static_cast<MixedActivation>(args.activation);
    params_.num_tokens = static_cast<int>(shape_.tokens);
    params_.num_features = static_cast<int>(args.N);
    params_.num_columns = static_cast<int>(args.K);
    params_.k_blocks = static_cast<int>(shape_.k_blocks);
    params_.aligned_x = x.is_aligned();
    params_.aligned_out = args.N % 8 == 0 && is_aligned(args.out) && is_aligned(args.bias) &&
                          is_aligned(args.residual);
  }

  Status run() {
    const bool is_float = call_.type() == DType::f32;
    if (!is_float && has_boxes()) {
      MixedTile tile{};
      AC4K_TRY(choose(&tile));
      return multiply(tile);
    }
    if (args_.config != 0 && args_.K > 0) {
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name,
                  ": argument 'x': expected 16-bit rows, one stride apart and at multiples of 16 "
                  "bytes, for a config");
    }
    return multiply_any(is_float ? 2 : 1);
  }

 private:
  Status choose(MixedTile* tile) const {
    if (args_.config == 0) {
      ClusterRoom room{};
      AC4K_TRY(find_room(kernels_.types[type_].few[0], threads_of({true, 0, 1}, shape_),
                         device_.shared_per_block - shape_.table_bytes, device_, call_.stream,
                         &room));
      *tile = best_mixed_tile(shape_, room);
      return AC4K_OK;
    }
    const int64_t count = mixed_tile_at(shape_, args_.config, tile);
    if (args_.config > count) {
      return fail(AC4K_INVALID_VALUE, call_.op.signature.name,
                  ": argument 'config': expected one of 0 to ", count, " for this size, got ",
                  args_.config);
    }
    return AC4K_OK;
  }

  Status multiply(const MixedTile& tile) {
    const int64_t before_rest = tokens_before_rest(tile, shape_);
    AC4K_TRY(multiply(tile, 0, before_rest));
    if (tile.rest == 0) return AC4K_OK;
    return multiply(rest_tile(tile), before_rest, shape_.tokens - before_rest);
  }
  // Some of the tokens; those that are not the first follow the others.
  Status multiply(const MixedTile& tile, int64_t first_token, int64_t num_tokens) {
    const int64_t elements = first_token * args_.N;
    params_.out = elements_from(args_.out, elements);
    if (args_.residual != nullptr) params_.residual = elements_from(args_.residual, elements);
    params_.num_tokens = static_cast<int>(num_tokens);
    params_.follows = first_token > 0;
    const void* x = elements_from(params_.x, first_token * params_.x_rows.stride);
    AC4K_TRY(tile.few ? describe_few(tile, x) : describe_many(tile, x));
    if (tile.few) params_.few_stages = few_stages(tile, shape_);
    TypeKernels& kernels = kernels_.types[type_];
    return launch((tile.few ? kernels.few : kernels.many)[tile.index],
                  ceil_div(args_.N, features_of(tile)), ceil_div(num_tokens, tokens_of(tile)),
                  tile.splits, threads_of(tile, shape_), shared_bytes(tile, shape_));
  }
  // 16-bit ones.
  template <typename Bytes>
  static Bytes* elements_from(Bytes* first, int64_t count) {
    using Element = std::conditional_t<std::is_const_v<Bytes>, const uint16_t, uint16_t>;
    return static_cast<Element*>(first) + count;
  }

  // Tokens of any type, at any address, `parts` columns of the product each: as few splits as fill
  // the GPU, and as the tokens' numbers fit into shared memory with.
  Status multiply_any(int parts) {
    const int64_t tile_tokens = kFewAnyColumns / parts;
    const int64_t row_tiles = ceil_div(args_.N, kTileRows);
    const int64_t token_tiles = ceil_div(shape_.tokens, tile_tokens);
    const int columns = shape_.sub_blocks * kSubBlockK;
    const int stage = static_cast<int>(kFewStageColumns / columns * shape_.block_bytes);
    const int64_t rows = std::min<int64_t>(kFewAnyColumns, shape_.tokens * parts);
    const auto shared = [&](int64_t splits) -> int64_t {
      const auto share = static_cast<int>(ceil_div(shape_.k_blocks, splits) * columns);
      return few_any_fixed(stage, kFewAnyColumns) + rows * few_any_row(share);
    };
    int64_t chosen = 0;
    for (int64_t splits = 1; splits <= kMaxSplits; splits *= 2) {
      if (shared(splits) + shape_.table_bytes > device_.shared_per_block) continue;
      if (chosen != 0 && ceil_div(shape_.k_blocks * columns, splits) < kFewStageColumns) break;
      chosen = splits;
      if (row_tiles * token_tiles * splits * 10 >= device_.sm_count * 9) break;
    }
    if (chosen == 0) {
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name,
                  ": argument 'x': expected 16-bit rows, one stride apart and at multiples of 16 "
                  "bytes, for a K of ",
                  args_.K);
    }
    // More tiles than the grid's second dimension has go on in the third.
    const int64_t layers = ceil_div(token_tiles, kMaxGridY);
    return launch(parts == 2 ? kernels_.few_any_f32 : kernels_.types[type_].few_any, row_tiles,
                  ceil_div(token_tiles, layers), chosen, kFewAnyThreads, shared(chosen), layers);
  }

  // Tensor copies want rows one stride apart, at multiples of 16 bytes and none over another.
  bool has_boxes() const {
    return args_.K > 0 && params_.aligned_x && params_.x_rows.num_inner == 0 &&
           (shape_.tokens == 1 || params_.x_rows.stride >= args_.K);
  }
  // A single token has any stride; the driver wants one that holds a row.
  uint64_t row_bytes() const {
    const int64_t elements = shape_.tokens > 1 ? params_.x_rows.stride : ceil_div(args_.K, 8) * 8;
    return static_cast<uint64_t>(elements) * 2;
  }
  Status describe(const void* x, cuda::TensorMapSpec map) {
    map.type =
        type_ ? cuda::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : cuda::CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    map.address = x;
    map.swizzle = cuda::CU_TENSOR_MAP_SWIZZLE_128B;
    map.l2_promotion = cuda::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    return describe_boxes(map, &params_.x_boxes);
  }
  Status describe_many(const MixedTile& tile, const void* x) {
    return describe(
        x, {.rank = 2,
            .dims = {static_cast<uint64_t>(args_.K), static_cast<uint64_t>(params_.num_tokens)},
            .strides = {row_bytes()},
            .box = {kSubBlockK, static_cast<uint32_t>(tokens_of(tile))}});
  }
  Status describe_few(const MixedTile& tile, const void* x) {
    const int boxes = few_stage_columns_of(tile, shape_) / kSubBlockK;
    // Products of warpgroups want whole boxes, and so do offsets.
    const bool whole = tokens_of(tile) > 8 || has_offsets(args_.format);
    params_.box_tokens = whole ? tokens_of(tile) : params_.num_tokens;
    return describe(x, {.rank = 3,
                        .dims = {kSubBlockK, static_cast<uint64_t>(params_.num_tokens),
                                 static_cast<uint64_t>(args_.K / kSubBlockK)},
                        .strides = {row_bytes(), kSubBlockK * 2},
                        .box = {kSubBlockK, static_cast<uint32_t>(params_.box_tokens),
                                static_cast<uint32_t>(boxes)}});
  }

  Status launch(cuda::Kernel& kernel, int64_t tiles, int64_t token_tiles, int64_t splits,
                int threads, int64_t shared_bytes, int64_t layers = 1) {
    params_.splits = static_cast<int>(splits);
    params_.split_blocks = static_cast<int>(ceil_div(shape_.k_blocks, splits));
    cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(tiles * splits), static_cast<uint32_t>(token_tiles),
                 static_cast<uint32_t>(layers)},
        .block = {static_cast<uint32_t>(threads), 1, 1},
        .shared_bytes = static_cast<uint32_t>(shared_bytes),
        .dependent = params_.follows || cuda::dependent_launch()};
    if (splits > 1) config.cluster = {static_cast<uint32_t>(splits), 1, 1};
    return cuda::launch(kernel, config, call_.device.device_id, call_.stream, params_);
  }

  const Call& call_;
  const QuantLinearArgs& args_;
  const cuda::DeviceProperties& device_;
  FormatKernels& kernels_;
  const size_t type_;
  const MixedShape shape_;
  MixedParams params_{};
};

}  // namespace

Status quant_linear_on_cuda(const Call& call, const RowView& x, const QuantLinearArgs& args) {
  if (x.num_rows() == 0 || args.N == 0) return AC4K_OK;
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  if (!is_aligned(args.weight)) {
    constexpr size_t kWeight = 1;
    return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
                call.op.signature.params[kWeight].name,
                "': expected an address that is a multiple of 16 on a GPU, got ", args.weight);
  }
  const cuda::DeviceProperties* device = nullptr;
  AC4K_TRY(device_of(call.op.signature.name, call.device.device_id, &device));
  return Launcher(call, x, args, *device).run();
}

Status quant_linear_configs(int device_id, WeightFormat format, int64_t tokens, int64_t N,
                            int64_t K, std::vector<std::string>* names) {
  const cuda::DeviceProperties* device = nullptr;
  AC4K_TRY(device_of("configs", device_id, &device));
  names->assign(1, "auto");
  for (const MixedTile& tile :
       mixed_tiles(mixed_shape(format, tokens, N, K, device->shared_per_block))) {
    names->push_back(name_of(tile));
  }
  return AC4K_OK;
}

}  // namespace ac4k
