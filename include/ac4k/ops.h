/* One function per op. Made from the op table by tools/generate.py; do not edit.
 * A NULL for an optional tensor, a choice or a dtype means its default, and a NULL for an output
 * that it is not there. */
#ifndef AC4K_OPS_H_
#define AC4K_OPS_H_

#include "ac4k.h"

static inline ac4k_arg ac4k_tensor_arg(const DLTensor* tensor) {
  ac4k_arg arg;
  arg.kind = tensor ? AC4K_ARG_TENSOR : AC4K_ARG_NONE;
  arg.value.tensor = tensor;
  return arg;
}
static inline ac4k_arg ac4k_int_arg(int64_t integer) {
  ac4k_arg arg;
  arg.kind = AC4K_ARG_INT;
  arg.value.integer = integer;
  return arg;
}
static inline ac4k_arg ac4k_float_arg(double real) {
  ac4k_arg arg;
  arg.kind = AC4K_ARG_FLOAT;
  arg.value.real = real;
  return arg;
}
static inline ac4k_arg ac4k_bool_arg(int boolean) {
  ac4k_arg arg;
  arg.kind = AC4K_ARG_BOOL;
  arg.value.integer = boolean;
  return arg;
}
static inline ac4k_arg ac4k_choice_arg(const char* string) {
  ac4k_arg arg;
  arg.kind = string ? AC4K_ARG_STRING : AC4K_ARG_NONE;
  arg.value.string = string;
  return arg;
}

/* Numbers from GGUF blocks of a format. dequantize(q: u8[fmt: ..., K/32, 18 | ..., K/32, 20 | ...,
 * K/32, 22 | ..., K/32, 24 | ..., K/32, 34 | ..., K/32, 36 | ..., K/256, 84 | ..., K/256, 110 |
 * ..., K/256, 144 | ..., K/256, 176 | ..., K/256, 210 | ..., K/32, 18 | ..., K/256, 136 | ...,
 * K/32, 17 | ..., K/64, 36], fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k,
 * q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}, dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize(const DLTensor* q, const char* fmt, const char* dtype,
                                          const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(fmt), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize"), args, 3, outputs, 1, stream);
}

/* Numbers from FP8 codes and their scales. dequantize_fp8(q: Q[..., N], scale: f32[granularity: 1 |
 * ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)], granularity: {per_tensor,
 * per_token, per_channel, group128, block128} = per_token, dtype: T = f32) -> T[..., N] */
static inline ac4k_status ac4k_dequantize_fp8(const DLTensor* q, const DLTensor* scale,
                                              const char* granularity, const char* dtype,
                                              const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scale), ac4k_choice_arg(granularity),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_fp8"), args, 4, outputs, 1, stream);
}

/* Numbers from int8 codes, their scales and zero points. dequantize_int8(q: i8[..., N], scale:
 * f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)], zero:
 * i32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)]? = None,
 * granularity: {per_tensor, per_token, per_channel, group128, block128} = per_token, dtype: T =
 * f32) -> T[..., N] */
static inline ac4k_status ac4k_dequantize_int8(const DLTensor* q, const DLTensor* scale,
                                               const DLTensor* zero, const char* granularity,
                                               const char* dtype, const DLTensor* out,
                                               void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scale), ac4k_tensor_arg(zero),
                           ac4k_choice_arg(granularity), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_int8"), args, 5, outputs, 1, stream);
}

/* Numbers from MXFP4 codes and their scales. dequantize_mxfp4(q: u8[..., N/2], scale: u8[...,
 * N/32], dtype: T = f32) -> T[..., N] */
static inline ac4k_status ac4k_dequantize_mxfp4(const DLTensor* q, const DLTensor* scale,
                                                const char* dtype, const DLTensor* out,
                                                void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scale), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_mxfp4"), args, 3, outputs, 1, stream);
}

/* Numbers from MXFP8 codes and their scales. dequantize_mxfp8(q: Q[..., N], scale: u8[..., N/32],
 * dtype: T = f32) -> T[..., N] */
static inline ac4k_status ac4k_dequantize_mxfp8(const DLTensor* q, const DLTensor* scale,
                                                const char* dtype, const DLTensor* out,
                                                void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scale), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_mxfp8"), args, 3, outputs, 1, stream);
}

/* Numbers from NVFP4 codes and their scales. dequantize_nvfp4(q: u8[..., N/2], scale:
 * f8e4m3[layout: ..., N/16 | ceil(rows/128)*128, ceil(N/64)*4], global_scale: f32[1], layout:
 * {plain, tiled} = plain, dtype: T = f32) -> T[..., N] */
static inline ac4k_status ac4k_dequantize_nvfp4(const DLTensor* q, const DLTensor* scale,
                                                const DLTensor* global_scale, const char* layout,
                                                const char* dtype, const DLTensor* out,
                                                void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scale),
                           ac4k_tensor_arg(global_scale), ac4k_choice_arg(layout),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_nvfp4"), args, 5, outputs, 1, stream);
}

