// quantize_mxfp4, quantize_mxfp8 and back: OCP microscaling, blocks of 32 with an e8m0 scale.
#include "ops/quantize.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/quantize_micro";
constexpr const char* kBackModule = "common/dequantize";
constexpr int kX = 0;                   // of quantise
constexpr int kCodes = 0, kScales = 1;  // of dequantise
constexpr int kT = 0, kQ = 1;
constexpr int kN = 0;

cpu::MxFormat fp8_format(DType type) { return type == DType::f8e4m3 ? cpu::kMxE4M3 : cpu::kMxE5M2; }

Status quantize_cpu(const Call& call, cpu::MxFormat format) {
  return cpu::quantize_mx({call.type(kT), format, call.rows(), call.dim(kN)},
                          RowView(call.tensor(kX)), static_cast<uint8_t*>(data_of(call.output(0))),
                          static_cast<uint8_t*>(data_of(call.output(1))));
}
Status dequantize_cpu(const Call& call, cpu::MxFormat format) {
  return cpu::dequantize_mx({call.type(kT), format, call.rows(), call.dim(kN)},
                            static_cast<const uint8_t*>(data_of(call.tensor(kCodes))),
                            static_cast<const uint8_t*>(data_of(call.tensor(kScales))),
                            data_of(call.output()));
}

Status quantize_cuda(const Call& call, cpu::MxFormat format) {
  static constinit cuda::Kernel aligned[3][3] = {AC4K_TYPE_KERNELS(kModule, "quantize_mx_e4m3"),
                                                 AC4K_TYPE_KERNELS(kModule, "quantize_mx_e5m2"),
                                                 AC4K_TYPE_KERNELS(kModule, "quantize_mx_e2m1")};
  static constinit cuda::Kernel any[3][3] = {AC4K_TYPE_KERNELS(kModule, "quantize_mx_any_e4m3"),
                                             AC4K_TYPE_KERNELS(kModule, "quantize_mx_any_e5m2"),
                                             AC4K_TYPE_KERNELS(kModule, "quantize_mx_any_e2m1")};
  const RowView x(call.tensor(kX));
  const int64_t rows = call.rows(), N = call.dim(kN);
  AC4K_TRY(check_num_rows(call, rows));
  const bool is_fp4 = format == cpu::kMxE2M1;
  const int64_t columns = kUnit * (is_fp4 && call.type(kT) != DType::f32 ? kMxfp4Units : 1);
  const Tiling tiling = tile_rows(N / columns, kQuantizeThreads, kMxBlock / columns);
  const BlockQuantizeParams params{x.data(),
                                   data_of(call.output(0)),
                                   data_of(call.output(1)),
                                   nullptr,
                                   nullptr,
                                   x.offsets(),
                                   rows,
                                   N,
                                   tile_divisor(tiling.column_tiles),
                                   false,
                                   false};
  const auto code_bytes = static_cast<uintptr_t>(is_fp4 ? columns / 2 : columns);  // of a thread
  const bool fits = x.is_aligned() && is_multiple(params.codes, code_bytes);
  const size_t type = type_column(call.type(kT));
  return launch_1d(fits ? aligned[format][type] : any[format][type], call,
                   tiling.column_tiles * ceil_div(rows, tiling.height * kTileRows),
                   cuda::Dim3{tiling.width, tiling.height, 1}, params);
}

