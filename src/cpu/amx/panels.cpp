// Products of packed weights with many tokens in AMX tiles. Pieces are tiles: 16 rows of weights,
// 16 tokens. bf16 activations take one product; others are split into two bf16 each, and so are the
// weights: three products, the fourth being below the last place of either.
#include "cpu/amx/kernels.hpp"
#include "cpu/amx/tiles.hpp"
#include "cpu/avx512/bf16_pieces.hpp"

namespace ac4k::cpu::amx {
namespace {

using avx512::PieceQuad;

// The upper half of each number, then what it leaves: 32 columns each, in turn. Columns of two
// bytes of codes lie side by side, lane by lane: one instruction less than one behind the other.
struct StoreSplit {
  static constexpr int kPieces = 4;
  template <class Format>
  static constexpr bool kByTable = false;
  static AC4K_INLINE void row(const PieceQuad::Lanes (&values)[4], uint8_t* to) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      store(values[2 * i].v, values[2 * i + 1].v, to + 2 * i * kPieceBytes);
    }
  }
  static AC4K_INLINE void store(__m512 low, __m512 high, uint8_t* to) {
    _mm512_storeu_si512(to, avx512::cut_pairs(low, high));
    _mm512_storeu_si512(to + kPieceBytes,
                        avx512::cut_pairs(avx512::rest_of(low), avx512::rest_of(high)));
  }
};

void arrange_split(const float* columns, WeightFormat format, uint8_t* pieces) {
  const bool in_order = bytes_in_order(format);
  for (int pair = 0; pair < 32; ++pair) {
    const int lane = pair % 16, byte = pair / 16 * 2;
    const __m512 low = _mm512_loadu_ps(columns + quad_column(in_order, lane, byte) * 16);
    const __m512 high = _mm512_loadu_ps(columns + quad_column(in_order, lane, byte + 1) * 16);
    StoreSplit::store(low, high, pieces + byte * kPieceBytes + lane * kPieceRowBytes);
  }
}

// Tiles 0..3: sums, 4 and 5: weights of two groups, 6 and 7: activations of two panels.
// Activations of two panels fill most of the first-level cache; beside those of one, weights that
// were just widened are still there.
template <int kPanels>
AC4K_INLINE void load_weights(const uint8_t* weights, int64_t group_stride) {
  if constexpr (kPanels == 2) {
    tile_load_passing<4>(weights, kPieceRowBytes);
    tile_load_passing<5>(weights + group_stride, kPieceRowBytes);
  } else {
    tile_load<4>(weights, kPieceRowBytes);
    tile_load<5>(weights + group_stride, kPieceRowBytes);
  }
}
template <int kPanels>
AC4K_INLINE void load_activations(const uint8_t* activations, int64_t panel_stride) {
  tile_load<6>(activations, kPieceRowBytes);
  if constexpr (kPanels == 2) tile_load<7>(activations + panel_stride, kPieceRowBytes);
}
template <int kPanels>
AC4K_INLINE void multiply_tiles() {
  tile_multiply<0, 4, 6>();
  tile_multiply<2, 5, 6>();
  if constexpr (kPanels == 2) {
    tile_multiply<1, 4, 7>();
    tile_multiply<3, 5, 7>();
  }
}
template <int kPanels>
AC4K_INLINE void load_sums(const float* sums, int64_t ldc) {
  const int64_t stride = ldc * static_cast<int64_t>(sizeof(float));
  tile_load_passing<0>(sums, stride);
  tile_load_passing<2>(sums + kTile * ldc, stride);
  if constexpr (kPanels == 2) {
    tile_load_passing<1>(sums + kTile, stride);
    tile_load_passing<3>(sums + kTile * ldc + kTile, stride);
  }
}
AC4K_INLINE void clear_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}
template <int kPanels>
AC4K_INLINE void store_sums(float* sums, int64_t ldc) {
  const int64_t stride = ldc * static_cast<int64_t>(sizeof(float));
  tile_store<0>(sums, stride);
  tile_store<2>(sums + kTile * ldc, stride);
  if constexpr (kPanels == 2) {
    tile_store<1>(sums + kTile, stride);
    tile_store<3>(sums + kTile * ldc + kTile, stride);
  }
}

