// Which kernel quantises: by granularity, by whether scales are given, by alignment and size.
#include "ops/quantize.hpp"
#include "ops/quantize_flat.hpp"

namespace ac4k {
namespace {

using Kernels = cuda::Kernel[3][4];  // by element type, then by format; the last has zero points

class Launcher {
 public:
  Launcher(const Call& call, const RowView& x, const cpu::QuantizeArgs& args)
      : call_(call),
        args_(args),
        type_(type_column(args.type)),
        format_(args.zero != nullptr ? 3 : static_cast<size_t>(args.format)),
        aligned_(x.is_aligned() && args.num_columns % kUnit == 0 &&
                 is_multiple(args.codes, kUnit)) {
    params_.x = x.data();
    params_.rows = x.offsets();
    params_.codes = args.codes;
    params_.scale = args.scale;
    params_.zero = args.zero;
    params_.given = args.given;
    params_.num_rows = args.num_rows;
    params_.num_columns = args.num_columns;
    params_.granularity = args.granularity;
    params_.pow2_scale = args.pow2_scale;
  }

  Status run() {
    if (args_.given != nullptr) return given();
    switch (args_.granularity) {
      case kPerTensor:
        return per_tensor();
      case kPerToken:
        return per_token();
      case kPerChannel:
        return per_channel();
      case kGroup128:
        return group128();
      case kBlock128:
        return block128();
    }
    return AC4K_OK;
  }

  // Leaves minus the amax at `scale`.
  Status find_amax() {
    static constinit cuda::Kernel start{kModule, "start_tensor"};
    static constinit cuda::Kernel aligned[2][3] = {AC4K_TYPE_KERNELS(kModule, "amax_tensor_plain"),
                                                   AC4K_TYPE_KERNELS(kModule, "amax_tensor_zero")};
    static constinit cuda::Kernel any[2][3] = {AC4K_TYPE_KERNELS(kModule, "amax_tensor_any_plain"),
                                               AC4K_TYPE_KERNELS(kModule, "amax_tensor_any_zero")};
    AC4K_TRY(launch_1d(start, call_, 1, 1, params_));
    dependent_ = true;  // on a kernel of our own: whatever the user chose
    const size_t with_zero = args_.zero != nullptr;
    const int64_t count = args_.num_rows * args_.num_columns;
    if (count == 0) return AC4K_OK;
    if (!aligned_) {
      constexpr int64_t kElementsPerBlock = 16 * kAnyThreads;
      return launch_1d(any[with_zero][type_], call_, ceil_div(count, kElementsPerBlock),
                       kAnyThreads, params_, dependent_);
    }
    return launch_tiles(aligned[with_zero][type_], kAmaxUnits, 1);
  }

 private:
  static constexpr const char* kModule = "common/quantize_tensor";
  static constexpr const char* kFewModule = "common/quantize_few";

  // Blocks with one scale each, of any alignment.
  Status regions(int64_t rows, int64_t columns) {
    static constinit Kernels any = AC4K_QUANTIZE_KERNELS("common/quantize_any", "quantize_any");
    params_.region_rows = rows;
    params_.region_columns = columns;
    int64_t across = columns == 0 ? 0 : ceil_div(args_.num_columns, columns);
    int64_t down = ceil_div(args_.num_rows, rows);
    // Without elements, a row has a scale all the same, and so has a tensor.
    if (args_.granularity == kPerToken || args_.granularity == kPerTensor) across = 1;
    if (args_.granularity == kPerTensor) down = 1;
    params_.column_tiles = tile_divisor(across);
    return launch(any, across * down, {kAnyThreads, 1, 1});
  }

  Status per_token() { return rows(args_.num_rows, args_.num_columns); }

  // One scale for each of `rows` rows.
  Status rows(int64_t rows, int64_t columns) {
    static constinit Kernels one = AC4K_QUANTIZE_KERNELS("common/quantize_rows", "quantize_rows_1");
    static constinit Kernels two = AC4K_QUANTIZE_KERNELS("common/quantize_rows", "quantize_rows_2");
    static constinit Kernels four =
        AC4K_QUANTIZE_KERNELS("common/quantize_rows", "quantize_rows_4");
    constexpr int64_t kWarp = 32, kFewRowsOfTokens = 256;
    const int64_t units = columns / kUnit;
    if (!aligned_ || units == 0 || units > 4 * kRowMaxThreads) {
      return regions(1, args_.num_columns);
    }
    if (units <= kWarp) {  // several rows a block
      const auto width = static_cast<uint32_t>(std::bit_ceil(static_cast<uint64_t>(units)));
      const uint32_t height = kQuantizeThreads / width;
      return launch(one, ceil_div(rows, height), {width, height, 1});
    }
    // Few rows: as many threads as there are units. Otherwise two units a thread, four in long
    // rows.
    const bool few = rows <= kFewRowsOfTokens && units <= kRowMaxThreads;
    const int64_t each = few ? 1 : units <= 2 * kQuantizeThreads ? 2 : 4;
    const auto width = static_cast<uint32_t>(ceil_div(ceil_div(units, each), kWarp) * kWarp);
    return launch(each == 1 ? one : each == 2 ? two : four, rows, {width, 1, 1});
  }

