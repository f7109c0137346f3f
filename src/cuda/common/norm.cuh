// RMS norm and layer norm of rows, with or without a residual added first. A row is read once and
// stays in registers (norm_rows), or is long or unaligned and read two or three times (norm_loop).
//
// Arithmetic is float. RMS norm: x * (1 / sqrt(mean(x^2) + eps)) * weight. Layer norm: see
// norm_statistics.cuh.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/norm.h"
#include "common/norm_statistics.cuh"
#include "common/rows.cuh"
#include "common/types.cuh"

namespace ac4k {

// The tensor a block works on, and the block's number in it.
struct PartOfBlock {
  const NormPart& part;
  uint32_t block;
};
__device__ __forceinline__ PartOfBlock part_of(const NormParams& params) {
  const bool second = blockIdx.x >= params.second_block;
  return {params.parts[second], blockIdx.x - (second ? params.second_block : 0)};
}
__device__ __forceinline__ PartOfBlock part_of(const AddNormParams& params) {
  return {params.part, blockIdx.x};
}

// A vector of weights or biases; words of `otherwise` where there are none or the row has ended,
// which plain rows are known not to have. `later` is 0.
template <bool kPlain, typename T>
__device__ __forceinline__ Vector<T> load_or_fill(const void* from, uint32_t index,
                                                  uint32_t num_vectors, uint32_t otherwise,
                                                  uint32_t later) {
  index ^= later, otherwise ^= later;
  if constexpr (kPlain) return load(static_cast<const Vector<T>*>(from) + index);
  uint4 bits{otherwise, otherwise, otherwise, otherwise};
  if (from != nullptr && index < num_vectors)
    bits = __ldca(static_cast<const uint4*>(from) + index);
  return *reinterpret_cast<const Vector<T>*>(&bits);
}
template <bool kPlain, typename T>
__device__ __forceinline__ Vector<T> load_weight(const NormPart& part, uint32_t index,
                                                 uint32_t num_vectors, uint32_t later = 0) {
  return load_or_fill<kPlain, T>(part.weight, index, num_vectors, kOnes<T>, later);
}
template <bool kPlain, typename T>
__device__ __forceinline__ Vector<T> load_bias(const NormPart& part, uint32_t index,
                                               uint32_t num_vectors, uint32_t later = 0) {
  return load_or_fill<kPlain, T>(part.bias, index, num_vectors, kNegativeZeros<T>, later);
}
// All of a thread's; RMS norm has no bias.
template <NormKind kKind, bool kPlain, typename T, int kVectors>
__device__ __forceinline__ void load_weights(const NormPart& part, uint32_t num_vectors,
                                             RowRegisters<T, kVectors>& weight,
                                             RowRegisters<T, kVectors>& bias) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    weight.vectors[i] = load_weight<kPlain, T>(part, weight.index(i), num_vectors);
  }
  if constexpr (kKind == NormKind::layer) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      bias.vectors[i] = load_bias<kPlain, T>(part, bias.index(i), num_vectors);
    }
  }
}

// x + residual, rounded. The sum of two 16-bit numbers is rounded once to the same number that
// rounding it to float first would give.
template <typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> add(const Vector<T, kBytes>& x,
                                                 const Vector<T, kBytes>& residual) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  Vector<T, kBytes> sum;
  if constexpr (sizeof(T) == 2 && kSize % 2 == 0) {
    const uint32_t* a = reinterpret_cast<const uint32_t*>(&x);
    const uint32_t* b = reinterpret_cast<const uint32_t*>(&residual);
    uint32_t* words = reinterpret_cast<uint32_t*>(&sum);
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) words[i] = fma_pair<T>(a[i], kOnes<T>, b[i]);
  } else {
#pragma unroll
    for (int j = 0; j < kSize; ++j)
      sum.values[j] = narrow<T>(widen(x.values[j]) + widen(residual.values[j]));
  }
  return sum;
}
template <typename T, int kVectors>
__device__ __forceinline__ void add(RowRegisters<T, kVectors>& x,
                                    const RowRegisters<T, kVectors>& residual) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) x.vectors[i] = add(x.vectors[i], residual.vectors[i]);
}

