// ac4k_gguf_*: GGUF files through the C ABI.
#include <memory>
#include <new>
#include <string>

#include "gguf/mapping.hpp"
#include "gguf/parse.hpp"
#include "gguf/text.hpp"
#include "gguf/values.hpp"

struct ac4k_gguf {
  ac4k::gguf::Mapping mapping;  // stays empty for bytes of the caller
  const void* bytes = nullptr;
  uint64_t size = 0;
  ac4k::gguf::Contents contents;
};

namespace {

using ac4k::fail;
using ac4k::Status;

// A path for errors, which are UTF-8; paths need not be.
std::string printable(std::string path) {
  if (ac4k::gguf::is_utf8(path)) return path;
  for (char& c : path) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return path;
}

Status null_pointer(const char* argument) {
  return fail(AC4K_INVALID_VALUE, "gguf: argument '", argument, "': expected a pointer");
}

template <typename Fill>
Status make_file(ac4k_gguf** file, const Fill& fill) {
  if (file == nullptr) return null_pointer("file");
  *file = nullptr;
  try {
    auto made = std::make_unique<ac4k_gguf>();
    AC4K_TRY(fill(*made));
    *file = made.release();
    return AC4K_OK;
  } catch (const std::bad_alloc&) {
    return fail(AC4K_OUT_OF_MEMORY, "gguf: out of memory");
  }
}

}  // namespace

extern "C" {

ac4k_status ac4k_gguf_open(const char* path, ac4k_gguf** file) {
  if (path == nullptr) return fail(AC4K_INVALID_VALUE, "gguf: argument 'path': expected a path");
  return make_file(file, [path](ac4k_gguf& made) {
    const std::string name = "gguf: " + printable(path);
    AC4K_TRY(made.mapping.open(path, name));
    made.bytes = made.mapping.bytes();
    made.size = made.mapping.size();
    return ac4k::gguf::parse(name, made.bytes, made.size, &made.contents);
  });
}

ac4k_status ac4k_gguf_read(const void* bytes, size_t num_bytes, ac4k_gguf** file) {
  if (bytes == nullptr && num_bytes != 0) return null_pointer("bytes");
  return make_file(file, [bytes, num_bytes](ac4k_gguf& made) {
    made.bytes = bytes;
    made.size = num_bytes;
    return ac4k::gguf::parse("gguf", bytes, num_bytes, &made.contents);
  });
}

void ac4k_gguf_close(ac4k_gguf* file) { delete file; }

ac4k_gguf_header ac4k_gguf_get_header(const ac4k_gguf* file) {
  if (file == nullptr) return {};
  const auto& contents = file->contents;
  return {contents.version,
          contents.alignment,
          contents.metadata.size(),
          contents.tensors.size(),
          contents.data_offset,
          file->bytes,
          file->size};
}

ac4k_status ac4k_gguf_get_value(const ac4k_gguf* file, size_t index, ac4k_gguf_string* key,
                                ac4k_gguf_value* value) {
  if (file == nullptr) return null_pointer("file");
  if (key == nullptr) return null_pointer("key");
  if (value == nullptr) return null_pointer("value");
  const auto& metadata = file->contents.metadata;
  if (index >= metadata.size()) {
    return fail(AC4K_INVALID_VALUE, "gguf: argument 'index': expected less than ", metadata.size(),
                ", got ", index);
  }
  *key = {metadata[index].key.data(), metadata[index].key.size()};
  *value = metadata[index].value;
  return AC4K_OK;
}

int32_t ac4k_gguf_next_element(const ac4k_gguf_value* array, ac4k_gguf_value* element) {
  if (array == nullptr || element == nullptr) return 0;
  return ac4k::gguf::next_element(*array, element);
}

ac4k_status ac4k_gguf_get_tensor(const ac4k_gguf* file, size_t index, ac4k_gguf_tensor* tensor) {
  if (file == nullptr) return null_pointer("file");
  if (tensor == nullptr) return null_pointer("tensor");
  const auto& tensors = file->contents.tensors;
  if (index >= tensors.size()) {
    return fail(AC4K_INVALID_VALUE, "gguf: argument 'index': expected less than ", tensors.size(),
                ", got ", index);
  }
  *tensor = tensors[index];
  return AC4K_OK;
}

}  // extern "C"
