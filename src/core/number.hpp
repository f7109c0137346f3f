// Numbers as text that files keep, the same whatever the locale: printf and strtod write and want
// the comma of one that has it.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace ac4k {

// The shortest text that reads back as `number`.
inline std::string text_of(double number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

// Nothing when `text` is not a number, and no more than that.
inline std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace ac4k
