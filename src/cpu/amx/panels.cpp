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
template <int kPanels>
AC4K_INLINE void load_weights(const uint8_t* weights, int64_t group_stride) {
  tile_load<4>(weights, kPieceRowBytes);
  tile_load<5>(weights + group_stride, kPieceRowBytes);
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

template <bool kSplit, int kPanels>
void multiply_panels(int64_t columns, const uint8_t* weights, int64_t group_stride,
                     const uint8_t* activations, int64_t panel_stride, float* c, int64_t ldc,
                     bool accumulate) {
  const int64_t stride = ldc * static_cast<int64_t>(sizeof(float));
  float* second = c + kTile * ldc;
  if (accumulate) {
    tile_load<0>(c, stride);
    tile_load<2>(second, stride);
    if constexpr (kPanels == 2) {
      tile_load<1>(c + kTile, stride);
      tile_load<3>(second + kTile, stride);
    }
  } else {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
  }
  constexpr int kStep = (kSplit ? 2 : 1) * kPieceBytes;
  for (int64_t k = 0; k < columns; k += kTileDepth) {
    load_weights<kPanels>(weights, group_stride);
    load_activations<kPanels>(activations, panel_stride);
    multiply_tiles<kPanels>();
    if constexpr (kSplit) {
      load_weights<kPanels>(weights + kPieceBytes, group_stride);
      multiply_tiles<kPanels>();
      load_weights<kPanels>(weights, group_stride);
      load_activations<kPanels>(activations + kPieceBytes, panel_stride);
      multiply_tiles<kPanels>();
    }
    weights += kStep;
    activations += kStep;
  }
  tile_store<0>(c, stride);
  tile_store<2>(second, stride);
  if constexpr (kPanels == 2) {
    tile_store<1>(c + kTile, stride);
    tile_store<3>(second + kTile, stride);
  }
}

template <bool kSplit>
void multiply(int64_t columns, const uint8_t* weights, int64_t group_stride,
              const uint8_t* activations, int64_t panel_stride, int token_panels, float* c,
              int64_t ldc, bool accumulate) {
  const auto run = token_panels == 2 ? multiply_panels<kSplit, 2> : multiply_panels<kSplit, 1>;
  run(columns, weights, group_stride, activations, panel_stride, c, ldc, accumulate);
}

}  // namespace

#define AC4K_WIDEN(Format) widen_tile<PieceQuad, Format, avx512::StoreBF16>
constinit const PanelKernels kPanelsBF16 = {.kind = PieceKind::bf16,
                                            .max_token_panels = 2,
                                            .begin = begin_tiles,
                                            .end = end_tiles,
                                            .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
                                            .arrange = avx512::arrange_bf16,
                                            .multiply = multiply<false>};
#undef AC4K_WIDEN
#define AC4K_WIDEN(Format) widen_tile<PieceQuad, Format, StoreSplit>
constinit const PanelKernels kPanelsSplit = {.kind = PieceKind::split_bf16,
                                             .max_token_panels = 2,
                                             .begin = begin_tiles,
                                             .end = end_tiles,
                                             .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
                                             .arrange = arrange_split,
                                             .multiply = multiply<true>};

}  // namespace ac4k::cpu::amx
