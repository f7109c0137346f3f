// A file's bytes as memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/status.hpp"

namespace ac4k::gguf {

// Maps a whole file, privately: the memory may be written, the file never is.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  // `name` begins every error.
  Status open(const char* path, std::string_view name);

  const void* bytes() const { return bytes_; }
  uint64_t size() const { return size_; }

 private:
  void* bytes_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace ac4k::gguf
