#include "cpu/workspace.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace ac4k::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;

  void reset() {
    std::free(data);
    data = nullptr;
    bytes = 0;
  }
  ~Block() { reset(); }
};

thread_local Block block;

}  // namespace

void* workspace(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);  // nothing is no failure
  if (bytes <= block.bytes) return block.data;
  block.reset();
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return nullptr;
  block.data = std::aligned_alloc(alignment, rounded);
  if (block.data == nullptr) return nullptr;
  block.bytes = rounded;
  // Packed panels are walked across many 4 KiB pages; a hint only.
  if (alignment == kHugePage) madvise(block.data, rounded, MADV_HUGEPAGE);
  return block.data;
}

void release_workspace() {
  if (block.bytes > kKeptBytes) block.reset();
}

}  // namespace ac4k::cpu
