// Numbers from GGUF blocks, over a level's vectors. Every product is exact in float32 (scales have
// 11 bits, at most 8 more of a sub-block, codes at most 7), so that only the subtraction of a
// minimum rounds.
#pragma once

#include "ac4k/blocks.h"
#include "cpu/common/formats-inl.hpp"
#include "cpu/common/table.hpp"
#include "cuda/common/gguf_pack.h"

namespace ac4k::cpu {
namespace {

using gguf::half_value;

template <class B>
AC4K_INLINE const B& block_at(const uint8_t* blocks, int64_t index) {
  return reinterpret_cast<const B*>(blocks)[index];
}

template <class V>
AC4K_INLINE V numbers(Lanes<V> codes) {
  return V{__builtin_convertvector(codes, typename LanesOf<V>::Float)};
}

// out[i] = scale * map(code) - offset for `count` codes; fetch(i) gives the lanes from i on.
template <class V, class Fetch>
AC4K_INLINE void decode_lanes(int count, float scale, const Fetch& fetch, float* out) {
  const V factor = V::broadcast(scale);
  for (int i = 0; i < count; i += V::kLanes) (numbers<V>(fetch(i)) * factor).store(out + i);
}
template <class V, class Fetch>
AC4K_INLINE void decode_lanes(int count, float scale, float offset, const Fetch& fetch,
                              float* out) {
  const V factor = V::broadcast(scale), shift = V::broadcast(offset);
  for (int i = 0; i < count; i += V::kLanes) {
    (numbers<V>(fetch(i)) * factor + shift).store(out + i);
  }
}

// Lane i: bit `first + i` of a word, in place 4.
template <class V>
AC4K_INLINE Lanes<V> fifth_bits(uint32_t word, int first) {
  Lanes<V> index;
  for (int i = 0; i < V::kLanes; ++i) index[i] = i;
  return ((lanes_of<V>(static_cast<int32_t>(word >> first)) >> index) & 1) << 4;
}
AC4K_INLINE uint32_t word_at(const uint8_t* bytes) {
  uint32_t word;
  __builtin_memcpy(&word, bytes, sizeof(word));
  return word;
}

// What the 16 nibbles stand for.
struct Iq4Table {
  static AC4K_INLINE int value(unsigned code) { return gguf::iq4_value(code); }
};
struct Fp4Table {
  static AC4K_INLINE int value(unsigned code) { return gguf::fp4_value(code); }
};
template <class V, class Codes, class Table>
AC4K_INLINE void decode_table16(const uint8_t* nibbles, int shift, float scale, float* out) {
  // Looked up as bytes first: a shuffle where the level has one.
  typedef uint8_t Bytes16 __attribute__((vector_size(16)));
  Bytes16 table, index, values;
  for (unsigned i = 0; i < 16; ++i) table[i] = static_cast<uint8_t>(Table::value(i) + 128);
  __builtin_memcpy(&index, nibbles, 16);
  index = (index >> static_cast<uint8_t>(shift)) & 15;
  values = __builtin_shuffle(table, index);
  uint8_t bytes[16];
  __builtin_memcpy(bytes, &values, 16);
  decode_lanes<V>(16, scale, [&](int i) { return Codes::load(bytes + i) - 128; }, out);
}

template <class V, class Codes>
struct Decoder {
  using I = Lanes<V>;
  static AC4K_INLINE I low(const uint8_t* p) { return Codes::load(p) & 15; }
  static AC4K_INLINE I high(const uint8_t* p) { return Codes::load(p) >> 4; }

