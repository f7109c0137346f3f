// Every count and length of the file is compared with the bytes that are left before it is used,
// so nothing is allocated, skipped or multiplied on a file's word alone.
#include "gguf/parse.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "gguf/cursor.hpp"
#include "gguf/text.hpp"
#include "gguf/types.hpp"
#include "gguf/values.hpp"

namespace ac4k::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kSmallestAlignment = 8;  // of the standard, so that 64-bit numbers are aligned
constexpr uint64_t kLongestName = 65535;
// The shortest encodings, to bound counts by the bytes left: a key's length, a type and a value;
// a name's length, the number of dims, a type and an offset; an array's type and count.
constexpr uint64_t kSmallestEntry = 8 + 4 + 1;
constexpr uint64_t kSmallestTensor = 8 + 4 + 4 + 8;
constexpr uint64_t kSmallestString = 8;
constexpr uint64_t kSmallestArray = 4 + 8;

uint64_t smallest_size(uint32_t kind) {
  const uint64_t size = number_size(kind);
  if (size != 0) return size;
  return kind == AC4K_GGUF_STRING ? kSmallestString : kSmallestArray;
}

class Parser {
 public:
  Parser(std::string_view name, const void* bytes, uint64_t size, Contents* contents)
      : name_(name),
        bytes_(static_cast<const char*>(bytes)),
        size_(size),
        cursor_(bytes, size),
        contents_(*contents) {}

  Status run() {
    AC4K_TRY(read_header());
    for (uint64_t i = 0; i < num_entries_; ++i) AC4K_TRY(read_entry(i));
    AC4K_TRY(check_unique_keys());
    AC4K_TRY(find_alignment());
    for (uint64_t i = 0; i < num_tensors_; ++i) AC4K_TRY(read_tensor(i));
    return place_tensors();
  }

 private:
  template <typename... Parts>
  Status error(const Parts&... parts) const {
    return fail(AC4K_INVALID_VALUE, name_, ": ", parts...);
  }

  // "metadata 'x': value: ... " for what the file is too short for.
  template <typename... Parts>
  Status truncated(const Parts&... field) const {
    return error(field..., ": expected more bytes, got the end of the file (", size_,
                 " bytes) in this field, which starts at ", cursor_.position());
  }

  Status read_header() {
    if (size_ < kMagic.size() || std::string_view(bytes_, kMagic.size()) != kMagic) {
      return error("magic: expected the bytes 'GGUF', got ",
                   size_ < kMagic.size() ? "a file of " + std::to_string(size_) + " bytes"
                                         : std::string("others"));
    }
    cursor_.skip(kMagic.size());
    if (!cursor_.read(&contents_.version)) return truncated("version");
    const uint32_t version = contents_.version;
    if (version != 0 && (version & 0xFFFF) == 0) {
      return fail(AC4K_UNSUPPORTED, name_, ": version: expected a little-endian 2 or 3, got ",
                  __builtin_bswap32(version), " in big-endian order; convert the file first");
    }
    if (version != 2 && version != 3) {
      return error("version: expected 2 or 3, got ", version);
    }
    if (!cursor_.read(&num_tensors_)) return truncated("tensor_count");
    if (!cursor_.read(&num_entries_)) return truncated("metadata_kv_count");
    AC4K_TRY(check_count("tensor_count", num_tensors_, kSmallestTensor));
    return check_count("metadata_kv_count", num_entries_, kSmallestEntry);
  }

  Status check_count(std::string_view field, uint64_t count, uint64_t smallest) const {
    const uint64_t most = cursor_.remaining() / smallest;
    if (count <= most) return AC4K_OK;
    return error(field, ": expected at most ", most, ", which is what ", cursor_.remaining(),
                 " bytes have room for, got ", count);
  }

  // ---- Metadata ----

  Status read_entry(uint64_t index) {
    Entry entry{};
    AC4K_TRY(read_name("metadata key", index, &entry.key));
    where_ = "metadata " + quoted(entry.key);
    uint32_t kind = 0;
    if (!cursor_.read(&kind)) return truncated(where_, ": type");
    AC4K_TRY(read_value("type", kind, 0, &entry.value));
    contents_.metadata.push_back(entry);
    return AC4K_OK;
  }

  // A key or a tensor's name.
  Status read_name(std::string_view what, uint64_t index, std::string_view* name) {
    if (!cursor_.read_string(name)) return truncated(what, " ", index);
    if (name->size() > kLongestName) {
      return error(what, " ", index, ": expected at most ", kLongestName, " bytes, got ",
                   name->size());
    }
    if (!is_utf8(*name)) return error(what, " ", index, ": expected UTF-8, got other bytes");
    return AC4K_OK;
  }

