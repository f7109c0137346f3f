// What ops on block-quantised weights declare alike: the choice of a format and the shapes that
// depend on it.
#pragma once

#include "core/block_formats.hpp"
#include "core/op.hpp"
#include "core/weight_formats.hpp"

// The texts below repeat core/weight_formats.hpp, which repeats ac4k/blocks.h: the compiler checks
// the second, tests/python/test_gguf_formats.py the first.
#define AC4K_IS_BLOCK_FORMAT(name, values, bytes, columns) \
  static_assert(ac4k::is_block_format(#name, values, bytes));
AC4K_GGUF_WEIGHTS(AC4K_IS_BLOCK_FORMAT)
#undef AC4K_IS_BLOCK_FORMAT

// {q4_0, ...}: WeightFormat, in its order.
#define AC4K_FORMAT_CHOICE                                                              \
  "{q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4," \
  " nvfp4}"

// [N, K / values, bytes]
#define AC4K_GGUF_SHAPE                                                             \
  "fmt: N, K/32, 18 | N, K/32, 20 | N, K/32, 22 | N, K/32, 24 | N, K/32, 34"        \
  " | N, K/256, 84 | N, K/256, 110 | N, K/256, 144 | N, K/256, 176 | N, K/256, 210" \
  " | N, K/32, 18 | N, K/256, 136 | N, K/32, 17 | N, K/64, 36"

// [row tiles, packed blocks, bytes]
#define AC4K_PACKED_SHAPE                                                                    \
  "fmt: ceil(N/64), ceil(K/64), 2304 | ceil(N/64), ceil(K/64), 2560"                         \
  " | ceil(N/64), ceil(K/64), 2816 | ceil(N/64), ceil(K/64), 3072"                           \
  " | ceil(N/64), ceil(K/64), 4352 | ceil(N/64), K/256, 5376 | ceil(N/64), K/256, 7040"      \
  " | ceil(N/64), K/256, 9216 | ceil(N/64), K/256, 11264 | ceil(N/64), K/256, 13440"         \
  " | ceil(N/64), ceil(K/64), 2304 | ceil(N/64), K/256, 8704 | ceil(N/64), ceil(K/64), 2176" \
  " | ceil(N/64), K/64, 2304"

namespace ac4k {

// K is a multiple of the block: the padded shape alone does not say it of blocks of 32.
inline Status check_block_multiple(const Call& call, const char* argument, WeightFormat format,
                                   int64_t K) {
  const WeightBlock& block = block_of(format);
  if (K % block.values == 0) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '", argument,
              "': expected K to be a multiple of ", block.values, " for ", block.name, ", got ", K);
}

}  // namespace ac4k