  static void q4_0(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q4_0>(from, b);
      const float d = half_value(block.d);
      decode_lanes<V>(16, d, [&](int i) { return low(block.qs + i) - 8; }, out);
      decode_lanes<V>(16, d, [&](int i) { return high(block.qs + i) - 8; }, out + 16);
    }
  }
  static void q4_1(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q4_1>(from, b);
      const float d = half_value(block.d), m = half_value(block.m);
      decode_lanes<V>(16, d, m, [&](int i) { return low(block.qs + i); }, out);
      decode_lanes<V>(16, d, m, [&](int i) { return high(block.qs + i); }, out + 16);
    }
  }
  static void q5_0(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q5_0>(from, b);
      const float d = half_value(block.d);
      const uint32_t fifth = word_at(block.qh);
      decode_lanes<V>(
          16, d, [&](int i) { return (low(block.qs + i) | fifth_bits<V>(fifth, i)) - 16; }, out);
      decode_lanes<V>(
          16, d, [&](int i) { return (high(block.qs + i) | fifth_bits<V>(fifth, i + 16)) - 16; },
          out + 16);
    }
  }
  static void q5_1(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q5_1>(from, b);
      const float d = half_value(block.d), m = half_value(block.m);
      const uint32_t fifth = word_at(block.qh);
      decode_lanes<V>(
          16, d, m, [&](int i) { return low(block.qs + i) | fifth_bits<V>(fifth, i); }, out);
      decode_lanes<V>(
          16, d, m, [&](int i) { return high(block.qs + i) | fifth_bits<V>(fifth, i + 16); },
          out + 16);
    }
  }
  static AC4K_INLINE void bytes32(const signed char* codes, float d, float* out) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
    decode_lanes<V>(32, d, [&](int i) { return (Codes::load(bytes + i) ^ 0x80) - 0x80; }, out);
  }
  static void q8_0(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q8_0>(from, b);
      bytes32(block.qs, half_value(block.d), out);
    }
  }
  static void q8_1(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_q8_1>(from, b);
      bytes32(block.qs, half_value(block.d), out);
    }
  }
  static void q2_k(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_q2_k>(from, b);
      const float d = half_value(block.d), dmin = half_value(block.dmin);
      for (int s = 0; s < 16; ++s, out += 16) {
        const uint8_t* codes = block.qs + s / 8 * 32 + s % 2 * 16;
        const int shift = s % 8 / 2 * 2;
        decode_lanes<V>(
            16, d * static_cast<float>(block.scales[s] & 15),
            -(dmin * static_cast<float>(block.scales[s] >> 4)),
            [&](int i) { return (Codes::load(codes + i) >> shift) & 3; }, out);
      }
    }
  }
  static void q3_k(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_q3_k>(from, b);
      const float d = half_value(block.d);
      for (int s = 0; s < 16; ++s, out += 16) {
        const int low4 = s < 8 ? block.scales[s] & 15 : block.scales[s - 8] >> 4;
        const int scale = (low4 | (block.scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
        const uint8_t* codes = block.qs + s / 8 * 32 + s % 2 * 16;
        const uint8_t* third = block.hmask + s % 2 * 16;
        const int shift = s % 8 / 2 * 2, bit = s / 2;
        decode_lanes<V>(
            16, d * static_cast<float>(scale),
            [&](int i) {
              const I top = ((Codes::load(third + i) >> bit) & 1) << 2;
              return (((Codes::load(codes + i) >> shift) & 3) | top) - 4;
            },
            out);
      }
    }
  }
  struct ScaleAndMin {
    float scale, min;
  };
  static AC4K_INLINE ScaleAndMin six_bits(const uint8_t* b, int j, float d, float dmin) {
    const int scale = j < 4 ? b[j] & 63 : (b[j + 4] & 15) | b[j - 4] >> 6 << 4;
    const int min = j < 4 ? b[j + 4] & 63 : b[j + 4] >> 4 | b[j] >> 6 << 4;
    return {d * static_cast<float>(scale), -(dmin * static_cast<float>(min))};
  }
  static void q4_k(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_q4_k>(from, b);
      const float d = half_value(block.d), dmin = half_value(block.dmin);
      for (int s = 0; s < 8; s += 2, out += 64) {
        const uint8_t* codes = block.qs + s * 16;
        const ScaleAndMin one = six_bits(block.scales, s, d, dmin);
        const ScaleAndMin two = six_bits(block.scales, s + 1, d, dmin);
        decode_lanes<V>(32, one.scale, one.min, [&](int i) { return low(codes + i); }, out);
        decode_lanes<V>(32, two.scale, two.min, [&](int i) { return high(codes + i); }, out + 32);
      }
    }
  }
  static void q5_k(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_q5_k>(from, b);
      const float d = half_value(block.d), dmin = half_value(block.dmin);
      for (int s = 0; s < 8; s += 2, out += 64) {
        const uint8_t* codes = block.qs + s * 16;
        const auto fifth = [&](int i, int bit) {
          return ((Codes::load(block.qh + i) >> bit) & 1) << 4;
        };
        const ScaleAndMin one = six_bits(block.scales, s, d, dmin);
        const ScaleAndMin two = six_bits(block.scales, s + 1, d, dmin);
        decode_lanes<V>(
            32, one.scale, one.min, [&](int i) { return low(codes + i) | fifth(i, s); }, out);
        decode_lanes<V>(
            32, two.scale, two.min, [&](int i) { return high(codes + i) | fifth(i, s + 1); },
            out + 32);
      }
    }
  }
  static void q6_k(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_q6_k>(from, b);
      const float d = half_value(block.d);
      for (int s = 0; s < 16; ++s, out += 16) {
        const int half = s / 8, quarter = s % 8 / 2, at = s % 2 * 16;
        const uint8_t* nibbles = block.ql + half * 64 + quarter % 2 * 32 + at;
        const uint8_t* pairs = block.qh + half * 32 + at;
        const int nibble_shift = quarter / 2 * 4, pair_shift = quarter * 2;
        decode_lanes<V>(
            16, d * static_cast<float>(block.scales[s]),
            [&](int i) {
              const I top = ((Codes::load(pairs + i) >> pair_shift) & 3) << 4;
              return (((Codes::load(nibbles + i) >> nibble_shift) & 15) | top) - 32;
            },
            out);
      }
    }
  }
  static void iq4_nl(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_iq4_nl>(from, b);
      const float d = half_value(block.d);
      decode_table16<V, Codes, Iq4Table>(block.qs, 0, d, out);
      decode_table16<V, Codes, Iq4Table>(block.qs, 4, d, out + 16);
    }
  }
  static void iq4_xs(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_iq4_xs>(from, b);
      const float d = half_value(block.d);
      for (int s = 0; s < 8; ++s, out += 32) {
        const int low4 = block.scales_l[s / 2] >> (s % 2 * 4) & 15;
        const int scale = (low4 | (block.scales_h >> (2 * s) & 3) << 4) - 32;
        const float step = d * static_cast<float>(scale);
        decode_table16<V, Codes, Iq4Table>(block.qs + s * 16, 0, step, out);
        decode_table16<V, Codes, Iq4Table>(block.qs + s * 16, 4, step, out + 16);
      }
    }
  }
  static void mxfp4(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b, out += 32) {
      const auto& block = block_at<ac4k_block_mxfp4>(from, b);
      const float d = gguf::half_of_e8m0(block.e);
      decode_table16<V, Codes, Fp4Table>(block.qs, 0, d, out);
      decode_table16<V, Codes, Fp4Table>(block.qs, 4, d, out + 16);
    }
  }
  static void nvfp4(const uint8_t* from, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      const auto& block = block_at<ac4k_block_nvfp4>(from, b);
      for (int s = 0; s < 4; ++s, out += 16) {
        uint64_t pairs, nibbles[2];  // one a byte, in order
        __builtin_memcpy(&pairs, block.qs + s * 8, 8);
        nibbles[0] = pairs & 0x0f0f0f0f0f0f0f0fu;
        nibbles[1] = pairs >> 4 & 0x0f0f0f0f0f0f0f0fu;
        decode_table16<V, Codes, Fp4Table>(reinterpret_cast<const uint8_t*>(nibbles), 0,
                                           gguf::half_of_ue4m3(block.d[s]), out);
      }
    }
  }
};

}  // namespace
}  // namespace ac4k::cpu
