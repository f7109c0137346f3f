// bf16 matrix multiplication with AMX tiles (TDPBF16PS: 16 x 16 f32 += 16 x 32 bf16 * 32 x 16
// bf16), and the level's table; everything else is the avx512 level's.
//
// A panel holds 32 rows, B's 32 columns: 2 x 2 accumulator tiles take 4 tile loads per 4 products.
// At a depth of 512 a panel of B (32 KiB) stays in the first-level cache.
#include "cpu/amx/tiles.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/avx512/simd.hpp"

namespace ac4k::cpu::amx {
namespace {

constexpr int kTileElements = kTile * kTileDepth;
constexpr int kPanel = 2 * kTile;                  // rows of A's, columns of B's panel
constexpr int kBlockElements = 2 * kTileElements;  // a panel's 32 of K

// Tiles 0..3: sums, 4 and 5: A, 6 and 7: B.
template <bool kTwoRows>
AC4K_INLINE void multiply_panels(int64_t depth, const uint16_t* a, const uint16_t* b) {
  tile_zero<0>();
  tile_zero<1>();
  if constexpr (kTwoRows) {
    tile_zero<2>();
    tile_zero<3>();
  }
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    tile_load<6>(b, 64);
    tile_load<4>(a, 64);
    tile_multiply<0, 4, 6>();
    tile_load<7>(b + kTileElements, 64);
    tile_multiply<1, 4, 7>();
    if constexpr (kTwoRows) {
      tile_load<5>(a + kTileElements, 64);
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
    }
    a += kBlockElements;
    b += kBlockElements;
  }
}

template <bool kTwoRows>
AC4K_INLINE void store_tiles(float* c, int64_t ldc) {
  const int64_t stride = ldc * static_cast<int64_t>(sizeof(float));
  tile_store<0>(c, stride);
  tile_store<1>(c + kTile, stride);
  if constexpr (kTwoRows) {
    tile_store<2>(c + kTile * ldc, stride);
    tile_store<3>(c + kTile * ldc + kTile, stride);
  }
}

template <bool kTwoRows>
AC4K_INLINE void micro_panels(int rows, int64_t depth, const uint16_t* a, const uint16_t* b,
                              float* c, int64_t ldc, bool accumulate) {
  multiply_panels<kTwoRows>(depth, a, b);
  if (!accumulate && rows == (kTwoRows ? kPanel : kTile)) {
    store_tiles<kTwoRows>(c, ldc);
    return;
  }
  alignas(64) float sums[kPanel * kPanel];
  store_tiles<kTwoRows>(sums, kPanel);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < kPanel; j += avx512::F32::kLanes) {
      const avx512::F32 sum = avx512::F32::load(sums + i * kPanel + j);
      float* out = c + i * ldc + j;
      (accumulate ? avx512::F32::load(out) + sum : sum).store(out);
    }
  }
}

void micro(int rows, int64_t depth, const void* a, const void* b, void* c, int64_t ldc,
           bool accumulate) {
  const auto* pa = static_cast<const uint16_t*>(a);
  const auto* pb = static_cast<const uint16_t*>(b);
  if (rows > kTile) {
    micro_panels<true>(rows, depth, pa, pb, static_cast<float*>(c), ldc, accumulate);
  } else {
    micro_panels<false>(rows, depth, pa, pb, static_cast<float*>(c), ldc, accumulate);
  }
}

// The mask of the first n of 32 lanes.
AC4K_INLINE __mmask32 first_lanes(int64_t n) {
  return n >= 32 ? 0xffffffffu : n <= 0 ? 0u : (1u << n) - 1u;
}

// Rows of 32 values of K; rows that do not exist are zero.
void pack_a(const void* src, int64_t row, int64_t col, int64_t rows, int64_t depth, int height,
            void* dst) {
  const auto* from = static_cast<const uint16_t*>(src);
  auto* to = static_cast<uint16_t*>(dst);
  for (int64_t first = 0; first < rows; first += height) {
    const int64_t count = rows - first < height ? rows - first : height;
    for (int64_t k = 0; k < depth; k += kTileDepth) {
      const int64_t valid = depth - k < kTileDepth ? depth - k : kTileDepth;
      for (int i = 0; i < kPanel; ++i, to += kTileDepth) {
        const uint16_t* values = from + (first + i) * row + k * col;
        if (i >= count) {
          _mm512_storeu_si512(to, _mm512_setzero_si512());
        } else if (col == 1) {
          _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(first_lanes(valid), values));
        } else {
          for (int64_t j = 0; j < kTileDepth; ++j) {
            to[j] = j < valid ? values[j * col] : uint16_t{0};
          }
        }
      }
    }
  }
}

