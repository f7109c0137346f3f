// GGUF super-blocks of 256: from the scales that the searches found to codes, and from codes to the
// bytes of a block. For host and device, as gguf_rules.h.
#pragma once

#include "gguf_rules.h"

namespace ac4k::gguf {

using Byte = unsigned char;

// ---- Halves ---------------------------------------------------------------------------------

AC4K_RULE float half_value(unsigned bits) {
  const unsigned magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  // Denormals are what is above the smallest normal number: none of float, which may be flushed.
  const unsigned value =
      magnitude < 0x00800000u
          ? bits_of((Exact(from_bits(magnitude + 0x38800000u)) - Exact(0x1p-14f)).v)
      : magnitude >= 0x0f800000u ? magnitude | 0x7f800000u
                                 : magnitude + 0x38000000u;
  return from_bits(value | sign);
}
// To nearest even; NaN is 0x7e00.
AC4K_RULE unsigned half_bits(float value) {
  const unsigned magnitude = bits_of(value) & 0x7fffffffu, sign = (bits_of(value) >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (magnitude < 0x38800000u) {                        // denormals: 0.5 has their last place
    return sign | (bits_of((Exact(from_bits(magnitude)) + Exact(0.5f)).v) - 0x3f000000u);
  }
  return sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
}

// ---- From scales to codes -------------------------------------------------------------------

// A super-block before it is packed. `codes` start at 0; scales and minimums are one for each
// sub-block.
struct SuperBlock {
  Byte codes[256];
  Byte scales[16], mins[16];
  unsigned d, dmin;  // halves
};

AC4K_RULE int scale_code(float inverse, float scale) {
  return to_int(Exact(inverse) * Exact(scale), -kAnyInt, kAnyInt);
}

// q2_k, q4_k and q5_k: d * scale * code - dmin * min, scales and minimums from 0 to kLevels.
template <int N, int kMaxCode, int kLevels>
struct AffineFormat {
  static constexpr int kSubBlock = N;

  AC4K_RULE static unsigned shared_scale(float largest) {
    return half_bits(largest > 0.0f ? (Exact(largest) / Exact(float{kLevels})).v : 0.0f);
  }
  AC4K_RULE static Byte level(float largest, float value) {
    if (!(largest > 0.0f)) return 0;
    const int code = scale_code((Exact(float{kLevels}) / Exact(largest)).v, value) & 255;
    return static_cast<Byte>(kLevels == 63 && code > 63 ? 63 : code);
  }
  // One sub-block; `shared` has d and dmin.
  AC4K_RULE static void finish(const float* x, const AffineFit<Exact>& fit, float largest_scale,
                               float largest_min, int index, SuperBlock* block) {
    const Byte scale = level(largest_scale, fit.scale.v), min = level(largest_min, fit.min.v);
    block->scales[index] = scale;
    block->mins[index] = min;
    // As they are read again: q2_k keeps both in one byte.
    const unsigned both = (scale | static_cast<unsigned>(min) << 4) & 255u;
    const unsigned kept_scale = kLevels == 15 ? both & 15u : scale;
    const unsigned kept_min = kLevels == 15 ? both >> 4 : min;
    const Exact step =
        Exact(half_value(shared_scale(largest_scale))) * Exact(static_cast<float>(kept_scale));
    const Exact offset =
        Exact(half_value(shared_scale(largest_min))) * Exact(static_cast<float>(kept_min));
    Byte* codes = block->codes + index * N;
    if (step == Exact(0.0f)) {
      AC4K_UNROLL
      for (int i = 0; i < N; ++i) {
        codes[i] = static_cast<Byte>(
            to_int(fit.code_scale * (Exact(x[i]) - fit.code_min), 0.0f, float{kMaxCode}));
      }
    } else {
      AC4K_UNROLL
      for (int i = 0; i < N; ++i) {
        codes[i] = static_cast<Byte>(to_int((Exact(x[i]) + offset) / step, 0.0f, float{kMaxCode}));
      }
    }
  }
};

// Which of a pair of scales is the larger one of a super-block: by magnitude, the first of equals.
AC4K_RULE bool is_larger(float scale, float than) {
  return magnitude(Exact(scale)) > magnitude(Exact(than));
}

// q3_k: d * (scale - 32) * (code - 4). `fitted` are the codes of the search.
struct Q3Format {
  static constexpr int kSubBlock = 16;
  AC4K_RULE static unsigned shared_scale(float largest) {
    if (largest == 0.0f) return 0;
    return half_bits((Exact(1.0f) / (Exact(-32.0f) / Exact(largest))).v);
  }
  AC4K_RULE static void finish(const float* x, const Byte* fitted, float scale, float largest,
                               int index, SuperBlock* block) {
    Byte* codes = block->codes + index * 16;
    int level = -32;
    block->scales[index] = 0;
    if (largest != 0.0f) {
      const Exact inverse = Exact(-32.0f) / Exact(largest);
      level = to_int(inverse * Exact(scale), -32.0f, 31.0f);
      block->scales[index] = static_cast<Byte>(level + 32);
    }
    const Exact step = Exact(half_value(shared_scale(largest))) * Exact(static_cast<float>(level));
    const bool keeps = step == Exact(0.0f);
    AC4K_UNROLL
    for (int i = 0; i < 16; ++i) {
      codes[i] = keeps ? fitted[i] : static_cast<Byte>(to_int(Exact(x[i]) / step, -4.0f, 3.0f) + 4);
    }
  }
};

// q6_k: d * scale * (code - 32).
struct Q6Format {
  static constexpr int kSubBlock = 16;
  AC4K_RULE static bool is_zero(float largest) {
    return magnitude(Exact(largest)) < Exact(kNoScaleBelow);
  }
  AC4K_RULE static unsigned shared_scale(float largest) {
    if (is_zero(largest)) return 0;
    return half_bits((Exact(1.0f) / (Exact(-128.0f) / Exact(largest))).v);
  }
  AC4K_RULE static void finish(const float* x, const SymmetricFit<Exact>& fit, float largest,
                               int index, SuperBlock* block) {
    Byte* codes = block->codes + index * 16;
    if (is_zero(largest)) {
      block->scales[index] = 0;
      AC4K_UNROLL
      for (int i = 0; i < 16; ++i) codes[i] = 0;
      return;
    }
    const Exact inverse = Exact(-128.0f) / Exact(largest);
    const int level = to_int(inverse * fit.scale, -128.0f, 127.0f);
    block->scales[index] = static_cast<Byte>(level & 255);
    const Exact step = Exact(half_value(shared_scale(largest))) * Exact(static_cast<float>(level));
    const bool keeps = step == Exact(0.0f);
    AC4K_UNROLL
    for (int i = 0; i < 16; ++i) {
      const Exact code = keeps ? code_of(fit.code_scale * Exact(x[i]), -32.0f, 31.0f) + fit.offset
                               : code_of(Exact(x[i]) / step, -32.0f, 31.0f) + Exact(32.0f);
      codes[i] = static_cast<Byte>(static_cast<int>(code.v));
    }
  }
};

// iq4_xs: d * (scale - 32) * iq4 value. Codes follow from d before it is rounded to a half.
struct Iq4xsFormat {
  static constexpr int kSubBlock = 32;
  AC4K_RULE static Exact exact_scale(float largest) { return Exact(-largest) / Exact(32.0f); }
  AC4K_RULE static unsigned shared_scale(float largest) {
    return half_bits(exact_scale(largest).v);
  }
  AC4K_RULE static void finish(const float* x, float scale, float largest, int index,
                               SuperBlock* block) {
    const Exact d = exact_scale(largest), zero(0.0f);
    const Exact inverse = d == zero ? zero : Exact(1.0f) / d;
    const int level = to_int(inverse * Exact(scale), -32.0f, 31.0f);
    block->scales[index] = static_cast<Byte>(level + 32);
    const Exact step = d * Exact(static_cast<float>(level));
    const Exact factor = step == zero ? zero : Exact(1.0f) / step;
    Byte* codes = block->codes + index * 32;
    AC4K_UNROLL
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<Byte>(iq4_code((factor * Exact(x[i])).v));
  }
};

// ---- Bytes ----------------------------------------------------------------------------------

AC4K_RULE Byte byte_of_half(unsigned half, int index) {
  return static_cast<Byte>(half >> (8 * index));
}

// Two bits each of four quarters of 128 values, 32 bytes for them.
AC4K_RULE Byte packed_pairs(const Byte* codes, int at, int shift) {
  const Byte* from = codes + at / 32 * 128 + at % 32;
  return static_cast<Byte>((from[0] >> shift & 3) | (from[32] >> shift & 3) << 2 |
                           (from[64] >> shift & 3) << 4 | (from[96] >> shift & 3) << 6);
}
// Nibbles of 64 values, 32 bytes for them: the first half low, the second high.
AC4K_RULE Byte packed_nibbles(const Byte* codes, int at) {
  const Byte* from = codes + at / 32 * 64 + at % 32;
  return static_cast<Byte>((from[0] & 15) | (from[32] & 15) << 4);
}
// Bit `bit` of the values 32 k + at, k from 0 to 7.
AC4K_RULE Byte packed_bits(const Byte* codes, int at, int bit) {
  unsigned byte = 0;
  AC4K_UNROLL
  for (int k = 0; k < 8; ++k) byte |= (codes[32 * k + at] >> bit & 1u) << k;
  return static_cast<Byte>(byte);
}
// Eight scales and eight minimums of 6 bits in 12 bytes.
AC4K_RULE Byte packed_scales(const SuperBlock& block, int at) {
  const Byte *s = block.scales, *m = block.mins;
  if (at < 4) return static_cast<Byte>(s[at] | s[at + 4] >> 4 << 6);
  if (at < 8) return static_cast<Byte>(m[at - 4] | m[at] >> 4 << 6);
  return static_cast<Byte>((s[at - 4] & 15) | (m[at - 4] & 15) << 4);
}

struct Q2K : AffineFormat<16, 3, 15> {
  static constexpr int kBytes = 84;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at < 16) return static_cast<Byte>(block.scales[at] | block.mins[at] << 4);
    if (at < 80) return packed_pairs(block.codes, at - 16, 0);
    return at < 82 ? byte_of_half(block.d, at - 80) : byte_of_half(block.dmin, at - 82);
  }
};
struct Q3K : Q3Format {
  static constexpr int kBytes = 110;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at < 32) return packed_bits(block.codes, at, 2);
    if (at < 96) return packed_pairs(block.codes, at - 32, 0);
    if (at >= 108) return byte_of_half(block.d, at - 108);
    const Byte* s = block.scales;
    if (at < 104) return static_cast<Byte>((s[at - 96] & 15) | (s[at - 88] & 15) << 4);
    const Byte* from = s + (at - 104);
    return static_cast<Byte>(from[0] >> 4 | from[4] >> 4 << 2 | from[8] >> 4 << 4 |
                             from[12] >> 4 << 6);
  }
};
struct Q4K : AffineFormat<32, 15, 63> {
  static constexpr int kBytes = 144;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at >= 16) return packed_nibbles(block.codes, at - 16);
    if (at >= 4) return packed_scales(block, at - 4);
    return at < 2 ? byte_of_half(block.d, at) : byte_of_half(block.dmin, at - 2);
  }
};
struct Q5K : AffineFormat<32, 31, 63> {
  static constexpr int kBytes = 176;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at >= 48) return packed_nibbles(block.codes, at - 48);
    if (at >= 16) return packed_bits(block.codes, at - 16, 4);
    if (at >= 4) return packed_scales(block, at - 4);
    return at < 2 ? byte_of_half(block.d, at) : byte_of_half(block.dmin, at - 2);
  }
};
struct Q6K : Q6Format {
  static constexpr int kBytes = 210;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at < 128) {  // 64 bytes for 128 values: the first 64 low, the others high
      const Byte* from = block.codes + at / 64 * 128 + at % 64;
      return static_cast<Byte>((from[0] & 15) | (from[64] & 15) << 4);
    }
    if (at < 192) return packed_pairs(block.codes, at - 128, 4);
    return at < 208 ? block.scales[at - 192] : byte_of_half(block.d, at - 208);
  }
};
struct Iq4xs : Iq4xsFormat {
  static constexpr int kBytes = 136;
  AC4K_RULE static Byte byte(const SuperBlock& block, int at) {
    if (at >= 8) {
      const Byte* from = block.codes + (at - 8) / 16 * 32 + (at - 8) % 16;
      return static_cast<Byte>(from[0] | from[16] << 4);
    }
    const Byte* s = block.scales;
    if (at < 2) return byte_of_half(block.d, at);
    if (at >= 4) return static_cast<Byte>((s[2 * at - 8] & 15) | (s[2 * at - 7] & 15) << 4);
    const Byte* from = s + (at - 2) * 4;
    return static_cast<Byte>(from[0] >> 4 | from[1] >> 4 << 2 | from[2] >> 4 << 4 |
                             from[3] >> 4 << 6);
  }
};

