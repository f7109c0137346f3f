#include "core/dtype.hpp"

#include <array>

namespace ac4k {
namespace {

struct Row {
  const char* name;
  const char* display;
  uint8_t code;
  uint8_t bits;
};

constexpr std::array<Row, static_cast<size_t>(DType::count)> kRows = {{
    {"f32", "float32", kDLFloat, 32},
    {"f64", "float64", kDLFloat, 64},
    {"f16", "float16", kDLFloat, 16},
    {"bf16", "bfloat16", kDLBfloat, 16},
    {"u8", "uint8", kDLUInt, 8},
    {"i8", "int8", kDLInt, 8},
    {"i32", "int32", kDLInt, 32},
    {"i64", "int64", kDLInt, 64},
    {"f8e4m3", "float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"f8e5m2", "float8_e5m2", kDLFloat8_e5m2, 8},
}};

const Row& row(DType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

int64_t size_of(DType type) { return row(type).bits / 8; }
const char* name_of(DType type) { return row(type).name; }
const char* display_name(DType type) { return row(type).display; }

DLDataType to_dlpack(DType type) { return {row(type).code, row(type).bits, 1}; }

std::optional<DType> from_dlpack(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].code == type.code && kRows[i].bits == type.bits) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (name == kRows[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string display_name(DLDataType type) {
  if (const auto known = from_dlpack(type)) return display_name(*known);
  std::string text;
  if (type.lanes != 1) text = std::to_string(type.lanes) + " lanes of ";
  switch (type.code) {
    case kDLInt:
      text += "int";
      break;
    case kDLUInt:
      text += "uint";
      break;
    case kDLFloat:
      text += "float";
      break;
    case kDLBfloat:
      text += "bfloat";
      break;
    case kDLComplex:
      text += "complex";
      break;
    case kDLBool:
      return text + "bool";
    default:
      text += "DLPack type " + std::to_string(type.code) + " of ";
      break;
  }
  return text + std::to_string(type.bits) + (type.code > kDLBool ? " bits" : "");
}

}  // namespace ac4k