// The results for `y`, numbers less the pivot.
template <NormKind kKind, bool kCastFirst, typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> normalise(float (&y)[Vector<T, kBytes>::kSize],
                                                       const RowStatistics& row,
                                                       const Vector<T, kBytes>& weight,
                                                       const Vector<T, kBytes>& bias) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float w[kSize], b[kSize];
  widen(weight, w);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    y[j] = kKind == NormKind::rms ? __fmul_rn(y[j], row.scale)
                                  : __fmaf_rn(y[j], row.scale, row.offset);
  }
  if constexpr (kCastFirst) widen(narrow<T, kBytes>(y), y);
  if constexpr (kKind == NormKind::layer) widen(bias, b);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    y[j] = kKind == NormKind::rms ? __fmul_rn(y[j], w[j]) : __fmaf_rn(y[j], w[j], b[j]);
  }
  return narrow<T, kBytes>(y);
}
// The same from the numbers of the row. `cast_first` is the same for the whole grid; layer norm
// does not have it.
template <NormKind kKind, typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> normalise(const Vector<T, kBytes>& x,
                                                       const RowStatistics& row,
                                                       const Vector<T, kBytes>& weight,
                                                       const Vector<T, kBytes>& bias,
                                                       bool cast_first) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float y[kSize];
  widen(x, y);
  if constexpr (kKind == NormKind::layer) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) y[j] -= row.pivot;
  }
  return kKind == NormKind::rms && sizeof(T) == 2 && cast_first
             ? normalise<kKind, true>(y, row, weight, bias)
             : normalise<kKind, false>(y, row, weight, bias);
}

template <typename T>
__device__ __forceinline__ uint32_t vectors_of(const NormPart& part) {
  return static_cast<uint32_t>(part.num_columns) / Vector<T>::kSize;
}

template <bool kPlain>
__device__ __forceinline__ int64_t offset_of(const RowOffsets& rows, uint32_t row) {
  return kPlain ? row * rows.stride : offset_of_row(rows, row);
}

// Rows in registers, with their statistics, become their results. kCentred: what row_statistics
// says.
template <NormKind kKind, bool kPlain, bool kCastFirst, bool kCentred, bool kWeightsEarly,
          typename T, int kVectors, int kRows>
__device__ __forceinline__ void normalise_rows(const NormPart& part, uint32_t num_vectors,
                                               const RowStatistics (&statistics)[kRows],
                                               RowRegisters<T, kVectors>& weight,
                                               RowRegisters<T, kVectors>& bias,
                                               RowRegisters<T, kVectors> (&x)[kRows]) {
  // With many vectors, weights are asked for so many ahead, and not all before the first is used,
  // which takes too many registers: their place then depends on a result. There are less than 2^31
  // rows.
  constexpr int kAhead = kVectors < 8 ? kVectors : kKind == NormKind::rms && kPlain ? 4 : 2;
  const uint32_t zero = part.num_rows >> 31;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if constexpr (!kWeightsEarly) {
      uint32_t later = 0;
      if (i >= kAhead) {
        const auto* words = reinterpret_cast<const uint32_t*>(&x[0].vectors[i - kAhead]);
        later = (words[0] | words[1] | words[2] | words[3]) & zero;
      }
      const uint32_t index = weight.index(i);
      weight.vectors[i] = load_weight<kPlain, T>(part, index, num_vectors, later);
      if constexpr (kKind == NormKind::layer)
        bias.vectors[i] = load_bias<kPlain, T>(part, index, num_vectors, later);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float y[Vector<T>::kSize];
      get_values<kCentred>(x[r], i, statistics[r].pivot, y);
      x[r].vectors[i] =
          normalise<kKind, kCastFirst>(y, statistics[r], weight.vectors[i], bias.vectors[i]);
    }
  }
}

