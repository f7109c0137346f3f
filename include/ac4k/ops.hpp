// One function per op; a failure throws ac4k::Error. Made from the op table by tools/generate.py;
// do not edit.
#pragma once

#include <optional>

#include "ops.h"
#include "tensor.hpp"

namespace ac4k {

// Numbers from GGUF blocks of a format. dequantize(q: u8[fmt: ..., K/32, 18 | ..., K/32, 20 | ...,
// K/32, 22 | ..., K/32, 24 | ..., K/32, 34 | ..., K/32, 36 | ..., K/256, 84 | ..., K/256, 110 |
// ..., K/256, 144 | ..., K/256, 176 | ..., K/256, 210 | ..., K/32, 18 | ..., K/256, 136 | ...,
// K/32, 17 | ..., K/64, 36], fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k,
// q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}, dtype: T = f32) -> T[..., K]
inline void dequantize(const TensorView& q, const char* fmt, const TensorView& out,
                       const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize(q.get(), fmt, dtype, out.get(), stream));
}

// Numbers from FP8 codes and their scales. dequantize_fp8(q: Q[..., N], scale: f32[granularity: 1 |
// ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)], granularity: {per_tensor,
// per_token, per_channel, group128, block128} = per_token, dtype: T = f32) -> T[..., N]
inline void dequantize_fp8(const TensorView& q, const TensorView& scale, const TensorView& out,
                           const char* granularity = "per_token", const char* dtype = "float32",
                           void* stream = nullptr) {
  check(ac4k_dequantize_fp8(q.get(), scale.get(), granularity, dtype, out.get(), stream));
}

// Numbers from int8 codes, their scales and zero points. dequantize_int8(q: i8[..., N], scale:
// f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)], zero:
// i32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)]? = None,
// granularity: {per_tensor, per_token, per_channel, group128, block128} = per_token, dtype: T =
// f32) -> T[..., N]
inline void dequantize_int8(const TensorView& q, const TensorView& scale,
                            const std::optional<TensorView>& zero, const TensorView& out,
                            const char* granularity = "per_token", const char* dtype = "float32",
                            void* stream = nullptr) {
  check(ac4k_dequantize_int8(q.get(), scale.get(), zero ? zero->get() : nullptr, granularity, dtype,
                             out.get(), stream));
}

// Numbers from MXFP4 codes and their scales. dequantize_mxfp4(q: u8[..., N/2], scale: u8[...,
// N/32], dtype: T = f32) -> T[..., N]
inline void dequantize_mxfp4(const TensorView& q, const TensorView& scale, const TensorView& out,
                             const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_mxfp4(q.get(), scale.get(), dtype, out.get(), stream));
}

// Numbers from MXFP8 codes and their scales. dequantize_mxfp8(q: Q[..., N], scale: u8[..., N/32],
// dtype: T = f32) -> T[..., N]
inline void dequantize_mxfp8(const TensorView& q, const TensorView& scale, const TensorView& out,
                             const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_mxfp8(q.get(), scale.get(), dtype, out.get(), stream));
}

// Numbers from NVFP4 codes and their scales. dequantize_nvfp4(q: u8[..., N/2], scale:
// f8e4m3[layout: ..., N/16 | ceil(rows/128)*128, ceil(N/64)*4], global_scale: f32[1], layout:
// {plain, tiled} = plain, dtype: T = f32) -> T[..., N]
inline void dequantize_nvfp4(const TensorView& q, const TensorView& scale,
                             const TensorView& global_scale, const TensorView& out,
                             const char* layout = "plain", const char* dtype = "float32",
                             void* stream = nullptr) {
  check(ac4k_dequantize_nvfp4(q.get(), scale.get(), global_scale.get(), layout, dtype, out.get(),
                              stream));
}

// Numbers from q4_0 blocks. dequantize_q4_0(q: u8[..., K/32, 18], dtype: T = f32) -> T[..., K]
inline void dequantize_q4_0(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q4_0(q.get(), dtype, out.get(), stream));
}

// Numbers from q4_1 blocks. dequantize_q4_1(q: u8[..., K/32, 20], dtype: T = f32) -> T[..., K]
inline void dequantize_q4_1(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q4_1(q.get(), dtype, out.get(), stream));
}

// Numbers from q5_0 blocks. dequantize_q5_0(q: u8[..., K/32, 22], dtype: T = f32) -> T[..., K]
inline void dequantize_q5_0(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q5_0(q.get(), dtype, out.get(), stream));
}

// Numbers from q5_1 blocks. dequantize_q5_1(q: u8[..., K/32, 24], dtype: T = f32) -> T[..., K]
inline void dequantize_q5_1(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q5_1(q.get(), dtype, out.get(), stream));
}

// Numbers from q8_0 blocks. dequantize_q8_0(q: u8[..., K/32, 34], dtype: T = f32) -> T[..., K]
inline void dequantize_q8_0(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q8_0(q.get(), dtype, out.get(), stream));
}

// Numbers from q8_1 blocks. dequantize_q8_1(q: u8[..., K/32, 36], dtype: T = f32) -> T[..., K]
inline void dequantize_q8_1(const TensorView& q, const TensorView& out,
                            const char* dtype = "float32", void* stream = nullptr) {
  check(ac4k_dequantize_q8_1(q.get(), dtype, out.get(), stream));
}