/* Numbers from q4_0 blocks. dequantize_q4_0(q: u8[..., K/32, 18], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q4_0(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q4_0"), args, 2, outputs, 1, stream);
}

/* Numbers from q4_1 blocks. dequantize_q4_1(q: u8[..., K/32, 20], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q4_1(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q4_1"), args, 2, outputs, 1, stream);
}

/* Numbers from q5_0 blocks. dequantize_q5_0(q: u8[..., K/32, 22], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q5_0(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q5_0"), args, 2, outputs, 1, stream);
}

/* Numbers from q5_1 blocks. dequantize_q5_1(q: u8[..., K/32, 24], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q5_1(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q5_1"), args, 2, outputs, 1, stream);
}

/* Numbers from q8_0 blocks. dequantize_q8_0(q: u8[..., K/32, 34], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q8_0(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q8_0"), args, 2, outputs, 1, stream);
}

/* Numbers from q8_1 blocks. dequantize_q8_1(q: u8[..., K/32, 36], dtype: T = f32) -> T[..., K] */
static inline ac4k_status ac4k_dequantize_q8_1(const DLTensor* q, const char* dtype,
                                               const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("dequantize_q8_1"), args, 2, outputs, 1, stream);
}

/* Multiply and add, element by element. element_wise_mul_add(a: T[...] strided, b: T[...] strided,
 * c: T[...] strided) -> T[...] */
static inline ac4k_status ac4k_element_wise_mul_add(const DLTensor* a, const DLTensor* b,
                                                    const DLTensor* c, const DLTensor* out,
                                                    void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(a), ac4k_tensor_arg(b), ac4k_tensor_arg(c)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("element_wise_mul_add"), args, 3, outputs, 1, stream);
}

/* Add a bias to the last dim and apply GELU, in one pass. fused_add_gelu(x: T[..., N] strided,
 * bias: T[N] strided, *, approximate: {none, tanh} = none) -> T[..., N] */
static inline ac4k_status ac4k_fused_add_gelu(const DLTensor* x, const DLTensor* bias,
                                              const char* approximate, const DLTensor* out,
                                              void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(bias), ac4k_choice_arg(approximate)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("fused_add_gelu"), args, 3, outputs, 1, stream);
}

/* fused_add_gelu with a quantised result: codes and their scales. fused_add_gelu_quant(x: T[..., D]
 * row_strided, bias: T[D], scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *,
 * approximate: {none, tanh} = none, granularity: {per_token, per_tensor, group128} = per_token,
 * dtype: Q = f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 | ..., ceil(D/128)] */
static inline ac4k_status ac4k_fused_add_gelu_quant(const DLTensor* x, const DLTensor* bias,
                                                    const DLTensor* scale, const char* approximate,
                                                    const char* granularity, const char* dtype,
                                                    const DLTensor* out0, const DLTensor* out1,
                                                    void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x),           ac4k_tensor_arg(bias),
                           ac4k_tensor_arg(scale),       ac4k_choice_arg(approximate),
                           ac4k_choice_arg(granularity), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("fused_add_gelu_quant"), args, 6, outputs, 2, stream);
}

/* Add a residual and divide each row by its root mean square, in one pass. fused_add_rms_norm(x:
 * T[..., N] row_strided, residual: T[..., N] row_strided, weight: T[N]? = None, eps: float = 1e-6,
 * *, cast_first: bool = False) -> T[..., N] row_strided, T[..., N] row_strided */
static inline ac4k_status ac4k_fused_add_rms_norm(const DLTensor* x, const DLTensor* residual,
                                                  const DLTensor* weight, double eps,
                                                  int cast_first, const DLTensor* out0,
                                                  const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(residual), ac4k_tensor_arg(weight),
                           ac4k_float_arg(eps), ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("fused_add_rms_norm"), args, 5, outputs, 2, stream);
}

/* fused_add_rms_norm with an FP8 or INT8 result and its scales. fused_add_rms_norm_quant(x: T[...,
 * N] row_strided, residual: T[..., N] row_strided, weight: T[N]? = None, eps: float = 1e-6, *,
 * scale: f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]? = None, granularity: {per_token,
 * per_tensor, group128} = per_token, dtype: Q = f8e4m3, cast_first: bool = False) -> Q[..., N],
 * f32[granularity: ..., 1 | 1 | ..., ceil(N/128)], T[..., N] row_strided */
static inline ac4k_status ac4k_fused_add_rms_norm_quant(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, double eps,
    const DLTensor* scale, const char* granularity, const char* dtype, int cast_first,
    const DLTensor* out0, const DLTensor* out1, const DLTensor* out2, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x),      ac4k_tensor_arg(residual),
                           ac4k_tensor_arg(weight), ac4k_float_arg(eps),
                           ac4k_tensor_arg(scale),  ac4k_choice_arg(granularity),
                           ac4k_choice_arg(dtype),  ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1, out2};
  return ac4k_call(ac4k_find_op("fused_add_rms_norm_quant"), args, 8, outputs, 3, stream);
}

/* Read keys and values of slots from a paged cache. gather_kvcache(k_cache: C[layout: B, S, H, D |
 * B, H, S, D] row_strided, v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided, slots: I[n],
 * k_scale: f32[P]? = None, v_scale: f32[R]? = None, *, layout: {NHD, HND} = NHD, dtype: T = bf16)
 * -> T[n, H, D], T[n, H, D] */
static inline ac4k_status ac4k_gather_kvcache(const DLTensor* k_cache, const DLTensor* v_cache,
                                              const DLTensor* slots, const DLTensor* k_scale,
                                              const DLTensor* v_scale, const char* layout,
                                              const char* dtype, const DLTensor* out0,
                                              const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(k_cache), ac4k_tensor_arg(v_cache),
                           ac4k_tensor_arg(slots),   ac4k_tensor_arg(k_scale),
                           ac4k_tensor_arg(v_scale), ac4k_choice_arg(layout),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("gather_kvcache"), args, 7, outputs, 2, stream);
}

/* GELU of the first half of the last dim, times the second half. gelu_and_mul(x: T[..., D*2]
 * strided, *, approximate: {none, tanh} = none) -> T[..., D] */
