// Few tokens: the codes of weights, as integers, times the tokens by the matrix products of warps;
// scales come in as the sums leave the product, unless weights are exact without that. For more
// than eight tokens that are too many sums.
#pragma once

#include "sm90a/mixed_weights.cuh"
#include "sm90a/mma.cuh"

namespace ac4k {

// One sub-block: 64 features, 64 columns of K, all columns of the product. x.at(c, j, half) is this
// lane's row of the matrices of eight tokens c, sub-block j, half of its columns. Here weights are
// multiplied as they are, and so is what is taken away from them.
template <typename Format, typename Factor, int kColumns, int j, typename Tokens>
__device__ __forceinline__ void multiply_exact_sub_block(uint32_t block,
                                                         const WeightHeader<Format, Factor>& header,
                                                         const Tokens& x, int thread,
                                                         float (&sums)[kColumns / 8][4],
                                                         float (&taken)[kColumns / 8][4]) {
  using Weights = SubBlockWeights<Format, Factor, j>;
  const Weights weights(block, header, thread);
  uint32_t a[4][4], m[4][4];
  weights.template make<0>(a[0]);
  weights.template make<1>(a[1]);
  weights.template make<2>(a[2]);
  weights.template make<3>(a[3]);
  if constexpr (Weights::kHasMinimums) {
    weights.template make_minimums<0>(m[0]);
    weights.template make_minimums<1>(m[1]);
    weights.template make_minimums<2>(m[2]);
    weights.template make_minimums<3>(m[3]);
  }
#pragma unroll
  for (int c = 0; c < kColumns / 8; ++c) {
    uint32_t b[4];  // of two steps
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      if (step % 2 == 0) load_matrices(b, x.at(c, j, step / 2));
      const int pair = step % 2 * 2;
      multiply_add<Factor>(sums[c], a[step], b[pair], b[pair + 1]);
      if constexpr (Weights::kHasMinimums) {
        multiply_add<Factor>(taken[c], m[step], b[pair], b[pair + 1]);
      }
    }
  }
}
template <typename Format, typename Factor, int kColumns, int j = 0, typename Tokens>
__device__ __forceinline__ void multiply_exact_block(uint32_t block,
                                                     const WeightHeader<Format, Factor>& header,
                                                     const Tokens& x, int thread,
                                                     float (&sums)[kColumns / 8][4],
                                                     float (&taken)[kColumns / 8][4]) {
  multiply_exact_sub_block<Format, Factor, kColumns, j>(block, header, x, thread, sums, taken);
  if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_exact_block<Format, Factor, kColumns, j + 1>(block, header, x, thread, sums, taken);
  }
}
// sums += scale * products, with the scales of the rows r and r + 8.
template <int kColumns>
__device__ __forceinline__ void add_scaled(float scale, float scale_8,
                                           const float (&products)[kColumns / 8][4],
                                           float (&sums)[kColumns / 8][4]) {
#pragma unroll
  for (int c = 0; c < kColumns / 8; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[c][i] = __fmaf_rn(i < 2 ? scale : scale_8, products[c][i], sums[c][i]);
    }
  }
}
// A block of integers; its scales come after all of them.
template <typename Format, typename Factor, int kColumns, typename Tokens>
__device__ __forceinline__ void multiply_block_integers(uint32_t block, const Tokens& x, int thread,
                                                        float (&sums)[kColumns / 8][4]) {
  using Integers = typename Format::Integers;
  float products[kColumns / 8][4] = {}, taken[kColumns / 8][4] = {};
  multiply_exact_block<Integers, Factor, kColumns>(
      block, weight_header<Integers, Factor>(block, thread), x, thread, products, taken);
  const float4 scales = Format::block_scales(block, thread);
  constexpr float kFactor = kSumFactor<Integers, Factor>;
  add_scaled<kColumns>(scales.x * kFactor, scales.y * kFactor, products, sums);
  if constexpr (SubBlockWeights<Integers, Factor, 0>::kHasMinimums) {
    constexpr float kMinimum = -FactorsOf<Integers, Factor>::type::kMinimumFactor;
    add_scaled<kColumns>(scales.z * kMinimum, scales.w * kMinimum, taken, sums);
  }
}