// Multiply and add, element by element. element_wise_mul_add(a: T[...] strided, b: T[...] strided,
// c: T[...] strided) -> T[...]
inline void element_wise_mul_add(const TensorView& a, const TensorView& b, const TensorView& c,
                                 const TensorView& out, void* stream = nullptr) {
  check(ac4k_element_wise_mul_add(a.get(), b.get(), c.get(), out.get(), stream));
}

// Add a bias to the last dim and apply GELU, in one pass. fused_add_gelu(x: T[..., N] strided,
// bias: T[N] strided, *, approximate: {none, tanh} = none) -> T[..., N]
inline void fused_add_gelu(const TensorView& x, const TensorView& bias, const TensorView& out,
                           const char* approximate = "none", void* stream = nullptr) {
  check(ac4k_fused_add_gelu(x.get(), bias.get(), approximate, out.get(), stream));
}

// fused_add_gelu with a quantised result: codes and their scales. fused_add_gelu_quant(x: T[..., D]
// row_strided, bias: T[D], scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *,
// approximate: {none, tanh} = none, granularity: {per_token, per_tensor, group128} = per_token,
// dtype: Q = f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]
inline void fused_add_gelu_quant(const TensorView& x, const TensorView& bias,
                                 const std::optional<TensorView>& scale, const TensorView& out0,
                                 const TensorView& out1, const char* approximate = "none",
                                 const char* granularity = "per_token",
                                 const char* dtype = "float8_e4m3fn", void* stream = nullptr) {
  check(ac4k_fused_add_gelu_quant(x.get(), bias.get(), scale ? scale->get() : nullptr, approximate,
                                  granularity, dtype, out0.get(), out1.get(), stream));
}

// Add a residual and divide each row by its root mean square, in one pass. fused_add_rms_norm(x:
// T[..., N] row_strided, residual: T[..., N] row_strided, weight: T[N]? = None, eps: float = 1e-6,
// *, cast_first: bool = False) -> T[..., N] row_strided, T[..., N] row_strided
inline void fused_add_rms_norm(const TensorView& x, const TensorView& residual,
                               const std::optional<TensorView>& weight, const TensorView& out0,
                               const TensorView& out1, double eps = 1e-06, int cast_first = false,
                               void* stream = nullptr) {
  check(ac4k_fused_add_rms_norm(x.get(), residual.get(), weight ? weight->get() : nullptr, eps,
                                cast_first, out0.get(), out1.get(), stream));
}

// fused_add_rms_norm with an FP8 or INT8 result and its scales. fused_add_rms_norm_quant(x: T[...,
// N] row_strided, residual: T[..., N] row_strided, weight: T[N]? = None, eps: float = 1e-6, *,
// scale: f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]? = None, granularity: {per_token,
// per_tensor, group128} = per_token, dtype: Q = f8e4m3, cast_first: bool = False) -> Q[..., N],
// f32[granularity: ..., 1 | 1 | ..., ceil(N/128)], T[..., N] row_strided
inline void fused_add_rms_norm_quant(const TensorView& x, const TensorView& residual,
                                     const std::optional<TensorView>& weight,
                                     const std::optional<TensorView>& scale, const TensorView& out0,
                                     const TensorView& out1, const TensorView& out2,
                                     double eps = 1e-06, const char* granularity = "per_token",
                                     const char* dtype = "float8_e4m3fn", int cast_first = false,
                                     void* stream = nullptr) {
  check(ac4k_fused_add_rms_norm_quant(x.get(), residual.get(), weight ? weight->get() : nullptr,
                                      eps, scale ? scale->get() : nullptr, granularity, dtype,
                                      cast_first, out0.get(), out1.get(), out2.get(), stream));
}

// Read keys and values of slots from a paged cache. gather_kvcache(k_cache: C[layout: B, S, H, D |
// B, H, S, D] row_strided, v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided, slots: I[n],
// k_scale: f32[P]? = None, v_scale: f32[R]? = None, *, layout: {NHD, HND} = NHD, dtype: T = bf16)
// -> T[n, H, D], T[n, H, D]
inline void gather_kvcache(const TensorView& k_cache, const TensorView& v_cache,
                           const TensorView& slots, const std::optional<TensorView>& k_scale,
                           const std::optional<TensorView>& v_scale, const TensorView& out0,
                           const TensorView& out1, const char* layout = "NHD",
                           const char* dtype = "bfloat16", void* stream = nullptr) {
  check(ac4k_gather_kvcache(k_cache.get(), v_cache.get(), slots.get(),
                            k_scale ? k_scale->get() : nullptr, v_scale ? v_scale->get() : nullptr,
                            layout, dtype, out0.get(), out1.get(), stream));
}

// GELU of the first half of the last dim, times the second half. gelu_and_mul(x: T[..., D*2]
// strided, *, approximate: {none, tanh} = none) -> T[..., D]
inline void gelu_and_mul(const TensorView& x, const TensorView& out,
                         const char* approximate = "none", void* stream = nullptr) {
  check(ac4k_gelu_and_mul(x.get(), approximate, out.get(), stream));
}