  // The bytes of a value of a given kind; `field` is where the kind stood.
  Status read_value(const char* field, uint32_t kind, int depth, ac4k_gguf_value* value) {
    if (const uint64_t size = number_size(kind); size != 0) {
      *value = {static_cast<int32_t>(kind), -1, 1, cursor_.here(), size};
      if (!cursor_.skip(size)) return truncated(where_, ": value");
      return check_bools(*value);
    }
    if (kind == AC4K_GGUF_STRING) {
      std::string_view text;
      if (!cursor_.read_string(&text)) return truncated(where_, ": string");
      if (!is_utf8(text)) return error(where_, ": string: expected UTF-8, got other bytes");
      *value = {AC4K_GGUF_STRING, -1, text.size(), text.data(), text.size()};
      return AC4K_OK;
    }
    if (kind == AC4K_GGUF_ARRAY) return read_array(depth + 1, value);
    return error(where_, ": ", field, ": expected a type from 0 to ", int{AC4K_GGUF_FLOAT64},
                 ", got ", kind);
  }

  Status read_array(int depth, ac4k_gguf_value* value) {
    if (depth > AC4K_GGUF_MAX_NESTING) {
      return error(where_, ": expected at most ", AC4K_GGUF_MAX_NESTING,
                   " levels of arrays, got more");
    }
    uint32_t kind = 0;
    uint64_t count = 0;
    if (!cursor_.read(&kind)) return truncated(where_, ": array type");
    if (kind > AC4K_GGUF_FLOAT64) {
      return error(where_, ": array type: expected a type from 0 to ", int{AC4K_GGUF_FLOAT64},
                   ", got ", kind);
    }
    if (!cursor_.read(&count)) return truncated(where_, ": array length");
    if (const uint64_t most = cursor_.remaining() / smallest_size(kind); count > most) {
      return error(where_, ": array length: expected at most ", most, ", which is what ",
                   cursor_.remaining(), " bytes have room for, got ", count);
    }
    *value = {AC4K_GGUF_ARRAY, static_cast<int32_t>(kind), count, cursor_.here(), 0};
    if (const uint64_t size = number_size(kind); size != 0) {
      cursor_.skip(count * size);
    } else {
      ac4k_gguf_value element;
      for (uint64_t i = 0; i < count; ++i) {
        AC4K_TRY(read_value("array type", kind, depth, &element));
      }
    }
    value->num_bytes =
        static_cast<uint64_t>(cursor_.here() - static_cast<const char*>(value->data));
    return check_bools(*value);
  }

  // Of a bool or an array of them: what is neither 0 nor 1 is damage.
  Status check_bools(const ac4k_gguf_value& value) const {
    if (value.kind != AC4K_GGUF_BOOL && value.element_kind != AC4K_GGUF_BOOL) return AC4K_OK;
    const auto* bytes = static_cast<const unsigned char*>(value.data);
    const auto* bad = std::find_if(bytes, bytes + value.count, [](auto byte) { return byte > 1; });
    if (bad == bytes + value.count) return AC4K_OK;
    return error(where_, ": value: expected 0 or 1 for a bool, got ", int{*bad});
  }

  Status check_unique_keys() const {
    std::vector<std::string_view> keys;
    keys.reserve(contents_.metadata.size());
    for (const Entry& entry : contents_.metadata) keys.push_back(entry.key);
    return check_unique("metadata", std::move(keys));
  }

  Status check_unique(std::string_view what, std::vector<std::string_view> names) const {
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return AC4K_OK;
    return error(what, " ", quoted(*twice), ": expected names that differ, got this one twice");
  }

  Status find_alignment() {
    contents_.alignment = kDefaultAlignment;
    for (const Entry& entry : contents_.metadata) {
      if (entry.key != "general.alignment") continue;
      if (entry.value.kind != AC4K_GGUF_UINT32) {
        return error("metadata 'general.alignment': type: expected ", int{AC4K_GGUF_UINT32},
                     " (uint32), got ", entry.value.kind);
      }
      std::memcpy(&contents_.alignment, entry.value.data, sizeof contents_.alignment);
      if (contents_.alignment < kSmallestAlignment || !std::has_single_bit(contents_.alignment)) {
        return error("metadata 'general.alignment': value: expected a power of two from ",
                     kSmallestAlignment, ", got ", contents_.alignment);
      }
    }
    return AC4K_OK;
  }

  // ---- Tensors ----

  Status read_tensor(uint64_t index) {
    ac4k_gguf_tensor tensor{};
    std::string_view name;
    AC4K_TRY(read_name("tensor name", index, &name));
    tensor.name = {name.data(), name.size()};
    where_ = "tensor " + quoted(name);
    uint64_t dims[AC4K_GGUF_MAX_DIMS] = {};
    AC4K_TRY(read_dims(&tensor, dims));
    uint32_t id = 0;
    if (!cursor_.read(&id)) return truncated(where_, ": type");
    const TensorType* type = find_type(id);
    if (type == nullptr) {
      return error(where_, ": type: expected a tensor type in use, at most ", last_type(), ", got ",
                   id);
    }
    tensor.type = static_cast<int32_t>(type->id);
    tensor.format = type->name;
    tensor.block_values = static_cast<int32_t>(type->block_values);
    tensor.block_bytes = static_cast<int32_t>(type->block_bytes);
    if (!cursor_.read(&tensor.offset)) return truncated(where_, ": offset");
    if (tensor.offset % contents_.alignment != 0) {
      return error(where_, ": offset: expected a multiple of ", contents_.alignment, ", got ",
                   tensor.offset);
    }
    AC4K_TRY(measure(*type, dims, &tensor));
    contents_.tensors.push_back(tensor);
    return AC4K_OK;
  }

