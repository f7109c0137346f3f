// RMS norm and layer norm of rows, with or without a residual added first. A row is read once and
// stays in registers (norm_rows), or is long or unaligned and read two or three times (norm_loop).
//
// Arithmetic is float. RMS norm: x * (1 / sqrt(mean(x^2) + eps)) * weight. Layer norm: the mean, of
// the row or of a warp's part of it, is a pivot only; a second pass over the centred values gives
// its error and the variance together, so that neither a large mean nor a constant row loses
// digits.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/norm.h"
#include "common/rows.cuh"
#include "common/types.cuh"

namespace ac4k {

enum class NormKind { rms, layer };

// y = (x - pivot) * scale + offset, before weight and bias.
struct RowStatistics {
  float pivot, scale, offset;
};

__device__ __forceinline__ RowStatistics rms_statistics(float sum_of_squares, float inverse_columns,
                                                        float eps) {
  return {0.0f, rsqrtf(__fmaf_rn(sum_of_squares, inverse_columns, eps)), 0.0f};
}

// Sums of the values minus the pivot, and of their squares.
__device__ __forceinline__ RowStatistics layer_statistics(float pivot, float sum,
                                                          float sum_of_squares,
                                                          float inverse_columns, float eps) {
  const float mean = __fmul_rn(sum, inverse_columns);
  const float variance = __fmaf_rn(-mean, mean, __fmul_rn(sum_of_squares, inverse_columns));
  // fmaxf would turn NaN into zero.
  const float scale = rsqrtf((variance < 0.0f ? 0.0f : variance) + eps);
  return {pivot, scale, -mean * scale};
}

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

// 1 and -0 (which added to anything changes nothing) in all values of a 32-bit word.
template <typename T>
inline constexpr uint32_t kOnes = is_same<T, float>    ? 0x3f800000u
                                  : is_same<T, __half> ? 0x3c003c00u
                                                       : 0x3f803f80u;
template <typename T>
inline constexpr uint32_t kNegativeZeros = sizeof(T) == 4 ? 0x80000000u : 0x80008000u;

// A vector of weights or biases; words of `otherwise` where there are none or the row has ended.
template <typename T>
__device__ __forceinline__ Vector<T> load_or_fill(const void* from, uint32_t index,
                                                  uint32_t num_vectors, uint32_t otherwise) {
  uint4 bits{otherwise, otherwise, otherwise, otherwise};
  if (from != nullptr && index < num_vectors)
    bits = __ldca(static_cast<const uint4*>(from) + index);
  return *reinterpret_cast<const Vector<T>*>(&bits);
}
template <typename T>
__device__ __forceinline__ Vector<T> load_weight(const NormPart& part, uint32_t index,
                                                 uint32_t num_vectors) {
  return load_or_fill<T>(part.weight, index, num_vectors, kOnes<T>);
}
template <typename T>
__device__ __forceinline__ Vector<T> load_bias(const NormPart& part, uint32_t index,
                                               uint32_t num_vectors) {
  return load_or_fill<T>(part.bias, index, num_vectors, kNegativeZeros<T>);
}
// All of a thread's; RMS norm has no bias.
template <NormKind kKind, typename T, int kVectors>
__device__ __forceinline__ void load_weights(const NormPart& part, uint32_t num_vectors,
                                             RowRegisters<T, kVectors>& weight,
                                             RowRegisters<T, kVectors>& bias) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    weight.vectors[i] = load_weight<T>(part, weight.index(i), num_vectors);
  }
  if constexpr (kKind == NormKind::layer) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      bias.vectors[i] = load_bias<T>(part, bias.index(i), num_vectors);
    }
  }
}

// x + residual, rounded.
template <typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> add(const Vector<T, kBytes>& x,
                                                 const Vector<T, kBytes>& residual) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float a[kSize], b[kSize];
  widen(x, a);
  widen(residual, b);
#pragma unroll
  for (int j = 0; j < kSize; ++j) a[j] += b[j];
  return narrow<T, kBytes>(a);
}
template <typename T, int kVectors>
__device__ __forceinline__ void add(RowRegisters<T, kVectors>& x,
                                    const RowRegisters<T, kVectors>& residual) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) x.vectors[i] = add(x.vectors[i], residual.vectors[i]);
}

template <NormKind kKind, bool kCastFirst, typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> normalise(const Vector<T, kBytes>& x,
                                                       const RowStatistics& row,
                                                       const Vector<T, kBytes>& weight,
                                                       const Vector<T, kBytes>& bias) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float y[kSize], w[kSize], b[kSize];
  widen(x, y);
  widen(weight, w);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    y[j] = kKind == NormKind::rms ? y[j] * row.scale
                                  : __fmaf_rn(y[j] - row.pivot, row.scale, row.offset);
  }
  if constexpr (kCastFirst) widen(narrow<T, kBytes>(y), y);
  if constexpr (kKind == NormKind::layer) widen(bias, b);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    y[j] = kKind == NormKind::rms ? y[j] * w[j] : __fmaf_rn(y[j], w[j], b[j]);
  }
  return narrow<T, kBytes>(y);
}
// `cast_first` is the same for the whole grid.
template <NormKind kKind, typename T, int kBytes>
__device__ __forceinline__ Vector<T, kBytes> normalise(const Vector<T, kBytes>& x,
                                                       const RowStatistics& row,
                                                       const Vector<T, kBytes>& weight,
                                                       const Vector<T, kBytes>& bias,
                                                       bool cast_first) {
  return sizeof(T) == 2 && cast_first ? normalise<kKind, true>(x, row, weight, bias)
                                      : normalise<kKind, false>(x, row, weight, bias);
}