// One sub-block of integers, whose groups have scales of their own.
template <typename Format, typename Factor, int kColumns, int j, typename Tokens>
__device__ __forceinline__ void multiply_sub_block(uint32_t block,
                                                   const typename Format::Header& header,
                                                   const Tokens& x, int thread,
                                                   float (&sums)[kColumns / 8][4]) {
  using Planes = typename Format::Planes;
  const auto codes = Planes::load(block, j, thread);
  auto scales = Format::template scales<j>(header);
  uint32_t a[4][4];
  if constexpr (Format::kHasOffsets) {
    // The sums of tokens, which offsets want anyway, take the bias away.
#pragma unroll
    for (int i = 0; i < 2 * Format::kGroups; ++i) {
      float& offset = scales.offset[i / Format::kGroups][i % Format::kGroups];
      offset = __fmaf_rn(scales.scale[i / Format::kGroups][i % Format::kGroups],
                         -Planes::template kBias<Factor>, offset);
    }
    Planes::template biased_fragment<Factor, 0>(codes, a[0]);
    Planes::template biased_fragment<Factor, 1>(codes, a[1]);
    Planes::template biased_fragment<Factor, 2>(codes, a[2]);
    Planes::template biased_fragment<Factor, 3>(codes, a[3]);
  } else {
    Planes::template fragment<Factor, 0>(codes, a[0]);
    Planes::template fragment<Factor, 1>(codes, a[1]);
    Planes::template fragment<Factor, 2>(codes, a[2]);
    Planes::template fragment<Factor, 3>(codes, a[3]);
  }
  constexpr uint32_t kOne = is_same<Factor, __half> ? 0x3c003c00u : 0x3f803f80u;
  constexpr uint32_t kOnes[4] = {kOne, kOne, kOne, kOne};
  constexpr int kSteps = 4 / Format::kGroups;  // of a group
#pragma unroll
  for (int c = 0; c < kColumns / 8; ++c) {
    float product[4] = {}, total[4] = {};
    uint32_t b[4];  // of two steps
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      if (step % 2 == 0) load_matrices(b, x.at(c, j, step / 2));
      const int pair = step % 2 * 2;
      multiply_add<Factor>(product, a[step], b[pair], b[pair + 1]);
      if constexpr (Format::kHasOffsets) {
        multiply_add<Factor>(total, kOnes, b[pair], b[pair + 1]);
      }
      if (step % kSteps != kSteps - 1) continue;
      const int group = step / kSteps;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[c][i] = __fmaf_rn(scales.scale[i / 2][group], product[i], sums[c][i]);
        product[i] = 0.0f;
        if constexpr (Format::kHasOffsets) {
          sums[c][i] = __fmaf_rn(scales.offset[i / 2][group], total[i], sums[c][i]);
          total[i] = 0.0f;
        }
      }
    }
  }
}
template <typename Format, typename Factor, int kColumns, int j = 0, typename Tokens>
__device__ __forceinline__ void multiply_scaled_block(uint32_t block,
                                                      const typename Format::Header& header,
                                                      const Tokens& x, int thread,
                                                      float (&sums)[kColumns / 8][4]) {
  // There are too many numbers for the work of sub-blocks to overlap.
  if constexpr (Format::kHasOffsets) __syncwarp();
  multiply_sub_block<Format, Factor, kColumns, j>(block, header, x, thread, sums);
  if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_scaled_block<Format, Factor, kColumns, j + 1>(block, header, x, thread, sums);
  }
}
template <typename Format, typename Factor, int kColumns, typename Tokens>
__device__ __forceinline__ void multiply_block(uint32_t block, const Tokens& x, int thread,
                                               float (&sums)[kColumns / 8][4]) {
  if constexpr (kHasBlockIntegers<Format>) {
    multiply_block_integers<Format, Factor, kColumns>(block, x, thread, sums);
  } else if constexpr (kWarpsTakeWeights<Format, Factor>) {
    float nothing[kColumns / 8][4];
    multiply_exact_block<Format, Factor, kColumns>(
        block, weight_header<Format, Factor>(block, thread), x, thread, sums, nothing);
  } else {
    multiply_scaled_block<Format, Factor, kColumns>(block, Format::header(block, thread), x, thread,
                                                    sums);
  }
}

// The same by products of warpgroups, which take 16-bit weights and find the tokens in shared
// memory: boxes of 64 columns, the first at the matrix `x`. Of the two halves of `a` one is read by
// a product while the other is made.
template <typename Format, typename T, int kColumns, int kHalf, int j = 0>
__device__ __forceinline__ void multiply_weights(uint32_t block,
                                                 const WeightHeader<Format, T>& header, uint64_t x,
                                                 int thread, uint32_t (&a)[2][4][4],
                                                 float (&sums)[kColumns / 8][4]) {
  constexpr uint64_t kBox = kColumns * kSubBlockK * 2 >> 4, kSixteenColumns = 32 >> 4;
  const SubBlockWeights<Format, T, j> weights(block, header, thread);
  wait_for_products<1>();
  weights.template make<0>(a[kHalf][0]);
  weights.template make<1>(a[kHalf][1]);
  weights.template make<2>(a[kHalf][2]);
  weights.template make<3>(a[kHalf][3]);
  fence_registers();
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    WarpgroupProduct<kColumns>::template run<T>(reinterpret_cast<float (&)[kColumns / 2]>(sums),
                                                a[kHalf][step],
                                                x + (j * kBox + step * kSixteenColumns));
  }
  commit_products();
  if constexpr (j + 1 < Format::kSubBlocks) {
    multiply_weights<Format, T, kColumns, 1 - kHalf, j + 1>(block, header, x, thread, a, sums);
  }
}

// The same of integers: sub-block j of a block, whose sums are `product`, for their own sake.
template <typename Format, typename T, int kColumns, int j>
__device__ __forceinline__ void multiply_integers(const typename Format::Planes::Codes& codes,
                                                  uint64_t x, uint32_t (&a)[4][4],
                                                  float (&product)[kColumns / 8][4]) {
  using Planes = typename Format::Planes;
  constexpr uint64_t kBox = kColumns * kSubBlockK * 2 >> 4, kSixteenColumns = 32 >> 4;
  auto& sums = reinterpret_cast<float (&)[kColumns / 2]>(product);
  Planes::template fragment<T, 0>(codes, a[0]);
  Planes::template fragment<T, 1>(codes, a[1]);
  Planes::template fragment<T, 2>(codes, a[2]);
  Planes::template fragment<T, 3>(codes, a[3]);
  fence_registers();
  x += j * kBox;
  WarpgroupProduct<kColumns>::template run<T, j != 0>(sums, a[0], x);
#pragma unroll
  for (int step = 1; step < 4; ++step) {
    WarpgroupProduct<kColumns>::template run<T>(sums, a[step], x + step * kSixteenColumns);
  }
  commit_products();
}

}  // namespace ac4k
