// quantize_int8 and dequantize_int8.
#include "ops/quantize.hpp"

namespace ac4k {
namespace {

#define AC4K_SCALES "[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)]"

constexpr int kX = 0, kGranularity = 1, kSymmetric = 2, kScale = 3;
constexpr int kN = 0;

cpu::QuantizeArgs quantize_args(const Call& call) {
  return {
      .type = call.type(),
      .format = cpu::kInt8,
      .granularity = static_cast<Granularity>(call.integer(kGranularity)),
      .x = RowView(call.tensor(kX)),
      .num_rows = call.rows(),
      .num_columns = call.dim(kN),
      .given = call.has(kScale) ? static_cast<const float*>(data_of(call.tensor(kScale))) : nullptr,
      .pow2_scale = false,
      .codes = static_cast<uint8_t*>(data_of(call.output(0))),
      .scale = static_cast<float*>(data_of(call.output(1))),
      .zero = call.has_output(2) ? static_cast<int32_t*>(data_of(call.output(2))) : nullptr};
}

Status check_symmetric(const Call& call) {
  if (!call.has(kScale) || call.integer(kSymmetric) != 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE,
              "quantize_int8: argument 'scale': expected None with symmetric=False, which finds a "
              "zero point together with the scale");
}

Status quantize_cpu(const Call& call) { return cpu::quantize(quantize_args(call)); }
Status quantize_cuda(const Call& call) {
  return quantize_on_cuda(call, RowView(call.tensor(kX)), quantize_args(call));
}

constexpr int kCodes = 0, kGivenScale = 1, kZero = 2, kItsGranularity = 3;

cpu::DequantizeArgs dequantize_args(const Call& call) {
  return {
      .type = call.type(),
      .format = cpu::kInt8,
      .granularity = static_cast<Granularity>(call.integer(kItsGranularity)),
      .codes = static_cast<const uint8_t*>(data_of(call.tensor(kCodes))),
      .scale = static_cast<const float*>(data_of(call.tensor(kGivenScale))),
      .zero = call.has(kZero) ? static_cast<const int32_t*>(data_of(call.tensor(kZero))) : nullptr,
      .num_rows = call.rows(),
      .num_columns = call.dim(kN),
      .out = data_of(call.output())};
}

Status dequantize_cpu(const Call& call) { return cpu::dequantize(dequantize_args(call)); }
Status dequantize_cuda(const Call& call) { return dequantize_on_cuda(call, dequantize_args(call)); }

const RegisterOp kQuantize{{
    .signature = "quantize_int8(x: T[..., N] row_strided,"
                 " granularity: {per_tensor, per_token, per_channel, group128, block128} ="
                 " per_token, symmetric: bool = True, scale: f32" AC4K_SCALES
                 "? = None) -> i8[..., N], f32" AC4K_SCALES ", i32" AC4K_SCALES " if not symmetric",
    .types = "T: f32 f16 bf16",
    .doc = "Quantise to int8 with a scale, and a zero point unless symmetric.",
    .formula =
        "Symmetric: scale = max(max |x| / 127, 2^-120), or the scale given; q = round(x * (1"
        " / scale)). Otherwise lo = min(x, 0), hi = max(x, 0), scale = max(hi / 255 - lo /"
        " 255, 2^-120), zero = round(-128 - lo * (1 / scale)), q = round(x * (1 / scale)) +"
        " zero; x ~ (q - zero) * scale. float32, to nearest even, saturating to [-128, 127]; NaN"
        " gives the zero point and does not count in the extremes, infinities count as the"
        " largest float32.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_int8(np.array([[1, -2, 127]], np.float32))\n"
               ">>> q.tolist(), scale.tolist()\n"
               "([[1, -2, 127]], [[1.0]])",
    .tolerance = 0.0,
    .check = check_symmetric,
    .cpu = quantize_cpu,
    .cuda = quantize_cuda,
}};

const RegisterOp kDequantize{{
    .signature = "dequantize_int8(q: i8[..., N], scale: f32" AC4K_SCALES ", zero: i32" AC4K_SCALES
                 "? = None, granularity: {per_tensor, per_token, per_channel, group128, block128} ="
                 " per_token, dtype: T = f32) -> T[..., N]",
    .types = "T: f32 f16 bf16",
    .doc = "Numbers from int8 codes, their scales and zero points.",
    .formula = "out = float32(q - zero) * scale, rounded once to the dtype.",
    .example = ">>> import numpy as np\n"
               ">>> q, scale = ac4k.quantize_int8(np.array([[1, -2, 127]], np.float32))\n"
               ">>> ac4k.dequantize_int8(q, scale).tolist()\n"
               "[[1.0, -2.0, 127.0]]",
    .tolerance = 0.0,
    .cpu = dequantize_cpu,
    .cuda = dequantize_cuda,
}};

}  // namespace
}  // namespace ac4k
