// The element types AC4K knows, by the short names signatures use.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ac4k/ac4k.h"

namespace ac4k {

enum class DType : uint8_t { f32, f64, f16, bf16, u8, i8, i32, i64, f8e4m3, f8e5m2, count };

// Bytes of one element.
int64_t size_of(DType type);
// "bf16", as in signatures.
const char* name_of(DType type);
// What a person calls the DLPack type: "bfloat16", "uint8", "complex64", "4 lanes of float32".
std::string display_name(DLDataType type);
const char* display_name(DType type);

DLDataType to_dlpack(DType type);
// A DLPack type as one word, to compare by.
inline uint32_t word_of(DLDataType type) { return std::bit_cast<uint32_t>(type); }
std::optional<DType> from_dlpack(DLDataType type);
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace ac4k
