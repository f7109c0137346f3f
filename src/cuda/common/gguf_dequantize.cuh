// Numbers from GGUF blocks. A tile of raw bytes goes through shared memory, since blocks are not
// aligned to more than two bytes; a thread decodes eight neighbours, which share a scale in every
// format, and stores them with wide stores.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/gguf.h"
#include "common/gguf_bytes.cuh"
#include "common/types.cuh"

namespace ac4k {

using Byte = unsigned char;

__device__ __forceinline__ float half_at(const Byte* from) {
  const uint32_t bits = from[0] | static_cast<uint32_t>(from[1]) << 8;
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

// (code - bias) * scale + offset for eight codes of a byte each. The code becomes the last byte of
// 2^23's mantissa; all but the addition of the offset is exact, with or without a fused
// multiply-add.
__device__ __forceinline__ void scale_codes(uint2 codes, float bias, float scale, float offset,
                                            float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = __byte_perm(i < 4 ? codes.x : codes.y, 0x4b000000u, 0x7540u | (i % 4));
    values[i] = (__uint_as_float(bits) - (8388608.0f + bias)) * scale + offset;
  }
}
__device__ __forceinline__ void scale_codes(uint2 codes, float bias, float scale,
                                            float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = __byte_perm(i < 4 ? codes.x : codes.y, 0x4b000000u, 0x7540u | (i % 4));
    values[i] = (__uint_as_float(bits) - (8388608.0f + bias)) * scale;
  }
}

__device__ __forceinline__ uint2 field(uint2 words, int shift, uint32_t mask) {
  return uint2{(words.x >> shift) & mask, (words.y >> shift) & mask};
}
__device__ __forceinline__ uint2 join(uint2 a, uint2 b, int shift) {
  return uint2{a.x | b.x << shift, a.y | b.y << shift};
}
// Eight bits, one in each byte.
__device__ __forceinline__ uint2 spread_bits(uint32_t bits) {
  // Four bits land in four bytes without carries: each factor moves another one into place.
  return uint2{((bits & 15u) * 0x00204081u) & 0x01010101u,
               ((bits >> 4 & 15u) * 0x00204081u) & 0x01010101u};
}

// Four nibbles, one a byte, through a table of 16 bytes.
__device__ __forceinline__ uint32_t look_up(uint32_t nibbles, uint32_t t0, uint32_t t1, uint32_t t2,
                                            uint32_t t3) {
  const uint32_t pairs = (nibbles | nibbles >> 4) & 0x00ff00ffu;
  const uint32_t selector = (pairs | pairs >> 8) & 0xffffu;
  const uint32_t low = __byte_perm(t0, t1, selector & 0x7777u);
  const uint32_t high = __byte_perm(t2, t3, selector & 0x7777u);
  return __byte_perm(low, high, 0x3210u | (selector & 0x8888u) >> 1);
}
// Values plus 128, so that they are codes without a sign.
__device__ __forceinline__ uint2 look_up_iq4(uint2 nibbles) {
  constexpr uint32_t t0 = 0x3f2d1801u, t1 = 0x766a5d4fu, t2 = 0xa6998d81u, t3 = 0xf1d9c5b5u;
  return uint2{look_up(nibbles.x, t0, t1, t2, t3), look_up(nibbles.y, t0, t1, t2, t3)};
}
__device__ __forceinline__ uint2 look_up_fp4(uint2 nibbles) {
  constexpr uint32_t t0 = 0x83828180u, t1 = 0x8c888684u, t2 = 0x7d7e7f80u, t3 = 0x74787a7cu;
  return uint2{look_up(nibbles.x, t0, t1, t2, t3), look_up(nibbles.y, t0, t1, t2, t3)};
}

// The low (values 0 to 15) or high nibbles of a block of 32, for eight values from `at` on.
__device__ __forceinline__ uint2 nibbles_of(const Byte* qs, int at) {
  return field(load_eight(qs + at % 16), at / 16 * 4, 0x0f0f0f0fu);
}

