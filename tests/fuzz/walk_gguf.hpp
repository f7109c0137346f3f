// Opens bytes as a GGUF file and reads everything a caller can reach, so that a wrong pointer or
// length is a sanitizer's finding. For the fuzzer and for the tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ac4k/ac4k.h"

namespace ac4k::gguf {

// Sums bytes where they stand; the result keeps the compiler from leaving the reads out.
inline uint64_t sum_bytes(const void* data, uint64_t count) {
  uint64_t sum = count;
  for (uint64_t i = 0; i < count; ++i) sum += static_cast<const unsigned char*>(data)[i];
  return sum;
}

inline uint64_t walk_value(const ac4k_gguf_value& value, int depth = 0) {
  if (depth > AC4K_GGUF_MAX_NESTING) abort();  // the reader has let too much through
  uint64_t sum = sum_bytes(value.data, value.num_bytes);
  if (value.kind != AC4K_GGUF_ARRAY) return sum;
  uint64_t count = 0;
  for (ac4k_gguf_value element{}; ac4k_gguf_next_element(&value, &element) != 0; ++count) {
    if (element.kind != value.element_kind) abort();
    sum += walk_value(element, depth + 1);
  }
  if (count != value.count) abort();
  return sum;
}

struct Walk {
  ac4k_status status = AC4K_OK;
  uint64_t sum = 0;
};

inline Walk walk(const void* bytes, size_t size) {
  ac4k_gguf* file = nullptr;
  Walk result;
  result.status = ac4k_gguf_read(bytes, size, &file);
  if (result.status != AC4K_OK) {
    if (file != nullptr || std::strlen(ac4k_last_error()) == 0) abort();
    result.sum = sum_bytes(ac4k_last_error(), std::strlen(ac4k_last_error()));
    return result;
  }
  const ac4k_gguf_header header = ac4k_gguf_get_header(file);
  for (uint64_t i = 0; i < header.num_values; ++i) {
    ac4k_gguf_string key;
    ac4k_gguf_value value;
    if (ac4k_gguf_get_value(file, i, &key, &value) != AC4K_OK) abort();
    result.sum += sum_bytes(key.data, key.num_bytes) + walk_value(value);
  }
  for (uint64_t i = 0; i < header.num_tensors; ++i) {
    ac4k_gguf_tensor tensor;
    if (ac4k_gguf_get_tensor(file, i, &tensor) != AC4K_OK) abort();
    uint64_t values = 1;
    for (int dim = 0; dim < tensor.ndim; ++dim) values *= static_cast<uint64_t>(tensor.shape[dim]);
    const uint64_t blocks = values / static_cast<uint64_t>(tensor.block_values);
    if (blocks * static_cast<uint64_t>(tensor.block_bytes) != tensor.num_bytes) abort();
    result.sum += sum_bytes(tensor.name.data, tensor.name.num_bytes) +
                  sum_bytes(tensor.data, tensor.num_bytes) + std::strlen(tensor.format);
  }
  ac4k_gguf_close(file);
  return result;
}

}  // namespace ac4k::gguf