// gelu_and_mul with a quantised result: codes and their scales. gelu_and_mul_quant(x: T[..., D*2]
// row_strided, scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, approximate:
// {none, tanh} = none, granularity: {per_token, per_tensor, group128} = per_token, dtype: Q =
// f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]
inline void gelu_and_mul_quant(const TensorView& x, const std::optional<TensorView>& scale,
                               const TensorView& out0, const TensorView& out1,
                               const char* approximate = "none",
                               const char* granularity = "per_token",
                               const char* dtype = "float8_e4m3fn", void* stream = nullptr) {
  check(ac4k_gelu_and_mul_quant(x.get(), scale ? scale->get() : nullptr, approximate, granularity,
                                dtype, out0.get(), out1.get(), stream));
}

// Matrix product. gemm(A: T[M, K] strided, B: T[K, N] strided) -> T[M, N]
inline void gemm(const TensorView& A, const TensorView& B, const TensorView& out,
                 void* stream = nullptr) {
  check(ac4k_gemm(A.get(), B.get(), out.get(), stream));
}

// Product of raw q4_0 weights and q8_1 activations. gemm_q4_0_q8_1(weight_q: u8[M, K/32, 18],
// activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N]
inline void gemm_q4_0_q8_1(const TensorView& weight_q, const TensorView& activation_q, int64_t M,
                           int64_t N, int64_t K, const TensorView& out, void* stream = nullptr) {
  check(ac4k_gemm_q4_0_q8_1(weight_q.get(), activation_q.get(), M, N, K, out.get(), stream));
}

// Product of raw q4_1 weights and q8_1 activations. gemm_q4_1_q8_1(weight_q: u8[M, K/32, 20],
// activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N]
inline void gemm_q4_1_q8_1(const TensorView& weight_q, const TensorView& activation_q, int64_t M,
                           int64_t N, int64_t K, const TensorView& out, void* stream = nullptr) {
  check(ac4k_gemm_q4_1_q8_1(weight_q.get(), activation_q.get(), M, N, K, out.get(), stream));
}

// Product of raw q5_0 weights and q8_1 activations. gemm_q5_0_q8_1(weight_q: u8[M, K/32, 22],
// activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N]
inline void gemm_q5_0_q8_1(const TensorView& weight_q, const TensorView& activation_q, int64_t M,
                           int64_t N, int64_t K, const TensorView& out, void* stream = nullptr) {
  check(ac4k_gemm_q5_0_q8_1(weight_q.get(), activation_q.get(), M, N, K, out.get(), stream));
}

// Product of raw q5_1 weights and q8_1 activations. gemm_q5_1_q8_1(weight_q: u8[M, K/32, 24],
// activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N]
inline void gemm_q5_1_q8_1(const TensorView& weight_q, const TensorView& activation_q, int64_t M,
                           int64_t N, int64_t K, const TensorView& out, void* stream = nullptr) {
  check(ac4k_gemm_q5_1_q8_1(weight_q.get(), activation_q.get(), M, N, K, out.get(), stream));
}

// Product of raw q8_0 weights and q8_1 activations. gemm_q8_0_q8_1(weight_q: u8[M, K/32, 34],
// activation_q: u8[N, K/32, 36], M: int, N: int, K: int) -> f32[M, N]
inline void gemm_q8_0_q8_1(const TensorView& weight_q, const TensorView& activation_q, int64_t M,
                           int64_t N, int64_t K, const TensorView& out, void* stream = nullptr) {
  check(ac4k_gemm_q8_0_q8_1(weight_q.get(), activation_q.get(), M, N, K, out.get(), stream));
}

// Take off each row's mean, divide by its standard deviation, apply weight and bias. layer_norm(x:
// T[..., N] row_strided, weight: T[N]? = None, bias: T[N]? = None, eps: float = 1e-5) -> T[..., N]
// row_strided
inline void layer_norm(const TensorView& x, const std::optional<TensorView>& weight,
                       const std::optional<TensorView>& bias, const TensorView& out,
                       double eps = 1e-05, void* stream = nullptr) {
  check(ac4k_layer_norm(x.get(), weight ? weight->get() : nullptr, bias ? bias->get() : nullptr,
                        eps, out.get(), stream));
}

// layer_norm with an FP8 or INT8 result and its scales. layer_norm_quant(x: T[..., N] row_strided,
// weight: T[N]? = None, bias: T[N]? = None, eps: float = 1e-5, *, scale: f32[granularity: ..., 1 |
// 1 | ..., ceil(N/128)]? = None, granularity: {per_token, per_tensor, group128} = per_token, dtype:
// Q = f8e4m3) -> Q[..., N], f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]
inline void layer_norm_quant(const TensorView& x, const std::optional<TensorView>& weight,
                             const std::optional<TensorView>& bias,
                             const std::optional<TensorView>& scale, const TensorView& out0,
                             const TensorView& out1, double eps = 1e-05,
                             const char* granularity = "per_token",
                             const char* dtype = "float8_e4m3fn", void* stream = nullptr) {
  check(ac4k_layer_norm_quant(x.get(), weight ? weight->get() : nullptr,
                              bias ? bias->get() : nullptr, eps, scale ? scale->get() : nullptr,
                              granularity, dtype, out0.get(), out1.get(), stream));
}