// 16-bit numbers add up to a mean that is as good as exact; the mean of floats is put right by the
// sum of the centred values.
template <typename T>
inline constexpr bool kMeanHasError = sizeof(T) == 4;

// This thread's sums of a row in registers: of the squares of the values minus the pivot, and of
// these values themselves where the pivot may be off. Vectors past the end of the row do not count.
template <typename T, int kVectors>
__device__ __forceinline__ void add_centred(const RowRegisters<T, kVectors>& x,
                                            uint32_t num_vectors, float pivot, float* sums) {
  constexpr int kSize = Vector<T>::kSize;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (x.index(i) >= num_vectors) continue;
    float values[kSize];
    widen(x.vectors[i], values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float difference = values[j] - pivot;
      sums[0] = __fmaf_rn(difference, difference, sums[0]);
      if constexpr (kMeanHasError<T>) sums[1] += difference;
    }
  }
}

// Layer norm's statistics of a row that a block shares, with one barrier: each warp centres its
// values on their own mean, and what it found is then moved to the pivot of the first warp. That
// one holds at least as many values as any other, so its mean is within sqrt(warps) standard
// deviations of the row's, and moving there costs no more digits than that. `warp_sum`: of the
// values of this warp.
template <typename Group, typename T, int kVectors>
__device__ __forceinline__ RowStatistics
layer_statistics_of_block(const RowRegisters<T, kVectors>& x, float warp_sum, uint32_t num_vectors,
                          float inverse_columns, float eps) {
  struct alignas(16) WarpPart {
    float pivot, sum, sum_of_squares, count;
  };
  constexpr int kMaxWarps = Group::kThreads / kWarpThreads;
  constexpr int kSums = 1 + kMeanHasError<T>;
  __shared__ WarpPart parts[kMaxWarps];
  const uint32_t thread = threadIdx.x, num_warps = blockDim.x / kWarpThreads;
  const uint32_t warp = thread / kWarpThreads;
  uint32_t vectors = 0;  // of this warp
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const uint32_t first = warp * kWarpThreads + static_cast<uint32_t>(i) * blockDim.x;
    if (first < num_vectors) vectors += min(num_vectors - first, uint32_t{kWarpThreads});
  }
  const float count = static_cast<float>(vectors * Vector<T>::kSize);
  const float pivot = __fdividef(warp_sum, fmaxf(count, 1.0f));
  float centred[kSums] = {};
  add_centred(x, num_vectors, pivot, centred);
  reduce_lanes<Sum>(centred, kWarpThreads);
  if (thread % kWarpThreads == 0) {
    parts[warp] = {pivot, kMeanHasError<T> ? centred[kSums - 1] : 0.0f, centred[0], count};
  }
  __syncthreads();
  // A lane for each warp; the order of the additions does not depend on kMaxWarps.
  const float first_pivot = parts[0].pivot;
  const uint32_t lane = thread % kMaxWarps;
  float sums[2] = {};
  if (lane < num_warps) {
    const WarpPart part = parts[lane];
    const float shift = part.pivot - first_pivot;
    sums[0] = __fmaf_rn(part.count, shift, part.sum);
    // The bracket has the sign of the shift wherever this is large: no infinities of two signs.
    sums[1] = __fmaf_rn(shift, __fmaf_rn(part.count, shift, 2.0f * part.sum), part.sum_of_squares);
  }
  reduce_lanes<Sum>(sums, kMaxWarps);
  return layer_statistics(first_pivot, sums[0], sums[1], inverse_columns, eps);
}

