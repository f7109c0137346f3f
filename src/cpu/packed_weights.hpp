// From GGUF blocks to the packed layout of docs/packed_weights.md and back.
#pragma once

#include <cstdint>

#include "core/status.hpp"
#include "core/weight_formats.hpp"

namespace ac4k::cpu {

// blocks: [N, K / values, bytes]; packed: [ceil(N / 64), packed_blocks, packed_block_bytes].
Status pack_weight(WeightFormat format, const uint8_t* blocks, int64_t N, int64_t K,
                   uint8_t* packed);
Status unpack_weight(WeightFormat format, const uint8_t* packed, int64_t N, int64_t K,
                     uint8_t* blocks);

}  // namespace ac4k::cpu
