// What the launchers of the norms share.
#pragma once

#include "core/op.hpp"
#include "cuda/common/norm.h"
#include "ops/rows.hpp"

namespace ac4k {

inline const void* data_or_null(const Call& call, int index) {
  return call.has(index) ? data_of(call.tensor(index)) : nullptr;
}

inline Status check_eps(const Call& call, int index) {
  const double eps = call.real(index);
  if (eps >= 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name,
              ": argument 'eps': expected at least 0, got ", eps);
}

inline NormPart norm_part(const RowView& x, const RowView& out, const void* weight,
                          const void* bias, int64_t num_columns) {
  return {.x = x.data(),
          .out = out.data(),
          .weight = weight,
          .bias = bias,
          .x_rows = x.offsets(),
          .out_rows = out.offsets(),
          .num_columns = num_columns,
          .inverse_columns = 1.0f / static_cast<float>(num_columns),
          .num_rows = static_cast<uint32_t>(x.num_rows()),
          .plain = false};
}

// By element type, f32 f16 bf16.
inline constexpr int kNumNormTypes = 3;
inline size_t norm_type(DType type) { return type == DType::f32 ? 0 : type == DType::f16 ? 1 : 2; }

// The kernels of a norm: by row variant, then for rows read in steps of 16 bytes, then of elements.
inline constexpr size_t kNormLoop = kNumRowVariants, kNormAny = kNormLoop + 1;
using NormKernelTable = cuda::Kernel[kNormAny + 1][kNumNormTypes];

#define AC4K_NORM_KERNEL(module, name) \
  {{module, name "_f32"}, {module, name "_f16"}, {module, name "_bf16"}}
#define AC4K_NORM_KERNELS(module, name)                                         \
  {AC4K_NORM_KERNEL(module, name "_0"),    AC4K_NORM_KERNEL(module, name "_1"), \
   AC4K_NORM_KERNEL(module, name "_2"),    AC4K_NORM_KERNEL(module, name "_3"), \
   AC4K_NORM_KERNEL(module, name "_4"),    AC4K_NORM_KERNEL(module, name "_5"), \
   AC4K_NORM_KERNEL(module, name "_loop"), AC4K_NORM_KERNEL(module, name "_any")}

// Which kernel handles rows of up to `num_columns`, and how it is launched.
struct NormPlan {
  size_t kernel;
  cuda::Dim3 block;
  int64_t rows_per_block = 1;
  int64_t whole_columns = -1;  // of rows whose threads have all their vectors

  // `aligned`: all rows, weights and biases begin at multiples of 16 bytes.
  NormPlan(const RowVariants& variants, int64_t num_columns, int64_t element_bytes, bool aligned) {
    if (!aligned || num_columns * element_bytes % kVectorBytes != 0) {
      kernel = kNormAny;
      block = row_loop_block(num_columns);
      return;
    }
    const int64_t num_vectors = num_columns * element_bytes / kVectorBytes;
    const RowPlan plan(variants, num_vectors);
    kernel = static_cast<size_t>(plan.variant);  // kNormLoop is the next after the variants
    block = kernel == kNormLoop ? row_loop_block(num_vectors) : plan.block;
    rows_per_block = plan.rows_per_block;
    if (plan.is_whole) whole_columns = num_columns;
  }
  // What NormPart::plain says, as far as a part itself shows it.
  bool is_plain(const NormPart& part, bool has_bias) const {
    return part.num_columns == whole_columns && part.weight != nullptr &&
           (!has_bias || part.bias != nullptr) && part.x_rows.num_inner == 0 &&
           part.out_rows.num_inner == 0;
  }
};

inline bool is_plain(const NormPlan& plan, const AddNormParams& params) {
  return plan.is_plain(params.part, false) && params.residual_rows.num_inner == 0 &&
         params.sum_rows.num_inner == 0;
}

// Launches a norm of one tensor: rms_norm and layer_norm, which may have a bias.
inline Status launch_norm(NormKernelTable& kernels, const Call& call, const RowView& x,
                          const RowView& out, const void* weight, const void* bias, bool has_bias,
                          int64_t num_columns, float eps, bool cast_first) {
  AC4K_TRY(check_num_rows(call, x.num_rows()));
  const NormPlan plan(has_bias ? kFullRowVariants : kRowVariants, num_columns, size_of(call.type()),
                      x.is_aligned() && out.is_aligned() && is_aligned(weight) && is_aligned(bias));
  const int64_t blocks = ceil_div(x.num_rows(), plan.rows_per_block);
  NormParams params{.parts = {norm_part(x, out, weight, bias, num_columns), {}},
                    .second_block = static_cast<uint32_t>(blocks),
                    .eps = eps,
                    .cast_first = cast_first};
  params.parts[0].plain = plan.is_plain(params.parts[0], has_bias);
  return launch_1d(kernels[plan.kernel][norm_type(call.type())], call, blocks, plan.block, params);
}

}  // namespace ac4k
