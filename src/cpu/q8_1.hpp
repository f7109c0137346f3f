// Products of raw GGUF blocks with q8_1 activations.
#pragma once

#include "core/status.hpp"
#include "cpu/common/q8_1_table.hpp"

namespace ac4k::cpu {

// out [M, N] = weight [M, K] activation [N, K]^T. Products of codes are exact integers, blocks are
// summed in float32.
struct BlockProduct {
  BlockProductFormat format;
  const uint8_t* weight;      // [M, K / 32, bytes]
  const uint8_t* activation;  // [N, K / 32, 36]
  int64_t M, N, num_blocks;   // K / 32
  int64_t weight_bytes;       // of a block
  float* out;
};
Status multiply_q8_1(const BlockProduct& product);

}  // namespace ac4k::cpu