Status dequantize_cuda(const Call& call, cpu::MxFormat format) {
  static constinit cuda::Kernel aligned[3][3] = {
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_e4m3"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_e5m2"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_e2m1")};
  static constinit cuda::Kernel any[3][3] = {
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_any_e4m3"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_any_e5m2"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_mx_any_e2m1")};
  static constinit cuda::Kernel few[3][3] = {
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_few_mx_e4m3"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_few_mx_e5m2"),
      AC4K_TYPE_KERNELS(kBackModule, "dequantize_few_mx_e2m1")};
  const int64_t rows = call.rows(), N = call.dim(kN);
  const Tiling tiling = tile_rows(N / kUnit, kQuantizeThreads, 1);
  const BlockDequantizeParams params{data_of(call.tensor(kCodes)),
                                     data_of(call.tensor(kScales)),
                                     nullptr,
                                     data_of(call.output()),
                                     rows,
                                     N,
                                     tile_divisor(tiling.column_tiles),
                                     false};
  const bool fits =
      is_multiple(params.codes, format == cpu::kMxE2M1 ? 4 : 8) && is_aligned(params.out);
  const size_t type = type_column(call.type(kT));
  if (const HalfVectorGrid grid = few_codes_grid(rows, N); fits && grid.is_small()) {
    return launch_half_vectors(few[format][type], call, grid, few_params(params, kMxBlock));
  }
  return launch_1d(fits ? aligned[format][type] : any[format][type], call,
                   tiling.column_tiles * ceil_div(rows, tiling.height * kTileRows),
                   cuda::Dim3{tiling.width, tiling.height, 1}, params);
}

constexpr const char* kFormula =
    "For each block of 32 s = 2^(floor(log2(max |x|)) - e), e the exponent of the format's largest"
    " number (2, 8 or 15 for e2m1, e4m3, e5m2), at least 2^-127 and that for zeros; the scale is s"
    " as e8m0 (its exponent plus 127). q = x / s to nearest even, saturating; x ~ q * s. NaN does"
    " not count in the maximum, infinities count as the largest float32; NaN stays NaN in FP8 and"
    " gives 0 in FP4.";

const RegisterOp kQuantizeFp4{{
    .signature = "quantize_mxfp4(x: T[..., N] row_strided) -> u8[..., N/2], u8[..., N/32]",
    .types = "T: f32 f16 bf16",
    .doc = "Quantise to MXFP4: e2m1 codes, two in a byte, an e8m0 scale for 32 of them.",
    .formula = kFormula,
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_mxfp4(np.full((1, 32), 6, np.float32))\n"
               ">>> q[0, :2].tolist(), scale.tolist()\n"
               "([119, 119], [[127]])",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return quantize_cpu(call, cpu::kMxE2M1); },
    .cuda = [](const Call& call) { return quantize_cuda(call, cpu::kMxE2M1); },
}};

const RegisterOp kQuantizeFp8{{
    .signature = "quantize_mxfp8(x: T[..., N] row_strided, dtype: Q = f8e4m3)"
                 " -> Q[..., N], u8[..., N/32]",
    .types = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2",
    .doc = "Quantise to MXFP8: e4m3 or e5m2 codes, an e8m0 scale for 32 of them.",
    .formula = kFormula,
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_mxfp8(np.full((1, 32), 3, np.float32))\n"
               ">>> float(q[0, 0]), scale.tolist()\n"
               "(384.0, [[120]])",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return quantize_cpu(call, fp8_format(call.type(kQ))); },
    .cuda = [](const Call& call) { return quantize_cuda(call, fp8_format(call.type(kQ))); },
}};

const RegisterOp kDequantizeFp4{{
    .signature = "dequantize_mxfp4(q: u8[..., N/2], scale: u8[..., N/32], dtype: T = f32)"
                 " -> T[..., N]",
    .types = "T: f32 f16 bf16",
    .doc = "Numbers from MXFP4 codes and their scales.",
    .formula = "out = float32(q) * 2^(scale - 127), rounded once to the dtype; scale 255 is NaN.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = np.full((1, 16), 0x71, np.uint8), np.array([[128]], np.uint8)\n"
               ">>> ac4k.dequantize_mxfp4(q, scale)[0, :2].tolist()\n"
               "[1.0, 12.0]",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return dequantize_cpu(call, cpu::kMxE2M1); },
    .cuda = [](const Call& call) { return dequantize_cuda(call, cpu::kMxE2M1); },
}};

const RegisterOp kDequantizeFp8{{
    .signature = "dequantize_mxfp8(q: Q[..., N], scale: u8[..., N/32], dtype: T = f32)"
                 " -> T[..., N]",
    .types = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2",
    .doc = "Numbers from MXFP8 codes and their scales.",
    .formula = "out = float32(q) * 2^(scale - 127), rounded once to the dtype; scale 255 is NaN.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_mxfp8(np.full((1, 32), 3, np.float32))\n"
               ">>> ac4k.dequantize_mxfp8(q, scale)[0, :2].tolist()\n"
               "[3.0, 3.0]",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return dequantize_cpu(call, fp8_format(call.type(kQ))); },
    .cuda = [](const Call& call) { return dequantize_cuda(call, fp8_format(call.type(kQ))); },
}};

}  // namespace
}  // namespace ac4k
