// One GGUF block: its codes to a byte each and back, and its scales to the packed layout and back.
#pragma once

#include <cstdint>

#include "core/weight_formats.hpp"

namespace ac4k::cpu {

// codes: `values` of the block, unsigned; q8_0 biased by 128.
void read_codes(WeightFormat format, const uint8_t* block, uint8_t* codes);
// Only the code bits of `block` are written.
void write_codes(WeightFormat format, const uint8_t* codes, uint8_t* block);

// The scales of GGUF block `index` of a packed block's row to the record of its quad; `half` is 1
// for row r + 8.
void pack_scales(WeightFormat format, const uint8_t* block, int index, int half, uint8_t* record);
// Only the scale bytes of `block` are written.
void unpack_scales(WeightFormat format, const uint8_t* record, int index, int half, uint8_t* block);

}  // namespace ac4k::cpu
