// What one instruction-set level provides: plain function pointers, so that everything else (loops,
// threads, memory) is compiled once for the baseline. Files of the levels include no C++ library
// code: an inline function compiled there with AVX-512 could be the copy the linker keeps.
#pragma once

#include <cstdint>

#include "core/block_formats.hpp"
#include "cpu/common/linear_table.hpp"

namespace ac4k::cpu {

// Types a kernel is instantiated for; the order of the tables below.
enum Element : int { kF32, kF64, kF16, kBF16, kNumElements };

// The packed matrix multiplication of one element type. A is packed into panels of `mr` rows, B
// into panels of `nr` columns; the micro-kernel multiplies two panels. `Acc` is f32 or f64.
struct GemmKernels {
  int mr, nr;              // register tile
  int kc;                  // depth of one packed block
  int mc;                  // rows of A packed at once
  int max_rows, max_cols;  // largest tile of C one thread works on at a time
  int row_unit;            // heights of A's panels are rounded up to this
  int k_unit;              // packed depth is a multiple of this, padded with zeros
  int packed_bytes;        // one packed element
  int acc_bytes;           // one accumulator
  bool narrow_output;      // C has another type than the accumulator
  int pack_cost;           // time to pack one element over the time of one multiply-add
  double grain;            // multiply-adds below which a thread is not worth waking, measured

