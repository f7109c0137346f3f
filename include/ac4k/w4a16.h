/* W4A16: 16-bit activations times 4-bit weights, with a choice of kernels ("configs"). The C ABI of
 * the runner; w4a16.hpp has it for C++.
 *
 *   out[M, N] = activation(alpha * A[M, K] B[N, K]^T + bias) + residual
 *   B = scale * (q - 8), or scale * (q - zero), a scale (and zero point) for each row and group
 *
 * Weights are packed once (docs/packed_weights.md). Scales and zero points travel inside the packed
 * weight, so that a product cannot be given those of another one. */
#ifndef AC4K_W4A16_H_
#define AC4K_W4A16_H_

#include "ac4k.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ac4k_w4a16_quant {
  AC4K_W4A16_PER_CHANNEL = 0, /* one scale a row: group_size is K */
  AC4K_W4A16_GROUP = 1,       /* group_size: 32, 64, a multiple of 128, or K */
  AC4K_W4A16_GROUP_ZEROS = 2  /* the same with zero points */
} ac4k_w4a16_quant;

typedef enum ac4k_w4a16_activation {
  AC4K_W4A16_NONE = 0,
  AC4K_W4A16_SILU = 1,
  AC4K_W4A16_GELU = 2,
  AC4K_W4A16_GELU_TANH = 3
} ac4k_w4a16_activation;

/* Never changed after it was made: any number of threads may use one. */
typedef struct ac4k_w4a16_runner ac4k_w4a16_runner;

/* `activation_type`: {kDLFloat, 16, 1} or {kDLBfloat, 16, 1}; scales have it too. `quant`: an
 * ac4k_w4a16_quant. `device`: kDLCPU or kDLCUDA. */
AC4K_API ac4k_status ac4k_w4a16_runner_create(DLDataType activation_type, int32_t quant,
                                              DLDevice device, ac4k_w4a16_runner** runner);
/* NULL is fine. */
AC4K_API void ac4k_w4a16_runner_destroy(ac4k_w4a16_runner* runner);

/* Bytes of a packed weight [N, K]. */
AC4K_API ac4k_status ac4k_w4a16_runner_packed_size(const ac4k_w4a16_runner* runner, int64_t N,
                                                   int64_t K, int64_t group_size, int64_t* bytes);
/* Packs on the CPU, from and to host memory. q: [N, K], codes of 0 to 15, a byte each. scales and
 * zeros: [N, K / group_size] of the activation type; zeros with AC4K_W4A16_GROUP_ZEROS only. */
AC4K_API ac4k_status ac4k_w4a16_runner_pack(const ac4k_w4a16_runner* runner, const uint8_t* q,
                                            const void* scales, const void* zeros, int64_t N,
                                            int64_t K, int64_t group_size, void* packed,
                                            int64_t packed_bytes);

/* Bytes that a product of this size needs besides its tensors; 0 where it needs none. */
AC4K_API ac4k_status ac4k_w4a16_runner_workspace_size(const ac4k_w4a16_runner* runner, int64_t M,
                                                      int64_t N, int64_t K, int64_t* bytes);

/* The configs that can multiply this size; config 0, "auto", leaves it to the library. */
AC4K_API ac4k_status ac4k_w4a16_runner_num_configs(const ac4k_w4a16_runner* runner, int64_t M,
                                                   int64_t N, int64_t K, int64_t* count);
/* What config `index` is: family, tile, split. Lives as long as the library. */
AC4K_API ac4k_status ac4k_w4a16_runner_config_name(const ac4k_w4a16_runner* runner, int64_t M,
                                                   int64_t N, int64_t K, int64_t index,
                                                   const char** name);
/* The config for a size: as tuned here before (by this process or, in the cache directory, by
 * another), else by table. */
AC4K_API ac4k_status ac4k_w4a16_runner_best_config(const ac4k_w4a16_runner* runner, int64_t M,
                                                   int64_t N, int64_t K, int64_t group_size,
                                                   int64_t* config);

/* Pointers are of the runner's device; A, bias, residual and C aligned to their elements, B and
 * workspace to 16 bytes. Matrices are contiguous. */
typedef struct ac4k_w4a16_product {
  const void* a; /* [M, K] */
  const void* b; /* packed */
  int64_t b_bytes;
  const void* bias;     /* [N], or NULL */
  const void* residual; /* [M, N], or NULL; may be `c` */
  float alpha;
  int32_t activation; /* an ac4k_w4a16_activation */
  void* c;            /* [M, N] */
  int64_t M, N, K, group_size;
  int64_t config;
  void* workspace; /* may be NULL where none is needed */
  int64_t workspace_bytes;
  void* stream; /* a CUstream; ignored on the CPU */
} ac4k_w4a16_product;

/* Enqueues the product. Nothing is written unless every check passes. */
AC4K_API ac4k_status ac4k_w4a16_runner_gemm(const ac4k_w4a16_runner* runner,
                                            const ac4k_w4a16_product* product);

/* Times every config on this product for about `seconds` in all and keeps the fastest for
 * best_config, here and on disk. `microseconds`, when not NULL, gets the time of each config. `c`
 * is written many times, so it may not be the residual. Not while a graph is captured. */
AC4K_API ac4k_status ac4k_w4a16_runner_tune(const ac4k_w4a16_runner* runner,
                                            const ac4k_w4a16_product* product, double seconds,
                                            int64_t* best, double* microseconds);

#ifdef __cplusplus
}
#endif
#endif /* AC4K_W4A16_H_ */