  Status group128() {
    static constinit Kernels kernels =
        AC4K_QUANTIZE_KERNELS("common/quantize_groups", "quantize_groups");
    if (!aligned_) return regions(1, kGroupSize);
    const int64_t across = ceil_div(args_.num_columns, kFewThreads * kFewGroupNumbers);
    if (is_few(args_.num_rows) && across * args_.num_rows <= kFewGroupBlocks) {
      return few_groups(across);
    }
    return launch_tiles(kernels[type_][format_], kTileRows, kGroupSize / kUnit);
  }

  Status few_groups(int64_t across) {
    static constinit Kernels kernels = AC4K_QUANTIZE_KERNELS(kFewModule, "quantize_few_groups");
    return launch_few(kernels, across, args_.num_rows, kFewThreads);
  }

  Status block128() {
    static constinit Kernels few_rows = AC4K_QUANTIZE_KERNELS(kFewModule, "quantize_few_blocks_1");
    static constinit Kernels more_rows = AC4K_QUANTIZE_KERNELS(kFewModule, "quantize_few_blocks_4");
    static constinit Kernels kernels =
        AC4K_QUANTIZE_KERNELS("common/quantize_blocks", "quantize_blocks");
    if (!aligned_) return regions(kGroupSize, kGroupSize);
    if (args_.num_rows == 1) return group128();
    const int64_t across = ceil_div(args_.num_columns, kGroupSize);
    if (args_.num_rows <= kFewRows && is_few(kFewRows)) {
      const int64_t num_slabs = ceil_div(args_.num_rows, kFewSlabRows);
      return launch_few(num_slabs <= 1 ? few_rows : more_rows, across, num_slabs, kFewBlockThreads);
    }
    constexpr uint32_t kWidth = kGroupSize / kUnit;
    params_.column_tiles = tile_divisor(across);
    // Whole warps; threads without a row only where rows are fewer than threads.
    const auto height = static_cast<uint32_t>(std::clamp<int64_t>(
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(args_.num_rows))), 32 / kWidth,
        kBlockThreads / kWidth));
    return launch(kernels, across * ceil_div(args_.num_rows, kGroupSize), {kWidth, height, 1});
  }

  Status few_columns() {
    static constinit Kernels few_rows = AC4K_QUANTIZE_KERNELS(kFewModule, "quantize_few_columns_1");
    static constinit Kernels more_rows =
        AC4K_QUANTIZE_KERNELS(kFewModule, "quantize_few_columns_4");
    constexpr int64_t kRowsOfWarp = 32 / kFewColumnPairs;
    const int threads = args_.num_rows <= kRowsOfWarp ? 32 : kFewBlockThreads;
    return launch_few(args_.num_rows <= kFewSlabRows ? few_rows : more_rows,
                      ceil_div(args_.num_columns, 2 * kFewColumnPairs), 1, threads);
  }