static inline ac4k_status ac4k_gelu_and_mul(const DLTensor* x, const char* approximate,
                                            const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_choice_arg(approximate)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gelu_and_mul"), args, 2, outputs, 1, stream);
}

/* gelu_and_mul with a quantised result: codes and their scales. gelu_and_mul_quant(x: T[..., D*2]
 * row_strided, scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, approximate:
 * {none, tanh} = none, granularity: {per_token, per_tensor, group128} = per_token, dtype: Q =
 * f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 | ..., ceil(D/128)] */
static inline ac4k_status ac4k_gelu_and_mul_quant(const DLTensor* x, const DLTensor* scale,
                                                  const char* approximate, const char* granularity,
                                                  const char* dtype, const DLTensor* out0,
                                                  const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(scale), ac4k_choice_arg(approximate),
                           ac4k_choice_arg(granularity), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("gelu_and_mul_quant"), args, 5, outputs, 2, stream);
}

/* Matrix product. gemm(A: T[M, K] strided, B: T[K, N] strided) -> T[M, N] */
static inline ac4k_status ac4k_gemm(const DLTensor* A, const DLTensor* B, const DLTensor* out,
                                    void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(A), ac4k_tensor_arg(B)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm"), args, 2, outputs, 1, stream);
}

/* Product of raw q4_0 weights and q8_1 activations. gemm_q4_0_q8_1(weight_q: u8[M, K/32, 18],
 * activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N] */
static inline ac4k_status ac4k_gemm_q4_0_q8_1(const DLTensor* weight_q,
                                              const DLTensor* activation_q, int64_t M, int64_t N,
                                              int64_t K, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(weight_q), ac4k_tensor_arg(activation_q),
                           ac4k_int_arg(M), ac4k_int_arg(N), ac4k_int_arg(K)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm_q4_0_q8_1"), args, 5, outputs, 1, stream);
}

/* Product of raw q4_1 weights and q8_1 activations. gemm_q4_1_q8_1(weight_q: u8[M, K/32, 20],
 * activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N] */
static inline ac4k_status ac4k_gemm_q4_1_q8_1(const DLTensor* weight_q,
                                              const DLTensor* activation_q, int64_t M, int64_t N,
                                              int64_t K, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(weight_q), ac4k_tensor_arg(activation_q),
                           ac4k_int_arg(M), ac4k_int_arg(N), ac4k_int_arg(K)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm_q4_1_q8_1"), args, 5, outputs, 1, stream);
}

/* Product of raw q5_0 weights and q8_1 activations. gemm_q5_0_q8_1(weight_q: u8[M, K/32, 22],
 * activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N] */
static inline ac4k_status ac4k_gemm_q5_0_q8_1(const DLTensor* weight_q,
                                              const DLTensor* activation_q, int64_t M, int64_t N,
                                              int64_t K, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(weight_q), ac4k_tensor_arg(activation_q),
                           ac4k_int_arg(M), ac4k_int_arg(N), ac4k_int_arg(K)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm_q5_0_q8_1"), args, 5, outputs, 1, stream);
}

/* Product of raw q5_1 weights and q8_1 activations. gemm_q5_1_q8_1(weight_q: u8[M, K/32, 24],
 * activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N] */
static inline ac4k_status ac4k_gemm_q5_1_q8_1(const DLTensor* weight_q,
                                              const DLTensor* activation_q, int64_t M, int64_t N,
                                              int64_t K, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(weight_q), ac4k_tensor_arg(activation_q),
                           ac4k_int_arg(M), ac4k_int_arg(N), ac4k_int_arg(K)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm_q5_1_q8_1"), args, 5, outputs, 1, stream);
}

/* Product of raw q8_0 weights and q8_1 activations. gemm_q8_0_q8_1(weight_q: u8[M, K/32, 34],
 * activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N] */
static inline ac4k_status ac4k_gemm_q8_0_q8_1(const DLTensor* weight_q,
                                              const DLTensor* activation_q, int64_t M, int64_t N,
                                              int64_t K, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(weight_q), ac4k_tensor_arg(activation_q),
                           ac4k_int_arg(M), ac4k_int_arg(N), ac4k_int_arg(K)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("gemm_q8_0_q8_1"), args, 5, outputs, 1, stream);
}

/* Take off each row's mean, divide by its standard deviation, apply weight and bias. layer_norm(x:
 * T[..., N] row_strided, weight: T[N]? = None, bias: T[N]? = None, eps: float = 1e-5) -> T[..., N]
 * row_strided */
static inline ac4k_status ac4k_layer_norm(const DLTensor* x, const DLTensor* weight,
                                          const DLTensor* bias, double eps, const DLTensor* out,
                                          void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(weight), ac4k_tensor_arg(bias),
                           ac4k_float_arg(eps)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("layer_norm"), args, 4, outputs, 1, stream);
}

/* layer_norm with an FP8 or INT8 result and its scales. layer_norm_quant(x: T[..., N] row_strided,
 * weight: T[N]? = None, bias: T[N]? = None, eps: float = 1e-5, *, scale: f32[granularity: ..., 1 |
 * 1 | ..., ceil(N/128)]? = None, granularity: {per_token, per_tensor, group128} = per_token, dtype:
 * Q = f8e4m3) -> Q[..., N], f32[granularity: ..., 1 | 1 | ..., ceil(N/128)] */
