// What products of raw GGUF blocks have in common at the avx2 level and those above.
#pragma once

// As in avx512/simd.hpp: files of that level include this one.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "cpu/common/q8_1-inl.hpp"
#include "cpu/common/read_ahead-inl.hpp"

namespace ac4k::cpu {
namespace {

AC4K_INLINE float half(const uint8_t* p) {
  uint16_t bits;
  __builtin_memcpy(&bits, p, 2);
  return _cvtsh_ss(bits);
}

// The first four bytes of four blocks from number kFirst on: scales, and minimums where there are
// any. Zeros for blocks from `count` on, unless all are there. (A gather takes longer, and left to
// itself the compiler goes through memory.)
template <int kBytes, bool kAll, int kFirst>
AC4K_INLINE __m128i load_headers(const uint8_t* blocks, int count) {
  const auto word = [&](int b) __attribute__((always_inline)) {
    int32_t bits = 0;
    if (kAll || b < count) __builtin_memcpy(&bits, blocks + b * kBytes, 4);
    return bits;
  };
  __m128i words = _mm_cvtsi32_si128(word(kFirst));
  words = _mm_insert_epi32(words, word(kFirst + 1), 1);
  words = _mm_insert_epi32(words, word(kFirst + 2), 2);
  return _mm_insert_epi32(words, word(kFirst + 3), 3);
}

// A row of weights, `Product::kBlocks` blocks at a time.
template <class Product>
AC4K_INLINE void multiply_row_by(const BlockProductArgs& args) {
  constexpr int kBlocks = Product::kBlocks;
  constexpr int64_t kStep = kBlocks * Product::Format::kBytes;
  Product product(args);
  const ReadAhead ahead(args.end);
  const int64_t num_blocks = args.x.num_blocks;
  int64_t b = 0;
  const uint8_t* blocks = args.weight;
  for (; b + kBlocks <= num_blocks; b += kBlocks, blocks += kStep) {
    ahead.advance<kStep, 2 * kStep>(blocks);
    product.template add<true>(blocks, b, kBlocks);
  }
  if (b < num_blocks) product.template add<false>(blocks, b, static_cast<int>(num_blocks - b));
  product.store();
}

}  // namespace
}  // namespace ac4k::cpu