// Rotary position embedding with a time, a height and a width position for every token. mrope(q:
// T[..., H, D] row_strided, positions: I[3, rows], cos_sin: f32[P, R], k: T[..., G, D]? row_strided
// = None, *, section_t: int, section_h: int, section_w: int, interleaved_sections: bool = False,
// style: {neox, interleaved} = neox) -> T[..., H, D] row_strided, T[..., G, D] row_strided if k
inline void mrope(const TensorView& q, const TensorView& positions, const TensorView& cos_sin,
                  const std::optional<TensorView>& k, int64_t section_t, int64_t section_h,
                  int64_t section_w, const TensorView& out0, const std::optional<TensorView>& out1,
                  int interleaved_sections = false, const char* style = "neox",
                  void* stream = nullptr) {
  check(ac4k_mrope(q.get(), positions.get(), cos_sin.get(), k ? k->get() : nullptr, section_t,
                   section_h, section_w, interleaved_sections, style, out0.get(),
                   out1 ? out1->get() : nullptr, stream));
}

// Blocks of a GGUF matrix in the order that `quant_linear` reads; see `pack`. pack_weight(q:
// u8[fmt: N, K/32, 18 | N, K/32, 20 | N, K/32, 22 | N, K/32, 24 | N, K/32, 34 | N, K/256, 84 | N,
// K/256, 110 | N, K/256, 144 | N, K/256, 176 | N, K/256, 210 | N, K/32, 18 | N, K/256, 136 | N,
// K/32, 17 | N, K/64, 36], N: int, K: int, *, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k,
// q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}) -> u8[fmt: ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
// ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2816 | ceil(N/64), ceil(K/64), 3072 | ceil(N/64),
// ceil(K/64), 4352 | ceil(N/64), K/256, 5376 | ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 |
// ceil(N/64), K/256, 11264 | ceil(N/64), K/256, 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
// K/256, 8704 | ceil(N/64), ceil(K/64), 2176 | ceil(N/64), K/64, 2304]
inline void pack_weight(const TensorView& q, int64_t N, int64_t K, const char* fmt,
                        const TensorView& out, void* stream = nullptr) {
  check(ac4k_pack_weight(q.get(), N, K, fmt, out.get(), stream));
}

// Divide queries and keys by their root mean square, each head or all heads together. qk_norm(q:
// T[..., H, D] row_strided, k: T[..., G, D] row_strided, q_weight: T[over: D | P]? = None,
// k_weight: T[over: D | R]? = None, eps: float = 1e-6, *, over: {head_dim, heads} = head_dim,
// cast_first: bool = False) -> T[..., H, D] row_strided, T[..., G, D] row_strided
inline void qk_norm(const TensorView& q, const TensorView& k,
                    const std::optional<TensorView>& q_weight,
                    const std::optional<TensorView>& k_weight, const TensorView& out0,
                    const TensorView& out1, double eps = 1e-06, const char* over = "head_dim",
                    int cast_first = false, void* stream = nullptr) {
  check(ac4k_qk_norm(q.get(), k.get(), q_weight ? q_weight->get() : nullptr,
                     k_weight ? k_weight->get() : nullptr, eps, over, cast_first, out0.get(),
                     out1.get(), stream));
}

// RMS norm of each head of q and k, then rotary position embedding, in one pass. qk_norm_rope(q:
// T[..., H, D] row_strided, k: T[..., G, D] row_strided, q_weight: T[D], k_weight: T[D], positions:
// I[...], cos_sin: f32[P, R], eps: float = 1e-6, *, style: {neox, interleaved} = neox, cast_first:
// bool = False) -> T[..., H, D] row_strided, T[..., G, D] row_strided
inline void qk_norm_rope(const TensorView& q, const TensorView& k, const TensorView& q_weight,
                         const TensorView& k_weight, const TensorView& positions,
                         const TensorView& cos_sin, const TensorView& out0, const TensorView& out1,
                         double eps = 1e-06, const char* style = "neox", int cast_first = false,
                         void* stream = nullptr) {
  check(ac4k_qk_norm_rope(q.get(), k.get(), q_weight.get(), k_weight.get(), positions.get(),
                          cos_sin.get(), eps, style, cast_first, out0.get(), out1.get(), stream));
}

// RMS norm of q and k over all heads, then rotary position embedding of video tokens.
// qk_norm_rope_3d(q: T[B, L, H, D] row_strided, k: T[B, L, G, D] row_strided, q_weight: T[M],
// k_weight: T[N], grid_sizes: I[B, 3], table: S[P, D/2, 2], eps: float = 1e-6, *, height_pairs: int
// = -1, width_pairs: int = -1, precision: {exact, fast} = exact, cast_first: bool = False) -> T[B,
// L, H, D] row_strided, T[B, L, G, D] row_strided
inline void qk_norm_rope_3d(const TensorView& q, const TensorView& k, const TensorView& q_weight,
                            const TensorView& k_weight, const TensorView& grid_sizes,
                            const TensorView& table, const TensorView& out0, const TensorView& out1,
                            double eps = 1e-06, int64_t height_pairs = -1, int64_t width_pairs = -1,
                            const char* precision = "exact", int cast_first = false,
                            void* stream = nullptr) {
  check(ac4k_qk_norm_rope_3d(q.get(), k.get(), q_weight.get(), k_weight.get(), grid_sizes.get(),
                             table.get(), eps, height_pairs, width_pairs, precision, cast_first,
                             out0.get(), out1.get(), stream));
}

