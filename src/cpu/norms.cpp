#include "cpu/norms.hpp"

#include "cpu/common/scale-inl.hpp"
#include "cpu/element.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

using RowsKernel = void (*)(const NormRows&);
using RowsKernels = RowsKernel (NormKernels::*)[kNumElements];

constexpr double kElementsPerThread = 16 * 1024;
constexpr int64_t kScaleGroup = 128;
constexpr int64_t kCacheLine = 64;

NormRows rows_from(const NormArgs& args, int64_t first, int64_t count) {
  return {.x = args.x.row(first),
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
          .cast_first = args.cast_first};
}

int threads_for_norm(const NormArgs& args) {
  return threads_for_rows(args.num_rows, static_cast<double>(args.num_columns), kElementsPerThread);
}

Status run(const NormArgs& args, RowsKernels table) {
  Element element = kF32;
  AC4K_TRY(find_element(args.op, args.type, &element));
  const RowsKernel kernel = (kernels().norms->*table)[element];
  for_each_run_of_rows(
      args.num_rows, threads_for_norm(args),
      [&](int, int64_t first, int64_t count) { kernel(rows_from(args, first, count)); }, args.x,
      args.out, args.residual, args.sum);
  return AC4K_OK;
}

// Codes and scales of one row of results.
class RowQuantizer {
 public:
  RowQuantizer(const NormQuantArgs& args, Element element)
      : args_(args),
        format_(args.code_type == DType::f8e4m3   ? kE4M3
                : args.code_type == DType::f8e5m2 ? kE5M2
                                                  : kInt8),
        qmax_(format_ == kE4M3   ? kLargestE4M3
              : format_ == kE5M2 ? kLargestE5M2
                                 : kLargestInt8),
        amax_(kernels().quantize->amax[element]),
        encode_(kernels().quantize->codes[format_].encode[element]),
        bytes_(element_bytes(element)) {}

  void quantize(const char* y, int64_t row) const {
    const int64_t columns = args_.norm.num_columns;
    uint8_t* codes = args_.codes + row * columns;
    if (args_.kind == ScaleKind::per_tensor) {
      encode_(y, inverse_of(*args_.given), 0, codes, columns);
      return;
    }
    const bool in_groups = args_.kind == ScaleKind::group128;
    const int64_t groups = in_groups ? (columns + kScaleGroup - 1) / kScaleGroup : 1;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t i = group * kScaleGroup, place = row * groups + group;
      const int64_t count = in_groups ? std::min(kScaleGroup, columns - i) : columns;
      const float scale =
          args_.given ? args_.given[place] : scale_of(amax_(y + i * bytes_, count), qmax_, false);
      args_.scales[place] = scale;
      encode_(y + i * bytes_, inverse_of(scale), 0, codes + i, count);
    }
  }

 private:
  const NormQuantArgs& args_;
  CodeFormat format_;
  float qmax_;
  float (*amax_)(const void* x, int64_t n);
  void (*encode_)(const void* x, float inverse, int32_t zero, uint8_t* codes, int64_t n);
  int64_t bytes_;
};

}  // namespace

Status rms_norm(const NormArgs& args) { return run(args, &NormKernels::rms_norm); }
Status add_rms_norm(const NormArgs& args) { return run(args, &NormKernels::add_rms_norm); }
Status layer_norm(const NormArgs& args) { return run(args, &NormKernels::layer_norm); }

// A row's results go through a buffer that stays in the cache.
Status norm_quant(Norm norm, const NormQuantArgs& args) {
  constexpr RowsKernels kTables[] = {&NormKernels::rms_norm, &NormKernels::add_rms_norm,
                                     &NormKernels::layer_norm};
  Element element = kF32;
  AC4K_TRY(find_element(args.norm.op, args.norm.type, &element));
  const RowsKernel kernel = (kernels().norms->*kTables[static_cast<int>(norm)])[element];
  const RowQuantizer quantizer(args, element);
  if (args.kind == ScaleKind::per_tensor) *args.scales = *args.given;

  const int threads = threads_for_norm(args.norm);
  const int64_t row_bytes = args.norm.num_columns * element_bytes(element);
  const int64_t place = (row_bytes + kCacheLine) / kCacheLine * kCacheLine;
  char* buffers = static_cast<char*>(workspace(static_cast<std::size_t>(place * threads)));
  if (buffers == nullptr) {
    return fail(AC4K_OUT_OF_MEMORY, args.norm.op, ": no memory for ", place * threads, " bytes");
  }
  for_each_run_of_rows(
      args.norm.num_rows, threads,
      [&](int thread, int64_t first, int64_t count) {
        for (int64_t row = first; row < first + count; ++row) {
          NormRows one = rows_from(args.norm, row, 1);
          one.out = buffers + thread * place;
          kernel(one);
          quantizer.quantize(one.out, row);
        }
      },
      args.norm.x, args.norm.residual, args.norm.sum);
  release_workspace();
  return AC4K_OK;
}

}  // namespace ac4k::cpu
