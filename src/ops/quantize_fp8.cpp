// quantize_fp8 and dequantize_fp8.
#include "ops/quantize.hpp"

namespace ac4k {
namespace {

#define AC4K_SCALES "[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)]"

constexpr int kX = 0, kGranularity = 1, kScale = 3, kPow2Scale = 4;
constexpr int kT = 0, kQ = 1;  // type variables
constexpr int kN = 0;

cpu::CodeFormat format_of(DType type) { return type == DType::f8e4m3 ? cpu::kE4M3 : cpu::kE5M2; }

cpu::QuantizeArgs quantize_args(const Call& call) {
  return {
      .type = call.type(kT),
      .format = format_of(call.type(kQ)),
      .granularity = static_cast<Granularity>(call.integer(kGranularity)),
      .x = RowView(call.tensor(kX)),
      .num_rows = call.rows(),
      .num_columns = call.dim(kN),
      .given = call.has(kScale) ? static_cast<const float*>(data_of(call.tensor(kScale))) : nullptr,
      .pow2_scale = call.integer(kPow2Scale) != 0,
      .codes = static_cast<uint8_t*>(data_of(call.output(0))),
      .scale = static_cast<float*>(data_of(call.output(1))),
      .zero = nullptr};
}

Status quantize_cpu(const Call& call) { return cpu::quantize(quantize_args(call)); }
Status quantize_cuda(const Call& call) {
  return quantize_on_cuda(call, RowView(call.tensor(kX)), quantize_args(call));
}

constexpr int kCodes = 0, kGivenScale = 1, kItsGranularity = 2;
constexpr int kOutT = 0, kCodesQ = 1;

cpu::DequantizeArgs dequantize_args(const Call& call) {
  return {.type = call.type(kOutT),
          .format = format_of(call.type(kCodesQ)),
          .granularity = static_cast<Granularity>(call.integer(kItsGranularity)),
          .codes = static_cast<const uint8_t*>(data_of(call.tensor(kCodes))),
          .scale = static_cast<const float*>(data_of(call.tensor(kGivenScale))),
          .zero = nullptr,
          .num_rows = call.rows(),
          .num_columns = call.dim(kN),
          .out = data_of(call.output())};
}

Status dequantize_cpu(const Call& call) { return cpu::dequantize(dequantize_args(call)); }
Status dequantize_cuda(const Call& call) { return dequantize_on_cuda(call, dequantize_args(call)); }

const RegisterOp kQuantize{{
    .signature = "quantize_fp8(x: T[..., N] row_strided,"
                 " granularity: {per_tensor, per_token, per_channel, group128, block128} ="
                 " per_token, dtype: Q = f8e4m3, scale: f32" AC4K_SCALES
                 "? = None, pow2_scale: bool = False) -> Q[..., N], f32" AC4K_SCALES,
    .types = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2",
    .doc = "Quantise to FP8 with a scale for the tensor, each row, column, group or block.",
    .formula = "scale = max(max |x| / qmax, 2^-120), qmax 448 (e4m3) or 57344 (e5m2), rounded up to"
               " a power of two with pow2_scale; or the scale given. q = x * (1 / scale) in"
               " float32, rounded to nearest even, saturating; x ~ q * scale. NaN stays NaN and"
               " does not count in the maximum; an infinity counts as the largest float32.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_fp8(np.array([[1, -2, 448]], np.float32))\n"
               ">>> q.astype(np.float32).tolist(), scale.tolist()\n"
               "([[1.0, -2.0, 448.0]], [[1.0]])",
    .tolerance = 0.0,
    .cpu = quantize_cpu,
    .cuda = quantize_cuda,
}};

const RegisterOp kDequantize{{
    .signature = "dequantize_fp8(q: Q[..., N], scale: f32" AC4K_SCALES
                 ", granularity: {per_tensor, per_token, per_channel, group128, block128} ="
                 " per_token, dtype: T = f32) -> T[..., N]",
    .types = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2",
    .doc = "Numbers from FP8 codes and their scales.",
    .formula = "out = float32(q) * scale, rounded once to the dtype.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_fp8(np.array([[1, -2, 3]], np.float32))\n"
               ">>> ac4k.dequantize_fp8(q, scale).astype(float).round(2).tolist()\n"
               "[[0.96, -1.93, 3.0]]",
    .tolerance = 0.0,
    .cpu = dequantize_cpu,
    .cuda = dequantize_cuda,
}};

}  // namespace
}  // namespace ac4k
