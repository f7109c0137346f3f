// Scratch memory of a call, kept by the calling thread for its next call.
#pragma once

#include <cstddef>

namespace ac4k::cpu {

// Memory aligned to 64 bytes, valid until this thread's next call; null when there is none left.
// Up to kKeptBytes stay with the thread; larger blocks are given back by release_workspace().
inline constexpr std::size_t kKeptBytes = std::size_t{256} << 20;
void* workspace(std::size_t bytes);
void release_workspace();

}  // namespace ac4k::cpu
