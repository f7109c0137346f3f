// Products of packed weights with many bf16 tokens at the avx512 level, on CPUs with VDPBF16PS:
// pairs of bf16 products into f32 sums, 8 x 48 of them in registers.
#include "cpu/avx512/bf16_pieces.hpp"
#include "cpu/avx512/kernels.hpp"

namespace ac4k::cpu::avx512 {
namespace {

// Sums, or pairs of bf16 that only move through it.
struct PairsOrSums {
  static constexpr int kLanes = 16;
  __m512 v;
  static AC4K_INLINE PairsOrSums broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static AC4K_INLINE PairsOrSums load(const float* p) { return {_mm512_loadu_ps(p)}; }
  AC4K_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  friend AC4K_INLINE PairsOrSums operator+(PairsOrSums a, PairsOrSums b) {
    return {_mm512_add_ps(a.v, b.v)};
  }
  friend AC4K_INLINE PairsOrSums fma(PairsOrSums a, PairsOrSums b, PairsOrSums sum) {
    return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<const __m512bh&>(a.v),
                             reinterpret_cast<const __m512bh&>(b.v))};
  }
};

// A piece of pairs is 32 columns; the loops count 16 to a piece.
void multiply(const PanelProduct& product) {
  PanelProduct pairs = product;
  pairs.columns /= 2;
  multiply_f32<PairsOrSums, 8, 3>(pairs);
}

}  // namespace

#define AC4K_WIDEN(Format) widen_tile<PieceQuad, Format, StoreBF16>
constinit const PanelKernels kPanelsBF16 = {.kind = PieceKind::bf16,
                                            .max_token_panels = 3,
                                            .stretch = 4,
                                            .one_tile_tokens = 32,
                                            .two_tiles_tokens = 128,
                                            .begin = nullptr,
                                            .end = nullptr,
                                            .widen = {AC4K_FORMAT_POLICIES(AC4K_WIDEN)},
                                            .arrange = arrange_bf16,
                                            .multiply = multiply};

}  // namespace ac4k::cpu::avx512
