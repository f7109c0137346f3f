// Reads little-endian fields from a span of bytes and never leaves it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace ac4k::gguf {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

class Cursor {
 public:
  Cursor(const void* bytes, uint64_t size) : begin_(static_cast<const char*>(bytes)), size_(size) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }
  const char* here() const { return begin_ + position_; }

  // All of them: false, and nothing moved, when the bytes end before.
  template <typename T>
  bool read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, here(), sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool skip(uint64_t count) {
    if (remaining() < count) return false;
    position_ += count;
    return true;
  }
  // A string behind its 64-bit length.
  bool read_string(std::string_view* text) {
    uint64_t length = 0;
    if (!read(&length)) return false;
    if (remaining() < length) {
      position_ -= sizeof length;
      return false;
    }
    *text = {here(), length};
    position_ += length;
    return true;
  }

 private:
  const char* begin_;
  uint64_t size_;
  uint64_t position_ = 0;
};

}  // namespace ac4k::gguf
