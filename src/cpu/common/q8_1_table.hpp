// What a level provides for products of raw GGUF blocks with q8_1 activations. Included by
// table.hpp.
#pragma once

#include <cstdint>

namespace ac4k::cpu {

inline constexpr int kBlockValues = 32;      // of all formats here
inline constexpr int kActivationBytes = 64;  // of 32 prepared codes
inline constexpr int kMaxBlockColumns = 4;   // activations at a time
// Of `multiply_rows`: rows of weights in the lanes of a register, and activations at a time.
inline constexpr int kBlockRows = 16;
inline constexpr int kMaxRowsColumns = 8;

// Weights that can be multiplied with q8_1; the order of BlockProductKernels.
enum BlockProductFormat : int { kRawQ4_0, kRawQ4_1, kRawQ5_0, kRawQ5_1, kRawQ8_0, kNumRawFormats };

struct BlockProductArgs {
  const uint8_t* weight;  // a row of blocks, or kBlockRows of them one after another
  int64_t num_blocks;     // of a row
  // Rows of prepared activations, `num_blocks` blocks each.
  const int8_t* codes;
  const float* d;     // the scale of each block
  const float* sums;  // scale times the sum of the codes
  int columns;        // 1 .. kMaxBlockColumns; 1, 2, 4 or kMaxRowsColumns
  float* out;         // [columns], rows `out_stride` numbers apart
  int64_t out_stride;
};

struct BlockProductKernels {
  // Blocks of q8_1 to codes, scales and sums.
  void (*prepare)(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums);
  void (*multiply[kNumRawFormats])(const BlockProductArgs& args);
  // The same for kBlockRows rows at once; null where the level has no such thing.
  void (*multiply_rows[kNumRawFormats])(const BlockProductArgs& args);
};

namespace generic {
extern const BlockProductKernels kBlockProducts;
}
#if defined(__x86_64__)
namespace avx2 {
extern const BlockProductKernels kBlockProducts;
}
namespace avx512 {
extern const BlockProductKernels kBlockProductsVnni;
}
#endif

// What the active level has on this CPU.
const BlockProductKernels& block_product_kernels();

}  // namespace ac4k::cpu
