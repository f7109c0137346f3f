// From bytes to the checked contents of a GGUF file.
#pragma once

#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace ac4k::gguf {

struct Entry {
  std::string_view key;
  ac4k_gguf_value value;
};

// Points into the bytes it was read from.
struct Contents {
  uint32_t version = 0;
  uint32_t alignment = 0;
  uint64_t data_offset = 0;
  std::vector<Entry> metadata;
  std::vector<ac4k_gguf_tensor> tensors;
};

// Checks everything there is to check without looking into tensors. Memory and time are in
// proportion to `size`, whatever the bytes say. `name` begins every error.
Status parse(std::string_view name, const void* bytes, uint64_t size, Contents* contents);

}  // namespace ac4k::gguf
