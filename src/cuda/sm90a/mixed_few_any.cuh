// Few tokens of any type, at any address: weights stream through a ring in shared memory past the
// tokens.
//
// A block has 64 features and a share of K; the blocks of a cluster share the features and add up
// at the end. The tokens' numbers for its share of K stay in shared memory.
#pragma once

#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "common/rows.cuh"
#include "sm90a/bulk_copy.cuh"
#include "sm90a/mixed_product.cuh"
#include "sm90a/mixed_sums.cuh"

namespace ac4k {

// float tokens are multiplied as two bfloat16 each, in neighbouring columns of the product.
template <typename T>
inline constexpr int kParts = is_same<T, float> ? 2 : 1;
template <typename T>
struct FactorOf {
  using type = T;
};
template <>
struct FactorOf<float> {
  using type = __nv_bfloat16;
};

template <typename Format, int kColumns>
struct FewAnyLayout {
  static constexpr int kStageBlocks = kFewStageColumns / (Format::kSubBlocks * kSubBlockK);
  static constexpr int kStageBytes = kStageBlocks * Format::kBytes;
  static constexpr int kStages = few_any_stages(kStageBytes);
  static constexpr uint32_t kPartial = kStages * kStageBytes;
  static constexpr uint32_t kReceived =
      kPartial + kFewAnyGroups * kColumns * few_feature_stride(1) * 4;
  static constexpr uint32_t kBarriers = kReceived + kColumns * kTileRows * 4;
  static constexpr uint32_t kX = kBarriers + kStages * 16 + 16;
  static_assert(kX == few_any_fixed(kStageBytes, kColumns));
};

// Rows of x in shared memory, from the columns of a block on.
template <int kColumns>
struct TokensInRows {
  uint32_t rows[kColumns / 8];
  __device__ __forceinline__ uint32_t at(int c, int j, int half) const {
    return rows[c] + j * kSubBlockK * 2 + half * 64;
  }
};

// Eight numbers of a token as one or two vectors of factors; zeros past the end of K.
template <typename T>
struct EightNumbers {
  using Factor = typename FactorOf<T>::type;
  uint4 parts[kParts<T>];

  static __device__ __forceinline__ EightNumbers load(const T* from, int count, bool aligned) {
    EightNumbers eight;
    if constexpr (is_same<T, float>) {
      float values[8];
      load_values(from, count, aligned, values);
      Vector<Factor> high, low;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        high.values[i] = __float2bfloat16_rn(values[i]);
        const float rest = values[i] - __bfloat162float(high.values[i]);
        // Infinity minus itself would be NaN.
        low.values[i] = __float2bfloat16_rn(isinf(values[i]) ? 0.0f : rest);
      }
      eight.parts[0] = *reinterpret_cast<const uint4*>(&high);
      eight.parts[1] = *reinterpret_cast<const uint4*>(&low);
    } else {
      load_values(from, count, aligned, reinterpret_cast<T*>(&eight.parts[0]));
    }
    return eight;
  }

