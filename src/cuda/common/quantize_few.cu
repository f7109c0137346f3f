// Groups, blocks and columns of tensors so small that latency is all there is: few numbers a
// thread, many SMs, 32-bit offsets, and parameters that fit into one line of constants.
#include "common/quantize_columns.cuh"
#include "common/quantize_kernels.cuh"

namespace ac4k {

template <typename T>
__device__ __forceinline__ const T* few_x(const FewQuantizeParams& params, int row, int column) {
  return static_cast<const T*>(params.x) + (row * params.stride + column);
}
__device__ __forceinline__ unsigned char* few_codes(const FewQuantizeParams& params, int row,
                                                    int column) {
  return static_cast<unsigned char*>(params.codes) + (row * params.num_columns + column);
}
template <typename Format>
__device__ __forceinline__ void store_rule(const FewQuantizeParams& params, int index,
                                           const ScaleAndZero& rule) {
  params.scale[index] = rule.scale;
  if constexpr (has_zero<Format>) params.zero[index] = rule.zero;
}

// A warp for each group of 128 columns of a row, four numbers a lane. Grid: (blocks of 512 columns,
// rows). The last group of a row may be shorter. Rows of x lie at multiples of 16 bytes and are
// whole units. Roofline: latency.
template <typename T, typename Format>
__device__ __forceinline__ void quantize_few_groups(const FewQuantizeParams& params) {
  using Four = Unit<T, kFewGroupNumbers>;
  static_assert(kFewGroupNumbers == 4 && 32 * kFewGroupNumbers == kGroupSize);
  const int row = static_cast<int>(blockIdx.y);
  const unsigned first = blockIdx.x * kFewThreads + threadIdx.x;
  const int column = static_cast<int>(first * kFewGroupNumbers), N = params.num_columns;
  const bool inside = column < N;
  const T* x = few_x<T>(params, row, column);
  find_now(x);
  wait_for_previous_kernels();
  const Four four = inside ? Four::load(x) : Four::zero();
  allow_next_kernel();
  Extent<Format> extent{};
  extent.include(four);
  const ScaleAndZero rule = warp_extent(extent).scale(params.pow2_scale);
  float v[kFewGroupNumbers];
  four.widen(v);
#pragma unroll
  for (int i = 0; i < kFewGroupNumbers; ++i) v[i] = __fmul_rn(v[i], rule.inverse);
  uint32_t codes;
  if constexpr (has_zero<Format>) {
    codes = Int8::encode4(v[0], v[1], v[2], v[3], rule.zero);
  } else {
    codes = Format::encode4(v[0], v[1], v[2], v[3]);
  }
  if (!inside) return;
  *reinterpret_cast<uint32_t*>(few_codes(params, row, column)) = codes;
  if (threadIdx.x % 32 == 0) {
    const int groups = static_cast<int>((static_cast<unsigned>(N) + kGroupSize - 1) / kGroupSize);
    store_rule<Format>(params, row * groups + static_cast<int>(first / 32), rule);
  }
}

// What all warps of a block of kFewBlockThreads found, in each thread.
template <typename Format>
__device__ __forceinline__ Extent<Format> few_block_extent(Extent<Format> extent) {
  constexpr int kWarps = kFewBlockThreads / 32;
  __shared__ __align__(16) Extent<Format> parts[kWarps];
  extent = warp_extent(extent);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = extent;
  __syncthreads();
  Extent<Format> found[kWarps];
#pragma unroll
  for (int i = 0; i < kWarps; ++i) found[i] = parts[i];
#pragma unroll
  for (int distance = kWarps / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < distance; ++i) found[i].include(found[i + distance]);
  }
  return found[0];
}

// Up to 16 * kSlabs rows, with one scale for each 128 columns. A block reads slabs of 16 rows, all
// of them, and encodes only the one that it read first: where there are several, so many blocks
// look at the same rows, which come from L2, and each has little to encode. Grid: (blocks of 128
// columns, slabs with rows). Rows as above.
template <typename T, typename Format, int kSlabs>
__device__ __forceinline__ void quantize_few_blocks(const FewQuantizeParams& params) {
  static_assert((kSlabs & (kSlabs - 1)) == 0);
  constexpr int kLanes = kGroupSize / kUnit;
  const int column = static_cast<int>(blockIdx.x * kGroupSize + threadIdx.x % kLanes * kUnit);
  const int row_in_slab = static_cast<int>(threadIdx.x / kLanes);
  const int own_slab = kSlabs == 1 ? 0 : static_cast<int>(blockIdx.y);
  const bool inside = column < params.num_columns;
  const T* x[kSlabs];
  bool loads[kSlabs];
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) {
    const int slab = (own_slab + i) & (kSlabs - 1);
    const int row = slab * kFewSlabRows + row_in_slab;
    loads[i] = inside && row < params.num_rows;
    x[i] = few_x<T>(params, row, column);
    find_now(x[i]);
  }
  wait_for_previous_kernels();
  Unit<T> units[kSlabs];
#pragma unroll
  for (int i = 0; i < kSlabs; ++i) units[i] = loads[i] ? Unit<T>::load(x[i]) : Unit<T>::zero();
  allow_next_kernel();
  Extent<Format> extent{};
  if constexpr (has_zero<Format>) {
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) extent.include(units[i]);
  } else {
    extent.high = Unit<T>::amax(units);
  }
  const ScaleAndZero rule = few_block_extent(extent).scale(params.pow2_scale);
  const uint2 codes = encode_unit<Format>(units[0], rule.inverse, rule.zero);
  const int row = own_slab * kFewSlabRows + row_in_slab;
  if (loads[0]) *reinterpret_cast<uint2*>(few_codes(params, row, column)) = codes;
  if (threadIdx.x == 0 && own_slab == 0)
    store_rule<Format>(params, static_cast<int>(blockIdx.x), rule);
}

