#include "cpu/norms.hpp"

#include "cpu/element.hpp"

namespace ac4k::cpu {
namespace {

using RowsKernel = void (*)(const NormRows&);

constexpr double kElementsPerThread = 16 * 1024;

Status run(const NormArgs& args, RowsKernel (NormKernels::*table)[kNumElements]) {
  Element element = kF32;
  AC4K_TRY(find_element(args.op, args.type, &element));
  const RowsKernel kernel = (kernels().norms->*table)[element];
  for_each_run_of_rows(
      args.num_rows, static_cast<double>(args.num_columns), kElementsPerThread,
      [&](int64_t first, int64_t count) {
        kernel({.x = args.x.row(first),
                .residual = args.residual.row(first),
                .out = args.out.row(first),
                .sum = args.sum.row(first),
                .x_stride = args.x.stride(),
                .residual_stride = args.residual.stride(),
                .out_stride = args.out.stride(),
                .sum_stride = args.sum.stride(),
                .weight = args.weight,
                .bias = args.bias,
                .num_rows = count,
                .num_columns = args.num_columns,
                .eps = args.eps,
                .cast_first = args.cast_first});
      },
      args.x, args.out, args.residual, args.sum);
  return AC4K_OK;
}

}  // namespace

Status rms_norm(const NormArgs& args) { return run(args, &NormKernels::rms_norm); }
Status add_rms_norm(const NormArgs& args) { return run(args, &NormKernels::add_rms_norm); }
Status layer_norm(const NormArgs& args) { return run(args, &NormKernels::layer_norm); }

}  // namespace ac4k::cpu
