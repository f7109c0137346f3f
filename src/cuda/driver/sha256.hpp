// SHA-256 (FIPS 180-4), for keys and checks of the kernel cache.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ac4k::cuda {

class Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  // Adds the length first, so that ("ab", "c") and ("a", "bc") differ.
  Sha256& add_field(std::string_view bytes);
  Sha256& add_field(uint64_t value);
  // 64 hex digits. The object is used up.
  std::string hex();

 private:
  void add_block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_ = {};
  size_t buffered_ = 0;
  uint64_t num_bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace ac4k::cuda
