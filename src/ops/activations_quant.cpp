// silu_and_mul_quant, gelu_and_mul_quant, relu2_quant and fused_add_gelu_quant.
#include "cpu/activations_quant.hpp"

#include "cuda/common/activations_quant.h"
#include "ops/activations.hpp"
#include "ops/rows.hpp"

namespace ac4k {
namespace {

// Where the arguments stand; -1 when there is none.
struct Positions {
  int bias, scale, approximate, granularity;
};
constexpr Positions kSilu{-1, 1, -1, 2}, kGelu{-1, 1, 2, 3}, kAddGelu{1, 2, 3, 4};
constexpr int kX = 0, kD = 0;                                // the dim
constexpr int kType = 0, kCodeType = 1;                      // type variables
constexpr int kPerToken = 0, kPerTensor = 1, kGroup128 = 2;  // choices

Status check(const Call& call, const Positions& at) {
  if (call.integer(at.granularity) == kPerTensor && !call.has(at.scale)) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": argument 'scale': expected a tensor for granularity per_tensor, got None");
  }
  return AC4K_OK;
}
Status check_silu(const Call& call) { return check(call, kSilu); }
Status check_gelu(const Call& call) { return check(call, kGelu); }
Status check_add_gelu(const Call& call) { return check(call, kAddGelu); }

cpu::CodeFormat format_of(DType type) {
  return type == DType::f8e4m3 ? cpu::kE4M3 : type == DType::f8e5m2 ? cpu::kE5M2 : cpu::kInt8;
}

cpu::ActivationQuantArgs arguments_of(const Call& call, const Positions& at,
                                      cpu::Activation activation, const RowView& x) {
  const int64_t granularity = call.integer(at.granularity), D = call.dim(kD);
  return {.op = call.op.signature.name.c_str(),
          .type = call.type(kType),
          .activation = activation,
          .format = format_of(call.type(kCodeType)),
          .x = x,
          .bias = at.bias < 0 ? nullptr : data_of(call.tensor(at.bias)),
          .num_rows = x.num_rows(),
          .num_columns = D,
          .scale_columns = granularity == kGroup128 ? kActivationGroup : D,
          .one_scale = granularity == kPerTensor,
          .given = call.has(at.scale) ? static_cast<const float*>(data_of(call.tensor(at.scale)))
                                      : nullptr,
          .codes = static_cast<uint8_t*>(data_of(call.output(0))),
          .scale = static_cast<float*>(data_of(call.output(1)))};
}

Status run_on_cpu(const Call& call, const Positions& at, cpu::Activation activation) {
  return cpu::activation_quant(arguments_of(call, at, activation, RowView(call.tensor(kX))));
}

// By how a row is handled, then by type.
struct QuantKernels {
  cuda::Kernel rows_1[3], rows_2[3], rows_4[3], groups[3], given[3], few[3], any[3];
};

class Launcher {
 public:
  Launcher(QuantKernels& kernels, const Call& call, const Positions& at, cpu::Activation activation)
      : kernels_(kernels),
        call_(call),
        x_(call.tensor(kX)),
        args_(arguments_of(call, at, activation, x_)),
        granularity_(call.integer(at.granularity)),
        type_(activation_column(args_.type)) {
    params_.x = x_.data();
    params_.bias = args_.bias;
    params_.codes = args_.codes;
    params_.scale = args_.scale;
    params_.given = args_.given;
    params_.rows = x_.offsets();
    params_.num_rows = args_.num_rows;
    params_.num_columns = args_.num_columns;
    params_.groups = static_cast<unsigned>(
        granularity_ == kGroup128 ? ceil_div(args_.num_columns, kActivationGroup) : 1);
    params_.format = static_cast<int>(args_.format);
    params_.scales = static_cast<int>(granularity_);
  }