// Statistics of rows held in registers. Vectors past the end of a row are zeros, which a sum does
// not see. Where a block shares a row there is one barrier inside, which a thread reaches when it
// has read its part of the row.
template <NormKind kKind, typename Group, typename T, int kVectors>
__device__ __forceinline__ void row_statistics(
    const RowRegisters<T, kVectors> (&x)[Group::kNumRows], uint32_t num_vectors,
    float inverse_columns, float eps, RowStatistics (&statistics)[Group::kNumRows]) {
  constexpr int kRows = Group::kNumRows, kSize = Vector<T>::kSize;
  float sums[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float values[kSize];
      widen(x[r].vectors[i], values);
      float& sum = sums[r];
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        sum = kKind == NormKind::rms ? __fmaf_rn(values[j], values[j], sum) : sum + values[j];
      }
    }
  }
  if constexpr (kKind == NormKind::rms) {
    Group::template reduce<Sum, 0>(sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      statistics[r] = rms_statistics(sums[r], inverse_columns, eps);
    }
  } else if constexpr (Group::kSharedByBlock) {
    reduce_lanes<Sum>(sums, kWarpThreads);
    statistics[0] =
        layer_statistics_of_block<Group>(x[0], sums[0], num_vectors, inverse_columns, eps);
  } else {
    Group::template reduce<Sum, 0>(sums);
    constexpr int kSums = 1 + kMeanHasError<T>;
    float centred[kSums * kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] *= inverse_columns;
      add_centred(x[r], num_vectors, sums[r], centred + kSums * r);
    }
    Group::template reduce<Sum, 1>(centred);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float error = kMeanHasError<T> ? centred[kSums * r + kSums - 1] : 0.0f;
      statistics[r] = layer_statistics(sums[r], error, centred[kSums * r], inverse_columns, eps);
    }
  }
}

template <typename T>
__device__ __forceinline__ uint32_t vectors_of(const NormPart& part) {
  return static_cast<uint32_t>(part.num_columns) / Vector<T>::kSize;
}

// The rows of a block in registers, normalised; with a residual the sums are written on the way.
template <NormKind kKind, typename Group, typename T, int kVectors, typename Params>
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
    x_rows[r] = static_cast<const T*>(part.x) + offset_of_row(part.x_rows, row);
  }
  wait_for_previous_kernels();
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r].load_from(x_rows[r], num_vectors);
  if constexpr (kAdd) {
    RowRegisters<T, kVectors> residual[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t row = readable_row<Group>(Group::row(block, r), part.num_rows);
      residual[r].load_from(
          static_cast<const T*>(params.residual) + offset_of_row(params.residual_rows, row),
          num_vectors);
    }
    if constexpr (kWeightsEarly) load_weights<kKind>(part, num_vectors, weight, bias);
    allow_next_kernel();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t row = Group::row(block, r);
      add(x[r], residual[r]);
      if (Group::kAlwaysInRange || row < part.num_rows) {
        x[r].store_to(static_cast<T*>(params.sum) + offset_of_row(params.sum_rows, row),
                      num_vectors);
      }
    }
  } else {
    if constexpr (kWeightsEarly) load_weights<kKind>(part, num_vectors, weight, bias);
    allow_next_kernel();
  }
  row_statistics<kKind, Group>(x, num_vectors, part.inverse_columns, params.eps, statistics);
  if constexpr (kVectors == 8) {
    const uint32_t zero = part.num_rows >> 31;
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r].forget_widened(zero);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const uint32_t index = weight.index(i);
    if constexpr (!kWeightsEarly) {
      weight.vectors[i] = load_weight<T>(part, index, num_vectors);
    }
    if constexpr (!kWeightsEarly && kKind == NormKind::layer) {
      bias.vectors[i] = load_bias<T>(part, index, num_vectors);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      auto& vector = x[r].vectors[i];
      vector = normalise<kKind>(vector, statistics[r], weight.vectors[i], bias.vectors[i],
                                params.cast_first);
    }
  }
}

// Blocks an SM should hold: fewer than otherwise where a bias or a residual takes registers
// besides.
template <NormKind kKind, typename Params>
__device__ constexpr int norm_blocks(const RowVariant& variant) {
  constexpr bool kSimple = kKind == NormKind::rms && is_same<Params, NormParams>;
  if (kSimple || variant.vectors_per_thread == 4) return variant.min_blocks;
  return variant.vectors_per_thread == 8 ? 1 : variant.min_blocks * 5 / 6;
}

// The results of normalised_rows.
template <typename Group, typename T, int kVectors>
__device__ __forceinline__ void store_rows(const NormPart& part, uint32_t block,
                                           const RowRegisters<T, kVectors> (&y)[Group::kNumRows]) {
#pragma unroll
  for (int r = 0; r < Group::kNumRows; ++r) {
    const uint32_t row = Group::row(block, r);
    if (!Group::kAlwaysInRange && row >= part.num_rows) continue;
    y[r].store_to(static_cast<T*>(part.out) + offset_of_row(part.out_rows, row),
                  vectors_of<T>(part));
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
  normalised_rows<kKind, Group>(params, part, block, x);
  store_rows<Group>(part, block, x);
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
#define AC4K_NORM_VARIANT(name, kind, T, suffix, Params, i)                     \
  extern "C" __global__ void                                                    \
      __launch_bounds__(ac4k::kRowVariants[i].max_threads,                      \
                        (ac4k::norm_blocks<ac4k::NormKind::kind, ac4k::Params>( \
                            ac4k::kRowVariants[i])))                            \
      name##_##i##_##suffix(const __grid_constant__ ac4k::Params params) {      \
    ac4k::norm_rows<ac4k::NormKind::kind, T, ac4k::kRowVariants[i]>(params);    \
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
