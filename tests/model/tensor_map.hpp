// What the model's cuTensorMapEncodeTiled writes and its tensor copies read.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace model {

inline constexpr uint32_t kMaxRank = 5;

struct TensorMap {
  uint64_t address;
  uint64_t strides[kMaxRank];  // bytes; the first is that of an element
  uint32_t dims[kMaxRank];
  uint16_t box[kMaxRank];
  uint16_t rank;
  uint16_t element_bytes;
  uint16_t swizzle_128;

  uint32_t box_bytes() const {
    uint32_t bytes = element_bytes;
    for (uint32_t d = 0; d < rank; ++d) bytes *= box[d];
    return bytes;
  }
  // The box at `at`, with zeros outside of the tensor. `check` gives the place of an element.
  template <typename Check>
  std::vector<unsigned char> read(const int64_t (&at)[kMaxRank], const Check& check) const {
    std::vector<unsigned char> bytes(box_bytes(), 0);
    const uint32_t count = box_bytes() / element_bytes;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t left = i;
      uint64_t from = address;
      bool inside = true;
      for (uint32_t d = 0; d < rank; ++d) {
        const int64_t place = at[d] + left % box[d];
        left /= box[d];
        inside = inside && place >= 0 && place < int64_t{dims[d]};
        from += static_cast<uint64_t>(place) * strides[d];
      }
      if (!inside) continue;
      std::memcpy(&bytes[i * element_bytes],
                  check(reinterpret_cast<const void*>(from), element_bytes), element_bytes);
    }
    return bytes;
  }
};
static_assert(sizeof(TensorMap) <= 128);

// Sixteen bytes trade places with others of the 128 by the row of 128 that they are in.
inline int64_t swizzled_128(int64_t address) { return address ^ ((address >> 7 & 7) << 4); }

}  // namespace model