static inline ac4k_status ac4k_layer_norm_quant(const DLTensor* x, const DLTensor* weight,
                                                const DLTensor* bias, double eps,
                                                const DLTensor* scale, const char* granularity,
                                                const char* dtype, const DLTensor* out0,
                                                const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x),     ac4k_tensor_arg(weight),
                           ac4k_tensor_arg(bias),  ac4k_float_arg(eps),
                           ac4k_tensor_arg(scale), ac4k_choice_arg(granularity),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("layer_norm_quant"), args, 7, outputs, 2, stream);
}

/* Rotary position embedding with a time, a height and a width position for every token. mrope(q:
 * T[..., H, D] row_strided, positions: I[3, rows], cos_sin: f32[P, R], k: T[..., G, D]? row_strided
 * = None, *, section_t: int, section_h: int, section_w: int, interleaved_sections: bool = False,
 * style: {neox, interleaved} = neox) -> T[..., H, D] row_strided, T[..., G, D] row_strided if k */
static inline ac4k_status ac4k_mrope(const DLTensor* q, const DLTensor* positions,
                                     const DLTensor* cos_sin, const DLTensor* k, int64_t section_t,
                                     int64_t section_h, int64_t section_w, int interleaved_sections,
                                     const char* style, const DLTensor* out0, const DLTensor* out1,
                                     void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q),       ac4k_tensor_arg(positions),
                           ac4k_tensor_arg(cos_sin), ac4k_tensor_arg(k),
                           ac4k_int_arg(section_t),  ac4k_int_arg(section_h),
                           ac4k_int_arg(section_w),  ac4k_bool_arg(interleaved_sections),
                           ac4k_choice_arg(style)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("mrope"), args, 9, outputs, 2, stream);
}

/* Blocks of a GGUF matrix in the order that `quant_linear` reads; see `pack`. pack_weight(q:
 * u8[fmt: N, K/32, 18 | N, K/32, 20 | N, K/32, 22 | N, K/32, 24 | N, K/32, 34 | N, K/256, 84 | N,
 * K/256, 110 | N, K/256, 144 | N, K/256, 176 | N, K/256, 210 | N, K/32, 18 | N, K/256, 136 | N,
 * K/32, 17 | N, K/64, 36], N: int, K: int, *, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k,
 * q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}) -> u8[fmt: ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
 * ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2816 | ceil(N/64), ceil(K/64), 3072 | ceil(N/64),
 * ceil(K/64), 4352 | ceil(N/64), K/256, 5376 | ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 |
 * ceil(N/64), K/256, 11264 | ceil(N/64), K/256, 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
 * K/256, 8704 | ceil(N/64), ceil(K/64), 2176 | ceil(N/64), K/64, 2304] */
static inline ac4k_status ac4k_pack_weight(const DLTensor* q, int64_t N, int64_t K, const char* fmt,
                                           const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_int_arg(N), ac4k_int_arg(K),
                           ac4k_choice_arg(fmt)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("pack_weight"), args, 4, outputs, 1, stream);
}

/* Divide queries and keys by their root mean square, each head or all heads together. qk_norm(q:
 * T[..., H, D] row_strided, k: T[..., G, D] row_strided, q_weight: T[over: D | P]? = None,
 * k_weight: T[over: D | R]? = None, eps: float = 1e-6, *, over: {head_dim, heads} = head_dim,
 * cast_first: bool = False) -> T[..., H, D] row_strided, T[..., G, D] row_strided */
static inline ac4k_status ac4k_qk_norm(const DLTensor* q, const DLTensor* k,
                                       const DLTensor* q_weight, const DLTensor* k_weight,
                                       double eps, const char* over, int cast_first,
                                       const DLTensor* out0, const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q),        ac4k_tensor_arg(k),
                           ac4k_tensor_arg(q_weight), ac4k_tensor_arg(k_weight),
                           ac4k_float_arg(eps),       ac4k_choice_arg(over),
                           ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("qk_norm"), args, 7, outputs, 2, stream);
}

/* RMS norm of each head of q and k, then rotary position embedding, in one pass. qk_norm_rope(q:
 * T[..., H, D] row_strided, k: T[..., G, D] row_strided, q_weight: T[D], k_weight: T[D], positions:
 * I[...], cos_sin: f32[P, R], eps: float = 1e-6, *, style: {neox, interleaved} = neox, cast_first:
 * bool = False) -> T[..., H, D] row_strided, T[..., G, D] row_strided */
static inline ac4k_status ac4k_qk_norm_rope(const DLTensor* q, const DLTensor* k,
                                            const DLTensor* q_weight, const DLTensor* k_weight,
                                            const DLTensor* positions, const DLTensor* cos_sin,
                                            double eps, const char* style, int cast_first,
                                            const DLTensor* out0, const DLTensor* out1,
                                            void* stream) {
  const ac4k_arg args[] = {
      ac4k_tensor_arg(q),        ac4k_tensor_arg(k),         ac4k_tensor_arg(q_weight),
      ac4k_tensor_arg(k_weight), ac4k_tensor_arg(positions), ac4k_tensor_arg(cos_sin),
      ac4k_float_arg(eps),       ac4k_choice_arg(style),     ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("qk_norm_rope"), args, 9, outputs, 2, stream);
}

/* RMS norm of q and k over all heads, then rotary position embedding of video tokens.
 * qk_norm_rope_3d(q: T[B, L, H, D] row_strided, k: T[B, L, G, D] row_strided, q_weight: T[M],
 * k_weight: T[N], grid_sizes: I[B, 3], table: S[P, D/2, 2], eps: float = 1e-6, *, height_pairs: int
 * = -1, width_pairs: int = -1, precision: {exact, fast} = exact, cast_first: bool = False) -> T[B,
 * L, H, D] row_strided, T[B, L, G, D] row_strided */
