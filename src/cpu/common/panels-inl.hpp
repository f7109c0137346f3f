// PanelKernels of linear_table.hpp over a level's vectors: packed weights widened to pieces, and
// the multiplication of f32 pieces. `Store` says how 64 numbers of a row are kept in pieces, or
// (kByTable) makes the pieces of a quad from the codes itself.
#pragma once

#include "cpu/common/gemm-inl.hpp"
#include "cpu/common/linear_table.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu {
namespace {

constexpr int kPieceRowBytes = 64;
// Columns of K in the order of pieces: byte b of all lanes, then the next byte.
constexpr int piece_column(bool in_order, int position) {
  return quad_column(in_order, position % 16, position / 16);
}

template <class Q, class Format, class Store>
AC4K_INLINE void widen_quad(const uint8_t* block, int j, int quad,
                            const typename Q::Lanes (&scales)[2],
                            const typename Q::Lanes (&minimums)[2], uint8_t* pieces) {
  if constexpr (Store::template kByTable<Format>) {
    Store::template rows<Format>(block, j, quad, scales, minimums,
                                 pieces + quad % 8 * kPieceRowBytes);
    return;
  }
  typename Q::Codes codes[2];
  Format::template codes<Q>(block, j, quad, codes);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const typename Q::Lanes values[4] = {
        fma(Q::template values<0>(codes[i]), scales[i], minimums[i]),
        fma(Q::template values<1>(codes[i]), scales[i], minimums[i]),
        fma(Q::template values<2>(codes[i]), scales[i], minimums[i]),
        fma(Q::template values<3>(codes[i]), scales[i], minimums[i])};
    Store::row(values, pieces + (quad % 8 + 8 * i) * kPieceRowBytes);
  }
}

template <class Q, class Format, class Store>
void widen_tile(const uint8_t* tile, int64_t first, int64_t num_sub_blocks, uint8_t* pieces,
                int64_t group_stride) {
  using Lanes = typename Q::Lanes;
  constexpr int64_t kBytes = Store::kPieces * kPieceBytes;  // of 64 columns of 16 rows
  const Lanes offset = Lanes::broadcast(-Format::kOffset);
  int64_t step = 1;
  for (int64_t at = 0; at < num_sub_blocks; at += step) {
    const int64_t sub_block = first + at;
    const uint8_t* block = tile + sub_block / Format::kSubBlocks * Format::kBlockBytes;
    const int start = static_cast<int>(sub_block % Format::kSubBlocks);
    const int64_t left = num_sub_blocks - at;
    step = left < Format::kSubBlocks - start ? left : Format::kSubBlocks - start;
    constexpr int64_t kAhead = 8 / Format::kSubBlocks * Format::kBlockBytes;
    constexpr int64_t kQuadBytes = Format::kBlockBytes / kPackedQuads;
    for (int quad = 0; quad < kPackedQuads; ++quad) {
      // Products with tokens come between: the next stretch is asked for while this one is read.
      const uint8_t* ahead = block + kAhead + quad * kQuadBytes;
#pragma GCC unroll 8
      for (int64_t line = 0; line < kQuadBytes; line += 64) __builtin_prefetch(ahead + line);
      uint8_t* to = pieces + quad / 8 * group_stride + at * kBytes;
      Lanes scales[2], minimums[2];
      Format::template scales<Q>(block, quad, scales);
      if constexpr (Format::kHasMinimum) {
        Format::template minimums<Q>(block, quad, minimums);
      } else {
        minimums[0] = scales[0] * offset;
        minimums[1] = scales[1] * offset;
      }
      if constexpr (Format::kLong) {
        const auto widen = [&]<int kSubBlock>() __attribute__((always_inline)) {
          if (kSubBlock < start || kSubBlock >= start + step) return;
          const Lanes lanes[2] = {Q::template spread<kSubBlock>(scales[0]),
                                  Q::template spread<kSubBlock>(scales[1])};
          const Lanes least[2] = {Q::template spread<kSubBlock>(minimums[0]),
                                  Q::template spread<kSubBlock>(minimums[1])};
          widen_quad<Q, Format, Store>(block, kSubBlock, quad, lanes, least,
                                       to + (kSubBlock - start) * kBytes);
        };
        widen.template operator()<0>();
        widen.template operator()<1>();
        widen.template operator()<2>();
        widen.template operator()<3>();
      } else {
        for (int j = 0; j < static_cast<int>(step); ++j) {
          widen_quad<Q, Format, Store>(block, start + j, quad, scales, minimums, to + j * kBytes);
        }
      }
    }
  }
}

// Numbers as they are: four pieces of 16 columns.
template <class Q>
struct StoreF32 {
  static constexpr int kPieces = 4;
  template <class Format>
  static constexpr bool kByTable = false;
  static AC4K_INLINE void row(const typename Q::Lanes (&values)[4], uint8_t* to) {
#pragma GCC unroll 4
    for (int b = 0; b < 4; ++b) {
      values[b].store(reinterpret_cast<float*>(to + b * kPieceBytes));
    }
  }
};

template <class V>
void arrange_f32(const float* columns, WeightFormat format, uint8_t* pieces) {
  const bool in_order = bytes_in_order(format);
  auto* to = reinterpret_cast<float*>(pieces);
  for (int position = 0; position < 64; ++position) {
    const float* from = columns + piece_column(in_order, position) * 16;
    for (int i = 0; i < 16; i += V::kLanes) V::load(from + i).store(to + position * 16 + i);
  }
}

