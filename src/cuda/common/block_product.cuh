// Raw GGUF weights times q8_1 activations. Blocks stream through a ring in shared memory as they
// lie in memory; a word of codes, masked, is a fragment of a byte product, since the nibbles of a
// byte are 16 values apart and so are the halves of a fragment.
//
// A product of 32 has its own scales: the weights' times the tokens' come from a second product,
// of halves, whose other factors are 0 (exact in float). The sums of bytes start from 1.5 * 2^23
// in its float bits, so that they are floats without a conversion. Per product of 16 x 8 x 32 that
// is 10 instructions a warp, which is what bounds large numbers of tokens.
#pragma once

#include "common/async_copy.cuh"
#include "common/block_product.h"
#include "common/block_product_formats.cuh"
#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "common/warp_product.cuh"

namespace ac4k {

template <typename Format, int kIndex>
struct BlockProductLayout {
  static constexpr BlockProductTile kTile = kBlockProductTiles[kIndex];
  static constexpr int kRows = tile_rows(kTile), kTokens = kTile.tokens;
  static constexpr int kTokenParts = kTokens / 8 / kTile.token_warps;  // of a warp
  static constexpr int kWeightSegment = kTile.step_blocks * Format::kBytes;
  static constexpr int kTokenSegment = kTile.step_blocks * kActivationBlockBytes;
  static constexpr int kWeightStride = staged_row_bytes(kTile, Format::kBytes);
  static constexpr int kTokenStride = staged_row_bytes(kTile, kActivationBlockBytes);
  static constexpr int kTokensAt = kRows * kWeightStride;  // in a stage
  static constexpr int kStageBytes = stage_bytes(kTile, Format::kBytes);
  static constexpr int kGroups = kTile.step_blocks / kGroupBlocks / kTile.k_warps;  // of a warp
  static constexpr bool kSharesTotals = Format::kHasMinimum && totals_bytes(kTile) > 0;
  static_assert(kTile.row_warps * kTile.token_warps * kTile.k_warps * 32 == kBlockProductThreads);
  static_assert(kGroups * kTile.k_warps * kGroupBlocks == kTile.step_blocks);
  static_assert(kTile.step_blocks % 8 == 0);
};

// Segments of `rows` rows, kSegment bytes each of which `left` exist, a row a warp; zeros behind.
// For the last step of a row, and for rows that are not aligned to 16 bytes.
template <int kSegment, int kStride, int kUnit>
__device__ __forceinline__ void copy_units(unsigned char* to, const unsigned char* from,
                                           int64_t row_bytes, int rows, int64_t left) {
  constexpr int kWarpBytes = 32 * kUnit;
  const int lane_at = static_cast<int>(threadIdx.x) % 32 * kUnit;
  const int existing = left < kSegment ? static_cast<int>(left) : kSegment;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < rows; row += kBlockProductThreads / 32) {
    const unsigned char* source = from + row * row_bytes;
    unsigned char* target = to + row * kStride;
#pragma unroll 1
    for (int at = lane_at; at < kSegment; at += kWarpBytes) {
      const bool exists = at < existing;
      if constexpr (kUnit == 1) {
        target[at] = exists ? source[at] : 0;
      } else {
        copy_async<kUnit>(target + at, source + (exists ? at : 0), exists);
      }
    }
  }
}

// Copies steps of some rows. Where this thread's 16 bytes lie is the same in every step.
template <int kSegment, int kStride, int kMaxRows>
class RowCopies {
 public:
  __device__ __forceinline__ RowCopies(const unsigned char* first, int64_t row_bytes, int rows,
                                       int64_t left, int unit)
      : first_(first), row_bytes_(row_bytes), left_(left), rows_(rows), unit_(unit) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t place = threadIdx.x + i * kBlockProductThreads;
      const uint32_t row = place / kPerRow, at = place % kPerRow * 16;
      from_[i] = row * static_cast<uint32_t>(row_bytes) + at;
      to_[i] = row * kStride + at;
    }
  }
  __device__ __forceinline__ void copy(unsigned char* to, int step) const {
    const int64_t at = static_cast<int64_t>(step) * kSegment;
    const unsigned char* from = first_ + at;
    if (unit_ == 16 && left_ - at >= kSegment) {
      // Opaque, or the compiler adds each place's parts anew instead of adding to one base.
      const uint32_t target = opaque(address_in_shared(to));
      const unsigned char* source = opaque(from);
      const int count = rows_ * kPerRow - static_cast<int>(threadIdx.x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (i * kBlockProductThreads < count) copy_16_async(target + to_[i], source + from_[i]);
      }
    } else if (unit_ == 16) {
      copy_units<kSegment, kStride, 16>(to, from, row_bytes_, rows_, left_ - at);
    } else if (unit_ == 4) {
      copy_units<kSegment, kStride, 4>(to, from, row_bytes_, rows_, left_ - at);
    } else {
      copy_units<kSegment, kStride, 1>(to, from, row_bytes_, rows_, left_ - at);
    }
  }

 private:
  static constexpr int kPerRow = kSegment / 16;
  static constexpr int kCount =
      (kMaxRows * kPerRow + kBlockProductThreads - 1) / kBlockProductThreads;

  const unsigned char* first_;
  int64_t row_bytes_, left_;  // left_: of a row, from the first step on
  int rows_, unit_;
  uint32_t from_[kCount], to_[kCount];
};

