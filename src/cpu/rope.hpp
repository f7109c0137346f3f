// Rotary position embeddings on the CPU: what src/ops calls.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/status.hpp"

namespace ac4k::cpu {

// Heads of all tokens, in and out; strides in elements, elements of a head in a row. `out` may be
// `in` with the same strides.
struct RopeHeads {
  const void* in;
  void* out;
  int64_t num_heads;
  int64_t in_head_stride, out_head_stride;
  const int64_t* in_strides;  // of the token dims
  const int64_t* out_strides;
};

// RMS norm before the rotation, over each head or over all heads of a token, which then lie in a
// row. The normalised values are rounded to their type.
struct RopeNorm {
  const void* weights[2];
  float eps;
  bool cast_first;  // round before the weight comes in, too
  bool all_heads;
};

struct RopeArgs {
  DType type;  // f32, f16, bf16
  int64_t head_dim;
  int64_t num_tokens;
  int ndim;  // token dims
  const int64_t* shape;
  int num_tensors;  // q, or q and k
  RopeHeads tensors[2];
  const RopeNorm* norm;  // or null
};

// An i32 or i64 tensor.
struct Integers {
  const void* data;
  bool is_wide;
  int64_t operator[](int64_t i) const {
    return is_wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Which of the three positions of a token pair j uses: the first section_t pairs the first one, and
// so on; or, interleaved, 0 1 2 0 1 2 ... until the sections of 1 and 2 are used up.
struct MropeSections {
  int64_t t, h, w;
  bool interleaved;

  // Which of the three positions a pair has its angle from.
  int axis_of(int64_t pair) const {
    if (interleaved) {
      const int64_t axis = pair % 3;
      if (axis == 1 && pair < 3 * h) return 1;
      return axis == 2 && pair < 3 * w ? 2 : 0;
    }
    return pair < t ? 0 : pair < t + h ? 1 : 2;
  }
};

struct RopeAngles {
  const float* cos_sin;  // [num_positions, rotary_dim]: cosines, then sines
  int64_t num_positions;
  int64_t rotary_dim;
  Integers positions;             // [num_tokens], or [3, num_tokens] with sections
  const MropeSections* sections;  // null: one position a token
  bool neox;                      // pairs are (i, i + rotary_dim / 2), otherwise (2 i, 2 i + 1)
};
// Positions outside the table give NaN in the rotated dims.
Status rope(const RopeArgs& args, const RopeAngles& angles);

// rope on q and k, with k (the second tensor; its outputs do not matter) and the values stored into
// a cache. kv.parts say where; kv.num_tokens of the tokens have slots.
struct KvCacheArgs;
Status rope_store_kvcache(const RopeArgs& args, const RopeAngles& angles, const KvCacheArgs& kv);

struct Rope3dAngles {
  const void* table;  // [num_positions, head_dim / 2, 2]: cosine and sine
  DType table_type;   // f64 or f32
  int64_t num_positions;
  Integers grid_sizes;    // [samples, 3]
  int64_t tokens;         // of one sample
  int64_t axis_pairs[3];  // frames, rows, columns
  bool exact;             // in double; the table is f64
};
// Tokens past a sample's grid pass through.
Status rope_3d(const RopeArgs& args, const Rope3dAngles& angles);

}  // namespace ac4k::cpu
