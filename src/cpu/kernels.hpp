// The CPU back end: what src/ops calls. Kernels exist once per instruction-set level; the level is
// chosen when the library loads and can be forced. Arguments were checked by the caller.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.hpp"
#include "core/status.hpp"

namespace ac4k::cpu {

enum class Isa : uint8_t { generic, avx2, avx512, amx };

// The best level this CPU and operating system can run.
Isa detected_isa();
// The level kernels use now.
Isa active_isa();
// "auto" or a level's name. Takes effect for the calls that start afterwards.
Status set_isa(std::string_view name);
const char* name_of(Isa isa);
// Family, model and stepping, as CPUID gives them; 0 where there is none.
uint32_t cpu_signature();

int num_threads();
// 0: as many as omp_get_max_threads() says at each call.
Status set_num_threads(int count);

// C = A B. Strides are in elements and arbitrary (transposed, zero, negative); rows of C are
// contiguous. f16 and bf16 accumulate in f32, f32 in f32, f64 in f64. K == 0 gives zeros. The
// sums do not depend on the number of threads. The amx level treats bf16 denormals as zero, as the
// hardware does.
struct GemmArgs {
  DType type;
  int64_t M, N, K;
  const void* a;  // [M, K]
  int64_t a_row_stride, a_col_stride;
  const void* b;  // [K, N]
  int64_t b_row_stride, b_col_stride;
  void* c;  // [M, N]
  int64_t c_row_stride;
};
Status gemm(const GemmArgs& args);

// A strided input; strides in elements, at most AC4K_MAX_DIMS dimensions. All inputs of an op have
// the same shape (broadcasting is a stride of 0); outputs are contiguous.
struct View {
  const void* data;
  int ndim;
  const int64_t* shape;
  const int64_t* strides;
};

// a * b + c with one rounding (f32, f64), or one in f32 and one to 16 bits (f16, bf16).
// `out` may be one of the inputs when that input is contiguous.
Status mul_add(DType type, const View& a, const View& b, const View& c, void* out);

// exact: v * Phi(v) with relative accuracy also in the negative tail.
// tanh:  v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3))).
// v = x + bias is not rounded to 16 bits first. gelu(inf) = inf; gelu(-inf) is NaN, being
// -inf * 0, as in PyTorch.
enum class Gelu : uint8_t { exact, tanh };
// bias: [last dimension of x].
Status add_gelu(DType type, const View& x, const void* bias, int64_t bias_stride, void* out,
                Gelu kind);

// act(first half of the last dimension of x) * second half. silu(v) = v / (1 + exp(-v)), NaN at
// -inf as in PyTorch. Float32 inside, one rounding.
enum class Gate : uint8_t { silu, gelu_exact, gelu_tanh };
Status gated(DType type, const View& x, void* out, Gate gate);
// max(x, 0)^2; NaN stays NaN.
Status relu2(DType type, const View& x, void* out);

// The keys or the values of tokens and of a paged cache. Strides are in elements.
struct KvCachePart {
  void* tokens;  // [num_tokens, num_heads, head_dim]; what gather writes
  void* cache;
  const float* scale;  // of an fp8 cache; null: 1
  int64_t token_stride, head_stride;
  int64_t block_stride, slot_stride, cache_head_stride;
  int64_t scale_stride;  // between heads: 0 or 1
};
struct KvCacheArgs {
  DType type;        // of the tokens
  DType cache_type;  // the same, f8e4m3 or f8e5m2
  KvCachePart parts[2];
  const void* slots;
  DType slot_type;  // i32 or i64
  int64_t num_tokens, num_heads, head_dim;
  int64_t num_blocks, block_size;
};
// Slot s is place s % block_size of block s / block_size. Tokens whose slot is negative or past the
// cache are not stored, and gathered as zeros. fp8: encode(x * (1 / scale)) and float(code) *
// scale.
Status store_kvcache(const KvCacheArgs& args);
Status gather_kvcache(const KvCacheArgs& args);

// out[i] = XOR of src[i + j * write_bytes] over all j that stay below read_bytes; where write_bytes
// > read_bytes, out[i] = src[i % read_bytes] (0 when there is nothing to read). Reads and writes
// each byte once: the roofline of memory-bound ops.
Status stream_bytes(const void* src, int64_t read_bytes, void* out, int64_t write_bytes);

}  // namespace ac4k::cpu
