// W4A16 weights to the packed layout of docs/packed_weights.md and back.
#pragma once

#include <cstdint>

#include "core/status.hpp"
#include "core/weight_formats.hpp"

namespace ac4k::cpu {

// Codes [N, K], a byte each, and 16-bit scales and zero points [N, num_groups]; groups are as
// format says, or larger ones of whole blocks.
template <typename Byte, typename Word>
struct W4Matrix {
  WeightFormat format;
  int64_t N, K, num_groups;
  Byte* codes;
  Word* scales;
  Word* zeros;  // null where the format has none
};

// The low four bits of codes count.
Status pack_w4(const W4Matrix<const uint8_t, const uint16_t>& from, uint8_t* packed);
Status unpack_w4(const uint8_t* packed, const W4Matrix<uint8_t, uint16_t>& to);

}  // namespace ac4k::cpu