 private:
  static __device__ __forceinline__ void load_values(const T* from, int count, bool aligned,
                                                     T* values) {
    if (aligned && count >= 8) {
#pragma unroll
      for (int i = 0; i < 8 * static_cast<int>(sizeof(T)) / 16; ++i) {
        reinterpret_cast<uint4*>(values)[i] = __ldca(reinterpret_cast<const uint4*>(from) + i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = i < count ? from[i] : narrow<T>(0.0f);
    }
  }
};

// Grid: (row tiles * splits, y, z), y * z or fewer tiles of kColumns / kParts tokens; clusters of
// `splits` blocks. Block: kFewAnyThreads. Shared memory: few_any_fixed and a row of x for each
// column in use. Weights are aligned to 16 bytes. Roofline: HBM, the weights.
template <typename Format, typename T, int kColumns>
__device__ __forceinline__ void multiply_few_any(const MixedParams& params) {
  using Layout = FewAnyLayout<Format, kColumns>;
  using Factor = typename FactorOf<T>::type;
  constexpr int kTokens = kColumns / kParts<T>;
  constexpr int kWorkers = kFewAnyGroups * 128;
  constexpr int kBlockColumns = Format::kSubBlocks * kSubBlockK;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  const uint32_t full = base + Layout::kBarriers, empty = full + 8 * Layout::kStages;
  const uint32_t all_received = empty + 8 * Layout::kStages;

  const uint32_t splits = cluster_size(), split = cluster_rank();
  const int row_tile = static_cast<int>(blockIdx.x / splits);
  const int first_block = static_cast<int>(split) * params.split_blocks;
  const int num_blocks = max(0, min(params.split_blocks, params.k_blocks - first_block));
  const int num_stages = (num_blocks + Layout::kStageBlocks - 1) / Layout::kStageBlocks;
  const uint32_t token_tile = blockIdx.z * gridDim.y + blockIdx.y;
  const int first_token = static_cast<int>(token_tile) * kTokens;
  const int num_tokens = min(kTokens, params.num_tokens - first_token);
  if (num_tokens <= 0) return;
  const int lane = threadIdx.x % 32, group = threadIdx.x / 128;
  const uint32_t row_bytes = few_any_row(params.split_blocks * kBlockColumns);
  const int count = num_tokens * kTileRows;  // of sums

  const unsigned char* weights =
      params.weights +
      (static_cast<int64_t>(row_tile) * params.k_blocks + first_block) * Format::kBytes;
  const auto fill = [&](int i, int stage) {
    const int blocks = min(Layout::kStageBlocks, num_blocks - i * Layout::kStageBlocks);
    const uint32_t bytes = static_cast<uint32_t>(blocks) * Format::kBytes;
    arrive_and_expect(full + 8 * stage, bytes);
    copy_bytes(base + stage * Layout::kStageBytes,
               weights + static_cast<int64_t>(i) * Layout::kStageBytes, bytes, full + 8 * stage);
  };
  const int early = min(num_stages, Layout::kStages);
  const bool fills = threadIdx.x == kWorkers;
  if (fills) {
    for (int s = 0; s < Layout::kStages; ++s) {
      init_barrier(full + 8 * s, 1);
      init_barrier(empty + 8 * s, 4);
    }
    init_barrier(all_received, 1);
    publish_barriers();
    arrive_and_expect(all_received, static_cast<uint32_t>(count) * 4);
    // Weights do not come from the kernel before: they are fetched while it still runs.
    for (int i = 0; i < early; ++i) fill(i, i);
  }
  __syncwarp();
  cluster_announce();
  if (group < kFewAnyGroups) {
    fill_code_table<Format, Factor, kWorkers>(static_cast<int>(threadIdx.x));
    wait_for_previous_kernels();
    const int units = num_blocks * (kBlockColumns / 8);  // of eight numbers, of a token
    const int first_column = first_block * kBlockColumns;
    const T* x = static_cast<const T*>(params.x) + first_column;
    const int columns = params.num_columns - first_column;
    constexpr int kAtOnce = 8 / kParts<T>;
    for (int first = threadIdx.x; first < num_tokens * units; first += kWorkers * kAtOnce) {
      EightNumbers<T> numbers[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int index = first + i * kWorkers, token = index / units, unit = index - token * units;
        if (token < num_tokens) {
          const T* row =
              x + offset_of_row(params.x_rows, static_cast<uint32_t>(first_token + token));
          numbers[i] = EightNumbers<T>::load(row + unit * 8, columns - unit * 8, params.aligned_x);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int index = first + i * kWorkers, token = index / units, unit = index - token * units;
        if (token < num_tokens) {
#pragma unroll
          for (int p = 0; p < kParts<T>; ++p) {
            *reinterpret_cast<uint4*>(shared + Layout::kX + (token * kParts<T> + p) * row_bytes +
                                      unit * 16) = numbers[i].parts[p];
          }
        }
      }
    }
    allow_next_kernel();
  }
  __syncthreads();
  if (group == kFewAnyGroups) {
    RingPlace<Layout::kStages> place;
    for (int i = early; fills && i < num_stages; ++i, place.advance()) {
      wait_for(empty + 8 * place.stage, place.parity);
      fill(i, place.stage);
    }
    return;
  }

  const int thread = threadIdx.x % 128;
  uint32_t x_rows[kColumns / 8];  // this lane's row of the matrices; rows that are not there repeat
#pragma unroll
  for (int c = 0; c < kColumns / 8; ++c) {
    const int row = min(c * 8 + lane % 8, num_tokens * kParts<T> - 1);
    x_rows[c] = base + Layout::kX + static_cast<uint32_t>(row) * row_bytes + lane / 8 * 16;
  }
  float sums[1][kColumns / 8][4] = {};
  RingPlace<Layout::kStages> place;
  for (int i = 0; i < num_stages; ++i, place.advance()) {
    if (i % kFewAnyGroups != group) continue;
    wait_for(full + 8 * place.stage, place.parity);
    const uint32_t stage = base + place.stage * Layout::kStageBytes;
    const int blocks = min(Layout::kStageBlocks, num_blocks - i * Layout::kStageBlocks);
    TokensInRows<kColumns> x;
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) x.rows[c] = x_rows[c] + i * (kFewStageColumns * 2);
#pragma unroll
    for (int b = 0; b < Layout::kStageBlocks; ++b) {
      if (b < blocks) {
        const uint32_t block = stage + b * Format::kBytes;
        multiply_block<Format, Factor, kColumns>(block, x, thread, sums[0]);
#pragma unroll
        for (int c = 0; c < kColumns / 8; ++c) x.rows[c] += kBlockColumns * 2;
      }
    }
    arrive_as_warp(empty + 8 * place.stage);
  }
  if constexpr (kWarpsTakeWeights<Format, Factor>) {
#pragma unroll
    for (int n = 0; n < kColumns / 2; ++n) sums[0][n / 4][n % 4] *= kSumFactor<Format, Factor>;
  }

  add_up<T, kColumns, kFewAnyGroups, kParts<T>, 1>(
      params,
      {shared + Layout::kPartial, base + Layout::kReceived, all_received, row_tile, first_token,
       num_tokens},
      sums);
}

}  // namespace ac4k