static inline ac4k_status ac4k_qk_norm_rope_3d(const DLTensor* q, const DLTensor* k,
                                               const DLTensor* q_weight, const DLTensor* k_weight,
                                               const DLTensor* grid_sizes, const DLTensor* table,
                                               double eps, int64_t height_pairs,
                                               int64_t width_pairs, const char* precision,
                                               int cast_first, const DLTensor* out0,
                                               const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {
      ac4k_tensor_arg(q),         ac4k_tensor_arg(k),          ac4k_tensor_arg(q_weight),
      ac4k_tensor_arg(k_weight),  ac4k_tensor_arg(grid_sizes), ac4k_tensor_arg(table),
      ac4k_float_arg(eps),        ac4k_int_arg(height_pairs),  ac4k_int_arg(width_pairs),
      ac4k_choice_arg(precision), ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("qk_norm_rope_3d"), args, 11, outputs, 2, stream);
}

/* Linear layer with packed block-quantised weights; see `linear`. quant_linear(x: T[..., K]
 * row_strided, weight: u8[fmt: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2560 |
 * ceil(N/64), ceil(K/64), 2816 | ceil(N/64), ceil(K/64), 3072 | ceil(N/64), ceil(K/64), 4352 |
 * ceil(N/64), K/256, 5376 | ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 | ceil(N/64), K/256,
 * 11264 | ceil(N/64), K/256, 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), K/256, 8704 |
 * ceil(N/64), ceil(K/64), 2176 | ceil(N/64), K/64, 2304], bias: T[N]? = None, *, N: int, fmt:
 * {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4},
 * config: int = 0) -> T[..., N] */
static inline ac4k_status ac4k_quant_linear(const DLTensor* x, const DLTensor* weight,
                                            const DLTensor* bias, int64_t N, const char* fmt,
                                            int64_t config, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(weight), ac4k_tensor_arg(bias),
                           ac4k_int_arg(N),    ac4k_choice_arg(fmt),    ac4k_int_arg(config)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quant_linear"), args, 6, outputs, 1, stream);
}

/* Quantise rows to GGUF blocks of a format: the bytes of a GGUF file. quantize(x: T[..., K]
 * row_strided, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl,
 * iq4_xs, mxfp4, nvfp4}) -> u8[fmt: ..., K/32, 18 | ..., K/32, 20 | ..., K/32, 22 | ..., K/32, 24 |
 * ..., K/32, 34 | ..., K/32, 36 | ..., K/256, 84 | ..., K/256, 110 | ..., K/256, 144 | ..., K/256,
 * 176 | ..., K/256, 210 | ..., K/32, 18 | ..., K/256, 136 | ..., K/32, 17 | ..., K/64, 36] */
static inline ac4k_status ac4k_quantize(const DLTensor* x, const char* fmt, const DLTensor* out,
                                        void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_choice_arg(fmt)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize"), args, 2, outputs, 1, stream);
}

/* Quantise to FP8 with a scale for the tensor, each row, column, group or block. quantize_fp8(x:
 * T[..., N] row_strided, granularity: {per_tensor, per_token, per_channel, group128, block128} =
 * per_token, dtype: Q = f8e4m3, scale: f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
 * ceil(rows/128), ceil(N/128)]? = None, pow2_scale: bool = False) -> Q[..., N], f32[granularity: 1
 * | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)] */
static inline ac4k_status ac4k_quantize_fp8(const DLTensor* x, const char* granularity,
                                            const char* dtype, const DLTensor* scale,
                                            int pow2_scale, const DLTensor* out0,
                                            const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_choice_arg(granularity), ac4k_choice_arg(dtype),
                           ac4k_tensor_arg(scale), ac4k_bool_arg(pow2_scale)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("quantize_fp8"), args, 5, outputs, 2, stream);
}

/* Quantise to int8 with a scale, and a zero point unless symmetric. quantize_int8(x: T[..., N]
 * row_strided, granularity: {per_tensor, per_token, per_channel, group128, block128} = per_token,
 * symmetric: bool = True, scale: f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
 * ceil(rows/128), ceil(N/128)]? = None) -> i8[..., N], f32[granularity: 1 | ..., 1 | N | ...,
 * ceil(N/128) | ceil(rows/128), ceil(N/128)], i32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
 * ceil(rows/128), ceil(N/128)] if not symmetric */
static inline ac4k_status ac4k_quantize_int8(const DLTensor* x, const char* granularity,
                                             int symmetric, const DLTensor* scale,
                                             const DLTensor* out0, const DLTensor* out1,
                                             const DLTensor* out2, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_choice_arg(granularity),
                           ac4k_bool_arg(symmetric), ac4k_tensor_arg(scale)};
  const DLTensor* const outputs[] = {out0, out1, out2};
  return ac4k_call(ac4k_find_op("quantize_int8"), args, 4, outputs, 3, stream);
}

/* Quantise to MXFP4: e2m1 codes, two in a byte, an e8m0 scale for 32 of them. quantize_mxfp4(x:
 * T[..., N] row_strided) -> u8[..., N/2], u8[..., N/32] */
static inline ac4k_status ac4k_quantize_mxfp4(const DLTensor* x, const DLTensor* out0,
                                              const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("quantize_mxfp4"), args, 1, outputs, 2, stream);
}

/* Quantise to MXFP8: e4m3 or e5m2 codes, an e8m0 scale for 32 of them. quantize_mxfp8(x: T[..., N]
 * row_strided, dtype: Q = f8e4m3) -> Q[..., N], u8[..., N/32] */