  // The file has the fastest dim first.
  Status read_dims(ac4k_gguf_tensor* tensor, uint64_t* dims) {
    uint32_t ndim = 0;
    if (!cursor_.read(&ndim)) return truncated(where_, ": n_dims");
    if (ndim > AC4K_GGUF_MAX_DIMS) {
      return error(where_, ": n_dims: expected at most ", AC4K_GGUF_MAX_DIMS, ", got ", ndim);
    }
    tensor->ndim = static_cast<int32_t>(ndim);
    for (uint32_t i = 0; i < ndim; ++i) {
      if (!cursor_.read(&dims[i])) return truncated(where_, ": dim ", i);
    }
    uint64_t product = 1;  // zeros left out: then no other dim can be absurd either
    for (uint32_t i = 0; i < ndim; ++i) {
      const bool overflow =
          __builtin_mul_overflow(product, std::max<uint64_t>(dims[i], 1), &product) ||
          product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      if (overflow) {
        return error(where_, ": dim ", i,
                     ": expected fewer than 2^63 values in all, got a size of ", dims[i]);
      }
      tensor->shape[ndim - 1 - i] = static_cast<int64_t>(dims[i]);
    }
    return AC4K_OK;
  }

  Status measure(const TensorType& type, const uint64_t* dims, ac4k_gguf_tensor* tensor) const {
    const uint64_t columns = tensor->ndim == 0 ? 1 : dims[0];
    if (columns % type.block_values != 0) {
      return error(where_, ": dim 0: expected a multiple of ", type.block_values, " for ",
                   type.name, ", got ", columns);
    }
    uint64_t blocks = columns / type.block_values;
    for (int32_t i = 1; i < tensor->ndim; ++i) blocks *= dims[i];
    if (__builtin_mul_overflow(blocks, uint64_t{type.block_bytes}, &tensor->num_bytes)) {
      return error(where_, ": dims: expected fewer than 2^64 bytes, got ", blocks, " blocks of ",
                   type.block_bytes);
    }
    return AC4K_OK;
  }

  // Offsets are relative to a section that begins, aligned, where the tensors' list ends.
  Status place_tensors() {
    std::vector<std::string_view> names;
    names.reserve(contents_.tensors.size());
    for (const auto& tensor : contents_.tensors) {
      names.emplace_back(tensor.name.data, tensor.name.num_bytes);
    }
    AC4K_TRY(check_unique("tensor", std::move(names)));
    const uint64_t mask = uint64_t{contents_.alignment} - 1;
    // A file without tensors may end before its padding does.
    contents_.data_offset = std::min((cursor_.position() + mask) & ~mask, size_);
    const uint64_t available = size_ - contents_.data_offset;
    for (auto& tensor : contents_.tensors) {
      if (tensor.offset > available || tensor.num_bytes > available - tensor.offset) {
        return error("tensor ", quoted({tensor.name.data, tensor.name.num_bytes}), ": offset ",
                     tensor.offset, ": expected ", tensor.num_bytes,
                     " bytes from there, got a file with ",
                     tensor.offset > available ? 0 : available - tensor.offset);
      }
      tensor.offset += contents_.data_offset;
      tensor.data = bytes_ + tensor.offset;
    }
    return check_overlap();
  }

  Status check_overlap() const {
    std::vector<const ac4k_gguf_tensor*> order;
    order.reserve(contents_.tensors.size());
    for (const auto& tensor : contents_.tensors) {
      if (tensor.num_bytes != 0) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const auto &before = *order[i - 1], &tensor = *order[i];
      const uint64_t end = before.offset + before.num_bytes;
      if (tensor.offset < end) {
        return error("tensor ", quoted({tensor.name.data, tensor.name.num_bytes}),
                     ": offset: expected at least ", end - contents_.data_offset, ", the end of ",
                     quoted({before.name.data, before.name.num_bytes}), ", got ",
                     tensor.offset - contents_.data_offset);
      }
    }
    return AC4K_OK;
  }

  std::string_view name_;
  const char* bytes_;
  uint64_t size_;
  Cursor cursor_;
  Contents& contents_;
  uint64_t num_entries_ = 0;
  uint64_t num_tensors_ = 0;
  std::string where_;  // which value or tensor is being read, for errors
};

}  // namespace

Status parse(std::string_view name, const void* bytes, uint64_t size, Contents* contents) {
  return Parser(name, bytes, size, contents).run();
}

}  // namespace ac4k::gguf