// 2 x 2 tiles of sums: as many tile loads as products. What bounds them is the way of the operands.
// Activations of a stretch stay in the first-level cache, weights and sums come from the second;
// meanwhile the next sums are fetched into the first and the next activations, which may be as far
// as memory, into the second.
template <bool kSplit, int kPanels>
void multiply_panels(const PanelProduct& p) {
  constexpr int kStep = (kSplit ? 2 : 1) * kPieceBytes;  // 32 columns of a group or panel
  constexpr int kSumRowsAStep = kSplit ? 4 : 2;          // 32 rows in a stretch
  const int64_t line_bytes = p.ldc * static_cast<int64_t>(sizeof(float));
  // Each pair of groups fetches its share of every step of the next activations.
  const int64_t share = 2 * kStep / p.groups;
  for (int64_t group = 0; group < p.groups; group += 2) {
    const uint8_t* weights = p.weights + group * p.group_stride;
    const uint8_t* activations = p.activations;
    const uint8_t* next =
        p.next_activations == nullptr ? nullptr : p.next_activations + group / 2 * share;
    float* sums = p.sums + group * kTile * p.ldc;
    const auto* next_sums = reinterpret_cast<const char*>(
        group + 2 < p.groups ? sums + 2 * kTile * p.ldc : p.sums + kPanels * kTile);
    if (p.accumulate) {
      load_sums<kPanels>(sums, p.ldc);
    } else {
      clear_sums();
    }
    for (int64_t k = 0; k < p.columns; k += kTileDepth) {
      load_weights<kPanels>(weights, p.group_stride);
      load_activations<kPanels>(activations, p.panel_stride);
#pragma GCC unroll 4
      for (int i = 0; i < kSumRowsAStep; ++i, next_sums += line_bytes) {
        __builtin_prefetch(next_sums, 1);
        if constexpr (kPanels == 2) __builtin_prefetch(next_sums + kPieceRowBytes, 1);
      }
      if (next != nullptr) {
        for (int64_t line = 0; line < share; line += kPieceRowBytes) {
          __builtin_prefetch(next + line, 0, 2);
          if constexpr (kPanels == 2) __builtin_prefetch(next + p.panel_stride + line, 0, 2);
        }
        next += kStep;
      }
      multiply_tiles<kPanels>();
      if constexpr (kSplit) {
        load_weights<kPanels>(weights + kPieceBytes, p.group_stride);
        multiply_tiles<kPanels>();
        load_weights<kPanels>(weights, p.group_stride);
        load_activations<kPanels>(activations + kPieceBytes, p.panel_stride);
        multiply_tiles<kPanels>();
      }
      weights += kStep;
      activations += kStep;
    }
    store_sums<kPanels>(sums, p.ldc);
  }
}

template <bool kSplit>
void multiply(const PanelProduct& product) {
  if (product.panels == 2) {
    multiply_panels<kSplit, 2>(product);
  } else {
    multiply_panels<kSplit, 1>(product);
  }
}

}  // namespace

#define AC4K_WIDEN(Format) widen_tile<PieceQuad, Format, avx512::StoreBF16>
constinit const PanelKernels kPanelsBF16 = {.kind = PieceKind::bf16,
                                            .max_token_panels = 2,
                                            .stretch = 8,
                                            .one_tile_tokens = 16,
                                            .two_tiles_tokens = 16,
                                            .begin = begin_tiles,
                                            .end = end_tiles,
                                            .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
                                            .arrange = avx512::arrange_bf16,
                                            .multiply = multiply<false>};
#undef AC4K_WIDEN
#define AC4K_WIDEN(Format) widen_tile<PieceQuad, Format, StoreSplit>
constinit const PanelKernels kPanelsSplit = {.kind = PieceKind::split_bf16,
                                             .max_token_panels = 2,
                                             .stretch = 4,
                                             .one_tile_tokens = 16,
                                             .two_tiles_tokens = 16,
                                             .begin = begin_tiles,
                                             .end = end_tiles,
                                             .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
                                             .arrange = arrange_split,
                                             .multiply = multiply<true>};

}  // namespace ac4k::cpu::amx
