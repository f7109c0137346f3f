// DecodeKernels of linear_table.hpp over a level's quads: one to four tokens against a tile of 64
// rows.
#pragma once

#include "cpu/common/linear_table.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu {
namespace {

// The offset of codes, or how often a minimum counts: by what sums of activations are multiplied.
// Lanes of short formats repeat each scale four times.
template <class Format>
constexpr float sum_factor() {
  const float factor = Format::kHasMinimum ? 1.0f : -Format::kOffset;
  return Format::kLong ? factor : factor / 4;
}
#define AC4K_SUM_FACTOR(Format) sum_factor<Format>()
constexpr float kSumFactors[] = {AC4K_FORMAT_POLICIES(AC4K_SUM_FACTOR)};
#undef AC4K_SUM_FACTOR

template <class Q>
bool prepare_group(const float* x, WeightFormat format, ActivationGroup* group) {
  constexpr float kLargest = 32639;  // 127 * 256 + 127: high and low bytes both fit
  constexpr float kSmallest = 0x1p-100f;
  float largest = kSmallest, check = 0;
  for (int i = 0; i < kGroupColumns; ++i) {
    const float magnitude = __builtin_fabsf(x[i]);
    largest = magnitude > largest ? magnitude : largest;
    check += x[i] * 0.0f;
  }
  if (check != 0) return false;  // NaN
  const float inverse = kLargest / largest;
  int16_t fixed[kGroupColumns];
  for (int i = 0; i < kGroupColumns; ++i) {
    const float scaled = x[i] * inverse;
    fixed[i] =
        static_cast<int16_t>(static_cast<int32_t>(scaled + __builtin_copysignf(0.5f, scaled)));
  }
  const float factor = kSumFactors[static_cast<int>(format)];
  for (int i = 0; i < 16; ++i) {
    int32_t sum = 0;
    for (int k = 0; k < 16; ++k) sum += fixed[16 * i + k];
    group->sums[i] = static_cast<float>(sum) * factor;
  }
  group->scale = largest / kLargest;
  const bool in_order = bytes_in_order(format);
  for (int j = 0; j < 4; ++j) {
    int16_t ordered[64];
    for (int i = 0; i < 64; ++i) ordered[i] = fixed[64 * j + quad_column(in_order, i / 4, i % 4)];
    Q::store_planes(ordered, group->planes[j]);
  }
  return true;
}

template <class Q, class Format, int kTokens>
struct QuadSums {
  using Codes = typename Q::Codes;
  using Lanes = typename Q::Lanes;
  Lanes sums[2][kTokens];

  template <int kSubBlock>
  AC4K_INLINE void add_long(const uint8_t* block, int quad, const Lanes (&scales)[2],
                            const ActivationGroup* const (&x)[kTokens]) {
    Codes codes[2];
    Format::template codes<Q>(block, kSubBlock, quad, codes);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Lanes scale = Q::template spread<kSubBlock>(scales[i]);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[i][t] = fma(Q::dot(codes[i], x[t]->planes[kSubBlock]), scale, sums[i][t]);
      }
    }
  }

  AC4K_INLINE void add_group(const uint8_t* block, int, int quad,
                             const ActivationGroup* const (&x)[kTokens])
    requires(Format::kLong)
  {
    Lanes scales[2], minimums[2];
    Format::template scales<Q>(block, quad, scales);
    if constexpr (Format::kHasMinimum) Format::template minimums<Q>(block, quad, minimums);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[i][t] = (Format::kHasMinimum ? minimums[i] : scales[i]) * Lanes::load(x[t]->sums);
      }
    }
    add_long<0>(block, quad, scales, x);
    add_long<1>(block, quad, scales, x);
    add_long<2>(block, quad, scales, x);
    add_long<3>(block, quad, scales, x);
  }

  // Sub-blocks `first` and on of the group: one block.
  AC4K_INLINE void add_short(const uint8_t* block, int first, int quad,
                             const ActivationGroup* const (&x)[kTokens]) {
    Lanes scales[2], minimums[2];
    Format::template scales<Q>(block, quad, scales);
    if constexpr (Format::kHasMinimum) Format::template minimums<Q>(block, quad, minimums);
#pragma GCC unroll 2
    for (int j = 0; j < Format::kSubBlocks; ++j) {
      Codes codes[2];
      Format::template codes<Q>(block, j, quad, codes);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const Lanes sum = Lanes::load_four(x[t]->sums + 4 * (first + j));
          sums[i][t] = fma(Format::kHasMinimum ? minimums[i] : scales[i], sum, sums[i][t]);
          sums[i][t] = fma(Q::dot(codes[i], x[t]->planes[first + j]), scales[i], sums[i][t]);
        }
      }
    }
  }

  AC4K_INLINE void add_group(const uint8_t* block, int num_blocks, int quad,
                             const ActivationGroup* const (&x)[kTokens])
    requires(!Format::kLong)
  {
    constexpr int kSubBlocks = Format::kSubBlocks, kGroupBlocks = 4 / kSubBlocks;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) sums[i][t] = Lanes::broadcast(0);
    }
    if (num_blocks == kGroupBlocks) {
#pragma GCC unroll 4
      for (int b = 0; b < kGroupBlocks; ++b) {
        add_short(block + b * Format::kBlockBytes, b * kSubBlocks, quad, x);
      }
    } else {
      for (int b = 0; b < num_blocks; ++b) {
        add_short(block + b * Format::kBlockBytes, b * kSubBlocks, quad, x);
      }
    }
  }
};