// 32 rows of B, interleaved in pairs: to[column * 2 + parity], 16 columns a tile. Rows from
// `depth` on are zero.
AC4K_INLINE void pack_b_straight(const uint16_t* from, int64_t row, int64_t depth, int64_t cols,
                                 uint16_t* to) {
  alignas(64) static constexpr uint16_t kInterleave[2][32] = {
      {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
      {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
  const __m512i low = _mm512_load_si512(kInterleave[0]);
  const __m512i high = _mm512_load_si512(kInterleave[1]);
  const __mmask32 lanes = first_lanes(cols);
  for (int pair = 0; pair < kTile; ++pair) {
    const int64_t even = 2 * pair;
    const __m512i first =
        _mm512_maskz_loadu_epi16(even < depth ? lanes : 0, from + (even < depth ? even * row : 0));
    const __m512i second = _mm512_maskz_loadu_epi16(
        even + 1 < depth ? lanes : 0, from + (even + 1 < depth ? (even + 1) * row : 0));
    uint16_t* out = to + pair * kTileDepth;
    _mm512_storeu_si512(out, _mm512_permutex2var_epi16(first, low, second));
    _mm512_storeu_si512(out + kTileElements, _mm512_permutex2var_epi16(first, high, second));
  }
}

// The same 32 rows where B's columns are contiguous along K: a pair is 32 bits, so a tile is a
// transposition of 16 x 16 32-bit words, moved as f32 lanes (no arithmetic touches them).
AC4K_INLINE void pack_b_transposed(const uint16_t* from, int64_t col, int64_t cols, uint16_t* to) {
  for (int tile = 0; tile < 2; ++tile) {
    const float* columns[kTile];
    for (int j = 0; j < kTile; ++j) {
      const int64_t column = tile * kTile + j < cols ? tile * kTile + j : cols - 1;
      columns[j] = reinterpret_cast<const float*>(from + column * col);
    }
    auto* out = reinterpret_cast<float*>(to + tile * kTileElements);
    for (int pair = 0; pair < kTile; pair += 4) {
      avx512::F32 group[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) group[i] = avx512::F32::load_groups(columns + i, pair);
      transpose_groups(group);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) group[i].store(out + (pair + i) * kTile);
    }
  }
}

// Any strides.
void pack_b_any(const uint16_t* from, int64_t row, int64_t col, int64_t depth, int64_t cols,
                uint16_t* to) {
  for (int i = 0; i < kBlockElements; ++i) {
    const int tile = i / kTileElements, within = i % kTileElements;
    const int64_t k = within / kTileDepth * 2 + within % 2;
    const int64_t column = tile * kTile + within % kTileDepth / 2;
    to[i] = k < depth && column < cols ? from[k * row + column * col] : uint16_t{0};
  }
}

// Rows of K on the outside where B's rows are contiguous, panels where its columns are: reads go
// along cache lines and pages.
void pack_b(const void* src, int64_t row, int64_t col, int64_t depth, int64_t cols, void* dst) {
  const int64_t panels = (cols + kPanel - 1) / kPanel;
  const int64_t blocks = (depth + kTileDepth - 1) / kTileDepth;
  for (int64_t i = 0; i < panels * blocks; ++i) {
    const int64_t panel = col == 1 ? i % panels : i / blocks;
    const int64_t block = col == 1 ? i / panels : i % blocks;
    const int64_t k = block * kTileDepth, j = panel * kPanel;
    const auto* from = static_cast<const uint16_t*>(src) + k * row + j * col;
    auto* to = static_cast<uint16_t*>(dst) + (panel * blocks + block) * kBlockElements;
    const int64_t rest_depth = depth - k, rest_cols = cols - j;
    if (col == 1) {
      pack_b_straight(from, row, rest_depth, rest_cols, to);
    } else if (row == 1 && rest_depth >= kTileDepth) {
      pack_b_transposed(from, col, rest_cols, to);
    } else {
      pack_b_any(from, row, col, rest_depth, rest_cols, to);
    }
  }
}

void narrow(const void* acc, void* out, int64_t n) {
  const auto* from = static_cast<const float*>(acc);
  auto* to = static_cast<BFloat16*>(out);
  int64_t i = 0;
  for (; i + avx512::F32::kLanes <= n; i += avx512::F32::kLanes) {
    avx512::F32::load(from + i).store(to + i);
  }
  const int rest = static_cast<int>(n - i);
  if (rest > 0) avx512::F32::load_partial(from + i, rest).store_partial(to + i, rest);
}

constinit const GemmKernels kGemmBF16 = {.mr = kPanel,
                                         .nr = kPanel,
                                         .kc = 512,
                                         .mc = 256,
                                         .max_rows = 512,
                                         .max_cols = 512,
                                         .row_unit = kTile,
                                         .k_unit = kTileDepth,
                                         .packed_bytes = sizeof(BFloat16),
                                         .acc_bytes = sizeof(float),
                                         .narrow_output = true,
                                         .pack_cost = 60,
                                         .grain = 1 << 21,
                                         .begin = begin_tiles,
                                         .end = end_tiles,
                                         .pack_a = pack_a,
                                         .pack_b = pack_b,
                                         .micro = micro,
                                         .narrow = narrow};

}  // namespace

constinit const Kernels kKernels = {
    .gemm = {&avx512::kGemmF32, &avx512::kGemmF64, &avx512::kGemmF16, &kGemmBF16},
    .few_rows = {&avx512::kFewRowsF32, &avx512::kFewRowsF64, &avx512::kFewRowsF16,
                 &avx512::kFewRowsBF16},
    .rope = &avx512::kRope,
    .elementwise = &avx512::kElementwise,
    .quantize = &avx512::kQuantize,
    .activations = &avx512::kActivations,
    .norms = &avx512::kNorms,
    .gguf = &avx512::kGguf,
    .linear = &avx512::kLinear};

}  // namespace ac4k::cpu::amx
