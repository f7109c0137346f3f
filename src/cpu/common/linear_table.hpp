// What a level provides for products with packed weights (docs/packed_weights.md). Included by
// table.hpp; the loops around it are in src/cpu/linear*.cpp.
#pragma once

#include <cstdint>

#include "core/weight_formats.hpp"

namespace ac4k::cpu {

// ---- Few tokens: weights are read once, in the order in which they lie ----
//
// Activations become fixed-point numbers of 16 bits, with one float scale for 256 columns: an error
// of 2^-16 of the largest of them, far below what 16-bit activations already have. Products with
// the codes are then exact integers. A token whose numbers differ too much for that has several
// rows, which are added (cpu/outliers.hpp).

inline constexpr int kGroupColumns = 256;
inline constexpr int kMaxDecodeRows = 4;       // at a time
inline constexpr float kLargestFixed = 32639;  // 127 * 256 + 127: high and low bytes both fit

// 256 columns of a row, in the order of the codes of a quad.
struct alignas(64) ActivationGroup {
  int8_t planes[4][128];  // of 64 columns each; what they hold is the level's own affair
  float sums[2][16];      // of 16 columns each, in steps of `scale`, times the format's factors
  float scale;
};

struct DecodeArgs {
  const uint8_t* tile;  // the packed blocks of 64 rows
  int64_t num_blocks;
  const uint8_t* end;  // of the tiles that the thread multiplies after this one
  const ActivationGroup* activations;
  int64_t row_stride;  // in groups
  float* sums;         // [rows][64]
};

struct DecodeKernels {
  // 256 numbers to a group; false when one of them is not finite.
  bool (*prepare)(const float* x, WeightFormat format, ActivationGroup* group);
  // One, two or four rows.
  void (*decode[kNumWeightFormats][3])(const DecodeArgs& args);
};

// ---- Many tokens: weights are widened to floats in cache, then multiplied ----
//
// Weights and activations are kept in pieces of 1 KiB. A piece of weights is 16 rows of 64 bytes
// along K: 16 f32 or 32 bf16. A piece of activations is the same K for 16 tokens: 16 rows of 16
// f32 (a column each), or of 16 pairs of bf16. K runs in the order of a quad's codes.
//
// split: each number is the sum of two bf16, in two pieces one after another.

inline constexpr int kPieceRows = 16;
inline constexpr int kPieceBytes = 1024;
enum class PieceKind : uint8_t { f32, bf16, split_bf16 };

// sums[row * ldc + token] (+)= `groups` x 16 rows times `panels` x 16 tokens over `columns`.
struct PanelProduct {
  int64_t columns;  // a multiple of 64
  const uint8_t* weights;
  int64_t groups;        // an even number
  int64_t group_stride;  // in bytes
  const uint8_t* activations;
  int panels;  // up to max_token_panels
  int64_t panel_stride;
  const uint8_t* next_activations;  // those of the product that follows, or null
  float* sums;
  int64_t ldc;
  bool accumulate;
};

struct PanelKernels {
  PieceKind kind;
  int max_token_panels;  // that `multiply` takes at a time
  // Sub-blocks of K at a time: their activations stay in the first-level cache while the groups of
  // weights pass.
  int stretch;
  // Up to so many tokens a thread takes one or two tiles of weights at a time, otherwise four: then
  // it is activations that come from afar, and each is used more often.
  int one_tile_tokens, two_tiles_tokens;

  // Before and after a thread's products; may be null.
  void (*begin)();
  void (*end)();
  // 64 rows of `num_sub_blocks` x 64 columns from sub-block `first` on, to 4 groups of 16 rows.
  // `group_stride`: bytes between groups.
  void (*widen[kNumWeightFormats])(const uint8_t* tile, int64_t first, int64_t num_sub_blocks,
                                   uint8_t* pieces, int64_t group_stride);
  // 64 columns of 16 tokens, columns[column * 16 + token].
  void (*arrange)(const float* columns, WeightFormat format, uint8_t* pieces);
  void (*multiply)(const PanelProduct& product);
};

// From and to matrices; by element, null for f64.
struct TokenKernels {
  // out[column * 16 + token] from 16 rows of x that lie `stride` elements apart, `tokens` of which
  // are there.
  void (*gather[4])(const void* x, int64_t stride, int tokens, int64_t columns, float* out);
  // out[token * 16 + row] = c[row * ldc + token], 16 x 16.
  void (*transpose)(const float* c, int64_t ldc, float* out);
  // out[token * stride + row] = c[row * ldc + token] * alpha + bias[row], for 16 rows and up to 16
  // tokens.
  void (*write[4])(const float* c, int64_t ldc, int tokens, float alpha, const float* bias,
                   void* out, int64_t stride);
  // values = values * alpha + bias.
  void (*scale)(float* values, float alpha, const float* bias, int64_t count);
};

struct LinearKernels {
  const DecodeKernels* decode;
  const PanelKernels* exact;  // f32: for any numbers
  TokenKernels tokens;
};

}  // namespace ac4k::cpu