// A format: values and bytes of a block, and decode() for eight values from `at` on.
struct DecodeQ4_0 {
  static constexpr int kValues = 32, kBytes = 18;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    scale_codes(nibbles_of(block + 2, at), 8.0f, half_at(block), values);
  }
};
struct DecodeQ4_1 {
  static constexpr int kValues = 32, kBytes = 20;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    scale_codes(nibbles_of(block + 4, at), 0.0f, half_at(block), half_at(block + 2), values);
  }
};
struct DecodeQ5_0 {
  static constexpr int kValues = 32, kBytes = 22;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const uint2 fifth = spread_bits(block[2 + at / 8]);
    scale_codes(join(nibbles_of(block + 6, at), fifth, 4), 16.0f, half_at(block), values);
  }
};
struct DecodeQ5_1 {
  static constexpr int kValues = 32, kBytes = 24;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const uint2 fifth = spread_bits(block[4 + at / 8]);
    scale_codes(join(nibbles_of(block + 8, at), fifth, 4), 0.0f, half_at(block), half_at(block + 2),
                values);
  }
};
// Signed bytes: turning the sign bit adds 128.
__device__ __forceinline__ void decode_bytes(const Byte* codes, float scale, float (&values)[8]) {
  const uint2 words = load_eight(codes);
  scale_codes(uint2{words.x ^ 0x80808080u, words.y ^ 0x80808080u}, 128.0f, scale, values);
}
struct DecodeQ8_0 {
  static constexpr int kValues = 32, kBytes = 34;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    decode_bytes(block + 2 + at, half_at(block), values);
  }
};
struct DecodeQ8_1 {
  static constexpr int kValues = 32, kBytes = 36;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    decode_bytes(block + 4 + at, half_at(block), values);
  }
};
struct DecodeQ2K {
  static constexpr int kValues = 256, kBytes = 84;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const uint32_t both = block[at / 16];
    const uint2 codes =
        field(load_eight(block + 16 + at / 128 * 32 + at % 32), at % 128 / 32 * 2, 0x03030303u);
    scale_codes(codes, 0.0f, half_at(block + 80) * static_cast<float>(both & 15u),
                -(half_at(block + 82) * static_cast<float>(both >> 4)), values);
  }
};
struct DecodeQ3K {
  static constexpr int kValues = 256, kBytes = 110;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const int s = at / 16;
    const int low = block[96 + s % 8] >> (s / 8 * 4) & 15;
    const int scale = (low | (block[104 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
    const uint2 pairs =
        field(load_eight(block + 32 + at / 128 * 32 + at % 32), at % 128 / 32 * 2, 0x03030303u);
    const uint2 third = field(load_eight(block + at % 32), at / 32, 0x01010101u);
    scale_codes(join(pairs, third, 2), 4.0f, half_at(block + 108) * static_cast<float>(scale),
                values);
  }
};
// The 6-bit scale and minimum of sub-block j, times d and dmin.
struct SixBits {
  float scale, min;
  __device__ __forceinline__ SixBits(const Byte* block, int j) {
    const Byte* b = block + 4;
    const int low = j % 4;
    const uint32_t s = b[low], m = b[low + 4], rest = b[low + 8];
    const uint32_t scale_code = j < 4 ? s & 63u : (rest & 15u) | s >> 6 << 4;
    const uint32_t min_code = j < 4 ? m & 63u : rest >> 4 | m >> 6 << 4;
    scale = half_at(block) * static_cast<float>(scale_code);
    min = half_at(block + 2) * static_cast<float>(min_code);
  }
};
struct DecodeQ4K {
  static constexpr int kValues = 256, kBytes = 144;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const SixBits six(block, at / 32);
    const uint2 codes =
        field(load_eight(block + 16 + at / 64 * 32 + at % 32), at % 64 / 32 * 4, 0x0f0f0f0fu);
    scale_codes(codes, 0.0f, six.scale, -six.min, values);
  }
};
struct DecodeQ5K {
  static constexpr int kValues = 256, kBytes = 176;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const SixBits six(block, at / 32);
    const uint2 low =
        field(load_eight(block + 48 + at / 64 * 32 + at % 32), at % 64 / 32 * 4, 0x0f0f0f0fu);
    const uint2 fifth = field(load_eight(block + 16 + at % 32), at / 32, 0x01010101u);
    scale_codes(join(low, fifth, 4), 0.0f, six.scale, -six.min, values);
  }
};
struct DecodeQ6K {
  static constexpr int kValues = 256, kBytes = 210;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const int quarter = at % 128 / 32;
    const Byte* nibbles = block + at / 128 * 64 + quarter % 2 * 32 + at % 32;
    const uint2 low = field(load_eight(nibbles), quarter / 2 * 4, 0x0f0f0f0fu);
    const uint2 top =
        field(load_eight(block + 128 + at / 128 * 32 + at % 32), quarter * 2, 0x03030303u);
    const int scale = static_cast<signed char>(block[192 + at / 16]);
    scale_codes(join(low, top, 4), 32.0f, half_at(block + 208) * static_cast<float>(scale), values);
  }
};
struct DecodeIq4Nl {
  static constexpr int kValues = 32, kBytes = 18;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    scale_codes(look_up_iq4(nibbles_of(block + 2, at)), 128.0f, half_at(block), values);
  }
};
struct DecodeIq4Xs {
  static constexpr int kValues = 256, kBytes = 136;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const int s = at / 32;
    const int low = block[4 + s / 2] >> (s % 2 * 4) & 15;
    const int scale = (low | (block[2 + s / 4] >> (s % 4 * 2) & 3) << 4) - 32;
    scale_codes(look_up_iq4(nibbles_of(block + 8 + s * 16, at % 32)), 128.0f,
                half_at(block) * static_cast<float>(scale), values);
  }
};
struct DecodeMxfp4 {
  static constexpr int kValues = 32, kBytes = 17;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const uint32_t e = block[0];
    const float scale = __uint_as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);  // 2^(e - 128)
    scale_codes(look_up_fp4(nibbles_of(block + 1, at)), 128.0f, scale, values);
  }
};
struct DecodeNvfp4 {
  static constexpr int kValues = 64, kBytes = 36;
  static __device__ __forceinline__ void decode(const Byte* block, int at, float (&values)[8]) {
    const uint32_t code = block[at / 16], exponent = code >> 3 & 15u, mantissa = code & 7u;
    float scale = exponent == 0 ? static_cast<float>(mantissa) * 0.0009765625f
                                : __uint_as_float((exponent + 119u) << 23 | mantissa << 20);
    if (code == 0x7f) scale = 0.0f;
    const uint2 nibbles = field(load_eight(block + 4 + at / 16 * 8), at % 16 / 8 * 4, 0x0f0f0f0fu);
    scale_codes(look_up_fp4(nibbles), 128.0f, scale, values);
  }
};

