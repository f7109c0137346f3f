// quantize_nvfp4 and dequantize_nvfp4.
#include "ops/quantize_flat.hpp"

namespace ac4k {
namespace {

#define AC4K_NVFP4_SCALES "f8e4m3[layout: ..., N/16 | ceil(rows/128)*128, ceil(N/64)*4]"

constexpr int kX = 0, kGlobalScale = 1, kLayout = 2;
constexpr int kN = 0;

cpu::Nvfp4Args quantize_args(const Call& call) {
  return {call.type(), call.rows(), call.dim(kN), call.integer(kLayout) != 0};
}
// Tiled scales would take any N.
Status check_blocks(const Call& call) {
  if (call.dim(kN) % kNvBlock == 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": expected a multiple of ", kNvBlock,
              " numbers in a row, got ", call.dim(kN));
}
const float* given_scale(const Call& call) {
  return call.has(kGlobalScale) ? static_cast<const float*>(data_of(call.tensor(kGlobalScale)))
                                : nullptr;
}

Status quantize_cpu(const Call& call) {
  return cpu::quantize_nvfp4(quantize_args(call), RowView(call.tensor(kX)), given_scale(call),
                             static_cast<uint8_t*>(data_of(call.output(0))),
                             static_cast<uint8_t*>(data_of(call.output(1))),
                             static_cast<float*>(data_of(call.output(2))));
}

Status quantize_cuda(const Call& call) {
  static constinit cuda::Kernel aligned[] =
      AC4K_TYPE_KERNELS("common/quantize_micro", "quantize_nvfp4");
  static constinit cuda::Kernel any[] =
      AC4K_TYPE_KERNELS("common/quantize_micro", "quantize_nvfp4_any");
  static constinit cuda::Kernel flat_cluster[] =
      AC4K_TYPE_KERNELS("sm90a/quantize_nvfp4", "quantize_nvfp4_cluster");
  static constinit cuda::Kernel flat_grid[] =
      AC4K_TYPE_KERNELS("sm90a/quantize_nvfp4", "quantize_nvfp4_grid");
  const cpu::Nvfp4Args args = quantize_args(call);
  const RowView x(call.tensor(kX));
  const size_t type = type_column(args.type);
  float* global_scale = static_cast<float*>(data_of(call.output(2)));
  const float* given = given_scale(call);
  AC4K_TRY(check_num_rows(call, args.num_rows));
  const bool pending = given == nullptr;
  // At least one block: the global scale is an output, too. The padding of tiles is written.
  const int64_t blocks = args.num_columns / kNvBlock;
  const int64_t rows =
      args.tiled ? ceil_div(args.num_rows, kScaleTileRows) * kScaleTileRows : args.num_rows;
  const int64_t width = args.tiled ? ceil_div(blocks, kScaleTileBlocks) * kScaleTileBlocks : blocks;
  const Tiling tiling = tile_rows(std::max<int64_t>(width, 1), kQuantizeThreads, 1);
  const BlockQuantizeParams params{x.data(),
                                   data_of(call.output(0)),
                                   data_of(call.output(1)),
                                   global_scale,
                                   pending ? global_scale : given,
                                   x.offsets(),
                                   args.num_rows,
                                   args.num_columns,
                                   tile_divisor(tiling.column_tiles),
                                   args.tiled,
                                   pending};
  const bool fits = x.is_aligned() && is_multiple(params.codes, 8);
  if (pending && fits) {
    bool done = false;
    AC4K_TRY(quantize_flat_on_sm90a(call, flat_cluster[type], flat_grid[type], params,
                                    is_contiguous(params.rows, args.num_rows, args.num_columns),
                                    &done));
    if (done) return AC4K_OK;
  }
  if (pending) {
    AC4K_TRY(amax_on_cuda(call, x,
                          {.type = args.type,
                           .format = cpu::kE4M3,
                           .granularity = kPerTensor,
                           .x = x,
                           .num_rows = args.num_rows,
                           .num_columns = args.num_columns,
                           .given = nullptr,
                           .pow2_scale = false,
                           .codes = nullptr,
                           .scale = global_scale,
                           .zero = nullptr}));
  }
  return launch_1d(
      fits ? aligned[type] : any[type], call,
      tiling.column_tiles * std::max<int64_t>(1, ceil_div(rows, tiling.height * kTileRows)),
      cuda::Dim3{tiling.width, tiling.height, 1}, params, pending || cuda::dependent_launch());
}

constexpr int kCodes = 0, kScales = 1, kItsGlobalScale = 2, kItsLayout = 3;

cpu::Nvfp4Args dequantize_args(const Call& call) {
  return {call.type(), call.rows(), call.dim(kN), call.integer(kItsLayout) != 0};
}

Status dequantize_cpu(const Call& call) {
  return cpu::dequantize_nvfp4(
      dequantize_args(call), static_cast<const uint8_t*>(data_of(call.tensor(kCodes))),
      static_cast<const uint8_t*>(data_of(call.tensor(kScales))),
      *static_cast<const float*>(data_of(call.tensor(kItsGlobalScale))), data_of(call.output()));
}

Status dequantize_cuda(const Call& call) {
  static constinit cuda::Kernel aligned[] =
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_nvfp4");
  static constinit cuda::Kernel any[] =
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_nvfp4_any");
  static constinit cuda::Kernel few[] =
      AC4K_TYPE_KERNELS("common/dequantize", "dequantize_few_nvfp4");
  const cpu::Nvfp4Args args = dequantize_args(call);
  const Tiling tiling = tile_rows(args.num_columns / kUnit, kQuantizeThreads, 1);
  const BlockDequantizeParams params{
      data_of(call.tensor(kCodes)),
      data_of(call.tensor(kScales)),
      static_cast<const float*>(data_of(call.tensor(kItsGlobalScale))),
      data_of(call.output()),
      args.num_rows,
      args.num_columns,
      tile_divisor(tiling.column_tiles),
      args.tiled};
  const bool fits = is_multiple(params.codes, 4) && is_aligned(params.out);
  const size_t type = type_column(args.type);
  const HalfVectorGrid grid = few_codes_grid(args.num_rows, args.num_columns);
  if (fits && !args.tiled && grid.is_small()) {
    return launch_half_vectors(few[type], call, grid, few_params(params, kNvBlock));
  }
  return launch_1d(fits ? aligned[type] : any[type], call,
                   tiling.column_tiles * ceil_div(args.num_rows, tiling.height * kTileRows),
                   cuda::Dim3{tiling.width, tiling.height, 1}, params);
}

const RegisterOp kQuantize{{
    .signature = "quantize_nvfp4(x: T[..., N] row_strided, global_scale: f32[1]? = None,"
                 " layout: {plain, tiled} = plain) -> u8[..., N/2], " AC4K_NVFP4_SCALES ", f32[1]",
    .types = "T: f32 f16 bf16",
    .doc = "Quantise to NVFP4: e2m1 codes, an e4m3 scale for 16 of them, a global scale.",
    .formula = "g = 448 * 6 / max |x| (1 for zeros, at most the largest float32), or the global"
               " scale given; for each block of 16 s = e4m3(g * (max |x| / 6)) and q = e2m1(x * (g"
               " / s)), 0 where s is 0; x ~ q * s / g. float32, to nearest even, saturating; NaN"
               " gives 0 and does not count in the maxima, infinities count as the largest"
               " float32. Byte i holds codes 2i"
               " (low half) and 2i + 1. Tiled: the scale of row r and block k lies in tile (r /"
               " 128, k / 4) of 512 bytes at r % 32 * 16 + r / 32 % 4 * 4 + k % 4, the rest is 0.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.linspace(0, 6, 16, dtype=np.float32)[None]\n"
               ">>> q, scale, g = ac4k.quantize_nvfp4(x)\n"
               ">>> q.shape, scale.astype(np.float32).tolist(), g.tolist()\n"
               "((1, 8), [[448.0]], [448.0])",
    .tolerance = 0.0,
    .check = check_blocks,
    .cpu = quantize_cpu,
    .cuda = quantize_cuda,
}};

const RegisterOp kDequantize{{
    .signature = "dequantize_nvfp4(q: u8[..., N/2], scale: " AC4K_NVFP4_SCALES
                 ", global_scale: f32[1], layout: {plain, tiled} = plain, dtype: T = f32)"
                 " -> T[..., N]",
    .types = "T: f32 f16 bf16",
    .doc = "Numbers from NVFP4 codes and their scales.",
    .formula = "out = float32(q) * (float32(scale) / global_scale), rounded once to the dtype.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.arange(16, dtype=np.float32)[None] / 2.5\n"
               ">>> ac4k.dequantize_nvfp4(*ac4k.quantize_nvfp4(x)).tolist()[0][:6]\n"
               "[0.0, 0.5, 1.0, 1.0, 1.5, 2.0]",
    .tolerance = 0.0,
    .check = check_blocks,
    .cpu = dequantize_cpu,
    .cuda = dequantize_cuda,
}};

}  // namespace
}  // namespace ac4k