  // Before and after a thread's micro-kernels; may be null.
  void (*begin)();
  void (*end)();
  // panel(s) of `height` <= mr rows, `depth` of K; element (i, k) is src[i * row + k * col].
  // A panel occupies mr * padded depth elements; up to 64 bytes after the last are scratch.
  void (*pack_a)(const void* src, int64_t row, int64_t col, int64_t rows, int64_t depth, int height,
                 void* dst);
  // panels of nr columns; element (k, j) is src[k * row + j * col].
  void (*pack_b)(const void* src, int64_t row, int64_t col, int64_t depth, int64_t cols, void* dst);
  // c[i * ldc + j] (+)= sum over k, i < rows <= mr, j < nr; depth is padded.
  void (*micro)(int rows, int64_t depth, const void* a, const void* b, void* c, int64_t ldc,
                bool accumulate);
  // Accumulators to C's type; only where narrow_output.
  void (*narrow)(const void* acc, void* out, int64_t n);
};

// Few rows of A: B is streamed once where it lies, not packed. Acc as above.
inline constexpr int kMaxFewRows = 4;

struct FewRowsKernels {
  int acc_bytes;
  // dst[k * kMaxFewRows + i] = src[i * row + k * col], i < m; then 64 bytes of scratch.
  void (*interleave)(const void* src, int64_t row, int64_t col, int m, int64_t depth, void* dst);
  // acc[i * ld + j] += sum over k of a[k * kMaxFewRows + i] * b[k * b_row + j]
  void (*row_update)(int m, int64_t depth, int64_t n, const void* a, const void* b, int64_t b_row,
                     void* acc, int64_t ld);
  // dst[k] = src[k * stride] as accumulators.
  void (*widen)(const void* src, int64_t stride, int64_t n, void* dst);
  // acc[i * ld + j] += sum over k of a[i * a_ld + k] * b[j * b_col + k]
  void (*dot_update)(int m, int64_t depth, int64_t n, const void* a, int64_t a_ld, const void* b,
                     int64_t b_col, void* acc, int64_t ld);
  // Accumulators to C's type, or a copy.
  void (*narrow)(const void* acc, void* out, int64_t n);
};

// Rotates pairs of `heads` heads that lie `in_stride` and `out_stride` elements apart: (a, b)
// becomes (a cos - b sin, b cos + a sin), each product and sum rounded for itself. `in` may be
// `out`.
struct RopeKernels {
  // Pairs (i, i + distance), i < n.
  void (*halves[kNumElements])(const void* in, int64_t in_stride, void* out, int64_t out_stride,
                               int64_t heads, int64_t distance, const float* cos, const float* sin,
                               int64_t n);
  // Pairs (2 i, 2 i + 1), i < n.
  void (*neighbours[kNumElements])(const void* in, int64_t in_stride, void* out, int64_t out_stride,
                                   int64_t heads, const float* cos, const float* sin, int64_t n);
  // The same in double, rounded to float and then to the type.
  void (*neighbours_f64[kNumElements])(const void* in, int64_t in_stride, void* out,
                                       int64_t out_stride, int64_t heads, const double* cos,
                                       const double* sin, int64_t n);
};

using MulAddRun = void (*)(const void* a, const void* b, const void* c, void* out, int64_t n);
using AddGeluRun = void (*)(const void* x, const void* bias, void* out, int64_t n);

// Contiguous runs.
struct ElementwiseKernels {
  MulAddRun mul_add[kNumElements];
  AddGeluRun add_gelu_exact[kNumElements];
  AddGeluRun add_gelu_tanh[kNumElements];
  // out[i] = XOR over r < rows of src[r * stride + i]
  void (*xor_rows)(const void* src, int64_t rows, int64_t stride, void* out, int64_t n);
  // acc[i] ^= src[i]
  void (*xor_into)(void* acc, const void* src, int64_t n);
};

// Runs of numbers to runs of codes and back; x of an Element that is not kF64.
enum CodeFormat : int { kE4M3, kE5M2, kInt8, kNumCodeFormats };
enum MxFormat : int { kMxE4M3, kMxE5M2, kMxE2M1, kNumMxFormats };

// codes = encode(x * inverse) and out = float(code) * scale. int8 adds a zero point to its codes,
// the others ignore it; `zero` of the columns may be null.
struct CodeRuns {
  void (*encode[kNumElements])(const void* x, float inverse, int32_t zero, uint8_t* codes,
                               int64_t n);
  void (*encode_columns[kNumElements])(const void* x, const float* inverse, const int32_t* zero,
                                       uint8_t* codes, int64_t n);
  void (*decode[kNumElements])(const uint8_t* codes, float scale, int32_t zero, void* out,
                               int64_t n);
  void (*decode_columns[kNumElements])(const uint8_t* codes, const float* scale,
                                       const int32_t* zero, void* out, int64_t n);
};
// Blocks of 32 with an e8m0 scale; n is a multiple of 32.
struct MxRuns {
  void (*encode[kNumElements])(const void* x, uint8_t* codes, uint8_t* scales, int64_t n);
  void (*decode[kNumElements])(const uint8_t* codes, const uint8_t* scales, void* out, int64_t n);
};

struct QuantizeKernels {
  // max |x| and the range with 0 in it: NaN counts for nothing, infinities as FLT_MAX.
  float (*amax[kNumElements])(const void* x, int64_t n);
  void (*range[kNumElements])(const void* x, int64_t n, float* low, float* high);
  // The same for each column, kept in the arrays; infinities stay.
  void (*amax_columns[kNumElements])(const void* x, int64_t n, float* amax);
  void (*range_columns[kNumElements])(const void* x, int64_t n, float* low, float* high);
  CodeRuns codes[kNumCodeFormats];
  // Blocks of 16 with an e4m3 scale; n is a multiple of 16.
  void (*encode_nvfp4[kNumElements])(const void* x, float global_scale, uint8_t* codes,
                                     uint8_t* scales, int64_t n);
  void (*decode_nvfp4[kNumElements])(const uint8_t* codes, const uint8_t* scales,
                                     float global_scale, void* out, int64_t n);
  MxRuns mx[kNumMxFormats];
};

using GatedRun = void (*)(const void* x, const void* factor, void* out, int64_t n);
using UnaryRun = void (*)(const void* x, void* out, int64_t n);

// Contiguous runs; null for f64.
struct ActivationKernels {
  // act(x) * factor
  GatedRun silu_and_mul[kNumElements];
  GatedRun gelu_and_mul_exact[kNumElements];
  GatedRun gelu_and_mul_tanh[kNumElements];
  UnaryRun relu2[kNumElements];
};

// Rows evenly apart; strides in bytes. weight and bias may be null.
struct NormRows {
  const char* x;
  const char* residual;
  char* out;
  char* sum;
  int64_t x_stride, residual_stride, out_stride, sum_stride;
  const void* weight;
  const void* bias;
  int64_t num_rows, num_columns;
  float eps;
  bool cast_first;  // round to the element type before the weight comes in
};

// By element; f64 has none.
struct NormKernels {
  void (*rms_norm[kNumElements])(const NormRows& rows);
  void (*add_rms_norm[kNumElements])(const NormRows& rows);
  void (*layer_norm[kNumElements])(const NormRows& rows);
};

// Whole GGUF blocks. Quantisers take float32 without NaN and infinities, which load() gives; f64
// has none. n is a multiple of 32.
struct GgufKernels {
  void (*load[kNumElements])(const void* x, float* out, int64_t n);
  void (*store[kNumElements])(const float* values, void* out, int64_t n);
  void (*quantize[kNumBlockFormats])(const float* x, uint8_t* blocks, int64_t count);
  void (*dequantize[kNumBlockFormats])(const uint8_t* blocks, float* out, int64_t count);
};

struct Kernels {
  const GemmKernels* gemm[kNumElements];
  const FewRowsKernels* few_rows[kNumElements];
  const RopeKernels* rope;
  const ElementwiseKernels* elementwise;
  const QuantizeKernels* quantize;
  const ActivationKernels* activations;
  const NormKernels* norms;
  const GgufKernels* gguf;
  const LinearKernels* linear;
};

namespace generic {
extern const Kernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
namespace amx {
extern const Kernels kKernels;
}
#endif

// The table of the active level.
const Kernels& kernels();
// What the active level has for few tokens on this CPU, and for many bf16 or other tokens.
const DecodeKernels& decode_kernels(WeightFormat format);
const PanelKernels& panel_kernels(Element activations);

}  // namespace ac4k::cpu