// What a block of threads has to do.
struct BlockProductShare {
  int first_row, num_rows;
  int first_token, num_tokens;
  int first_step, num_steps;  // of K
};

// Every thread copies its part of a step into a ring of stages, from rows at any address.
template <typename Format, int kIndex>
class ThreadCopies {
  using Layout = BlockProductLayout<Format, kIndex>;

 public:
  static constexpr int kSharedBytes = 0;  // before the ring

  __device__ __forceinline__ ThreadCopies(const BlockProductParams& params,
                                          const BlockProductShare& share, unsigned char* ring)
      : ThreadCopies(params, share, ring,
                     static_cast<int64_t>(share.first_step) * Layout::kWeightSegment,
                     static_cast<int64_t>(share.first_step) * Layout::kTokenSegment) {}
  __device__ __forceinline__ void copy_weights(int stage, int step) const {
    weights_.copy(ring_ + stage * Layout::kStageBytes, step);
  }
  __device__ __forceinline__ void copy_tokens(int stage, int step) const {
    tokens_.copy(ring_ + stage * Layout::kStageBytes + Layout::kTokensAt, step);
  }
  // After the copies of a step, or none.
  __device__ __forceinline__ void close_step() const { close_copy_group(); }
  // All threads are done with the step before; its place can be filled again.
  __device__ __forceinline__ void begin_step() const {
    wait_for_copies(num_stages_ - 2);
    __syncthreads();
  }
  // The step is there.
  __device__ __forceinline__ void wait_for_step(int /*stage*/, uint32_t /*parity*/) const {}

 private:
  __device__ __forceinline__ ThreadCopies(const BlockProductParams& params,
                                          const BlockProductShare& share, unsigned char* ring,
                                          int64_t weight_at, int64_t token_at)
      : ring_(ring),
        num_stages_(params.num_stages),
        weights_(params.weight + share.first_row * params.weight_row_bytes + weight_at,
                 params.weight_row_bytes, share.num_rows, params.weight_row_bytes - weight_at,
                 params.weight_unit),
        tokens_(params.activation + share.first_token * params.activation_row_bytes + token_at,
                params.activation_row_bytes, share.num_tokens,
                params.activation_row_bytes - token_at, params.activation_unit) {}

  unsigned char* ring_;
  int num_stages_;
  RowCopies<Layout::kWeightSegment, Layout::kWeightStride, Layout::kRows> weights_;
  RowCopies<Layout::kTokenSegment, Layout::kTokenStride, Layout::kTokens> tokens_;
};

// kFactor * d * (sum of codes) of a token's block, as two floats of which the upper 19 bits nearly
// are the whole. What blocks store as their sum is rounded to half; this is not.
template <typename Format>
__device__ __forceinline__ float2 total_of_token(const unsigned char* block) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(block);
  int sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum = __dp4a(static_cast<int>(words[1 + j]), 0x01010101, sum);
  const float d = __half2float(__ushort_as_half(static_cast<unsigned short>(words[0])));
  const float total = Format::kFactor * d * static_cast<float>(sum);
  const float high = __uint_as_float(__float_as_uint(total) & 0xffffe000u);
  // Infinity minus itself would be NaN, which it becomes only times a minimum of 0.
  return float2{high, isinf(total) ? 0.0f : total - high};
}
// Of all tokens' blocks in a stage.
template <typename Format, int kIndex>
__device__ __forceinline__ void add_up_tokens(const unsigned char* stage, int num_tokens,
                                              float2* totals) {
  using Layout = BlockProductLayout<Format, kIndex>;
  constexpr int kStepBlocks = Layout::kTile.step_blocks;
  for (int i = threadIdx.x; i < num_tokens * kStepBlocks; i += kBlockProductThreads) {
    const int token = i / kStepBlocks, block = i % kStepBlocks;
    totals[token * totals_stride(Layout::kTile) + block] = total_of_token<Format>(
        stage + Layout::kTokensAt + token * Layout::kTokenStride + block * kActivationBlockBytes);
  }
}

