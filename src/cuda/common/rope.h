// What the host hands to common/rope.cu, rope_3d.cu and qk_norm_rope.cu.
#pragma once

#include "fast_divisor.h"

namespace ac4k {

inline constexpr int kRopeMaxDims = 8;
inline constexpr int kRopeThreads = 256;  // of a block, with a norm or a grid
// mrope: which of three positions a pair uses, in two bits.
inline constexpr int kRopeAxesAWord = 16;
inline constexpr int kRopeAxisWords = 8;
inline constexpr int kRopeTableThreads = 128;  // rope and mrope alone: small sizes end sooner
// Heads that a thread of qk_norm_rope has at most, and its blocks on an SM.
inline constexpr int kNormRopeHeads = 8;
inline constexpr int kNormRopeBlocks = 8;
// The same where there are many heads of the usual size: 16 bytes of each a thread.
inline constexpr int kUsualHeadDim = 128;
inline constexpr int kUsualHeads = 4;
inline constexpr int kUsualHeadBlocks = 7;

// Heads of all tokens, in and out; strides in elements, the elements of a head in a row.
struct RopeTensor {
  const void* in;
  void* out;
  const void* weight;     // of the norm, or null
  float inverse_columns;  // one over the numbers the norm is over
  int num_heads;
  int num_groups;  // a group is heads first, first + num_groups, ...
  long long in_head_stride, out_head_stride;
  long long in_strides[kRopeMaxDims];  // of the token dims
  long long out_strides[kRopeMaxDims];
};

// q and k. A thread handles a slot (a few pairs) of a group of heads; an item is a group of a
// token.
struct RopeHeads {
  RopeTensor tensors[2];  // the second has no heads where there is no k
  long long num_tokens;
  long long num_items;
  FastDivisor num_groups;  // of both tensors
  int heads_a_group;       // at most
  int head_dim;
  int num_slots;
  bool in_place;  // what is not rotated need not be copied
  int ndim;       // token dims
  long long shape[kRopeMaxDims];
};

struct RopeParams {
  RopeHeads heads;
  const float* cos_sin;  // [num_positions, rotary_dim]: cosines, then sines
  int num_positions;
  const void* positions;  // [tokens], or [3, tokens] for mrope
  bool wide_positions;    // i64, otherwise i32
  int rotary_dim;
  int section_t, section_h, section_w;  // mrope only, in pairs
  bool interleaved_sections;
  unsigned axes[kRopeAxisWords];  // the same for the vector kernels
  float eps;                      // of the norm
  bool cast_first;
};

// Of few tokens, q and k: 32-bit offsets in elements, and few enough bytes for two lines of
// constants.
struct FewRopeParams {
  const void* in[2];
  void* out[2];
  const float* cos_sin;
  const void* positions;
  int in_token_stride[2], out_token_stride[2];
  int in_head_stride[2], out_head_stride[2];
  int num_first_heads, num_heads;  // of q, of both
  int head_dim, rotary_dim;
  int num_positions;
  int num_tokens;
  bool wide_positions, in_place;
};
struct FewMropeParams : FewRopeParams {
  unsigned axes[kRopeAxisWords];
};

struct Rope3dParams {
  RopeHeads heads;
  const void* table;  // [num_positions, head_dim / 2, 2]: cosine and sine, f64 or f32
  long long num_positions;
  const void* grid_sizes;    // [samples, 3]
  bool wide_grid;            // i64, otherwise i32
  FastDivisor tokens;        // of one sample
  int axis_ends[2];          // pairs of frames end here, those of rows here
  FastDivisor head_vectors;  // norm over all heads: vectors of one
  float eps;                 // of the norm
  bool cast_first;
};

}  // namespace ac4k