  Status run() {
    AC4K_TRY(check_num_rows(call_, args_.num_rows));
    const int64_t N = args_.num_columns, units = N / kActivationQuantUnit;
    const bool aligned = units > 0 && args_.num_rows > 0 && x_.is_aligned() &&
                         is_aligned(args_.bias) && N % kActivationQuantUnit == 0 &&
                         reinterpret_cast<uintptr_t>(args_.codes) % kActivationQuantUnit == 0;
    if (!aligned) return any();
    if (args_.given != nullptr) return tiles(kernels_.given, units, 1, kActivationQuantUnits);
    if (granularity_ == kGroup128) return groups();
    return rows(units);
  }

 private:
  Status any() {
    int64_t regions = args_.num_rows * params_.groups;
    if (granularity_ == kPerTensor) regions = std::max<int64_t>(regions, 1);
    if (regions == 0) return AC4K_OK;
    return launch_1d(kernels_.any[type_], call_, regions, kActivationQuantThreads, params_);
  }

  Status groups() {
    const int64_t across = ceil_div(args_.num_columns, kActivationFewThreads * 4);
    if (across * args_.num_rows <= kActivationFewBlocks &&
        has_short_offsets(params_.rows, args_.num_rows)) {
      return few(across);
    }
    return tiles(kernels_.groups, int64_t{params_.groups} * kActivationGroupThreads,
                 kActivationGroupThreads, 1);
  }

  Status few(int64_t across) {
    const FewActivationQuantParams params{.x = params_.x,
                                          .bias = params_.bias,
                                          .codes = params_.codes,
                                          .scale = params_.scale,
                                          .stride = static_cast<int>(params_.rows.stride),
                                          .num_columns = static_cast<int>(args_.num_columns),
                                          .groups = static_cast<int>(params_.groups),
                                          .format = params_.format};
    const cuda::LaunchConfig config{
        .grid = {static_cast<uint32_t>(across), static_cast<uint32_t>(args_.num_rows), 1},
        .block = {kActivationFewThreads, 1, 1},
        .dependent = cuda::dependent_launch()};
    return cuda::launch(kernels_.few[type_], config, call_.device.device_id, call_.stream, params);
  }

  // Tiles of threads: so many side by side for a row, each with `rows_a_thread` of them.
  Status tiles(cuda::Kernel* kernels, int64_t side_by_side, int64_t min_width,
               int64_t rows_a_thread) {
    const BlockOfRows block(std::max(side_by_side, min_width), args_.num_rows,
                            kActivationQuantThreads);
    const int64_t column_tiles = ceil_div(side_by_side, block.width);
    params_.column_tiles = fast_divisor(static_cast<uint32_t>(column_tiles));
    const int64_t row_tiles = ceil_div(args_.num_rows, block.height * rows_a_thread);
    return launch_1d(kernels[type_], call_, column_tiles * row_tiles,
                     cuda::Dim3{block.width, block.height, 1}, params_);
  }

  // Short rows: several a block. Few rows: as many threads as there are units. Otherwise two units
  // a thread, four in long rows and where there is most to compute: less is done for all of them.
  Status rows(int64_t units) {
    constexpr int64_t kWarp = 32, kFewRows = 256;
    if (units <= kWarp) {
      const auto width = static_cast<uint32_t>(std::bit_ceil(static_cast<uint64_t>(units)));
      const uint32_t height = kActivationQuantThreads / width;
      return launch_1d(kernels_.rows_1[type_], call_, ceil_div(args_.num_rows, height),
                       cuda::Dim3{width, height, 1}, params_);
    }
    const bool few = args_.num_rows <= kFewRows && units <= kActivationQuantMaxThreads;
    const bool adds_gelu = args_.bias != nullptr;
    const int64_t each = few ? 1 : units <= 2 * kActivationQuantThreads && !adds_gelu ? 2 : 4;
    const int64_t width = ceil_div(ceil_div(units, each), kWarp) * kWarp;
    const int64_t most =
        args_.type == DType::f32 ? kActivationQuantLongThreadsF32 : kActivationQuantLongThreads;
    if (each == 4 && width > most) return any();
    cuda::Kernel* kernels = each == 1   ? kernels_.rows_1
                            : each == 2 ? kernels_.rows_2
                                        : kernels_.rows_4;
    return launch_1d(kernels[type_], call_, args_.num_rows,
                     cuda::Dim3{static_cast<uint32_t>(width), 1, 1}, params_);
  }

