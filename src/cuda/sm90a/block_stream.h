// What the host hands to the products of raw GGUF blocks that come by tensor copies.
#pragma once

#include "../common/block_product.h"
#include "tensor_map.h"

namespace ac4k {

// Rows are aligned to 16 bytes; a box is a step of a tile's rows, as wide as they lie in a stage.
// Behind the step that is the beginning of the next one, behind the row zeros. Tokens that do not
// exist would take as much time as others: a box has no more of them than there are.
struct BlockStreamParams : BlockProductParams {
  TensorMap weight_boxes, token_boxes;
  int box_tokens;
};
inline constexpr int kStreamElementBytes = 8;    // of the boxes: no more than 256 in a row
inline constexpr int kStreamBarrierBytes = 128;  // before the ring

}  // namespace ac4k
