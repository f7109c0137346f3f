#include "gguf/values.hpp"

#include "gguf/cursor.hpp"

namespace ac4k::gguf {

uint64_t number_size(uint32_t kind) {
  switch (kind) {
    case AC4K_GGUF_UINT8:
    case AC4K_GGUF_INT8:
    case AC4K_GGUF_BOOL:
      return 1;
    case AC4K_GGUF_UINT16:
    case AC4K_GGUF_INT16:
      return 2;
    case AC4K_GGUF_UINT32:
    case AC4K_GGUF_INT32:
    case AC4K_GGUF_FLOAT32:
      return 4;
    case AC4K_GGUF_UINT64:
    case AC4K_GGUF_INT64:
    case AC4K_GGUF_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

namespace {

// Reads one value. An array's end is where its elements end, so they are stepped over; arrays are
// nested a few levels deep only, so all steps together stay in proportion to the bytes.
bool read_value(Cursor& cursor, uint32_t kind, ac4k_gguf_value* value) {
  if (const uint64_t size = number_size(kind); size != 0) {
    *value = {static_cast<int32_t>(kind), -1, 1, cursor.here(), size};
    return cursor.skip(size);
  }
  if (kind == AC4K_GGUF_STRING) {
    std::string_view text;
    if (!cursor.read_string(&text)) return false;
    *value = {AC4K_GGUF_STRING, -1, text.size(), text.data(), text.size()};
    return true;
  }
  uint32_t element_kind = 0;
  uint64_t count = 0;
  if (kind != AC4K_GGUF_ARRAY || !cursor.read(&element_kind) || !cursor.read(&count)) return false;
  *value = {AC4K_GGUF_ARRAY, static_cast<int32_t>(element_kind), count, cursor.here(), 0};
  if (const uint64_t size = number_size(element_kind); size != 0) {
    value->num_bytes = count * size;
    return cursor.skip(value->num_bytes);
  }
  ac4k_gguf_value element;
  for (uint64_t i = 0; i < count; ++i) {
    if (!read_value(cursor, element_kind, &element)) return false;
  }
  value->num_bytes = static_cast<uint64_t>(cursor.here() - static_cast<const char*>(value->data));
  return true;
}

}  // namespace

bool next_element(const ac4k_gguf_value& array, ac4k_gguf_value* element) {
  if (array.kind != AC4K_GGUF_ARRAY) return false;
  const auto* here = static_cast<const char*>(array.data);
  const char* const end = here + array.num_bytes;
  if (element->data != nullptr) here = static_cast<const char*>(element->data) + element->num_bytes;
  if (here == end) return false;
  Cursor cursor(here, static_cast<uint64_t>(end - here));
  return read_value(cursor, static_cast<uint32_t>(array.element_kind), element);
}

}  // namespace ac4k::gguf
