// The GGUF block formats as C++ sees them; include/ac4k/blocks.h has the list.
#pragma once

#include <cstdint>
#include <string_view>

#include "ac4k/blocks.h"

namespace ac4k {

// The order of the list; also the choices of the parameter `fmt`.
enum BlockFormat : int {
#define AC4K_NAME(name, values, bytes) kBlock_##name,
  AC4K_BLOCK_FORMATS(AC4K_NAME)
#undef AC4K_NAME
      kNumBlockFormats
};

struct BlockSize {
  const char* name;
  int32_t values, bytes;
};
inline constexpr BlockSize kBlockSizes[] = {
#define AC4K_ROW(name, values, bytes) {#name, values, bytes},
    AC4K_BLOCK_FORMATS(AC4K_ROW)
#undef AC4K_ROW
};

// For other tables that name formats: is this one known here, of these sizes?
constexpr bool is_block_format(std::string_view name, int values, int bytes) {
  for (const BlockSize& size : kBlockSizes) {
    if (name == size.name) return size.values == values && size.bytes == bytes;
  }
  return false;
}

#define AC4K_SIZE(name, values, bytes) static_assert(sizeof(ac4k_block_##name) == bytes);
AC4K_BLOCK_FORMATS(AC4K_SIZE)
#undef AC4K_SIZE

}  // namespace ac4k