// ---- Which search a format takes ------------------------------------------------------------

template <class F>
struct PlainWeight {  // |x|
  AC4K_RULE F operator()(F x) const { return magnitude(x); }
};
template <class F>
struct RaisedWeight {  // |x| + the root of the mean square
  F mean;
  AC4K_RULE F operator()(F x) const { return mean + magnitude(x); }
};
template <class F>
AC4K_RULE RaisedWeight<F> raised_weight(const F (&x)[32]) {
  F sum(0.0f);
  AC4K_UNROLL
  for (int i = 0; i < 32; ++i) sum = sum + x[i] * x[i];
  return {square_root(sum / F(32.0f))};
}

template <class F>
AC4K_RULE AffineFit<F> fit_of(Q2K, const F (&x)[16]) {
  return fit_affine<true>(x, 3.0f, -0.5f, 15, PlainWeight<F>{});
}
template <class F>
AC4K_RULE AffineFit<F> fit_of(Q4K, const F (&x)[32]) {
  return fit_affine<false>(x, 15.0f, -1.0f, 20, raised_weight(x));
}
template <class F>
AC4K_RULE AffineFit<F> fit_of(Q5K, const F (&x)[32]) {
  return fit_affine<false>(x, 31.0f, -0.5f, 15, raised_weight(x));
}

}  // namespace ac4k::gguf