// Linear layer with packed block-quantised weights; see `linear`. quant_linear(x: T[..., K]
// row_strided, weight: u8[fmt: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2560 |
// ceil(N/64), ceil(K/64), 2816 | ceil(N/64), ceil(K/64), 3072 | ceil(N/64), ceil(K/64), 4352 |
// ceil(N/64), K/256, 5376 | ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 | ceil(N/64), K/256,
// 11264 | ceil(N/64), K/256, 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), K/256, 8704 |
// ceil(N/64), ceil(K/64), 2176 | ceil(N/64), K/64, 2304], bias: T[N]? = None, *, N: int, fmt:
// {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4},
// config: int = 0) -> T[..., N]
inline void quant_linear(const TensorView& x, const TensorView& weight,
                         const std::optional<TensorView>& bias, int64_t N, const char* fmt,
                         const TensorView& out, int64_t config = 0, void* stream = nullptr) {
  check(ac4k_quant_linear(x.get(), weight.get(), bias ? bias->get() : nullptr, N, fmt, config,
                          out.get(), stream));
}

// Quantise rows to GGUF blocks of a format: the bytes of a GGUF file. quantize(x: T[..., K]
// row_strided, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q8_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl,
// iq4_xs, mxfp4, nvfp4}) -> u8[fmt: ..., K/32, 18 | ..., K/32, 20 | ..., K/32, 22 | ..., K/32, 24 |
// ..., K/32, 34 | ..., K/32, 36 | ..., K/256, 84 | ..., K/256, 110 | ..., K/256, 144 | ..., K/256,
// 176 | ..., K/256, 210 | ..., K/32, 18 | ..., K/256, 136 | ..., K/32, 17 | ..., K/64, 36]
inline void quantize(const TensorView& x, const char* fmt, const TensorView& out,
                     void* stream = nullptr) {
  check(ac4k_quantize(x.get(), fmt, out.get(), stream));
}

// Quantise to FP8 with a scale for the tensor, each row, column, group or block. quantize_fp8(x:
// T[..., N] row_strided, granularity: {per_tensor, per_token, per_channel, group128, block128} =
// per_token, dtype: Q = f8e4m3, scale: f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
// ceil(rows/128), ceil(N/128)]? = None, pow2_scale: bool = False) -> Q[..., N], f32[granularity: 1
// | ..., 1 | N | ..., ceil(N/128) | ceil(rows/128), ceil(N/128)]
inline void quantize_fp8(const TensorView& x, const std::optional<TensorView>& scale,
                         const TensorView& out0, const TensorView& out1,
                         const char* granularity = "per_token", const char* dtype = "float8_e4m3fn",
                         int pow2_scale = false, void* stream = nullptr) {
  check(ac4k_quantize_fp8(x.get(), granularity, dtype, scale ? scale->get() : nullptr, pow2_scale,
                          out0.get(), out1.get(), stream));
}

// Quantise to int8 with a scale, and a zero point unless symmetric. quantize_int8(x: T[..., N]
// row_strided, granularity: {per_tensor, per_token, per_channel, group128, block128} = per_token,
// symmetric: bool = True, scale: f32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
// ceil(rows/128), ceil(N/128)]? = None) -> i8[..., N], f32[granularity: 1 | ..., 1 | N | ...,
// ceil(N/128) | ceil(rows/128), ceil(N/128)], i32[granularity: 1 | ..., 1 | N | ..., ceil(N/128) |
// ceil(rows/128), ceil(N/128)] if not symmetric
inline void quantize_int8(const TensorView& x, const std::optional<TensorView>& scale,
                          const TensorView& out0, const TensorView& out1,
                          const std::optional<TensorView>& out2,
                          const char* granularity = "per_token", int symmetric = true,
                          void* stream = nullptr) {
  check(ac4k_quantize_int8(x.get(), granularity, symmetric, scale ? scale->get() : nullptr,
                           out0.get(), out1.get(), out2 ? out2->get() : nullptr, stream));
}

// Quantise to MXFP4: e2m1 codes, two in a byte, an e8m0 scale for 32 of them. quantize_mxfp4(x:
// T[..., N] row_strided) -> u8[..., N/2], u8[..., N/32]
inline void quantize_mxfp4(const TensorView& x, const TensorView& out0, const TensorView& out1,
                           void* stream = nullptr) {
  check(ac4k_quantize_mxfp4(x.get(), out0.get(), out1.get(), stream));
}

// Quantise to MXFP8: e4m3 or e5m2 codes, an e8m0 scale for 32 of them. quantize_mxfp8(x: T[..., N]
// row_strided, dtype: Q = f8e4m3) -> Q[..., N], u8[..., N/32]
inline void quantize_mxfp8(const TensorView& x, const TensorView& out0, const TensorView& out1,
                           const char* dtype = "float8_e4m3fn", void* stream = nullptr) {
  check(ac4k_quantize_mxfp8(x.get(), dtype, out0.get(), out1.get(), stream));
}