// The rows of a block in registers, normalised; with a residual the sums are written on the way.
// kPlain: what NormPart::plain says.
template <NormKind kKind, bool kPlain, typename Group, typename T, int kVectors, typename Params>
__device__ __forceinline__ void normalised_rows(const Params& params, const NormPart& part,
                                                uint32_t block,
                                                RowRegisters<T, kVectors> (&x)[Group::kNumRows]) {
  constexpr bool kAdd = is_same<Params, AddNormParams>;
  constexpr int kRows = Group::kNumRows;
  // Where they fit into registers, weights come along with the row.
  constexpr bool kWeightsEarly = kVectors <= (kKind == NormKind::layer || kAdd ? 2 : 4);
  const uint32_t num_vectors = vectors_of<T>(part);
  RowRegisters<T, kVectors> weight, bias;
  RowStatistics statistics[kRows];
  const T* x_rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t row = readable_row<Group>(Group::row(block, r), part.num_rows);
    x_rows[r] = static_cast<const T*>(part.x) + offset_of<kPlain>(part.x_rows, row);
  }
  wait_for_previous_kernels();
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r].template load_from<kPlain>(x_rows[r], num_vectors);
  if constexpr (kAdd) {
    RowRegisters<T, kVectors> residual[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t row = readable_row<Group>(Group::row(block, r), part.num_rows);
      residual[r].template load_from<kPlain>(
          static_cast<const T*>(params.residual) + offset_of<kPlain>(params.residual_rows, row),
          num_vectors);
    }
    if constexpr (kWeightsEarly) load_weights<kKind, kPlain>(part, num_vectors, weight, bias);
    allow_next_kernel();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t row = Group::row(block, r);
      add(x[r], residual[r]);
      if (Group::kAlwaysInRange || row < part.num_rows) {
        x[r].template store_to<kPlain>(
            static_cast<T*>(params.sum) + offset_of<kPlain>(params.sum_rows, row), num_vectors);
      }
    }
  } else {
    if constexpr (kWeightsEarly) load_weights<kKind, kPlain>(part, num_vectors, weight, bias);
    allow_next_kernel();
  }
  const bool centred = row_statistics<kKind, kPlain, Group>(x, num_vectors, part.inverse_columns,
                                                            params.eps, statistics);
  // Both are the same for all threads that share a row.
  if (kKind == NormKind::rms && sizeof(T) == 2 && params.cast_first) {
    normalise_rows<kKind, kPlain, true, false, kWeightsEarly>(part, num_vectors, statistics, weight,
                                                              bias, x);
  } else if (centred) {
    if constexpr (kVectors >= 4 && sizeof(T) == 2) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) x[r].forget_widened(part.num_rows >> 31);
    }
    normalise_rows<kKind, kPlain, false, true, kWeightsEarly>(part, num_vectors, statistics, weight,
                                                              bias, x);
  } else {
    normalise_rows<kKind, kPlain, false, false, kWeightsEarly>(part, num_vectors, statistics,
                                                               weight, bias, x);
  }
}

template <NormKind kKind>
inline constexpr const RowVariant (&kNormVariants)[kNumRowVariants] = kKind == NormKind::layer
                                                                          ? kFullRowVariants
                                                                          : kRowVariants;

template <NormKind kKind, typename Params>
__device__ constexpr int norm_blocks(const RowVariant& variant) {
  // Threads with many vectors do not hold all of a bias at once.
  const bool bias = kKind == NormKind::layer && variant.vectors_per_thread < 8;
  return bias || is_same<Params, AddNormParams> ? variant.min_full_blocks : variant.min_blocks;
}

// The results of normalised_rows.
template <bool kPlain, typename Group, typename T, int kVectors>
__device__ __forceinline__ void store_rows(const NormPart& part, uint32_t block,
                                           const RowRegisters<T, kVectors> (&y)[Group::kNumRows]) {
#pragma unroll
  for (int r = 0; r < Group::kNumRows; ++r) {
    const uint32_t row = Group::row(block, r);
    if (!Group::kAlwaysInRange && row >= part.num_rows) continue;
    y[r].template store_to<kPlain>(
        static_cast<T*>(part.out) + offset_of<kPlain>(part.out_rows, row), vectors_of<T>(part));
  }
}

// Grid and block as the variant says (rows.h): groups of threads have a row each, or a block has.
// All rows, weight and bias are aligned to 16 bytes. Shared memory: up to 256 bytes for the sums.
// Roofline: HBM, 1 read to 1 write (2 to 2 with a residual).
template <NormKind kKind, typename T, const RowVariant& kVariant, typename Params>
__device__ __forceinline__ void norm_rows(const Params& params) {
  using Group = typename GroupOf<kVariant>::type;
  constexpr int kVectors = kVariant.vectors_per_thread;
  const auto [part, block] = part_of(params);
  RowRegisters<T, kVectors> x[Group::kNumRows];
  if (part.plain) {
    normalised_rows<kKind, true, Group>(params, part, block, x);
    store_rows<true, Group>(part, block, x);
  } else {
    normalised_rows<kKind, false, Group>(params, part, block, x);
    store_rows<false, Group>(part, block, x);
  }
}

// One of the two rows below. kPlain: what NormPart::plain says.
template <bool kPlain, typename T, int kVectors, typename Group>
struct RowOfPair {
  const NormPart& part;
  uint32_t row;
  RowRegisters<T, kVectors> x[1], weight, no_bias;

