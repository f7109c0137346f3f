// GGUF blocks from numbers, over a level's vectors: blocks of 32 a vector at a time, super-blocks
// of 256 with one sub-block a lane. Numbers are float32 without NaN and infinities.
#pragma once

#include "ac4k/blocks.h"
#include "cpu/common/gguf_numbers-inl.hpp"
#include "cpu/common/table.hpp"

namespace ac4k::cpu {
namespace {

using gguf::half_bits;

AC4K_INLINE uint16_t stored_half(float value) { return static_cast<uint16_t>(half_bits(value)); }
AC4K_INLINE float inverse_or_zero(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

template <class V>
AC4K_INLINE Lanes<V> truncated(V a) {
  return __builtin_convertvector(a.v, Lanes<V>);
}
template <class V>
AC4K_INLINE V bounded(V a, float low, float high) {
  return min(max(a, V::broadcast(low)), V::broadcast(high));
}

struct Range {
  float low, high;
  // Never -0, whatever the zeros' signs.
  AC4K_INLINE float width() const { return high - low + 0.0f; }
};
template <class V>
AC4K_INLINE Range range_of(const float* x, int count) {
  V low = V::load(x), high = low;
  for (int i = V::kLanes; i < count; i += V::kLanes) {
    const V a = V::load(x + i);
    low = min(a, low), high = max(a, high);
  }
  Range range{-largest_lane(V::broadcast(0.0f) - low), largest_lane(high)};
  if (range.low == 0.0f) {  // with the sign of the first zero; none where a denormal was flushed
    int first = 0;
    while (first < count && x[first] != 0.0f) ++first;
    if (first < count) range.low = x[first];
  }
  return range;
}
// The number of largest magnitude, the first one of several.
template <class V>
AC4K_INLINE float extreme_of(const float* x) {
  const Range range = range_of<V>(x, 32);
  if (range.high != -range.low) return range.high > -range.low ? range.high : range.low;
  for (int i = 0; i < 32; ++i) {
    if (x[i] == range.high || x[i] == range.low) return x[i];
  }
  return 0.0f;
}
template <class V>
AC4K_INLINE float size_of(const float* x, int count) {
  V size = magnitude_of(V::load(x));
  for (int i = V::kLanes; i < count; i += V::kLanes) size = max(magnitude_of(V::load(x + i)), size);
  return largest_lane(size);
}

// Bit 4 of 32 codes as a word.
AC4K_INLINE void store_fifth_bits(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    uint64_t eight;
    __builtin_memcpy(&eight, codes + 8 * i, 8);
    // Gathers the lowest bits of eight bytes in the highest byte.
    out[i] = static_cast<uint8_t>(((eight >> 4 & 0x0101010101010101u) * 0x0102040810204080u) >> 56);
  }
}

template <class V, class Codes>
struct Encoder {
  using I = Lanes<V>;

  // code(i): codes of the numbers from i on.
  template <class Code>
  static AC4K_INLINE void store_nibbles(uint8_t* out, const Code& code) {
    for (int i = 0; i < 16; i += V::kLanes) Codes::store(code(i) | (code(i + 16) << 4), out + i);
  }
  template <class Code>
  static AC4K_INLINE void store_five_bits(uint8_t* qs, uint8_t* qh, const Code& code) {
    uint8_t codes[32];
    for (int i = 0; i < 16; i += V::kLanes) {
      const I low = code(i), high = code(i + 16);
      Codes::store(low, codes + i);
      Codes::store(high, codes + i + 16);
      Codes::store((low & 15) | ((high & 15) << 4), qs + i);
    }
    store_fifth_bits(codes, qh);
  }