// Quantise to NVFP4: e2m1 codes, an e4m3 scale for 16 of them, a global scale. quantize_nvfp4(x:
// T[..., N] row_strided, global_scale: f32[1]? = None, layout: {plain, tiled} = plain) -> u8[...,
// N/2], f8e4m3[layout: ..., N/16 | ceil(rows/128)*128, ceil(N/64)*4], f32[1]
inline void quantize_nvfp4(const TensorView& x, const std::optional<TensorView>& global_scale,
                           const TensorView& out0, const TensorView& out1, const TensorView& out2,
                           const char* layout = "plain", void* stream = nullptr) {
  check(ac4k_quantize_nvfp4(x.get(), global_scale ? global_scale->get() : nullptr, layout,
                            out0.get(), out1.get(), out2.get(), stream));
}

// Quantise rows to q4_0 blocks of 32: 18 bytes each, as in GGUF. quantize_q4_0(x: T[..., K]
// row_strided) -> u8[..., K/32, 18]
inline void quantize_q4_0(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q4_0(x.get(), out.get(), stream));
}

// Quantise rows to q4_1 blocks of 32: 20 bytes each, as in GGUF. quantize_q4_1(x: T[..., K]
// row_strided) -> u8[..., K/32, 20]
inline void quantize_q4_1(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q4_1(x.get(), out.get(), stream));
}

// Quantise rows to q5_0 blocks of 32: 22 bytes each, as in GGUF. quantize_q5_0(x: T[..., K]
// row_strided) -> u8[..., K/32, 22]
inline void quantize_q5_0(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q5_0(x.get(), out.get(), stream));
}

// Quantise rows to q5_1 blocks of 32: 24 bytes each, as in GGUF. quantize_q5_1(x: T[..., K]
// row_strided) -> u8[..., K/32, 24]
inline void quantize_q5_1(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q5_1(x.get(), out.get(), stream));
}

// Quantise rows to q8_0 blocks of 32: 34 bytes each, as in GGUF. quantize_q8_0(x: T[..., K]
// row_strided) -> u8[..., K/32, 34]
inline void quantize_q8_0(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q8_0(x.get(), out.get(), stream));
}

// Quantise rows to q8_1 blocks of 32: 36 bytes each, as in GGUF. quantize_q8_1(x: T[..., K]
// row_strided) -> u8[..., K/32, 36]
inline void quantize_q8_1(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_quantize_q8_1(x.get(), out.get(), stream));
}

// The square of ReLU. relu2(x: T[..., N] strided) -> T[..., N]
inline void relu2(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_relu2(x.get(), out.get(), stream));
}

// relu2 with a quantised result: codes and their scales. relu2_quant(x: T[..., D] row_strided,
// scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, granularity: {per_token,
// per_tensor, group128} = per_token, dtype: Q = f8e4m3) -> Q[..., D], f32[granularity: ..., 1 | 1 |
// ..., ceil(D/128)]
inline void relu2_quant(const TensorView& x, const std::optional<TensorView>& scale,
                        const TensorView& out0, const TensorView& out1,
                        const char* granularity = "per_token", const char* dtype = "float8_e4m3fn",
                        void* stream = nullptr) {
  check(ac4k_relu2_quant(x.get(), scale ? scale->get() : nullptr, granularity, dtype, out0.get(),
                         out1.get(), stream));
}

// Add y, gated, to the residual x; one gate for all S tokens. residual_gate(x: T[..., S, N]
// strided, y: T[..., S, N] strided, gate: T[..., N] strided) -> T[..., S, N]
inline void residual_gate(const TensorView& x, const TensorView& y, const TensorView& gate,
                          const TensorView& out, void* stream = nullptr) {
  check(ac4k_residual_gate(x.get(), y.get(), gate.get(), out.get(), stream));
}

// Divide each row by its root mean square and multiply it with a weight. rms_norm(x: T[..., N]
// row_strided, weight: T[N]? = None, eps: float = 1e-6, *, cast_first: bool = False) -> T[..., N]
// row_strided
inline void rms_norm(const TensorView& x, const std::optional<TensorView>& weight,
                     const TensorView& out, double eps = 1e-06, int cast_first = false,
                     void* stream = nullptr) {
  check(
      ac4k_rms_norm(x.get(), weight ? weight->get() : nullptr, eps, cast_first, out.get(), stream));
}

// rms_norm with an FP8 or INT8 result and its scales. rms_norm_quant(x: T[..., N] row_strided,
// weight: T[N]? = None, eps: float = 1e-6, *, scale: f32[granularity: ..., 1 | 1 | ...,
// ceil(N/128)]? = None, granularity: {per_token, per_tensor, group128} = per_token, dtype: Q =
// f8e4m3, cast_first: bool = False) -> Q[..., N], f32[granularity: ..., 1 | 1 | ..., ceil(N/128)]
inline void rms_norm_quant(const TensorView& x, const std::optional<TensorView>& weight,
                           const std::optional<TensorView>& scale, const TensorView& out0,
                           const TensorView& out1, double eps = 1e-06,
                           const char* granularity = "per_token",
                           const char* dtype = "float8_e4m3fn", int cast_first = false,
                           void* stream = nullptr) {
  check(ac4k_rms_norm_quant(x.get(), weight ? weight->get() : nullptr, eps,
                            scale ? scale->get() : nullptr, granularity, dtype, cast_first,
                            out0.get(), out1.get(), stream));
}