  QuantKernels& kernels_;
  const Call& call_;
  const RowView x_;
  const cpu::ActivationQuantArgs args_;
  const int64_t granularity_;
  const size_t type_;
  ActivationQuantParams params_{};
};

#define AC4K_TYPES(module, name) \
  {{module, name "_f32"}, {module, name "_f16"}, {module, name "_bf16"}}
#define AC4K_QUANT_KERNELS(module, name)                                   \
  {AC4K_TYPES(module, name "_rows_1"), AC4K_TYPES(module, name "_rows_2"), \
   AC4K_TYPES(module, name "_rows_4"), AC4K_TYPES(module, name "_groups"), \
   AC4K_TYPES(module, name "_given"),  AC4K_TYPES(module, name "_few"),    \
   AC4K_TYPES(module, name "_any")}

Status silu_cpu(const Call& call) { return run_on_cpu(call, kSilu, cpu::Activation::silu_and_mul); }
Status silu_cuda(const Call& call) {
  static constinit QuantKernels kernels =
      AC4K_QUANT_KERNELS("common/silu_and_mul_quant", "silu_and_mul_quant");
  return Launcher(kernels, call, kSilu, cpu::Activation::silu_and_mul).run();
}

cpu::Activation gelu_of(const Call& call) {
  return call.integer(kGelu.approximate) ? cpu::Activation::gelu_tanh_and_mul
                                         : cpu::Activation::gelu_exact_and_mul;
}
Status gelu_cpu(const Call& call) { return run_on_cpu(call, kGelu, gelu_of(call)); }
Status gelu_cuda(const Call& call) {
  static constinit QuantKernels kernels[] = {
      AC4K_QUANT_KERNELS("common/gelu_and_mul_quant", "gelu_exact_and_mul_quant"),
      AC4K_QUANT_KERNELS("common/gelu_and_mul_quant", "gelu_tanh_and_mul_quant")};
  return Launcher(kernels[call.integer(kGelu.approximate)], call, kGelu, gelu_of(call)).run();
}

Status relu2_cpu(const Call& call) { return run_on_cpu(call, kSilu, cpu::Activation::relu2); }
Status relu2_cuda(const Call& call) {
  static constinit QuantKernels kernels = AC4K_QUANT_KERNELS("common/relu2_quant", "relu2_quant");
  return Launcher(kernels, call, kSilu, cpu::Activation::relu2).run();
}

cpu::Activation add_gelu_of(const Call& call) {
  return call.integer(kAddGelu.approximate) ? cpu::Activation::add_gelu_tanh
                                            : cpu::Activation::add_gelu_exact;
}
Status add_gelu_cpu(const Call& call) { return run_on_cpu(call, kAddGelu, add_gelu_of(call)); }
Status add_gelu_cuda(const Call& call) {
  static constinit QuantKernels kernels[] = {
      AC4K_QUANT_KERNELS("common/add_gelu_quant", "add_gelu_exact_quant"),
      AC4K_QUANT_KERNELS("common/add_gelu_quant", "add_gelu_tanh_quant")};
  return Launcher(kernels[call.integer(kAddGelu.approximate)], call, kAddGelu, add_gelu_of(call))
      .run();
}

// The codes' scale, given or found.
#define AC4K_SCALE "f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]"
#define AC4K_OPTIONS                                                               \
  "granularity: {per_token, per_tensor, group128} = per_token, dtype: Q = f8e4m3)" \
  " -> Q[..., D], " AC4K_SCALE
