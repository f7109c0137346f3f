// Where codes and scales lie in GGUF blocks: docs/packed_weights.md, include/ac4k/blocks.h.
#include "cpu/gguf_codes.hpp"

#include <cstring>

namespace ac4k::cpu {
namespace {

using enum WeightFormat;

// A part of a block that holds bits of codes: value i is in field `field(i)` of byte `byte(i)`.
struct Field {
  int byte, bit;
};

// Bytes before the codes and before the high bits; -1: none.
struct Offsets {
  int codes, high, scales, scale_bytes, d, d_bytes;
};
constexpr Offsets offsets_of(WeightFormat format) {
  switch (format) {
    case q4_0:
    case iq4_nl:
      return {2, -1, 0, 2, -1, 0};
    case q4_1:
      return {4, -1, 0, 4, -1, 0};
    case q5_0:
      return {6, 2, 0, 2, -1, 0};
    case q5_1:
      return {8, 4, 0, 4, -1, 0};
    case q8_0:
      return {2, -1, 0, 2, -1, 0};
    case q2_k:
      return {16, -1, 0, 16, 80, 4};
    case q3_k:
      return {32, 0, 96, 12, 108, 2};
    case q4_k:
      return {16, -1, 4, 12, 0, 4};
    case q5_k:
      return {48, 16, 4, 12, 0, 4};
    case q6_k:
      return {0, 128, 192, 16, 208, 2};
    case iq4_xs:
      return {8, -1, 2, 6, 0, 2};
    case mxfp4:
      return {1, -1, 0, 1, -1, 0};
    case nvfp4:
      return {4, -1, 0, 4, -1, 0};
    default:  // not GGUF's
      return {};
  }
}

// Low bits of value i, relative to the codes.
constexpr Field low_field(WeightFormat format, int i) {
  switch (format) {
    case q8_0:
      return {i, 0};
    case q2_k:
    case q3_k:
      return {i / 128 * 32 + i % 32, i % 128 / 32 * 2};
    case q4_k:
    case q5_k:
      return {i / 64 * 32 + i % 32, i % 64 / 32 * 4};
    case q6_k:
      return {i / 128 * 64 + i % 64, i % 128 / 64 * 4};
    case nvfp4:
      return {i / 16 * 8 + i % 8, i % 16 / 8 * 4};
    default:  // iq4_xs is eight blocks of iq4_nl's kind
      return {i / 32 * 16 + i % 16, i % 32 / 16 * 4};
  }
}
constexpr int low_bits(WeightFormat format) {
  return format == q8_0 ? 8 : format == q2_k || format == q3_k ? 2 : 4;
}

// High bits of value i, relative to theirs.
constexpr Field high_field(WeightFormat format, int i) {
  switch (format) {
    case q6_k:
      return {i / 128 * 32 + i % 32, i % 128 / 32 * 2};
    case q3_k:
    case q5_k:
      return {i % 32, i / 32};
    default:  // q5_0, q5_1: a word of 32 bits
      return {i / 8, i % 8};
  }
}
constexpr int high_bits(WeightFormat format) { return format == q6_k ? 2 : 1; }

uint32_t get24(const uint8_t* p) { return static_cast<uint32_t>(p[0] | p[1] << 8 | p[2] << 16); }
void put24(uint32_t value, uint8_t* p) {
  for (int i = 0; i < 3; ++i) p[i] = static_cast<uint8_t>(value >> (8 * i));
}
uint8_t byte(uint32_t value) { return static_cast<uint8_t>(value); }

// 6-bit numbers in groups of four, 24 bits each.
void put_groups(const uint8_t* values, int count, uint8_t* to) {
  for (int g = 0; g < count / 4; ++g, values += 4) {
    put24(static_cast<uint32_t>(values[0] | values[1] << 6 | values[2] << 12 | values[3] << 18),
          to + 3 * g);
  }
}
void get_groups(const uint8_t* from, int count, uint8_t* values) {
  for (int i = 0; i < count; ++i) values[i] = byte(get24(from + i / 4 * 3) >> (i % 4 * 6) & 63);
}

// q4_k, q5_k: scale and minimum of sub-block 2j, then of 2j + 1.
void read_scales_k4(const uint8_t* b, uint8_t* values) {
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? b[j] & 63 : (b[j + 4] & 15) | (b[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | (b[j] >> 6) << 4;
    values[2 * j] = byte(static_cast<uint32_t>(scale));
    values[2 * j + 1] = byte(static_cast<uint32_t>(minimum));
  }
}
void write_scales_k4(const uint8_t* values, uint8_t* b) {
  for (int j = 0; j < 4; ++j) {
    const int scale = values[2 * j], minimum = values[2 * j + 1];
    const int scale4 = values[2 * j + 8], minimum4 = values[2 * j + 9];
    b[j] = static_cast<uint8_t>(scale | scale4 >> 4 << 6);
    b[j + 4] = static_cast<uint8_t>(minimum | minimum4 >> 4 << 6);
    b[j + 8] = static_cast<uint8_t>((scale4 & 15) | (minimum4 & 15) << 4);
  }
}

void read_scales_q3(const uint8_t* b, uint8_t* values) {
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? b[j] & 15 : b[j - 8] >> 4;
    const int high = b[8 + j % 4] >> (2 * (j / 4)) & 3;
    values[j] = static_cast<uint8_t>(low | high << 4);
  }
}
void write_scales_q3(const uint8_t* values, uint8_t* b) {
  std::memset(b, 0, 12);
  for (int j = 0; j < 16; ++j) {
    b[j % 8] = static_cast<uint8_t>(b[j % 8] | (values[j] & 15) << (j / 8 * 4));
    b[8 + j % 4] = static_cast<uint8_t>(b[8 + j % 4] | values[j] >> 4 << (2 * (j / 4)));
  }
}

// iq4_xs: two bytes of high pairs, then four of low nibbles.
void read_scales_iq4_xs(const uint8_t* b, uint8_t* values) {
  for (int j = 0; j < 8; ++j) {
    const int low = b[2 + j / 2] >> (4 * (j % 2)) & 15;
    const int high = b[j / 4] >> (2 * (j % 4)) & 3;
    values[j] = static_cast<uint8_t>(low | high << 4);
  }
}
void write_scales_iq4_xs(const uint8_t* values, uint8_t* b) {
  std::memset(b, 0, 6);
  for (int j = 0; j < 8; ++j) {
    b[2 + j / 2] = static_cast<uint8_t>(b[2 + j / 2] | (values[j] & 15) << (4 * (j % 2)));
    b[j / 4] = static_cast<uint8_t>(b[j / 4] | values[j] >> 4 << (2 * (j % 4)));
  }
}

// Where a row's scales and its d lie in the record of a quad.
struct Record {
  int scales, d;
};
constexpr Record record_of(WeightFormat format, int index, int half) {
  const Offsets at = offsets_of(format);
  switch (format) {
    case q4_k:
    case q5_k:
      return {16 * half + 4, 16 * half};
    case iq4_xs:
      return {8 * half + 2, 8 * half};
    case q2_k:
    case q3_k:
    case q6_k:
      return {at.scale_bytes * half, at.scale_bytes * 2 + at.d_bytes * half};
    case nvfp4:
      return {4 * half, 0};
    default:
      return {at.scale_bytes * (2 * half + index), 0};
  }
}

}  // namespace

void read_codes(WeightFormat format, const uint8_t* block, uint8_t* codes) {
  const Offsets at = offsets_of(format);
  const int values = block_of(format).values, bits = low_bits(format);
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (int i = 0; i < values; ++i) {
    const Field field = low_field(format, i);
    codes[i] = block[at.codes + field.byte] >> field.bit & mask;
  }
  if (format == q8_0) {
    for (int i = 0; i < values; ++i) codes[i] ^= 0x80;
  }
  if (at.high < 0) return;
  const int high_mask = (1 << high_bits(format)) - 1;
  for (int i = 0; i < values; ++i) {
    const Field field = high_field(format, i);
    const int high = block[at.high + field.byte] >> field.bit & high_mask;
    codes[i] = static_cast<uint8_t>(codes[i] | high << bits);
  }
}

void write_codes(WeightFormat format, const uint8_t* codes, uint8_t* block) {
  const Offsets at = offsets_of(format);
  const int values = block_of(format).values, bits = low_bits(format);
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  const uint8_t bias = format == q8_0 ? 0x80 : 0;
  std::memset(block + at.codes, 0, static_cast<std::size_t>(values * bits / 8));
  for (int i = 0; i < values; ++i) {
    const Field field = low_field(format, i);
    uint8_t& to = block[at.codes + field.byte];
    to = static_cast<uint8_t>(to | ((codes[i] ^ bias) & mask) << field.bit);
  }
  if (at.high < 0) return;
  std::memset(block + at.high, 0, static_cast<std::size_t>(values * high_bits(format) / 8));
  for (int i = 0; i < values; ++i) {
    const Field field = high_field(format, i);
    uint8_t& to = block[at.high + field.byte];
    to = static_cast<uint8_t>(to | codes[i] >> bits << field.bit);
  }
}

void pack_scales(WeightFormat format, const uint8_t* block, int index, int half, uint8_t* record) {
  const Offsets at = offsets_of(format);
  const Record to = record_of(format, index, half);
  const uint8_t* scales = block + at.scales;
  uint8_t values[16];
  if (at.d >= 0) std::memcpy(record + to.d, block + at.d, static_cast<std::size_t>(at.d_bytes));
  switch (format) {
    case q4_k:
    case q5_k:
      read_scales_k4(scales, values);
      return put_groups(values, 16, record + to.scales);
    case q3_k:
      read_scales_q3(scales, values);
      return put_groups(values, 16, record + to.scales);
    case iq4_xs:
      read_scales_iq4_xs(scales, values);
      return put_groups(values, 8, record + to.scales);
    default:
      std::memcpy(record + to.scales, scales, static_cast<std::size_t>(at.scale_bytes));
  }
}

void unpack_scales(WeightFormat format, const uint8_t* record, int index, int half,
                   uint8_t* block) {
  const Offsets at = offsets_of(format);
  const Record from = record_of(format, index, half);
  uint8_t* scales = block + at.scales;
  uint8_t values[16];
  if (at.d >= 0) std::memcpy(block + at.d, record + from.d, static_cast<std::size_t>(at.d_bytes));
  switch (format) {
    case q4_k:
    case q5_k:
      get_groups(record + from.scales, 16, values);
      return write_scales_k4(values, scales);
    case q3_k:
      get_groups(record + from.scales, 16, values);
      return write_scales_q3(values, scales);
    case iq4_xs:
      get_groups(record + from.scales, 8, values);
      return write_scales_iq4_xs(values, scales);
    default:
      std::memcpy(scales, record + from.scales, static_cast<std::size_t>(at.scale_bytes));
  }
}

}  // namespace ac4k::cpu
