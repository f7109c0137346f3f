// Strings of a file that nobody vouches for: are they UTF-8, and how they may stand in an error.
#pragma once

#include <string>
#include <string_view>

namespace ac4k::gguf {

// Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// 'text' for an error message: control characters as \xNN, cut short when long. `text` is UTF-8.
std::string quoted(std::string_view text);

}  // namespace ac4k::gguf
