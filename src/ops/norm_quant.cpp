// rms_norm_quant, fused_add_rms_norm_quant, layer_norm_quant: norms with FP8 or INT8 results.
#include "cuda/common/norm_quant.h"

#include "cpu/norms.hpp"
#include "ops/norms.hpp"

namespace ac4k {
namespace {

// Where the arguments and outputs of one of the three stand in its signature.
struct Places {
  int residual, weight, bias, eps, scale, granularity, cast_first;
};
constexpr int kX = 0, kN = 0, kQ = 1;  // the tensor, the dim, the type variable
constexpr int kCodes = 0, kScales = 1, kSum = 2;
constexpr Places kRms{.residual = -1,
                      .weight = 1,
                      .bias = -1,
                      .eps = 2,
                      .scale = 3,
                      .granularity = 4,
                      .cast_first = 6};
constexpr Places kAddRms{.residual = 1,
                         .weight = 2,
                         .bias = -1,
                         .eps = 3,
                         .scale = 4,
                         .granularity = 5,
                         .cast_first = 7};
constexpr Places kLayer{.residual = -1,
                        .weight = 1,
                        .bias = 2,
                        .eps = 3,
                        .scale = 4,
                        .granularity = 5,
                        .cast_first = -1};

// The order of the signature's choices.
static_assert(static_cast<int>(ScaleKind::per_tensor) == 1 &&
              static_cast<int>(ScaleKind::group128) == 2);

template <const Places& kPlaces>
Status check(const Call& call) {
  AC4K_TRY(check_eps(call, kPlaces.eps));
  const auto kind = static_cast<ScaleKind>(call.integer(kPlaces.granularity));
  if (kind != ScaleKind::per_tensor || call.has(kPlaces.scale)) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name,
              ": argument 'scale': expected a tensor of shape [1] with granularity='per_tensor'"
              " (rows are quantised before all of them are known), got None");
}

const void* data_at(const Call& call, int place) {
  return place < 0 ? nullptr : data_or_null(call, place);
}
bool is_set(const Call& call, int place) { return place >= 0 && call.integer(place) != 0; }

template <cpu::Norm kNorm, const Places& kPlaces>
Status run_cpu(const Call& call) {
  const RowView x(call.tensor(kX));
  cpu::NormArgs norm{.op = call.op.signature.name.c_str(),
                     .type = call.type(),
                     .num_rows = x.num_rows(),
                     .num_columns = call.dim(kN),
                     .x = x,
                     .out = {},
                     .weight = data_at(call, kPlaces.weight),
                     .bias = data_at(call, kPlaces.bias),
                     .eps = static_cast<float>(call.real(kPlaces.eps)),
                     .cast_first = is_set(call, kPlaces.cast_first)};
  if constexpr (kPlaces.residual >= 0) {
    norm.residual = RowView(call.tensor(kPlaces.residual));
    norm.sum = RowView(call.output(kSum));
  }
  return cpu::norm_quant(kNorm,
                         {.norm = norm,
                          .code_type = call.type(kQ),
                          .kind = static_cast<cpu::ScaleKind>(call.integer(kPlaces.granularity)),
                          .codes = static_cast<uint8_t*>(data_of(call.output(kCodes))),
                          .scales = static_cast<float*>(data_of(call.output(kScales))),
                          .given = static_cast<const float*>(data_at(call, kPlaces.scale))});
}

// Without rows there may still be a scale to hand on: one block then finds nothing else to do.
int64_t columns_of(const Call& call, const RowView& x) {
  return x.num_rows() == 0 ? 0 : call.dim(kN);
}

template <typename Params, const Places& kPlaces>
Status launch(NormKernelTable& kernels, const Call& call, bool aligned, const Params& norm) {
  const RowView x(call.tensor(kX));
  const NormPlan plan(kFullRowVariants, columns_of(call, x), size_of(call.type()),
                      aligned && is_aligned(data_of(call.output(kCodes))));
  const int64_t blocks = std::max<int64_t>(ceil_div(x.num_rows(), plan.rows_per_block), 1);
  const DType type = call.type(kQ);
  NormQuantParams<Params> params{
      .norm = norm,
      .codes = static_cast<unsigned char*>(data_of(call.output(kCodes))),
      .scales = static_cast<float*>(data_of(call.output(kScales))),
      .given_scales = static_cast<const float*>(data_at(call, kPlaces.scale)),
      .format = type == DType::f8e4m3   ? OutputFormat::e4m3
                : type == DType::f8e5m2 ? OutputFormat::e5m2
                                        : OutputFormat::int8,
      .kind = static_cast<ScaleKind>(call.integer(kPlaces.granularity))};
  const bool finds_row_scales = params.kind == ScaleKind::per_token && !params.given_scales;
  if constexpr (std::is_same_v<Params, NormParams>) {
    NormPart& part = params.norm.parts[0];
    part.plain = finds_row_scales && plan.is_plain(part, kPlaces.bias >= 0);
    params.norm.second_block = static_cast<uint32_t>(blocks);
  } else {
    params.norm.part.plain = finds_row_scales && is_plain(plan, params.norm);
  }
  return launch_1d(kernels[plan.kernel][norm_type(call.type())], call, blocks, plan.block, params);
}

template <const Places& kPlaces>
Status run_plain_cuda(NormKernelTable& kernels, const Call& call) {
  const RowView x(call.tensor(kX));
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  const void* weight = data_at(call, kPlaces.weight);
  const void* bias = data_at(call, kPlaces.bias);
  return launch<NormParams, kPlaces>(
      kernels, call, x.is_aligned() && is_aligned(weight) && is_aligned(bias),
      {.parts = {norm_part(x, x, weight, bias, columns_of(call, x)), {}},
       .second_block = 0,
       .eps = static_cast<float>(call.real(kPlaces.eps)),
       .cast_first = is_set(call, kPlaces.cast_first)});
}

Status run_rms_cuda(const Call& call) {
  static constinit NormKernelTable kernels =
      AC4K_NORM_KERNELS("common/rms_norm_quant", "rms_norm_quant");
  return run_plain_cuda<kRms>(kernels, call);
}
Status run_layer_cuda(const Call& call) {
  static constinit NormKernelTable kernels =
      AC4K_NORM_KERNELS("common/layer_norm_quant", "layer_norm_quant");
  return run_plain_cuda<kLayer>(kernels, call);
}
Status run_add_rms_cuda(const Call& call) {
  static constinit NormKernelTable kernels =
      AC4K_NORM_KERNELS("common/add_rms_norm_quant", "add_rms_norm_quant");
  const RowView x(call.tensor(kX)), residual(call.tensor(kAddRms.residual));
  const RowView sum(call.output(kSum));
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  const void* weight = data_at(call, kAddRms.weight);
  return launch<AddNormParams, kAddRms>(
      kernels, call,
      x.is_aligned() && residual.is_aligned() && sum.is_aligned() && is_aligned(weight),
      {.part = norm_part(x, x, weight, nullptr, columns_of(call, x)),
       .residual = residual.data(),
       .sum = sum.data(),
       .residual_rows = residual.offsets(),
       .sum_rows = sum.offsets(),
       .eps = static_cast<float>(call.real(kAddRms.eps)),
       .cast_first = is_set(call, kAddRms.cast_first)});
}

#define AC4K_SCALES "f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]"
#define AC4K_QUANT_OPTIONS  \
  " *, scale: " AC4K_SCALES \
  "? = None,"               \
  " granularity: {per_token, per_tensor, group128} = per_token, dtype: Q = f8e4m3"
#define AC4K_QUANT_RULE                                                                            \
  " Then codes and scales as quantize_fp8 and quantize_int8 give them: a scale for each row"       \
  " (per_token), each 128 columns of a row (group128), or the one given (per_tensor); scale takes" \
  " the place of the largest number. Results are those of the two ops run one after the other."

constexpr const char* kTypes = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2 i8";

const RegisterOp kRmsNormQuant{{
    .signature = "rms_norm_quant(x: T[..., N] row_strided, weight: T[N]? = None,"
                 " eps: float = 1e-6," AC4K_QUANT_OPTIONS
                 ", cast_first: bool = False) -> Q[..., N], " AC4K_SCALES,
    .types = kTypes,
    .doc = "rms_norm with an FP8 or INT8 result and its scales.",
    .formula = "y = rms_norm(x, weight, eps, cast_first=cast_first), rounded to x's "
               "dtype." AC4K_QUANT_RULE,
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[2, -2, 0, 0]], np.float32)\n"
               ">>> q, scale = ac4k.rms_norm_quant(x, dtype=\"int8\")\n"
               ">>> q.tolist(), (q * scale).round(3).tolist()\n"
               "([[127, -127, 0, 0]], [[1.4140000343322754, -1.4140000343322754, 0.0, 0.0]])",
    .tolerance = 4.0,
    .check = check<kRms>,
    .cpu = run_cpu<cpu::Norm::rms, kRms>,
    .cuda = run_rms_cuda,
}};