// kRows of a group's 16 times kPanels x 16 tokens.
template <class V, int kRows, int kPanels>
AC4K_INLINE void multiply_rows(int64_t columns, const uint8_t* weights, const uint8_t* activations,
                               int64_t panel_stride, float* c, int64_t ldc, bool accumulate) {
  constexpr int kVectors = 16 / V::kLanes;
  V sums[kRows][kPanels * kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kPanels * kVectors; ++j) sums[i][j] = V::broadcast(0);
  }
  for (int64_t k = 0; k < columns; k += 16) {
#pragma GCC unroll 2
    for (int step = 0; step < 16; ++step) {
      V x[kPanels * kVectors];
#pragma GCC unroll 16
      for (int j = 0; j < kPanels * kVectors; ++j) {
        x[j] = V::load(reinterpret_cast<const float*>(activations + j / kVectors * panel_stride +
                                                      step * kPieceRowBytes) +
                       j % kVectors * V::kLanes);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V w =
            V::broadcast(*reinterpret_cast<const float*>(weights + i * kPieceRowBytes + step * 4));
#pragma GCC unroll 16
        for (int j = 0; j < kPanels * kVectors; ++j) sums[i][j] = fma(w, x[j], sums[i][j]);
      }
    }
    weights += kPieceBytes;
    activations += kPieceBytes;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kPanels * kVectors; ++j) {
      float* to = c + i * ldc + j * V::kLanes;
      (accumulate ? V::load(to) + sums[i][j] : sums[i][j]).store(to);
    }
  }
}

// The first kPanels of a product, kRows at a time: so many sums are in registers.
template <class V, int kRows, int kPanels>
void multiply_groups(const PanelProduct& p) {
  for (int64_t row = 0; row < 16 * p.groups; row += kRows) {
    const uint8_t* w = p.weights + row / 16 * p.group_stride + row % 16 * kPieceRowBytes;
    multiply_rows<V, kRows, kPanels>(p.columns, w, p.activations, p.panel_stride,
                                     p.sums + row * p.ldc, p.ldc, p.accumulate);
  }
}
// With fewer panels than the level's kPanels more rows keep as many sums under way.
template <class V, int kRows, int kPanels>
void multiply_f32(const PanelProduct& p) {
  static_assert(kPanels == 1 || kPanels == 3);
  if constexpr (kPanels == 1) {
    multiply_groups<V, kRows, 1>(p);
  } else if (p.panels == 3) {
    multiply_groups<V, kRows, 3>(p);
  } else if (p.panels == 2) {
    multiply_groups<V, kRows, 2>(p);
  } else {
    multiply_groups<V, 16, 1>(p);
  }
}

template <class V, class T>
void gather_tokens(const void* x, int64_t stride, int tokens, int64_t columns, float* out) {
  pack_transposed<V, 16>(static_cast<const T*>(x), stride, tokens, columns, out);
}
template <class V>
void transpose_block(const float* c, int64_t ldc, float* out) {
  pack_transposed<V, 16>(c, ldc, 16, 16, out);
}
template <class V, class T>
void write_block(const float* c, int64_t ldc, int tokens, float alpha, const float* bias, void* out,
                 int64_t stride) {
  const V factor = V::broadcast(alpha);
  for (int row = 0; row < 16; row += V::kLanes) {
    const float* rows[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) rows[i] = c + (row + i) * ldc;
    const V offset = V::load(bias + row);
    T* to = static_cast<T*>(out) + row;
    for (int token = 0; token < tokens; token += V::kGroup) {
      V group[V::kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < V::kGroup; ++i) group[i] = V::load_groups(rows + i, token);
      transpose_groups(group);
#pragma GCC unroll 4
      for (int i = 0; i < V::kGroup; ++i, to += stride) {
        if (token + i < tokens) fma(group[i], factor, offset).store(to);
      }
    }
  }
}
template <class V>
void scale_run(float* values, float alpha, const float* bias, int64_t count) {
  const V factor = V::broadcast(alpha);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    fma(V::load(values + i), factor, V::load(bias + i)).store(values + i);
  }
  if (i == count) return;
  const int rest = static_cast<int>(count - i);
  fma(V::load_partial(values + i, rest), factor, V::load_partial(bias + i, rest))
      .store_partial(values + i, rest);
}
template <class V>
constexpr TokenKernels token_kernels() {
  return {.gather = {gather_tokens<V, float>, nullptr, gather_tokens<V, Half>,
                     gather_tokens<V, BFloat16>},
          .transpose = transpose_block<V>,
          .write = {write_block<V, float>, nullptr, write_block<V, Half>, write_block<V, BFloat16>},
          .scale = scale_run<V>};
}

template <class Q, class V, int kRows, int kPanels>
constexpr PanelKernels f32_panels() {
#define AC4K_WIDEN(Format) widen_tile<Q, Format, StoreF32<Q>>
  return {.kind = PieceKind::f32,
          .max_token_panels = kPanels,
          .stretch = 4,
          .one_tile_tokens = 32,
          .two_tiles_tokens = 128,
          .begin = nullptr,
          .end = nullptr,
          .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
          .arrange = arrange_f32<V>,
          .multiply = multiply_f32<V, kRows, kPanels>};
#undef AC4K_WIDEN
}

}  // namespace
}  // namespace ac4k::cpu