  // A cluster a stripe; where there are no clusters, a block.
  Status per_channel() {
    static constinit Kernels eight =
        AC4K_QUANTIZE_KERNELS("common/quantize_columns", "quantize_columns_8");
    static constinit Kernels longer =
        AC4K_QUANTIZE_KERNELS("common/quantize_columns", "quantize_columns_long");
    static constinit Kernels any =
        AC4K_QUANTIZE_KERNELS("common/quantize_columns", "quantize_columns_any");
    const int64_t stripes = ceil_div(args_.num_columns, kColumnUnits * kUnit);
    const bool keeps = params_.rows.num_inner == 0;
    if (args_.num_rows <= kFewRows && is_few(kFewRows)) return few_columns();
    bool done = false;
    if (aligned_) {
      AC4K_TRY(quantize_columns_on_sm90a(call_, params_, type_, format_, dependent_, &done));
      if (done) return AC4K_OK;
    }
    int64_t most = 1;
    AC4K_TRY(cluster_blocks(&most));
    const int64_t slabs = std::max<int64_t>(1, ceil_div(args_.num_rows, kColumnRows));
    const auto blocks = static_cast<uint32_t>(
        std::min<int64_t>(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(slabs)))));
    Kernels& kernels = !aligned_ ? any : keeps && slabs <= blocks * kColumnKept ? eight : longer;
    return launch(kernels, stripes * blocks, {kColumnThreads, 1, 1}, blocks);
  }

  Status per_tensor() {
    static constinit Kernels small =
        AC4K_QUANTIZE_KERNELS("common/quantize_tensor", "quantize_tensor");
    static constinit cuda::Kernel finish{kModule, "finish_tensor"};
    static constinit Kernels flat_cluster =
        AC4K_QUANTIZE_KERNELS("sm90a/quantize_tensor", "quantize_tensor_cluster");
    static constinit Kernels flat_grid =
        AC4K_QUANTIZE_KERNELS("sm90a/quantize_tensor", "quantize_tensor_grid");
    if (args_.num_rows * args_.num_columns == 0) return regions(1, 1);
    const int64_t count = args_.num_rows * args_.num_columns, units = count / kUnit;
    const bool is_one_row = is_contiguous(params_.rows, args_.num_rows, args_.num_columns);
    if (aligned_ && units <= kRowMaxThreads && is_one_row) {
      params_.num_rows = 1;
      params_.num_columns = count;
      return rows(1, count);
    }
    if (aligned_) {
      bool done = false;
      AC4K_TRY(quantize_flat_on_sm90a(call_, flat_cluster[type_][format_],
                                      flat_grid[type_][format_], params_, is_one_row, &done));
      if (done) return AC4K_OK;
    }
    int64_t most = 1;
    AC4K_TRY(cluster_blocks(&most));
    if (aligned_ && units <= most * kTensorThreads * kTensorUnits) {
      const int64_t wanted = std::max<int64_t>(1, ceil_div(units, kTensorThreads));
      const auto blocks = static_cast<uint32_t>(std::min<int64_t>(
          most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)))));
      const int64_t threads = std::min<int64_t>(kTensorThreads, ceil_div(units, 32 * blocks) * 32);
      return launch(small, blocks, {static_cast<uint32_t>(threads), 1, 1}, blocks);
    }
    AC4K_TRY(find_amax());
    if (args_.zero != nullptr) AC4K_TRY(launch_1d(finish, call_, 1, 1, params_, dependent_));
    params_.given = args_.scale;
    params_.pending = args_.zero == nullptr;
    return given();
  }

  Status given() {
    static constinit Kernels aligned =
        AC4K_QUANTIZE_KERNELS("common/quantize_given", "quantize_given");
    static constinit Kernels any =
        AC4K_QUANTIZE_KERNELS("common/quantize_given", "quantize_given_any");
    static constinit cuda::Kernel copy{"common/quantize_given", "copy_scales"};
    const int64_t count = args_.num_rows * args_.num_columns;
    if (count == 0) {
      params_.num_columns = num_elements(call_.output(1));
      if (params_.num_columns == 0) return AC4K_OK;
      return launch_1d(copy, call_, ceil_div(params_.num_columns, kAnyThreads), kAnyThreads,
                       params_);
    }
    if (!aligned_) return launch(any, ceil_div(count, kAnyThreads), {kAnyThreads, 1, 1});
    return launch_tiles(aligned[type_][format_], kTileRows, 1);
  }

  Status cluster_blocks(int64_t* most) const {
    Status status = AC4K_OK;
    const auto* device = cuda::device_properties(call_.device.device_id, status);
    if (device == nullptr) return status;
    *most = device->major >= 9 ? kMaxClusterBlocks : 1;
    return AC4K_OK;
  }

  Status launch_tiles(cuda::Kernel& kernel, int64_t rows_a_thread, int64_t min_width) {
    const int64_t units = ceil_div(args_.num_columns, kUnit);
    if (units == 0 || args_.num_rows == 0) return AC4K_OK;
    const Tiling tiling = tile_rows(units, kQuantizeThreads, min_width);
    params_.column_tiles = tile_divisor(tiling.column_tiles);
    const int64_t blocks =
        tiling.column_tiles * ceil_div(args_.num_rows, tiling.height * rows_a_thread);
    return launch_1d(kernel, call_, blocks, cuda::Dim3{tiling.width, tiling.height, 1}, params_,
                     dependent_);
  }

  // Whether the kernels of small tensors are right for so many rows, some of which may not be
  // there.
  bool is_few(int64_t rows) const {
    const int64_t most_columns = (int64_t{1} << 30) / std::max<int64_t>(rows, 1);
    return aligned_ && has_short_offsets(params_.rows, rows) && args_.num_columns < most_columns;
  }
  Status launch_few(Kernels& kernels, int64_t across, int64_t down, int threads) {
    if (across == 0 || down == 0) return AC4K_OK;
    const FewQuantizeParams few{.x = params_.x,
                                .codes = params_.codes,
                                .scale = params_.scale,
                                .stride = static_cast<int>(params_.rows.stride),
                                .num_rows = static_cast<int>(args_.num_rows),
                                .num_columns = static_cast<int>(args_.num_columns),
                                .pow2_scale = params_.pow2_scale,
                                .zero = params_.zero};
    const cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(across), static_cast<uint32_t>(down), 1},
        .block = {static_cast<uint32_t>(threads), 1, 1},
        .dependent = dependent_};
    return cuda::launch(kernels[type_][format_], config, call_.device.device_id, call_.stream, few);
  }

  Status launch(Kernels& kernels, int64_t blocks, cuda::Dim3 block, uint32_t cluster = 1) {
    constexpr int64_t kMaxBlocks = 0x7fffffff;
    if (blocks == 0) return AC4K_OK;
    if (blocks > kMaxBlocks) {
      return fail(AC4K_UNSUPPORTED, call_.op.signature.name, ": expected at most ", kMaxBlocks,
                  " blocks of work, got ", blocks);
    }
    cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(blocks), 1, 1}, .block = block, .dependent = dependent_};
    if (cluster > 1) config.cluster = {cluster, 1, 1};
    return cuda::launch(kernels[type_][format_], config, call_.device.device_id, call_.stream,
                        params_);
  }

  const Call& call_;
  const cpu::QuantizeArgs& args_;
  const size_t type_, format_;
  const bool aligned_;
  bool dependent_ = cuda::dependent_launch();
  QuantizeParams params_{};
};

}  // namespace