// Weights stream through once, 256 columns of all 64 rows at a time; the lanes of the sums wait in
// the first-level cache.
template <class Q, class Format, int kTokens>
void decode_tile(const DecodeArgs& args) {
  using Lanes = typename Q::Lanes;
  constexpr int kGroupBlocks = 4 / Format::kSubBlocks;
  constexpr int64_t kGroupBytes = kGroupBlocks * Format::kBlockBytes;
  constexpr int64_t kQuadBytes = kGroupBytes / kPackedQuads;
  alignas(64) float lanes[kPackedQuads][2][kTokens][16];
  const uint8_t* block = args.tile;
  const ActivationGroup* x[kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = args.activations + t * args.token_stride;
  for (int64_t first = 0; first < args.num_blocks; first += kGroupBlocks, block += kGroupBytes) {
    const int64_t left = args.num_blocks - first;
    const int num_blocks = static_cast<int>(left < kGroupBlocks ? left : kGroupBlocks);
    for (int quad = 0; quad < kPackedQuads; ++quad) {
      const uint8_t* ahead = block + 2 * kGroupBytes + quad * kQuadBytes;
#pragma GCC unroll 8
      for (int64_t line = 0; line < kQuadBytes; line += 64) __builtin_prefetch(ahead + line);
      QuadSums<Q, Format, kTokens> quad_sums;
      quad_sums.add_group(block, num_blocks, quad, x);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          float* total = lanes[quad][i][t];
          const Lanes scale = Lanes::broadcast(x[t]->scale);
          const Lanes sum = quad_sums.sums[i][t];
          (first == 0 ? sum * scale : fma(sum, scale, Lanes::load(total))).store(total);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) ++x[t];
  }
  for (int quad = 0; quad < kPackedQuads; ++quad) {
    for (int i = 0; i < 2; ++i) {
      const int row = quad / 8 * 16 + quad % 8 + 8 * i;
      for (int t = 0; t < kTokens; ++t) {
        args.sums[t * kPackedRows + row] = Lanes::load(lanes[quad][i][t]).sum();
      }
    }
  }
}

template <class Q>
constexpr DecodeKernels make_decode_kernels() {
#define AC4K_DECODE(Format)                                                         \
  {                                                                                 \
    decode_tile<Q, Format, 1>, decode_tile<Q, Format, 2>, decode_tile<Q, Format, 4> \
  }
  return {.prepare = prepare_group<Q>, .decode = {AC4K_FORMAT_POLICIES(AC4K_DECODE)}};
#undef AC4K_DECODE
}

}  // namespace
}  // namespace ac4k::cpu