const RegisterOp kAddRmsNormQuant{{
    .signature = "fused_add_rms_norm_quant(x: T[..., N] row_strided, residual: T[..., N]"
                 " row_strided, weight: T[N]? = None, eps: float = 1e-6," AC4K_QUANT_OPTIONS
                 ", cast_first: bool = False)"
                 " -> Q[..., N], " AC4K_SCALES ", T[..., N] row_strided",
    .types = kTypes,
    .doc = "fused_add_rms_norm with an FP8 or INT8 result and its scales.",
    .formula = "new_residual = x + residual, rounded; y = rms_norm(new_residual, weight, eps,"
               " cast_first=cast_first), rounded to x's dtype." AC4K_QUANT_RULE
               " Returns (q, scale, new_residual), the last of which may be x or residual.",
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[1, -1, 0, 0]], np.float32)\n"
               ">>> q, scale, total = ac4k.fused_add_rms_norm_quant(x, x, dtype=\"int8\")\n"
               ">>> q.tolist(), total.tolist()\n"
               "([[127, -127, 0, 0]], [[2.0, -2.0, 0.0, 0.0]])",
    .tolerance = 4.0,
    .in_place = true,
    .check = check<kAddRms>,
    .cpu = run_cpu<cpu::Norm::add_rms, kAddRms>,
    .cuda = run_add_rms_cuda,
}};

const RegisterOp kLayerNormQuant{{
    .signature =
        "layer_norm_quant(x: T[..., N] row_strided, weight: T[N]? = None,"
        " bias: T[N]? = None, eps: float = 1e-5," AC4K_QUANT_OPTIONS ") -> Q[..., N], " AC4K_SCALES,
    .types = kTypes,
    .doc = "layer_norm with an FP8 or INT8 result and its scales.",
    .formula = "y = layer_norm(x, weight, bias, eps), rounded to x's dtype." AC4K_QUANT_RULE,
    .example =
        ">>> import numpy as np\n"
        ">>> q, scale = ac4k.layer_norm_quant(np.array([[1, 3]], np.float32), dtype=\"int8\")\n"
        ">>> q.tolist()\n"
        "[[-127, 127]]",
    .tolerance = 4.0,
    .check = check<kLayer>,
    .cpu = run_cpu<cpu::Norm::layer, kLayer>,
    .cuda = run_layer_cuda,
}};

}  // namespace
}  // namespace ac4k