#define AC4K_RULE                                                                                \
  " y is computed in float32 and rounded to x's dtype; then scale = max(max |y| / qmax, 2^-120)" \
  " over a row or 128 columns of it, qmax 448 (e4m3), 57344 (e5m2), 127 (int8), or the scale"    \
  " given (per_tensor needs one); q = y * (1 / scale), nearest even, saturating: the codes that" \
  " the activation and quantize_fp8 or quantize_int8 give one after the other. NaN stays NaN (0" \
  " in int8) and does not count for the scale; infinities count as the largest float32."
constexpr const char* kTypes = "T: f32 f16 bf16; Q: f8e4m3 f8e5m2 i8";

const RegisterOp kSiluOp{{
    .signature = "silu_and_mul_quant(x: T[..., D*2] row_strided, scale: " AC4K_SCALE
                 "? = None, *, " AC4K_OPTIONS,
    .types = kTypes,
    .doc = "silu_and_mul with a quantised result: codes and their scales.",
    .formula = "y = silu_and_mul(x)." AC4K_RULE,
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[1, 2, 1, 1]], np.float32)\n"
               ">>> q, scale = ac4k.silu_and_mul_quant(x, dtype=\"int8\")\n"
               ">>> q.tolist(), scale.round(5).tolist()\n"
               "([[53, 127]], [[0.013869999907910824]])",
    .tolerance = 8.0,
    .check = check_silu,
    .cpu = silu_cpu,
    .cuda = silu_cuda,
}};

const RegisterOp kGeluOp{{
    .signature = "gelu_and_mul_quant(x: T[..., D*2] row_strided, scale: " AC4K_SCALE
                 "? = None, *, approximate: {none, tanh} = none, " AC4K_OPTIONS,
    .types = kTypes,
    .doc = "gelu_and_mul with a quantised result: codes and their scales.",
    .formula = "y = gelu_and_mul(x, approximate=approximate)." AC4K_RULE,
    .example = ">>> import numpy as np\n"
               ">>> x = np.array([[1, 2, 1, 1]], np.float32)\n"
               ">>> ac4k.gelu_and_mul_quant(x, dtype=\"int8\")[0].tolist()\n"
               "[[55, 127]]",
    .tolerance = 8.0,
    .check = check_gelu,
    .cpu = gelu_cpu,
    .cuda = gelu_cuda,
}};

const RegisterOp kRelu2Op{{
    .signature =
        "relu2_quant(x: T[..., D] row_strided, scale: " AC4K_SCALE "? = None, *, " AC4K_OPTIONS,
    .types = kTypes,
    .doc = "relu2 with a quantised result: codes and their scales.",
    .formula = "y = relu2(x)." AC4K_RULE,
    .example =
        ">>> import numpy as np\n"
        ">>> q, scale = ac4k.relu2_quant(np.array([[-3, 1, 2]], np.float32), dtype=\"int8\")\n"
        ">>> q.tolist()\n"
        "[[0, 32, 127]]",
    .tolerance = 8.0,
    .check = check_silu,
    .cpu = relu2_cpu,
    .cuda = relu2_cuda,
}};

const RegisterOp kAddGeluOp{{
    .signature = "fused_add_gelu_quant(x: T[..., D] row_strided, bias: T[D], scale: " AC4K_SCALE
                 "? = None, *, approximate: {none, tanh} = none, " AC4K_OPTIONS,
    .types = kTypes,
    .doc = "fused_add_gelu with a quantised result: codes and their scales.",
    .formula = "y = fused_add_gelu(x, bias, approximate=approximate)." AC4K_RULE,
    .example = ">>> import numpy as np\n"
               ">>> x, bias = np.array([[0, 1]], np.float32), np.ones(2, np.float32)\n"
               ">>> ac4k.fused_add_gelu_quant(x, bias, dtype=\"int8\")[0].tolist()\n"
               "[[55, 127]]",
    .tolerance = 8.0,
    .check = check_add_gelu,
    .cpu = add_gelu_cpu,
    .cuda = add_gelu_cuda,
}};

}  // namespace
}  // namespace ac4k