  __device__ __forceinline__ void load() {
    x[0].template load_from<kPlain>(
        static_cast<const T*>(part.x) + offset_of<kPlain>(part.x_rows, row), vectors_of<T>(part));
  }
  __device__ __forceinline__ void load_weight() {
    load_weights<NormKind::rms, kPlain>(part, vectors_of<T>(part), weight, no_bias);
  }
  __device__ __forceinline__ void finish(const NormParams& params, float sum) {
    // Whole warps, mostly: shorter rows do not reach all of them.
    if (!kPlain && threadIdx.x >= vectors_of<T>(part)) return;
    const RowStatistics statistics[1] = {rms_statistics(sum, part.inverse_columns, params.eps)};
    if (sizeof(T) == 2 && params.cast_first) {
      normalise_rows<NormKind::rms, kPlain, true, false, true>(part, vectors_of<T>(part),
                                                               statistics, weight, no_bias, x);
    } else {
      normalise_rows<NormKind::rms, kPlain, false, false, true>(part, vectors_of<T>(part),
                                                                statistics, weight, no_bias, x);
    }
    store_rows<kPlain, Group>(part, row, x);
  }
};

// RMS norm of two tensors with as many rows: a block has one of each, and one barrier for both, so
// that the shorter rows do not cost what the longer ones do. Block: as the longer rows need it.
// kFirstIsPlain: what NormPart::plain says of the first. Otherwise as norm_rows.
template <bool kFirstIsPlain, typename T, const RowVariant& kVariant>
__device__ __forceinline__ void norm_row_pair(const NormParams& params) {
  using Group = typename GroupOf<kVariant>::type;
  constexpr int kVectors = kVariant.vectors_per_thread;
  RowOfPair<kFirstIsPlain, T, kVectors, Group> first{params.parts[0], blockIdx.x};
  RowOfPair<false, T, kVectors, Group> second{params.parts[1], blockIdx.x};
  wait_for_previous_kernels();
  first.load();
  second.load();
  first.load_weight();
  second.load_weight();
  allow_next_kernel();
  float sums[2] = {sum_of_squares(first.x[0]), sum_of_squares(second.x[0])};
  Group::template reduce<Sum, 0, kSumLanes<T, kVectors>>(sums);
  first.finish(params, sums[0]);
  second.finish(params, sums[1]);
}

// Sums over a row in memory, by the whole block.
template <NormKind kKind, typename T, int kBytes>
__device__ __forceinline__ RowStatistics loop_statistics(const T* row, int64_t num_columns,
                                                         float inverse_columns, float eps) {
  using Vec = Vector<T, kBytes>;
  const int64_t count = num_columns / Vec::kSize;
  float sums[1] = {};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    float values[Vec::kSize];
    widen(reinterpret_cast<const Vec*>(row)[i], values);
#pragma unroll
    for (int j = 0; j < Vec::kSize; ++j) {
      sums[0] =
          kKind == NormKind::rms ? __fmaf_rn(values[j], values[j], sums[0]) : sums[0] + values[j];
    }
  }
  BlockGroup<kRowLoopThreads>::reduce<Sum, 0>(sums);
  if constexpr (kKind == NormKind::rms) return rms_statistics(sums[0], inverse_columns, eps);
  const float pivot = sums[0] * inverse_columns;
  float centred[2] = {};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    float values[Vec::kSize];
    widen(reinterpret_cast<const Vec*>(row)[i], values);
#pragma unroll
    for (int j = 0; j < Vec::kSize; ++j) {
      const float difference = values[j] - pivot;
      centred[0] += difference;
      centred[1] = __fmaf_rn(difference, difference, centred[1]);
    }
  }
  BlockGroup<kRowLoopThreads>::reduce<Sum, 1>(centred);
  return layer_statistics(pivot, centred[0], centred[1], inverse_columns, eps);
}

// The row a block works on; with a residual the sum is written first, and is that row. A thread
// reads only what it wrote itself.
template <typename T, int kBytes, typename Params>
__device__ __forceinline__ const T* row_to_normalise(const Params& params, const NormPart& part,
                                                     uint32_t row) {
  const T* x = static_cast<const T*>(part.x) + offset_of_row(part.x_rows, row);
  if constexpr (!is_same<Params, AddNormParams>) {
    return x;
  } else {
    using Vec = Vector<T, kBytes>;
    const T* residual =
        static_cast<const T*>(params.residual) + offset_of_row(params.residual_rows, row);
    T* sum = static_cast<T*>(params.sum) + offset_of_row(params.sum_rows, row);
    for (int64_t i = threadIdx.x; i < part.num_columns / Vec::kSize; i += blockDim.x) {
      reinterpret_cast<Vec*>(sum)[i] =
          add(reinterpret_cast<const Vec*>(x)[i], reinterpret_cast<const Vec*>(residual)[i]);
    }
    return sum;
  }
}

