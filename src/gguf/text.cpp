#include "gguf/text.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace ac4k::gguf {
namespace {

constexpr size_t kLongestQuote = 96;

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character that starts at `text`, 0 when there is none.
size_t character_size(const unsigned char* text, size_t size) {
  const unsigned char first = text[0];
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or an overlong form
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first > 0xF4 || size < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const unsigned char second = text[1];
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool too_large = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight = 0;  // most text is ASCII
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, bytes + i, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const size_t length = character_size(bytes + i, text.size() - i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string quoted(std::string_view text) {
  const bool cut = text.size() > kLongestQuote;
  if (cut) {
    size_t end = kLongestQuote;
    while (end > 0 && is_continuation(static_cast<unsigned char>(text[end]))) --end;
    text = text.substr(0, end);
  }
  std::string result = "'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", byte);
      result += buffer;
    } else {
      result += c;
    }
  }
  return result + (cut ? "...'" : "'");
}

}  // namespace ac4k::gguf
