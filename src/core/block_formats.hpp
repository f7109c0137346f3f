// The GGUF block formats as C++ sees them; include/ac4k/blocks.h has the list.
#pragma once

#include <cstdint>

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

#define AC4K_SIZE(name, values, bytes) static_assert(sizeof(ac4k_block_##name) == bytes);
AC4K_BLOCK_FORMATS(AC4K_SIZE)
#undef AC4K_SIZE

}  // namespace ac4k
