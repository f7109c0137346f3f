// The formats that weights come in, and the sizes of their packed blocks. The packed layout is
// described in docs/packed_weights.md; CPU and GPU read the same bytes.
#pragma once

#include <cstdint>

namespace ac4k {

// name, values of a GGUF block, its bytes, columns of a packed block.
#define AC4K_GGUF_WEIGHTS(X) \
  X(q4_0, 32, 18, 64)        \
  X(q4_1, 32, 20, 64)        \
  X(q5_0, 32, 22, 64)        \
  X(q5_1, 32, 24, 64)        \
  X(q8_0, 32, 34, 64)        \
  X(q2_k, 256, 84, 256)      \
  X(q3_k, 256, 110, 256)     \
  X(q4_k, 256, 144, 256)     \
  X(q5_k, 256, 176, 256)     \
  X(q6_k, 256, 210, 256)     \
  X(iq4_nl, 32, 18, 64)      \
  X(iq4_xs, 256, 136, 256)   \
  X(mxfp4, 32, 17, 64)       \
  X(nvfp4, 64, 36, 64)

// W4A16: groups of 32, 64 or 128 columns (a larger group repeats its scale), without and with (z)
// zero points. Scales are of the activations' type. name, values of a group, its bytes, columns of
// a packed block.
#define AC4K_W4_WEIGHTS(X)      \
  X(w4_g32_f16, 32, 18, 64)     \
  X(w4_g64_f16, 64, 34, 64)     \
  X(w4_g128_f16, 128, 66, 128)  \
  X(w4_g32z_f16, 32, 20, 64)    \
  X(w4_g64z_f16, 64, 36, 64)    \
  X(w4_g128z_f16, 128, 68, 128) \
  X(w4_g32_bf16, 32, 18, 64)    \
  X(w4_g64_bf16, 64, 34, 64)    \
  X(w4_g128_bf16, 128, 66, 128) \
  X(w4_g32z_bf16, 32, 20, 64)   \
  X(w4_g64z_bf16, 64, 36, 64)   \
  X(w4_g128z_bf16, 128, 68, 128)

#define AC4K_WEIGHT_FORMATS(X) AC4K_GGUF_WEIGHTS(X) AC4K_W4_WEIGHTS(X)

// In the order of the choices that ops declare.
enum class WeightFormat : int {
#define AC4K_NAME(name, values, bytes, columns) name,
  AC4K_WEIGHT_FORMATS(AC4K_NAME)
#undef AC4K_NAME
};

struct WeightBlock {
  const char* name;
  int values;          // of a GGUF block, or of a group
  int bytes;           // of them
  int packed_columns;  // of a packed block
};

inline constexpr WeightBlock kWeightBlocks[] = {
#define AC4K_BLOCK(name, values, bytes, columns) {#name, values, bytes, columns},
    AC4K_WEIGHT_FORMATS(AC4K_BLOCK)
#undef AC4K_BLOCK
};
inline constexpr int kNumWeightFormats = sizeof(kWeightBlocks) / sizeof(kWeightBlocks[0]);

constexpr const WeightBlock& block_of(WeightFormat format) {
  return kWeightBlocks[static_cast<int>(format)];
}

// What the order of the W4A16 formats says.
inline constexpr int kNumW4Layouts = 6;
constexpr int w4_index(WeightFormat format) {
  return static_cast<int>(format) - static_cast<int>(WeightFormat::w4_g32_f16);
}
constexpr bool is_w4(WeightFormat format) { return w4_index(format) >= 0; }
constexpr bool w4_has_zeros(WeightFormat format) { return w4_index(format) / 3 % 2 == 1; }
constexpr bool w4_is_bf16(WeightFormat format) { return w4_index(format) >= kNumW4Layouts; }

// Weights are a scale times a code plus an offset.
constexpr bool has_offsets(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_1:
    case WeightFormat::q5_1:
    case WeightFormat::q2_k:
    case WeightFormat::q4_k:
    case WeightFormat::q5_k:
      return true;
    default:
      return is_w4(format) && w4_has_zeros(format);
  }
}

inline constexpr int kPackedRows = 64;     // rows of a tile
inline constexpr int kPackedColumns = 64;  // columns of a sub-block
inline constexpr int kPackedQuads = 32;    // pairs of rows r and r + 8 in a tile

// Bytes of one packed block: 64 rows of packed_columns columns.
constexpr int64_t packed_block_bytes(const WeightBlock& block) {
  return int64_t{kPackedRows} * (block.packed_columns / block.values) * block.bytes;
}
// Packed blocks along K.
constexpr int64_t packed_blocks(const WeightBlock& block, int64_t K) {
  return (K + block.packed_columns - 1) / block.packed_columns;
}

}  // namespace ac4k
