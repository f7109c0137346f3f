// The tensor types of GGUF files: number in the file, name, and size of a block.
#pragma once

#include <cstdint>

namespace ac4k::gguf {

struct TensorType {
  uint32_t id;
  const char* name;
  uint32_t block_values;  // consecutive values that are stored together
  uint32_t block_bytes;
};

// Null for numbers that mean nothing, or nothing any more (types that were withdrawn).
const TensorType* find_type(uint32_t id);

// The largest number that is in use.
uint32_t last_type();

}  // namespace ac4k::gguf