// Rotary position embedding of q, or of q and k, in one pass. rope(q: T[..., H, D] row_strided,
// positions: I[...], cos_sin: f32[P, R], k: T[..., G, D]? row_strided = None, *, style: {neox,
// interleaved} = neox) -> T[..., H, D] row_strided, T[..., G, D] row_strided if k
inline void rope(const TensorView& q, const TensorView& positions, const TensorView& cos_sin,
                 const std::optional<TensorView>& k, const TensorView& out0,
                 const std::optional<TensorView>& out1, const char* style = "neox",
                 void* stream = nullptr) {
  check(ac4k_rope(q.get(), positions.get(), cos_sin.get(), k ? k->get() : nullptr, style,
                  out0.get(), out1 ? out1->get() : nullptr, stream));
}

// Rotary position embedding of video tokens, as Wan 2.1 has it. rope_3d(q: T[B, L, H, D]
// row_strided, grid_sizes: I[B, 3], table: S[P, D/2, 2], k: T[B, L, G, D]? row_strided = None, *,
// height_pairs: int = -1, width_pairs: int = -1, precision: {exact, fast} = exact) -> T[B, L, H, D]
// row_strided, T[B, L, G, D] row_strided if k
inline void rope_3d(const TensorView& q, const TensorView& grid_sizes, const TensorView& table,
                    const std::optional<TensorView>& k, const TensorView& out0,
                    const std::optional<TensorView>& out1, int64_t height_pairs = -1,
                    int64_t width_pairs = -1, const char* precision = "exact",
                    void* stream = nullptr) {
  check(ac4k_rope_3d(q.get(), grid_sizes.get(), table.get(), k ? k->get() : nullptr, height_pairs,
                     width_pairs, precision, out0.get(), out1 ? out1->get() : nullptr, stream));
}

// Rotary position embedding of q and k, and k and v stored into a paged cache.
// rope_store_kvcache(q: T[N, H, D] row_strided, k: T[N, G, D] row_strided, v: T[N, G, D]
// row_strided, positions: I[N], cos_sin: f32[P, R], k_cache: C[layout: B, S, G, D | B, G, S, D]
// row_strided mutable, v_cache: C[layout: B, S, G, D | B, G, S, D] row_strided mutable,
// slot_mapping: J[n], k_scale: f32[M]? = None, v_scale: f32[W]? = None, *, style: {neox,
// interleaved} = neox, layout: {NHD, HND} = NHD) -> T[N, H, D] row_strided
inline void rope_store_kvcache(const TensorView& q, const TensorView& k, const TensorView& v,
                               const TensorView& positions, const TensorView& cos_sin,
                               const TensorView& k_cache, const TensorView& v_cache,
                               const TensorView& slot_mapping,
                               const std::optional<TensorView>& k_scale,
                               const std::optional<TensorView>& v_scale, const TensorView& out,
                               const char* style = "neox", const char* layout = "NHD",
                               void* stream = nullptr) {
  check(ac4k_rope_store_kvcache(
      q.get(), k.get(), v.get(), positions.get(), cos_sin.get(), k_cache.get(), v_cache.get(),
      slot_mapping.get(), k_scale ? k_scale->get() : nullptr, v_scale ? v_scale->get() : nullptr,
      style, layout, out.get(), stream));
}

// SiLU of the first half of the last dim, times the second half. silu_and_mul(x: T[..., D*2]
// strided) -> T[..., D]
inline void silu_and_mul(const TensorView& x, const TensorView& out, void* stream = nullptr) {
  check(ac4k_silu_and_mul(x.get(), out.get(), stream));
}

// silu_and_mul with a quantised result: codes and their scales. silu_and_mul_quant(x: T[..., D*2]
// row_strided, scale: f32[granularity: ..., 1 | 1 | ..., ceil(D/128)]? = None, *, granularity:
// {per_token, per_tensor, group128} = per_token, dtype: Q = f8e4m3) -> Q[..., D], f32[granularity:
// ..., 1 | 1 | ..., ceil(D/128)]
inline void silu_and_mul_quant(const TensorView& x, const std::optional<TensorView>& scale,
                               const TensorView& out0, const TensorView& out1,
                               const char* granularity = "per_token",
                               const char* dtype = "float8_e4m3fn", void* stream = nullptr) {
  check(ac4k_silu_and_mul_quant(x.get(), scale ? scale->get() : nullptr, granularity, dtype,
                                out0.get(), out1.get(), stream));
}