// What all warps of a block of kFewBlockThreads found of their columns, in each thread.
template <typename T, typename Format>
__device__ __forceinline__ void share_columns(ColumnExtents<T, Format, 2>& extents, int pair) {
  constexpr int kWarps = kFewBlockThreads / 32, kWords = Unit<T, 2>::kWords;
  constexpr int kExtents = has_zero<Format> ? 2 : 1;
  // Four words of a lane are read at once; the gap keeps lanes off each other's banks.
  constexpr int kRow = kWarps + 4;
  static_assert(kWarps == 8);
  __shared__ __align__(16) uint32_t parts[kExtents * kWords][kFewColumnPairs][kRow];
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 < kFewColumnPairs) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      parts[k][pair][warp] = extents.high.words[k];
      if constexpr (has_zero<Format>) parts[kWords + k][pair][warp] = extents.low.words[k];
    }
  }
  __syncthreads();
  const auto extreme_of = [&](int k, bool high) {
    const uint4* four = reinterpret_cast<const uint4*>(parts[k][pair]);
    const uint4 a = four[0], b = four[1];
    const auto of = [&](uint32_t x, uint32_t y) { return extreme_word<T>(x, y, high); };
    return of(of(of(a.x, a.y), of(a.z, a.w)), of(of(b.x, b.y), of(b.z, b.w)));
  };
#pragma unroll
  for (int k = 0; k < kWords; ++k) {
    extents.high.words[k] = extreme_of(k, true);
    if constexpr (has_zero<Format>) extents.low.words[k] = extreme_of(kWords + k, false);
  }
}

// Up to 16 * kUnits rows, with one scale a column. Block: 16 pairs of columns side by side, 16 rows
// over each other, kUnits times; or a single warp for one or two rows, which needs no barrier.
// Grid: blocks of 32 columns. Rows as above.
template <typename T, typename Format, int kUnits>
__device__ __forceinline__ void quantize_few_columns(const FewQuantizeParams& params) {
  using Pair = Unit<T, 2>;
  const int pair = static_cast<int>(threadIdx.x % kFewColumnPairs);
  const int first_row = static_cast<int>(threadIdx.x / kFewColumnPairs);
  const int column = static_cast<int>(blockIdx.x) * (2 * kFewColumnPairs) + 2 * pair;
  const bool inside = column < params.num_columns;
  const T* x = few_x<T>(params, first_row, column);
  find_now(x);
  wait_for_previous_kernels();
  Pair pairs[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const bool loads = inside && first_row + i * kFewSlabRows < params.num_rows;
    pairs[i] = loads ? Pair::load(x + i * (kFewSlabRows * params.stride)) : Pair::zero();
  }
  allow_next_kernel();
  ColumnExtents<T, Format, 2> found;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) found.include(pairs[i]);
  found.include(found.shuffled(kFewColumnPairs));
  if (kUnits > 1 || blockDim.x > 32) share_columns(found, pair);
  Extent<Format> extents[2];
  found.widen(extents);
  const ScaleAndZero rules[] = {extents[0].scale(params.pow2_scale),
                                extents[1].scale(params.pow2_scale)};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int row = first_row + i * kFewSlabRows;
    float v[2];
    pairs[i].widen(v);
    v[0] = __fmul_rn(v[0], rules[0].inverse), v[1] = __fmul_rn(v[1], rules[1].inverse);
    uint32_t codes;
    if constexpr (has_zero<Format>) {
      codes = Int8::pack2(Int8::shifted(v[0], rules[0].zero), Int8::shifted(v[1], rules[1].zero));
    } else {
      codes = Format::encode2(v[0], v[1]);
    }
    if (inside && row < params.num_rows)
      *reinterpret_cast<unsigned short*>(few_codes(params, row, column)) =
          static_cast<unsigned short>(codes);
  }
  if (inside && first_row == 0) {
    store_rule<Format>(params, column, rules[0]);
    store_rule<Format>(params, column + 1, rules[1]);
  }
}

template <typename T, typename Format>
__device__ __forceinline__ void quantize_few_blocks_1(const FewQuantizeParams& params) {
  quantize_few_blocks<T, Format, 1>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_few_blocks_4(const FewQuantizeParams& params) {
  quantize_few_blocks<T, Format, kFewSlabs>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_few_columns_1(const FewQuantizeParams& params) {
  quantize_few_columns<T, Format, 1>(params);
}
template <typename T, typename Format>
__device__ __forceinline__ void quantize_few_columns_4(const FewQuantizeParams& params) {
  quantize_few_columns<T, Format, kFewSlabs>(params);
}

}  // namespace ac4k

AC4K_QUANTIZE_KERNELS_WITH(FewQuantizeParams, quantize_few_groups, ac4k::kFewThreads)
AC4K_QUANTIZE_KERNELS_WITH(FewQuantizeParams, quantize_few_blocks_1, ac4k::kFewBlockThreads)
AC4K_QUANTIZE_KERNELS_WITH(FewQuantizeParams, quantize_few_blocks_4, ac4k::kFewBlockThreads)
AC4K_QUANTIZE_KERNELS_WITH(FewQuantizeParams, quantize_few_columns_1, ac4k::kFewBlockThreads)
AC4K_QUANTIZE_KERNELS_WITH(FewQuantizeParams, quantize_few_columns_4, ac4k::kFewBlockThreads)
