// What a level provides for products of raw GGUF blocks with q8_1 activations. Included by
// table.hpp.
#pragma once

#include <cstdint>

namespace ac4k::cpu {

inline constexpr int kBlockValues = 32;  // of all formats here

// Weights that can be multiplied with q8_1; the order of BlockProductKernels.
enum BlockProductFormat : int { kRawQ4_0, kRawQ4_1, kRawQ5_0, kRawQ5_1, kRawQ8_0, kNumRawFormats };

// Prepared rows of activations, one behind another, `num_blocks` blocks each.
struct PreparedRows {
  const int8_t* codes;
  const float* d;     // the scale of each block
  const float* sums;  // scale times the sum of the codes
  int64_t num_blocks;
};

// A row of weights times some activations.
struct BlockProductArgs {
  const uint8_t* weight;
  const uint8_t* end;  // of the rows that this thread will read, or null: they are near already
  PreparedRows x;
  int columns;  // rows of x: 1 .. most_columns
  float* out;   // [columns]
};

// Rows of weights that are unpacked together for many activations, blocks that are unpacked before
// they are multiplied, and what an unpacked block of all rows takes.
inline constexpr int kUnpackedRows = 16;
inline constexpr int64_t kUnpackedBlocks = 64;
inline constexpr int64_t kUnpackedBytes = kUnpackedRows * (kBlockValues + 2 * 4);
inline constexpr int kMaxUnpackedColumns = 8;
struct UnpackedProductArgs {
  const uint8_t* weight;  // from unpack
  int64_t first, count;   // of the blocks of x
  PreparedRows x;
  int columns;  // 1, 2, 4 or kMaxUnpackedColumns
  float* sums;  // [columns][kUnpackedRows], to which the products are added
};

struct BlockProductKernels {
  int64_t activation_bytes;  // of a block's prepared codes
  // A row of q8_1 blocks to codes, scales and sums.
  void (*prepare)(const uint8_t* blocks, int64_t num_blocks, int8_t* codes, float* d, float* sums);
  void (*multiply[kNumRawFormats])(const BlockProductArgs& args);
  int most_columns;
  // For more activations than that; null where the level has no such thing. Rows lie `stride` bytes
  // apart.
  void (*unpack[kNumRawFormats])(const uint8_t* rows, int64_t stride, int64_t count, uint8_t* to);
  void (*multiply_unpacked[kNumRawFormats])(const UnpackedProductArgs& args);
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