// Grid: one block of threads for kGgufTile values. Shared memory: the tile's bytes, at most 4.6 KB.
// Alignment: any, 16 bytes for speed. Roofline: HBM.
template <typename T, typename Format>
__device__ __forceinline__ void gguf_dequantize(const GgufDequantizeParams& params) {
  constexpr int kTileBytes = kGgufTile / Format::kValues * Format::kBytes;
  static_assert(kTileBytes % 16 == 0);
  __shared__ __align__(16) Byte tile[kTileBytes + 16];  // load_eight reads past the last block
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kGgufTile;
  const int64_t left = params.num_values - first;
  const int count = left < kGgufTile ? static_cast<int>(left) : kGgufTile;
  const Byte* from =
      static_cast<const Byte*>(params.blocks) + static_cast<int64_t>(blockIdx.x) * kTileBytes;
  wait_for_previous_kernels();
  bytes_to_shared(from, tile, count / Format::kValues * Format::kBytes, params.blocks_aligned);
  __syncthreads();
  allow_next_kernel();
  T* out = static_cast<T*>(params.out) + first;
#pragma unroll
  for (int step = 0; step < kGgufTile / (8 * kGgufThreads); ++step) {
    const int at = (step * kGgufThreads + static_cast<int>(threadIdx.x)) * 8;
    if (at >= count) return;
    float values[8];
    Format::decode(tile + at / Format::kValues * Format::kBytes, at % Format::kValues, values);
    if (params.out_aligned) {
      constexpr int kSize = Vector<T>::kSize;
#pragma unroll
      for (int part = 0; part < 8 / kSize; ++part) {
        float some[kSize];
#pragma unroll
        for (int i = 0; i < kSize; ++i) some[i] = values[part * kSize + i];
        store(reinterpret_cast<Vector<T>*>(out + at) + part, narrow<T>(some));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) out[at + i] = narrow<T>(values[i]);
    }
  }
}

}  // namespace ac4k

#define AC4K_DEQUANTIZE(T, suffix, Format, name)                                                 \
  extern "C" __global__ void __launch_bounds__(ac4k::kGgufThreads)                               \
  gguf_dequantize_##name##_##suffix(const __grid_constant__ ac4k::GgufDequantizeParams params) { \
    ac4k::gguf_dequantize<T, ac4k::Format>(params);                                              \
  }
#define AC4K_DEQUANTIZE_TYPES(Format, name)  \
  AC4K_DEQUANTIZE(float, f32, Format, name)  \
  AC4K_DEQUANTIZE(__half, f16, Format, name) \
  AC4K_DEQUANTIZE(__nv_bfloat16, bf16, Format, name)