// Write keys and values of tokens into the slots of a paged cache. store_kvcache(key: T[K, H, D]
// row_strided, value: T[K, H, D] row_strided, k_cache: C[layout: B, S, H, D | B, H, S, D]
// row_strided mutable, v_cache: C[layout: B, S, H, D | B, H, S, D] row_strided mutable,
// slot_mapping: I[n], k_scale: f32[P]? = None, v_scale: f32[R]? = None, *, layout: {NHD, HND} =
// NHD)
inline void store_kvcache(const TensorView& key, const TensorView& value, const TensorView& k_cache,
                          const TensorView& v_cache, const TensorView& slot_mapping,
                          const std::optional<TensorView>& k_scale,
                          const std::optional<TensorView>& v_scale, const char* layout = "NHD",
                          void* stream = nullptr) {
  check(ac4k_store_kvcache(key.get(), value.get(), k_cache.get(), v_cache.get(), slot_mapping.get(),
                           k_scale ? k_scale->get() : nullptr, v_scale ? v_scale->get() : nullptr,
                           layout, stream));
}

// Read every byte of src and write W bytes: the roofline of memory-bound ops. stream_bytes(src:
// u8[R], W: int) -> u8[W]
inline void stream_bytes(const TensorView& src, int64_t W, const TensorView& out,
                         void* stream = nullptr) {
  check(ac4k_stream_bytes(src.get(), W, out.get(), stream));
}

// The GGUF blocks that `pack_weight` was given, bit by bit. unpack_weight(packed: u8[fmt:
// ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2816 |
// ceil(N/64), ceil(K/64), 3072 | ceil(N/64), ceil(K/64), 4352 | ceil(N/64), K/256, 5376 |
// ceil(N/64), K/256, 7040 | ceil(N/64), K/256, 9216 | ceil(N/64), K/256, 11264 | ceil(N/64), K/256,
// 13440 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), K/256, 8704 | ceil(N/64), ceil(K/64), 2176 |
// ceil(N/64), K/64, 2304], N: int, K: int, *, fmt: {q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k,
// q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4}) -> u8[fmt: N, K/32, 18 | N, K/32, 20 | N, K/32, 22 |
// N, K/32, 24 | N, K/32, 34 | N, K/256, 84 | N, K/256, 110 | N, K/256, 144 | N, K/256, 176 | N,
// K/256, 210 | N, K/32, 18 | N, K/256, 136 | N, K/32, 17 | N, K/64, 36]
inline void unpack_weight(const TensorView& packed, int64_t N, int64_t K, const char* fmt,
                          const TensorView& out, void* stream = nullptr) {
  check(ac4k_unpack_weight(packed.get(), N, K, fmt, out.get(), stream));
}

// Linear layer with packed 4-bit weights and 16-bit activations; see `w4a16_linear`. w4a16_gemm(x:
// T[..., K] row_strided, packed: u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64),
// 2176 | ceil(N/64), ceil(K/128), 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64),
// 2304 | ceil(N/64), ceil(K/128), 4352], bias: T[N]? = None, alpha: float = 1.0, residual: T[...,
// N]? = None, *, N: int, layout: {g32, g64, g128, g32z, g64z, g128z} = g128, activation: {none,
// silu, gelu, gelu_tanh} = none, config: int = 0) -> T[..., N]
inline void w4a16_gemm(const TensorView& x, const TensorView& packed,
                       const std::optional<TensorView>& bias,
                       const std::optional<TensorView>& residual, int64_t N, const TensorView& out,
                       double alpha = 1, const char* layout = "g128",
                       const char* activation = "none", int64_t config = 0,
                       void* stream = nullptr) {
  check(ac4k_w4a16_gemm(x.get(), packed.get(), bias ? bias->get() : nullptr, alpha,
                        residual ? residual->get() : nullptr, N, layout, activation, config,
                        out.get(), stream));
}

// 4-bit codes and scales in the order that `w4a16_gemm` reads; see `w4a16_pack`.
// w4a16_pack_weight(q: u8[N, K], scales: T[N, G], zeros: T[N, G]? = None, *, layout: {g32, g64,
// g128, g32z, g64z, g128z} = g128) -> u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64),
// ceil(K/64), 2176 | ceil(N/64), ceil(K/128), 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64),
// ceil(K/64), 2304 | ceil(N/64), ceil(K/128), 4352]
inline void w4a16_pack_weight(const TensorView& q, const TensorView& scales,
                              const std::optional<TensorView>& zeros, const TensorView& out,
                              const char* layout = "g128", void* stream = nullptr) {
  check(ac4k_w4a16_pack_weight(q.get(), scales.get(), zeros ? zeros->get() : nullptr, layout,
                               out.get(), stream));
}

// The codes, scales and zero points that `w4a16_pack_weight` was given. w4a16_unpack_weight(packed:
// u8[layout: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2176 | ceil(N/64), ceil(K/128),
// 4224 | ceil(N/64), ceil(K/64), 2560 | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/128),
// 4352], N: int, K: int, G: int, *, layout: {g32, g64, g128, g32z, g64z, g128z} = g128, dtype: T =
// f16) -> u8[N, K], T[N, G], T[N, G]
inline void w4a16_unpack_weight(const TensorView& packed, int64_t N, int64_t K, int64_t G,
                                const TensorView& out0, const TensorView& out1,
                                const TensorView& out2, const char* layout = "g128",
                                const char* dtype = "float16", void* stream = nullptr) {
  check(ac4k_w4a16_unpack_weight(packed.get(), N, K, G, layout, dtype, out0.get(), out1.get(),
                                 out2.get(), stream));
}

}  // namespace ac4k
