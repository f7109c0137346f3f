// Numbers from GGUF super-blocks of 256 values.
#include "common/gguf_dequantize.cuh"

AC4K_DEQUANTIZE_TYPES(DecodeQ2K, q2_k)
AC4K_DEQUANTIZE_TYPES(DecodeQ3K, q3_k)
AC4K_DEQUANTIZE_TYPES(DecodeQ4K, q4_k)
AC4K_DEQUANTIZE_TYPES(DecodeQ5K, q5_k)
AC4K_DEQUANTIZE_TYPES(DecodeQ6K, q6_k)
AC4K_DEQUANTIZE_TYPES(DecodeIq4Xs, iq4_xs)
