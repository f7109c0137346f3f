#include "cpu/norms.hpp"

#include "cpu/element.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kElementsPerThread = 16 * 1024;

}  // namespace

Status rms_norm(const NormArgs& args) {
  Element element = kF32;
  AC4K_TRY(find_element(args.op, args.type, &element));
  const auto kernel = kernels().norms->rms_norm[element];
  for_each_run_of_rows(
      args.num_rows, static_cast<double>(args.num_columns), kElementsPerThread,
      [&](int64_t first, int64_t count) {
        kernel({.x = args.x.row(first),
                .out = args.out.row(first),
                .x_stride = args.x.stride(),
                .out_stride = args.out.stride(),
                .weight = args.weight,
                .num_rows = count,
                .num_columns = args.num_columns,
                .eps = args.eps,
                .cast_first = args.cast_first});
      },
      args.x, args.out);
  return AC4K_OK;
}

}  // namespace ac4k::cpu