static inline ac4k_status ac4k_quantize_mxfp8(const DLTensor* x, const char* dtype,
                                              const DLTensor* out0, const DLTensor* out1,
                                              void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("quantize_mxfp8"), args, 2, outputs, 2, stream);
}

/* Quantise to NVFP4: e2m1 codes, an e4m3 scale for 16 of them, a global scale. quantize_nvfp4(x:
 * T[..., N] row_strided, global_scale: f32[1]? = None, layout: {plain, tiled} = plain) -> u8[...,
 * N/2], f8e4m3[layout: ..., N/16 | ceil(rows/128)*128, ceil(N/64)*4], f32[1] */
static inline ac4k_status ac4k_quantize_nvfp4(const DLTensor* x, const DLTensor* global_scale,
                                              const char* layout, const DLTensor* out0,
                                              const DLTensor* out1, const DLTensor* out2,
                                              void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(global_scale),
                           ac4k_choice_arg(layout)};
  const DLTensor* const outputs[] = {out0, out1, out2};
  return ac4k_call(ac4k_find_op("quantize_nvfp4"), args, 3, outputs, 3, stream);
}

/* Quantise rows to q4_0 blocks of 32: 18 bytes each, as in GGUF. quantize_q4_0(x: T[..., K]
 * row_strided) -> u8[..., K/32, 18] */
static inline ac4k_status ac4k_quantize_q4_0(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q4_0"), args, 1, outputs, 1, stream);
}

/* Quantise rows to q4_1 blocks of 32: 20 bytes each, as in GGUF. quantize_q4_1(x: T[..., K]
 * row_strided) -> u8[..., K/32, 20] */
static inline ac4k_status ac4k_quantize_q4_1(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q4_1"), args, 1, outputs, 1, stream);
}

/* Quantise rows to q5_0 blocks of 32: 22 bytes each, as in GGUF. quantize_q5_0(x: T[..., K]
 * row_strided) -> u8[..., K/32, 22] */
static inline ac4k_status ac4k_quantize_q5_0(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q5_0"), args, 1, outputs, 1, stream);
}

/* Quantise rows to q5_1 blocks of 32: 24 bytes each, as in GGUF. quantize_q5_1(x: T[..., K]
 * row_strided) -> u8[..., K/32, 24] */
static inline ac4k_status ac4k_quantize_q5_1(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q5_1"), args, 1, outputs, 1, stream);
}

/* Quantise rows to q8_0 blocks of 32: 34 bytes each, as in GGUF. quantize_q8_0(x: T[..., K]
 * row_strided) -> u8[..., K/32, 34] */
static inline ac4k_status ac4k_quantize_q8_0(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q8_0"), args, 1, outputs, 1, stream);
}

/* Quantise rows to q8_1 blocks of 32: 36 bytes each, as in GGUF. quantize_q8_1(x: T[..., K]
 * row_strided) -> u8[..., K/32, 36] */
static inline ac4k_status ac4k_quantize_q8_1(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("quantize_q8_1"), args, 1, outputs, 1, stream);
}

/* The square of ReLU. relu2(x: T[..., N] strided) -> T[..., N] */
static inline ac4k_status ac4k_relu2(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("relu2"), args, 1, outputs, 1, stream);
}

/* relu2 with a quantised result: codes and their scales. relu2_quant(x: T[..., D] row_strided,
 * scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, granularity: {per_token,
 * per_tensor, group128} = per_token, dtype: Q = f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 |
 * ..., ceil(D/128)] */
static inline ac4k_status ac4k_relu2_quant(const DLTensor* x, const DLTensor* scale,
                                           const char* granularity, const char* dtype,
                                           const DLTensor* out0, const DLTensor* out1,
                                           void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(scale), ac4k_choice_arg(granularity),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("relu2_quant"), args, 4, outputs, 2, stream);
}

/* Add y, gated, to the residual x; one gate for all S tokens. residual_gate(x: T[..., S, N]
 * strided, y: T[..., S, N] strided, gate: T[..., N] strided) -> T[..., S, N] */
static inline ac4k_status ac4k_residual_gate(const DLTensor* x, const DLTensor* y,
                                             const DLTensor* gate, const DLTensor* out,
                                             void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(y), ac4k_tensor_arg(gate)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("residual_gate"), args, 3, outputs, 1, stream);
}

/* Divide each row by its root mean square and multiply it with a weight. rms_norm(x: T[..., N]
 * row_strided, weight: T[N]? = None, eps: float = 1e-6, *, cast_first: bool = False) -> T[..., N]
 * row_strided */
static inline ac4k_status ac4k_rms_norm(const DLTensor* x, const DLTensor* weight, double eps,
                                        int cast_first, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(weight), ac4k_float_arg(eps),
                           ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("rms_norm"), args, 4, outputs, 1, stream);
}

/* rms_norm with an FP8 or INT8 result and its scales. rms_norm_quant(x: T[..., N] row_strided,
 * weight: T[N]? = None, eps: float = 1e-6, *, scale: f32[granularity: ..., 1 | 1 | ...,
 * ceil(N/128)]? = None, granularity: {per_token, per_tensor, group128} = per_token, dtype: Q =
 * f8e4m3, cast_first: bool = False) -> Q[..., N], f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]
 */
static inline ac4k_status ac4k_rms_norm_quant(const DLTensor* x, const DLTensor* weight, double eps,
                                              const DLTensor* scale, const char* granularity,
                                              const char* dtype, int cast_first,
                                              const DLTensor* out0, const DLTensor* out1,
                                              void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x),           ac4k_tensor_arg(weight),
                           ac4k_float_arg(eps),          ac4k_tensor_arg(scale),
                           ac4k_choice_arg(granularity), ac4k_choice_arg(dtype),
                           ac4k_bool_arg(cast_first)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("rms_norm_quant"), args, 7, outputs, 2, stream);
}