  static void q4_0(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q4_0*>(to)[b];
      const float d = extreme_of<V>(x) * -0.125f;
      const V inverse = V::broadcast(inverse_or_zero(d)), half = V::broadcast(8.5f);
      block.d = stored_half(d);
      store_nibbles(block.qs, [&](int i) {
        return truncated(bounded(V::load(x + i) * inverse + half, 0.0f, 15.0f));
      });
    }
  }
  static void q5_0(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q5_0*>(to)[b];
      const float d = extreme_of<V>(x) * -0.0625f;
      const V inverse = V::broadcast(inverse_or_zero(d)), half = V::broadcast(16.5f);
      block.d = stored_half(d);
      store_five_bits(block.qs, block.qh, [&](int i) {
        return truncated(bounded(V::load(x + i) * inverse + half, 0.0f, 31.0f));
      });
    }
  }
  static void q4_1(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q4_1*>(to)[b];
      const Range range = range_of<V>(x, 32);
      const float d = range.width() / 15.0f;
      const V inverse = V::broadcast(inverse_or_zero(d)), low = V::broadcast(range.low);
      block.d = stored_half(d);
      block.m = stored_half(range.low);
      store_nibbles(block.qs, [&](int i) {
        const V scaled = (V::load(x + i) - low) * inverse + V::broadcast(0.5f);
        return truncated(bounded(scaled, 0.0f, 15.0f));
      });
    }
  }
  static void q5_1(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q5_1*>(to)[b];
      const Range range = range_of<V>(x, 32);
      const float d = range.width() / 31.0f;
      const V inverse = V::broadcast(inverse_or_zero(d)), low = V::broadcast(range.low);
      block.d = stored_half(d);
      block.m = stored_half(range.low);
      store_five_bits(block.qs, block.qh, [&](int i) {
        const V scaled = (V::load(x + i) - low) * inverse + V::broadcast(0.5f);
        return truncated(bounded(scaled, 0.0f, 31.0f));
      });
    }
  }
  // Half away from zero: the next integer where at least a half is cut off.
  static AC4K_INLINE I int8_code(V scaled) {
    const V size = bounded(magnitude_of(scaled), 0.0f, 127.0f);
    const I whole = truncated(size);
    const V rest = size - V{__builtin_convertvector(whole, typename LanesOf<V>::Float)};
    const I code = rest.v < V::broadcast(0.5f).v ? whole : whole + 1;
    return bits_of(scaled) < 0 ? -code : code;
  }
  static AC4K_INLINE int int8_codes(const float* x, float d, uint8_t* codes) {
    const V inverse = V::broadcast(inverse_or_zero(d));
    I sums{};
    for (int i = 0; i < 32; i += V::kLanes) {
      const I code = int8_code(V::load(x + i) * inverse);
      sums += code;
      Codes::store(code & 255, codes + i);
    }
    int sum = 0;
    for (int i = 0; i < V::kLanes; ++i) sum += sums[i];
    return sum;
  }
  static void q8_0(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q8_0*>(to)[b];
      const float d = size_of<V>(x, 32) / 127.0f;
      block.d = stored_half(d);
      int8_codes(x, d, reinterpret_cast<uint8_t*>(block.qs));
    }
  }
  static void q8_1(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_q8_1*>(to)[b];
      const float d = size_of<V>(x, 32) / 127.0f;
      block.d = stored_half(d);
      const int sum = int8_codes(x, d, reinterpret_cast<uint8_t*>(block.qs));
      block.s = stored_half(static_cast<float>(sum) * d);
    }
  }

  using Number = LaneNumber<V>;
  static AC4K_INLINE I fp4_codes(const float* x, float d) {
    const V a = V::load(x);
    const V size{gguf::fp4_magnitude(Number(magnitude_of(a).v), Number(d)).v};
    const I code = truncated(size), zero{};
    return ((bits_of(a) < 0) & (code > zero)) ? code | 8 : code;
  }
  static void mxfp4(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b, x += 32) {
      auto& block = reinterpret_cast<ac4k_block_mxfp4*>(to)[b];
      block.e = static_cast<uint8_t>(gguf::mxfp4_scale(size_of<V>(x, 32)));
      const float d = gguf::half_of_e8m0(block.e);
      store_nibbles(block.qs, [&](int i) { return fp4_codes(x + i, d); });
    }
  }
  static void nvfp4(const float* x, uint8_t* to, int64_t count) {
    for (int64_t b = 0; b < count; ++b) {
      auto& block = reinterpret_cast<ac4k_block_nvfp4*>(to)[b];
      for (int s = 0; s < 4; ++s, x += 16) {
        const unsigned scale = gguf::ue4m3_of(size_of<V>(x, 16) / 6.0f);
        block.d[s] = static_cast<uint8_t>(scale);
        const float d = gguf::half_of_ue4m3(scale);
        uint8_t codes[16];
        for (int i = 0; i < 16; i += V::kLanes) Codes::store(fp4_codes(x + i, d), codes + i);
        uint64_t halves[2];
        __builtin_memcpy(halves, codes, 16);
        halves[0] |= halves[1] << 4;
        __builtin_memcpy(block.qs + s * 8, halves, 8);
      }
    }
  }

  // ---- Searches, one sub-block of N numbers a lane -------------------------------------------

  // Lane j: sub-block first + j; lanes past the last repeat it.
  template <int N>
  static AC4K_INLINE void gather(const float* x, int64_t first, int64_t last, Number (&lanes)[N]) {
    float columns[N][V::kLanes];
    for (int lane = 0; lane < V::kLanes; ++lane) {
      const float* from = x + (first + lane < last ? first + lane : last - 1) * N;
      for (int i = 0; i < N; ++i) columns[i][lane] = from[i];
    }
    for (int i = 0; i < N; ++i) lanes[i] = Number(V::load(columns[i]).v);
  }
  static AC4K_INLINE float lane_of(Number a, int lane) { return a.v[lane]; }

  static void iq4_nl(const float* x, uint8_t* to, int64_t count) {
    auto* blocks = reinterpret_cast<ac4k_block_iq4_nl*>(to);
    for (int64_t first = 0; first < count; first += V::kLanes) {
      Number lanes[32];
      gather(x, first, count, lanes);
      const Number scales = gguf::fit_iq4(lanes);
      for (int lane = 0; lane < V::kLanes && first + lane < count; ++lane) {
        auto& block = blocks[first + lane];
        const float* from = x + (first + lane) * 32;
        const float d = lane_of(scales, lane), inverse = inverse_or_zero(d);
        block.d = stored_half(d);
        for (int i = 0; i < 16; ++i) {
          const unsigned low = gguf::iq4_code(inverse * from[i]);
          const unsigned high = gguf::iq4_code(inverse * from[i + 16]);
          block.qs[i] = static_cast<uint8_t>(low | high << 4);
        }
      }
    }
  }

  // Super-blocks at a time, so that every lane of the widest vectors has a sub-block.
  static constexpr int kTogether = 2;

  template <class Format>
  static AC4K_INLINE void pack(const gguf::SuperBlock& block, uint8_t* to) {
    for (int i = 0; i < Format::kBytes; ++i) to[i] = Format::byte(block, i);
  }

  template <class Format>
  static void affine(const float* x, uint8_t* to, int64_t count) {
    constexpr int N = Format::kSubBlock, kSubBlocks = 256 / N;
    using Fit = gguf::AffineFit<gguf::Exact>;
    for (int64_t b = 0; b < count; b += kTogether) {
      const int64_t together = count - b < kTogether ? count - b : kTogether;
      const float* from = x + b * 256;
      Fit fits[kTogether * kSubBlocks];
      for (int64_t s = 0; s < together * kSubBlocks; s += V::kLanes) {
        Number lanes[N];
        gather(from, s, together * kSubBlocks, lanes);
        const gguf::AffineFit<Number> found = gguf::fit_of(Format{}, lanes);
        for (int lane = 0; lane < V::kLanes && s + lane < together * kSubBlocks; ++lane) {
          fits[s + lane] = {lane_of(found.scale, lane), lane_of(found.min, lane),
                            lane_of(found.code_scale, lane), lane_of(found.code_min, lane)};
        }
      }
      for (int64_t k = 0; k < together; ++k) {
        const Fit* its = fits + k * kSubBlocks;
        float largest_scale = 0, largest_min = 0;
        for (int s = 0; s < kSubBlocks; ++s) {
          if (its[s].scale.v > largest_scale) largest_scale = its[s].scale.v;
          if (its[s].min.v > largest_min) largest_min = its[s].min.v;
        }
        gguf::SuperBlock block;
        block.d = Format::shared_scale(largest_scale);
        block.dmin = Format::shared_scale(largest_min);
        for (int s = 0; s < kSubBlocks; ++s) {
          Format::finish(from + k * 256 + s * N, its[s], largest_scale, largest_min, s, &block);
        }
        pack<Format>(block, to + (b + k) * Format::kBytes);
      }
    }
  }
  static void q2_k(const float* x, uint8_t* to, int64_t n) { affine<gguf::Q2K>(x, to, n); }
  static void q4_k(const float* x, uint8_t* to, int64_t n) { affine<gguf::Q4K>(x, to, n); }
  static void q5_k(const float* x, uint8_t* to, int64_t n) { affine<gguf::Q5K>(x, to, n); }

  // Formats with one kind of scale: fit(first, last, scales) searches, finish(k, s, largest, block)
  // makes codes of a sub-block.
  template <class Format, class Fit, class Finish>
  static AC4K_INLINE void symmetric(const float* x, uint8_t* to, int64_t count, const Fit& fit,
                                    const Finish& finish) {
    constexpr int N = Format::kSubBlock, kSubBlocks = 256 / N;
    for (int64_t b = 0; b < count; b += kTogether) {
      const int64_t together = count - b < kTogether ? count - b : kTogether;
      const float* from = x + b * 256;
      float scales[kTogether * kSubBlocks];
      for (int64_t s = 0; s < together * kSubBlocks; s += V::kLanes) {
        Number lanes[N];
        gather(from, s, together * kSubBlocks, lanes);
        const Number found = fit(lanes, s, together * kSubBlocks);
        for (int lane = 0; lane < V::kLanes && s + lane < together * kSubBlocks; ++lane) {
          scales[s + lane] = lane_of(found, lane);
        }
      }
      for (int64_t k = 0; k < together; ++k) {
        float largest = 0;
        for (int s = 0; s < kSubBlocks; ++s) {
          const float scale = scales[k * kSubBlocks + s];
          if (gguf::is_larger(scale, largest)) largest = scale;
        }
        gguf::SuperBlock block;
        block.d = Format::shared_scale(largest);
        for (int s = 0; s < kSubBlocks; ++s) {
          const int64_t index = k * kSubBlocks + s;
          finish(from + index * N, index, scales[index], largest, s, &block);
        }
        pack<Format>(block, to + (b + k) * Format::kBytes);
      }
    }
  }
  static void q3_k(const float* x, uint8_t* to, int64_t count) {
    uint8_t fitted[kTogether * 16][16];
    symmetric<gguf::Q3K>(
        x, to, count,
        [&](const Number(&lanes)[16], int64_t first, int64_t last) {
          Number codes[16];
          const Number scale = gguf::fit_q3(lanes, codes);
          for (int i = 0; i < 16; ++i) {
            for (int lane = 0; lane < V::kLanes && first + lane < last; ++lane) {
              fitted[first + lane][i] = static_cast<uint8_t>(lane_of(codes[i], lane));
            }
          }
          return scale;
        },
        [&](const float* from, int64_t index, float scale, float largest, int s,
            gguf::SuperBlock* block) {
          gguf::Q3K::finish(from, fitted[index], scale, largest, s, block);
        });
  }
  static void q6_k(const float* x, uint8_t* to, int64_t count) {
    gguf::SymmetricFit<gguf::Exact> fits[kTogether * 16];
    symmetric<gguf::Q6K>(
        x, to, count,
        [&](const Number(&lanes)[16], int64_t first, int64_t last) {
          const gguf::SymmetricFit<Number> found = gguf::fit_symmetric(lanes);
          for (int lane = 0; lane < V::kLanes && first + lane < last; ++lane) {
            fits[first + lane] = {lane_of(found.scale, lane), lane_of(found.code_scale, lane),
                                  lane_of(found.offset, lane)};
          }
          return found.scale;
        },
        [&](const float* from, int64_t index, float, float largest, int s,
            gguf::SuperBlock* block) { gguf::Q6K::finish(from, fits[index], largest, s, block); });
  }
  static void iq4_xs(const float* x, uint8_t* to, int64_t count) {
    symmetric<gguf::Iq4xs>(
        x, to, count,
        [](const Number(&lanes)[32], int64_t, int64_t) { return gguf::fit_iq4(lanes); },
        [](const float* from, int64_t, float scale, float largest, int s, gguf::SuperBlock* block) {
          gguf::Iq4xs::finish(from, scale, largest, s, block);
        });
  }
};

}  // namespace
}  // namespace ac4k::cpu
