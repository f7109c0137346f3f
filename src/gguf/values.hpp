// Metadata values: sizes of numbers, and steps through arrays that the parser has checked.
#pragma once

#include <cstdint>

#include "ac4k/ac4k.h"

namespace ac4k::gguf {

// Bytes of a number; 0 for strings, arrays and unknown kinds.
uint64_t number_size(uint32_t kind);

// The element behind `element` (the first one when that is all zero); false behind the last.
bool next_element(const ac4k_gguf_value& array, ac4k_gguf_value* element);

}  // namespace ac4k::gguf