/* Rotary position embedding of q, or of q and k, in one pass. rope(q: T[..., H, D] row_strided,
 * positions: I[...], cos_sin: f32[P, R], k: T[..., G, D]? row_strided = None, *, style: {neox,
 * interleaved} = neox) -> T[..., H, D] row_strided, T[..., G, D] row_strided if k */
static inline ac4k_status ac4k_rope(const DLTensor* q, const DLTensor* positions,
                                    const DLTensor* cos_sin, const DLTensor* k, const char* style,
                                    const DLTensor* out0, const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(positions), ac4k_tensor_arg(cos_sin),
                           ac4k_tensor_arg(k), ac4k_choice_arg(style)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("rope"), args, 5, outputs, 2, stream);
}

/* Rotary position embedding of video tokens, as Wan 2.1 has it. rope_3d(q: T[B, L, H, D]
 * row_strided, grid_sizes: I[B, 3], table: S[P, D/2, 2], k: T[B, L, G, D]? row_strided = None, *,
 * height_pairs: int = -1, width_pairs: int = -1, precision: {exact, fast} = exact) -> T[B, L, H, D]
 * row_strided, T[B, L, G, D] row_strided if k */
static inline ac4k_status ac4k_rope_3d(const DLTensor* q, const DLTensor* grid_sizes,
                                       const DLTensor* table, const DLTensor* k,
                                       int64_t height_pairs, int64_t width_pairs,
                                       const char* precision, const DLTensor* out0,
                                       const DLTensor* out1, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q),         ac4k_tensor_arg(grid_sizes),
                           ac4k_tensor_arg(table),     ac4k_tensor_arg(k),
                           ac4k_int_arg(height_pairs), ac4k_int_arg(width_pairs),
                           ac4k_choice_arg(precision)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("rope_3d"), args, 7, outputs, 2, stream);
}

/* Rotary position embedding of q and k, and k and v stored into a paged cache.
 * rope_store_kvcache(q: T[N, H, D] row_strided, k: T[N, G, D] row_strided, v: T[N, G, D]
 * row_strided, positions: I[N], cos_sin: f32[P, R], k_cache: C[layout: B, S, G, D | B, G, S, D]
 * row_strided mutable, v_cache: C[layout: B, S, G, D | B, G, S, D] row_strided mutable,
 * slot_mapping: J[n], k_scale: f32[M]? = None, v_scale: f32[W]? = None, *, style: {neox,
 * interleaved} = neox, layout: {NHD, HND} = NHD) -> T[N, H, D] row_strided */
static inline ac4k_status ac4k_rope_store_kvcache(
    const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* positions,
    const DLTensor* cos_sin, const DLTensor* k_cache, const DLTensor* v_cache,
    const DLTensor* slot_mapping, const DLTensor* k_scale, const DLTensor* v_scale,
    const char* style, const char* layout, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q),       ac4k_tensor_arg(k),
                           ac4k_tensor_arg(v),       ac4k_tensor_arg(positions),
                           ac4k_tensor_arg(cos_sin), ac4k_tensor_arg(k_cache),
                           ac4k_tensor_arg(v_cache), ac4k_tensor_arg(slot_mapping),
                           ac4k_tensor_arg(k_scale), ac4k_tensor_arg(v_scale),
                           ac4k_choice_arg(style),   ac4k_choice_arg(layout)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("rope_store_kvcache"), args, 12, outputs, 1, stream);
}

/* SiLU of the first half of the last dim, times the second half. silu_and_mul(x: T[..., D*2]
 * strided) -> T[..., D] */
static inline ac4k_status ac4k_silu_and_mul(const DLTensor* x, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("silu_and_mul"), args, 1, outputs, 1, stream);
}

/* silu_and_mul with a quantised result: codes and their scales. silu_and_mul_quant(x: T[..., D*2]
 * row_strided, scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, granularity:
 * {per_token, per_tensor, group128} = per_token, dtype: Q = f8e4m3) -> Q[..., D], f32[granularity:
 * ..., 1 | 1 | ..., ceil(D/128)] */
static inline ac4k_status ac4k_silu_and_mul_quant(const DLTensor* x, const DLTensor* scale,
                                                  const char* granularity, const char* dtype,
                                                  const DLTensor* out0, const DLTensor* out1,
                                                  void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(x), ac4k_tensor_arg(scale), ac4k_choice_arg(granularity),
                           ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1};
  return ac4k_call(ac4k_find_op("silu_and_mul_quant"), args, 4, outputs, 2, stream);
}

/* Write keys and values of tokens into the slots of a paged cache. store_kvcache(key: T[K, H, D]
 * row_strided, value: T[K, H, D] row_strided, k_cache: C[layout: B, S, H, D | B, H, S, D]
 * row_strided mutable, v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided mutable,
 * slot_mapping: I[n], k_scale: f32[P]? = None, v_scale: f32[R]? = None, *, layout: {NHD, HND} =
 * NHD) */