template <typename Format, int kIndex>
struct BlockProductWarp {
  using Layout = BlockProductLayout<Format, kIndex>;
  static constexpr int kRowParts = Layout::kTile.row_parts, kTokenParts = Layout::kTokenParts;

  int g, t;
  int row, token, k_warp;  // the first of the warp
  uint32_t mask;
  float sums[kRowParts][kTokenParts][4];

  __device__ __forceinline__ explicit BlockProductWarp(uint32_t nibble_mask) : mask(nibble_mask) {
    constexpr BlockProductTile tile = Layout::kTile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    g = lane / 4, t = lane % 4;
    row = warp % tile.row_warps * 16 * kRowParts;
    token = warp / tile.row_warps % tile.token_warps * 8 * kTokenParts;
    k_warp = warp / (tile.row_warps * tile.token_warps);
#pragma unroll
    for (int f = 0; f < kRowParts; ++f) {
#pragma unroll
      for (int j = 0; j < kTokenParts; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[f][j][i] = 0.0f;
      }
    }
  }

  // One block of the group. d: the weights' scales, of rows g + 8 r and block t; x_d: the tokens',
  // of tokens g + 8 j and block t; both in the lower half of a word that is otherwise 0.
  template <int kBlock>
  __device__ __forceinline__ void multiply(const unsigned char* w, const unsigned char* x,
                                           const uint32_t (&d)[2 * kRowParts],
                                           const uint32_t (&x_d)[kTokenParts]) {
    constexpr int kShift = 0x4b400000;  // 1.5 * 2^23, whose neighbours are one apart
    const float shift = __int_as_float(kShift);
    uint32_t a[kRowParts][4], scale[2 * kRowParts];
#pragma unroll
    for (int r = 0; r < 2 * kRowParts; ++r) {
      const RowCodes codes =
          Format::template codes<kBlock>(w + r * 8 * Layout::kWeightStride, t, mask);
      a[r / 2][r % 2] = codes.low;
      a[r / 2][r % 2 + 2] = codes.high;
      scale[r] = t == kBlock ? d[r] : 0u;
    }
#pragma unroll
    for (int j = 0; j < kTokenParts; ++j) {
      const uint32_t* b = reinterpret_cast<const uint32_t*>(
          x + j * 8 * Layout::kTokenStride + kBlock * kActivationBlockBytes + 4 + 4 * t);
      const uint32_t b0 = b[0], b1 = b[4];
#pragma unroll
      for (int f = 0; f < kRowParts; ++f) {
        int product[4];
        float scales[4];
        multiply_bytes<Format::kSigned>(product, a[f], b0, b1, kShift);
        multiply_halves(scales, scale[2 * f], scale[2 * f + 1], x_d[j]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[f][j][i] = __fmaf_rn(scales[i], __int_as_float(product[i]) - shift, sums[f][j][i]);
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_group(const unsigned char* stage, const float2* totals,
                                                 int group) {
    const unsigned char* w =
        stage + (row + g) * Layout::kWeightStride + group * kGroupBlocks * Format::kBytes;
    const unsigned char* x = stage + Layout::kTokensAt + (token + g) * Layout::kTokenStride +
                             group * kGroupBlocks * kActivationBlockBytes;
    uint32_t d[2 * kRowParts], x_d[kTokenParts];
    float minimum[2 * kRowParts];
#pragma unroll
    for (int r = 0; r < 2 * kRowParts; ++r) {
      const auto* head = reinterpret_cast<const unsigned short*>(w + r * 8 * Layout::kWeightStride +
                                                                 t * Format::kBytes);
      d[r] = head[0];
      minimum[r] = Format::kHasMinimum ? __half2float(__ushort_as_half(head[1])) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kTokenParts; ++j) {
      // Without the sum beside it, which may be anything.
      x_d[j] = *reinterpret_cast<const unsigned short*>(x + j * 8 * Layout::kTokenStride +
                                                        t * kActivationBlockBytes);
    }
    multiply<0>(w, x, d, x_d);
    multiply<1>(w, x, d, x_d);
    multiply<2>(w, x, d, x_d);
    multiply<3>(w, x, d, x_d);
    if constexpr (Format::kHasMinimum) {
      // K of this product: the four blocks' upper parts, then their lower parts.
#pragma unroll
      for (int j = 0; j < kTokenParts; ++j) {
        const float2 total = Layout::kSharesTotals
                                 ? totals[(token + g + 8 * j) * totals_stride(Layout::kTile) +
                                          group * kGroupBlocks + t]
                                 : total_of_token<Format>(x + j * 8 * Layout::kTokenStride +
                                                          t * kActivationBlockBytes);
#pragma unroll
        for (int f = 0; f < kRowParts; ++f) {
          const float a[4] = {minimum[2 * f], minimum[2 * f + 1], minimum[2 * f],
                              minimum[2 * f + 1]};
          multiply_add_floats(sums[f][j], a, total.x, total.y);
        }
      }
    }
  }

  __device__ __forceinline__ void store(float* partial) const {
    constexpr int kStride = partial_stride(Layout::kTile);
#pragma unroll
    for (int f = 0; f < kRowParts; ++f) {
#pragma unroll
      for (int j = 0; j < kTokenParts; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = (k_warp * Layout::kRows + row + 16 * f + 8 * half + g) * kStride + token +
                         8 * j + 2 * t;
          *reinterpret_cast<float2*>(partial + at) =
              float2{sums[f][j][2 * half], sums[f][j][2 * half + 1]};
        }
      }
    }
  }
};

__device__ __forceinline__ float4 operator+(const float4& a, const float4& b) {
  return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// Adds up what the warps and the blocks of the cluster have, always in the same order, and writes
// this block's share of the rows.
template <typename Format, int kIndex>
__device__ __forceinline__ void write_product(const BlockProductParams& params, float* partial,
                                              int first_row, int first_token) {
  using Layout = BlockProductLayout<Format, kIndex>;
  constexpr int kStride = partial_stride(Layout::kTile), kRows = Layout::kRows;
  constexpr int kPerRow = Layout::kTokens / 4;
  const uint32_t splits = cluster_size(), split = cluster_rank();
  const auto sum_of_warps = [&](int at) {
    float4 sum = *reinterpret_cast<const float4*>(partial + at);
#pragma unroll
    for (int k = 1; k < Layout::kTile.k_warps; ++k) {
      sum = sum + *reinterpret_cast<const float4*>(partial + k * kRows * kStride + at);
    }
    return sum;
  };
  __syncthreads();
  if (splits > 1) {
    if constexpr (Layout::kTile.k_warps > 1) {
      for (int i = threadIdx.x; i < kRows * kPerRow; i += kBlockProductThreads) {
        const int at = i / kPerRow * kStride + i % kPerRow * 4;
        *reinterpret_cast<float4*>(partial + at) = sum_of_warps(at);
      }
    }
    cluster_arrive();
    cluster_wait();
  }
  const int share = kRows * kPerRow / static_cast<int>(splits);
  for (int i = threadIdx.x; i < share; i += kBlockProductThreads) {
    const int place = static_cast<int>(split) * share + i;
    const int row = place / kPerRow, column = place % kPerRow * 4;
    const int at = row * kStride + column;
    float4 sum;
    if (splits > 1) {
      sum = load_4_from_cluster(partial + at, 0);
      for (uint32_t rank = 1; rank < splits; ++rank) {
        sum = sum + load_4_from_cluster(partial + at, rank);
      }
    } else {
      sum = sum_of_warps(at);
    }
    constexpr float kScale = 1.0f / Format::kFactor;
    const float4 value{sum.x * kScale, sum.y * kScale, sum.z * kScale, sum.w * kScale};
    const int token = first_token + column, count = params.N - token;
    if (first_row + row >= params.M || count <= 0) continue;
    float* out = params.out + static_cast<int64_t>(first_row + row) * params.N + token;
    if (params.aligned_out && count >= 4) {
      *reinterpret_cast<float4*>(out) = value;
    } else {
      out[0] = value.x;
      if (count > 1) out[1] = value.y;
      if (count > 2) out[2] = value.z;
      if (count > 3) out[3] = value.w;
    }
  }
  if (splits > 1) {  // the others may still read this block's sums
    cluster_arrive();
    cluster_wait();
  }
}

// Grid: (row tiles * splits of K, token tiles), clusters of `splits` blocks. Block:
// kBlockProductThreads. Shared memory: totals_bytes for formats with minimums, what Copies wants,
// then the larger of num_stages * stage_bytes and partial_bytes. Rooflines: HBM, the weights, for
// few tokens; for many the instructions counted at the top.
template <typename Format, int kIndex, typename Copies, typename Params>
__device__ __forceinline__ void multiply_blocks(const Params& params) {
  using Layout = BlockProductLayout<Format, kIndex>;
  extern __shared__ __align__(128) unsigned char shared[];
  auto* totals = reinterpret_cast<float2*>(shared);
  unsigned char* copy_area = shared + (Format::kHasMinimum ? totals_bytes(Layout::kTile) : 0);
  unsigned char* ring = copy_area + Copies::kSharedBytes;

  allow_next_kernel();
  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int first_row = static_cast<int>(blockIdx.x / splits) * Layout::kRows;
  const int first_token = static_cast<int>(blockIdx.y) * Layout::kTokens;
  const int first_step = static_cast<int>(split) * params.split_steps;
  const int num_steps = min(params.split_steps, params.num_steps - first_step);
  const int num_tokens = min(Layout::kTokens, params.N - first_token);
  const Copies copies(params,
                      {first_row, min(Layout::kRows, params.M - first_row), first_token, num_tokens,
                       first_step, num_steps},
                      copy_area);

  // --- Fill the ring. Weights do not depend on the kernel before; two steps of them go ahead.
  const int num_stages = params.num_stages;
  constexpr int kAhead = 2;
  for (int step = 0; step < min(kAhead, min(num_stages - 1, num_steps)); ++step) {
    copies.copy_weights(step, step);
  }
  wait_for_previous_kernels();
  for (int step = 0; step < num_stages - 1; ++step) {
    if (step < num_steps) {
      if (step >= kAhead) copies.copy_weights(step, step);
      copies.copy_tokens(step, step);
    }
    copies.close_step();
  }

  // --- Multiply, a step at a time.
  BlockProductWarp<Format, kIndex> warp(params.nibble_mask);
  int stage = 0, free_stage = num_stages - 1;
  uint32_t parity = 0;
  for (int step = 0; step < num_steps; ++step) {
    copies.begin_step();
    if (const int next = step + num_stages - 1; next < num_steps) {
      copies.copy_weights(free_stage, next);
      copies.copy_tokens(free_stage, next);
    }
    copies.close_step();
    copies.wait_for_step(stage, parity);
    const unsigned char* from = ring + stage * Layout::kStageBytes;
    if constexpr (Layout::kSharesTotals) {
      add_up_tokens<Format, kIndex>(from, num_tokens, totals);
      __syncthreads();
    }
#pragma unroll 1
    for (int i = 0; i < Layout::kGroups; ++i) {
      warp.multiply_group(from, totals, warp.k_warp * Layout::kGroups + i);
    }
    free_stage = stage;
    if (++stage == num_stages) stage = 0, parity ^= 1;
  }
  __syncthreads();
  auto* partial = reinterpret_cast<float*>(ring);
  warp.store(partial);
  write_product<Format, kIndex>(params, partial, first_row, first_token);
}

}  // namespace ac4k

#define AC4K_BLOCK_PRODUCT(Format, index)                                                          \
  extern "C" __global__ void                                                                       \
      __launch_bounds__(ac4k::kBlockProductThreads, ac4k::kBlockProductTiles[index].blocks_per_sm) \
      multiply_##index(const __grid_constant__ ac4k::BlockProductParams params) {                  \
    ac4k::multiply_blocks<ac4k::Blocks##Format, index,                                             \
                          ac4k::ThreadCopies<ac4k::Blocks##Format, index>>(params);                \
  }
#define AC4K_BLOCK_PRODUCTS(Format) \
  AC4K_BLOCK_PRODUCT(Format, 0)     \
  AC4K_BLOCK_PRODUCT(Format, 1)     \
  AC4K_BLOCK_PRODUCT(Format, 2)     \
  AC4K_BLOCK_PRODUCT(Format, 3)     \
  AC4K_BLOCK_PRODUCT(Format, 4)     \
  AC4K_BLOCK_PRODUCT(Format, 5)