// One row a block of whole warps, any length; kBytes is 16 where rows, weight and bias are aligned
// to it and the size of T otherwise. Shared memory: up to 384 bytes. Roofline: HBM as long as the
// rows in flight fit into L2, from where they are read again.
template <NormKind kKind, typename T, int kBytes, typename Params>
__device__ __forceinline__ void norm_loop(const Params& params) {
  using Vec = Vector<T, kBytes>;
  const auto [part, block] = part_of(params);
  wait_for_previous_kernels();
  allow_next_kernel();
  const T* row = row_to_normalise<T, kBytes>(params, part, block);
  const RowStatistics statistics =
      loop_statistics<kKind, T, kBytes>(row, part.num_columns, part.inverse_columns, params.eps);
  T* out = static_cast<T*>(part.out) + offset_of_row(part.out_rows, block);
  const T* weight = static_cast<const T*>(part.weight);
  const T* bias = static_cast<const T*>(part.bias);
  Vec ones, zeros;
#pragma unroll
  for (int j = 0; j < Vec::kSize; ++j) {
    ones.values[j] = narrow<T>(1.0f);
    zeros.values[j] = narrow<T>(-0.0f);
  }
  for (int64_t i = threadIdx.x; i < part.num_columns / Vec::kSize; i += blockDim.x) {
    const Vec x = reinterpret_cast<const Vec*>(row)[i];
    const Vec w = weight ? reinterpret_cast<const Vec*>(weight)[i] : ones;
    const Vec b = bias ? reinterpret_cast<const Vec*>(bias)[i] : zeros;
    reinterpret_cast<Vec*>(out)[i] = normalise<kKind>(x, statistics, w, b, params.cast_first);
  }
}

}  // namespace ac4k

// Entry points <name>_{0..5}_<type>, by row variant, <name>_loop_<type> and <name>_any_<type>.
#define AC4K_NORM_VARIANT(name, kind, T, suffix, Params, i)                                 \
  extern "C" __global__ void                                                                \
      __launch_bounds__(ac4k::kNormVariants<ac4k::NormKind::kind>[i].max_threads,           \
                        (ac4k::norm_blocks<ac4k::NormKind::kind, ac4k::Params>(             \
                            ac4k::kNormVariants<ac4k::NormKind::kind>[i])))                 \
      name##_##i##_##suffix(const __grid_constant__ ac4k::Params params) {                  \
    ac4k::norm_rows<ac4k::NormKind::kind, T, ac4k::kNormVariants<ac4k::NormKind::kind>[i]>( \
        params);                                                                            \
  }
#define AC4K_NORM_LOOP(name, variant, kind, T, suffix, Params, bytes)                              \
  extern "C" __global__ void __launch_bounds__(ac4k::kRowLoopThreads) name##_##variant##_##suffix( \
      const __grid_constant__ ac4k::Params params) {                                               \
    ac4k::norm_loop<ac4k::NormKind::kind, T, bytes>(params);                                       \
  }
#define AC4K_NORM(name, kind, T, suffix, Params)          \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 0)     \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 1)     \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 2)     \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 3)     \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 4)     \
  AC4K_NORM_VARIANT(name, kind, T, suffix, Params, 5)     \
  AC4K_NORM_LOOP(name, loop, kind, T, suffix, Params, 16) \
  AC4K_NORM_LOOP(name, any, kind, T, suffix, Params, sizeof(T))
#define AC4K_NORM_PAIRS(name, T, suffix)                                                 \
  extern "C" __global__ void                                                             \
      __launch_bounds__(ac4k::kRowVariants[ac4k::kNormPairVariant].max_threads,          \
                        ac4k::kNormPairBlocks)                                           \
      name##_pairs_##suffix(const __grid_constant__ ac4k::NormParams params) {           \
    if (params.parts[0].plain) {                                                         \
      ac4k::norm_row_pair<true, T, ac4k::kRowVariants[ac4k::kNormPairVariant]>(params);  \
    } else {                                                                             \
      ac4k::norm_row_pair<false, T, ac4k::kRowVariants[ac4k::kNormPairVariant]>(params); \
    }                                                                                    \
  }