static inline ac4k_status ac4k_store_kvcache(const DLTensor* key, const DLTensor* value,
                                             const DLTensor* k_cache, const DLTensor* v_cache,
                                             const DLTensor* slot_mapping, const DLTensor* k_scale,
                                             const DLTensor* v_scale, const char* layout,
                                             void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(key),          ac4k_tensor_arg(value),
                           ac4k_tensor_arg(k_cache),      ac4k_tensor_arg(v_cache),
                           ac4k_tensor_arg(slot_mapping), ac4k_tensor_arg(k_scale),
                           ac4k_tensor_arg(v_scale),      ac4k_choice_arg(layout)};
  return ac4k_call(ac4k_find_op("store_kvcache"), args, 8, NULL, 0, stream);
}

/* Read every byte of src and write W bytes: the roofline of memory-bound ops. stream_bytes(src:
 * u8[R], W: int) -> u8[W] */
static inline ac4k_status ac4k_stream_bytes(const DLTensor* src, int64_t W, const DLTensor* out,
                                            void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(src), ac4k_int_arg(W)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("stream_bytes"), args, 2, outputs, 1, stream);
}

/* The GGUF blocks that `pack_weight` was given, bit by bit. unpack_weight(packed: u8[fmt:
 * ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2816 |
 * ceil(N/64), ceil(K/64), 3072 | ceil(N/64), ceil(K/64), 4352 | ceil(N/64), K/256, 5376 |
 * ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 | ceil(N/64), K/256, 11264 | ceil(N/64), K/256,
 * 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), K/256, 8704 | ceil(N/64), ceil(K/64), 2176 |
 * ceil(N/64), K/64, 2304], N: int, K: int, *, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k,
 * q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}) -> u8[fmt: N, K/32, 18 | N, K/32, 20 | N, K/32, 22 |
 * N, K/32, 24 | N, K/32, 34 | N, K/256, 84 | N, K/256, 110 | N, K/256, 144 | N, K/256, 176 | N,
 * K/256, 210 | N, K/32, 18 | N, K/256, 136 | N, K/32, 17 | N, K/64, 36] */
static inline ac4k_status ac4k_unpack_weight(const DLTensor* packed, int64_t N, int64_t K,
                                             const char* fmt, const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(packed), ac4k_int_arg(N), ac4k_int_arg(K),
                           ac4k_choice_arg(fmt)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("unpack_weight"), args, 4, outputs, 1, stream);
}

/* Linear layer with packed 4-bit weights and 16-bit activations; see `w4a16_linear`. w4a16_gemm(x:
 * T[..., K] row_strided, packed: u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64),
 * 2176 | ceil(N/64), ceil(K/128), 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64),
 * 2304 | ceil(N/64), ceil(K/128), 4352], bias: T[N]? = None, alpha: float = 1.0, residual: T[...,
 * N]? = None, *, N: int, layout: {g32, g64, g128, g32z, g64z, g128z} = g128, activation: {none,
 * silu, gelu, gelu_tanh} = none, config: int = 0) -> T[..., N] */
static inline ac4k_status ac4k_w4a16_gemm(const DLTensor* x, const DLTensor* packed,
                                          const DLTensor* bias, double alpha,
                                          const DLTensor* residual, int64_t N, const char* layout,
                                          const char* activation, int64_t config,
                                          const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {
      ac4k_tensor_arg(x),      ac4k_tensor_arg(packed),     ac4k_tensor_arg(bias),
      ac4k_float_arg(alpha),   ac4k_tensor_arg(residual),   ac4k_int_arg(N),
      ac4k_choice_arg(layout), ac4k_choice_arg(activation), ac4k_int_arg(config)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("w4a16_gemm"), args, 9, outputs, 1, stream);
}

/* 4-bit codes and scales in the order that `w4a16_gemm` reads; see `w4a16_pack`.
 * w4a16_pack_weight(q: u8[N, K], scales: T[N, G], zeros: T[N, G]? = None, *, layout: {g32, g64,
 * g128, g32z, g64z, g128z} = g128) -> u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
 * ceil(K/64), 2176 | ceil(N/64), ceil(K/128), 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64),
 * ceil(K/64), 2304 | ceil(N/64), ceil(K/128), 4352] */
static inline ac4k_status ac4k_w4a16_pack_weight(const DLTensor* q, const DLTensor* scales,
                                                 const DLTensor* zeros, const char* layout,
                                                 const DLTensor* out, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(q), ac4k_tensor_arg(scales), ac4k_tensor_arg(zeros),
                           ac4k_choice_arg(layout)};
  const DLTensor* const outputs[] = {out};
  return ac4k_call(ac4k_find_op("w4a16_pack_weight"), args, 4, outputs, 1, stream);
}

/* The codes, scales and zero points that `w4a16_pack_weight` was given. w4a16_unpack_weight(packed:
 * u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2176 | ceil(N/64), ceil(K/128),
 * 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/128),
 * 4352], N: int, K: int, G: int, *, layout: {g32, g64, g128, g32z, g64z, g128z} = g128, dtype: T =
 * f16) -> u8[N, K], T[N, G], T[N, G] */
static inline ac4k_status ac4k_w4a16_unpack_weight(const DLTensor* packed, int64_t N, int64_t K,
                                                   int64_t G, const char* layout, const char* dtype,
                                                   const DLTensor* out0, const DLTensor* out1,
                                                   const DLTensor* out2, void* stream) {
  const ac4k_arg args[] = {ac4k_tensor_arg(packed), ac4k_int_arg(N),
                           ac4k_int_arg(K),         ac4k_int_arg(G),
                           ac4k_choice_arg(layout), ac4k_choice_arg(dtype)};
  const DLTensor* const outputs[] = {out0, out1, out2};
  return ac4k_call(ac4k_find_op("w4a16_unpack_weight"), args, 6, outputs, 3, stream);
}

#endif /* AC4K_OPS_H_ */