Status quantize_on_cuda(const Call& call, const RowView& x, const cpu::QuantizeArgs& args) {
  AC4K_TRY(check_num_rows(call, args.num_rows));
  return Launcher(call, x, args).run();
}

Status amax_on_cuda(const Call& call, const RowView& x, const cpu::QuantizeArgs& args) {
  return Launcher(call, x, args).find_amax();
}

static FewDequantizeParams few_params(const cpu::DequantizeArgs& args) {
  constexpr unsigned kAllTheSame = 31, kGroupShift = std::countr_zero(unsigned{kGroupSize});
  const bool in_groups = args.granularity == kGroup128 || args.granularity == kBlock128;
  const int64_t groups = ceil_div(args.num_columns, kGroupSize);
  return {.codes = args.codes,
          .scales = args.scale,
          .global_scale = nullptr,
          .out = args.out,
          .num_columns = static_cast<unsigned>(args.num_columns),
          .scale_stride = in_groups ? static_cast<unsigned>(groups) : 1u,
          .row_shift = args.granularity == kPerTensor  ? kAllTheSame
                       : args.granularity == kBlock128 ? kGroupShift
                                                       : 0u,
          .column_shift = in_groups ? kGroupShift : kAllTheSame};
}

Status dequantize_on_cuda(const Call& call, const cpu::DequantizeArgs& args) {
  static constinit cuda::Kernel aligned[3][3] = {
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_e4m3"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_e5m2"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_int8")};
  static constinit cuda::Kernel any[3][3] = {
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_any_e4m3"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_any_e5m2"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_any_int8")};
  static constinit cuda::Kernel few[3][3] = {
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_few_e4m3"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_few_e5m2"),
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_few_int8")};
  const bool fits =
      args.num_columns % kUnit == 0 && is_multiple(args.codes, kUnit) && is_aligned(args.out);
  const auto format = static_cast<size_t>(args.format);
  const size_t type = type_column(args.type);
  const HalfVectorGrid grid = few_codes_grid(args.num_rows, args.num_columns);
  if (fits && grid.is_small() && args.zero == nullptr && args.granularity != kPerChannel) {
    return launch_half_vectors(few[format][type], call, grid, few_params(args));
  }
  const Tiling tiling = tile_rows(ceil_div(args.num_columns, kUnit), kQuantizeThreads, 1);
  const DequantizeParams params{args.codes,
                                args.scale,
                                args.zero,
                                args.out,
                                args.num_rows,
                                args.num_columns,
                                tile_divisor(tiling.column_tiles),
                                args.granularity};
  return launch_1d(fits ? aligned[format][type] : any[format][type], call,
                   tiling.column_tiles * ceil_div(args.num_rows, tiling.height * kTileRows),
                   cuda::Dim3{tiling.width, tiling.height, 1}, params);
}

}  // namespace ac4k
