// What a norm has to know of a row before it can scale it: RMS norm the mean of the squares, layer
// norm mean and variance.
//
// Layer norm: the mean, of the row or of a warp's part of it, is a pivot only; a second pass over
// the differences to it gives its error and the variance together, so that neither a large mean nor
// a constant row loses digits.
#pragma once

#include "common/rows.cuh"
#include "common/types.cuh"
#include "common/warp_product.cuh"

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

// sum / count, rounded once: of a constant row the pivot is its number, and nothing is left.
__device__ __forceinline__ float pivot_of(float sum, float count, float inverse_count) {
  const float quotient = __fmul_rn(sum, inverse_count);
  return __fmaf_rn(__fmaf_rn(-quotient, count, sum), inverse_count, quotient);
}

// 1 and -0 (which added to anything changes nothing) in all values of a 32-bit word.
template <typename T>
inline constexpr uint32_t kOnes = is_same<T, float>    ? 0x3f800000u
                                  : is_same<T, __half> ? 0x3c003c00u
                                                       : 0x3f803f80u;
template <typename T>
inline constexpr uint32_t kNegativeZeros = sizeof(T) == 4 ? 0x80000000u : 0x80008000u;

// 16-bit numbers add up to a mean that is as good as exact; the mean of floats is put right by the
// sum of the differences to it.
template <typename T>
inline constexpr bool kMeanHasError = sizeof(T) == 4;

// Sums of 16-bit numbers come from matrix products, which need not widen them: groups of four lanes
// then hold the same sum. Squares of few vectors are done before a product would be.
template <NormKind kKind, typename T, int kVectors>
inline constexpr bool kSumByProducts = sizeof(T) == 2 && (kKind == NormKind::layer || kVectors > 2);
template <NormKind kKind, typename T, int kVectors>
inline constexpr int kSumLanes = kSumByProducts<kKind, T, kVectors> ? 4 : 1;

// The sum of a thread's numbers, or of their squares; or that of kSumLanes lanes, which have part
// of the same row. Where a row has ended there are zeros.
template <NormKind kKind, typename T, int kVectors>
__device__ __forceinline__ float sum_of(const RowRegisters<T, kVectors>& x) {
  constexpr int kSize = Vector<T>::kSize;
  if constexpr (!kSumByProducts<kKind, T, kVectors>) {
    float sums[2] = {};
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float values[kSize];
      widen(x.vectors[i], values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        float& sum = sums[j % 2];
        sum = kKind == NormKind::rms ? __fmaf_rn(values[j], values[j], sum) : sum + values[j];
      }
    }
    return sums[0] + sums[1];
  } else if constexpr (kKind == NormKind::layer) {
    // Times a matrix of ones: each row of the result has the sum of what four lanes have.
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const auto& words = reinterpret_cast<const uint32_t (&)[4]>(x.vectors[i]);
      multiply_add<T>(sums, words, kOnes<T>, kOnes<T>);
    }
    return sums[0] + sums[2];
  } else {
    // Times itself: what four lanes have times what they have is on the diagonal of one half of the
    // result, the other half is not used.
    float even[4] = {}, odd[4] = {};
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const auto& words = reinterpret_cast<const uint32_t (&)[4]>(x.vectors[i]);
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        multiply_add<T>(even, words[j], words[j + 1], words[j]);
        multiply_add<T>(odd, words[j], words[j + 1], words[j + 1]);
      }
    }
    // Row and column g of it are with lane 4 g + g / 2.
    const uint32_t lane = lane_of_warp(), group = lane / 4;
    const float sum = group % 2 == 0 ? even[0] + odd[2] : even[1] + odd[3];
    return __shfl_sync(kWholeWarp, sum, static_cast<int>(group * 4 + group / 2));
  }
}

// A thread's part of a row as it is normalised: of RMS norm the numbers as they are, of layer norm
// without the pivot. Whole rows keep the differences, others make them again: they need registers
// for other things.
template <NormKind kKind, bool kWhole, typename T, int kVectors>
struct RowValues {
  static constexpr int kSize = Vector<T>::kSize;
  static constexpr bool kKept = kKind == NormKind::layer && kWhole;
  float differences[kKept ? kVectors : 1][kSize];

  __device__ __forceinline__ void take_off(const Vector<T>& x, float pivot,
                                           float (&values)[kSize]) const {
    widen(x, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] -= pivot;
  }
  // Takes the pivot off and adds to the sums: of the squares of the differences, and of these
  // themselves where the pivot may be off. Vectors past the end of the row do not count.
  __device__ __forceinline__ void centre(const RowRegisters<T, kVectors>& x, uint32_t num_vectors,
                                         float pivot, float* sums) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!kWhole && x.index(i) >= num_vectors) continue;
      auto& values = differences[kKept ? i : 0];
      take_off(x.vectors[i], pivot, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        sums[0] = __fmaf_rn(values[j], values[j], sums[0]);
        if constexpr (kMeanHasError<T>) sums[1] += values[j];
      }
    }
  }
  __device__ __forceinline__ void get(const RowRegisters<T, kVectors>& x, int i, float pivot,
                                      float (&values)[kSize]) const {
    if constexpr (kKept) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = differences[i][j];
    } else if constexpr (kKind == NormKind::layer) {
      take_off(x.vectors[i], pivot, values);
    } else {
      widen(x.vectors[i], values);
    }
  }
};

// Layer norm's statistics of a row that a block shares, with one barrier: each warp centres its
// values on their own mean, and what it found is then moved to the pivot of the first warp. That
// one holds at least as many values as any other, so its mean is within sqrt(warps) standard
// deviations of the row's, and moving there costs no more digits than that. `warp_sum`: of the
// values of this warp. The result is for the differences to the pivot of the warp.
template <bool kWhole, typename Group, typename T, int kVectors>
__device__ __forceinline__ RowStatistics layer_statistics_of_block(
    const RowRegisters<T, kVectors>& x, float warp_sum, uint32_t num_vectors, float inverse_columns,
    float eps, RowValues<NormKind::layer, kWhole, T, kVectors>& values) {
  struct alignas(16) WarpPart {
    float pivot, sum, sum_of_squares, count;
  };
  constexpr int kMaxWarps = Group::kThreads / kWarpThreads;
  constexpr int kSums = 1 + kMeanHasError<T>;
  __shared__ WarpPart parts[kMaxWarps];
  const uint32_t thread = threadIdx.x, num_warps = blockDim.x / kWarpThreads;
  const uint32_t warp = thread / kWarpThreads;
  uint32_t vectors = kWhole ? kVectors * kWarpThreads : 0;  // of this warp
  if constexpr (!kWhole) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t first = warp * kWarpThreads + static_cast<uint32_t>(i) * blockDim.x;
      if (first < num_vectors) vectors += min(num_vectors - first, uint32_t{kWarpThreads});
    }
  }
  const float count = static_cast<float>(vectors * Vector<T>::kSize);
  float pivot;
  if constexpr (kWhole) {
    pivot = warp_sum * (1.0f / (kVectors * kWarpThreads * Vector<T>::kSize));  // a power of two
  } else {
    pivot = pivot_of(warp_sum, count, __fdividef(1.0f, fmaxf(count, 1.0f)));
  }
  float centred[kSums] = {};
  values.centre(x, num_vectors, pivot, centred);
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
  const RowStatistics row = layer_statistics(first_pivot, sums[0], sums[1], inverse_columns, eps);
  return {pivot, row.scale, __fmaf_rn(pivot - first_pivot, row.scale, row.offset)};
}

// Statistics of rows held in registers, and what is normalised of them. Vectors past the end of a
// row are zeros, which a sum does not see; kWhole says that there are none. Where a block shares a
// row there is one barrier inside, which a thread reaches when it has read its part of the row.
template <NormKind kKind, bool kWhole, typename Group, typename T, int kVectors>
__device__ __forceinline__ void row_statistics(
    const RowRegisters<T, kVectors> (&x)[Group::kNumRows], uint32_t num_vectors,
    float inverse_columns, float eps, RowStatistics (&statistics)[Group::kNumRows],
    RowValues<kKind, kWhole, T, kVectors> (&values)[Group::kNumRows]) {
  constexpr int kRows = Group::kNumRows;
  constexpr int kShared = kSumLanes<kKind, T, kVectors>;
  float sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = sum_of<kKind>(x[r]);
  if constexpr (kKind == NormKind::rms) {
    Group::template reduce<Sum, 0, kShared>(sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      statistics[r] = rms_statistics(sums[r], inverse_columns, eps);
    }
  } else if constexpr (Group::kSharedByBlock) {
    reduce_lanes<Sum, kShared>(sums, kWarpThreads);
    statistics[0] = layer_statistics_of_block<kWhole, Group>(x[0], sums[0], num_vectors,
                                                             inverse_columns, eps, values[0]);
  } else {
    Group::template reduce<Sum, 0, kShared>(sums);
    constexpr int kSums = 1 + kMeanHasError<T>;
    const float num_columns = static_cast<float>(num_vectors * Vector<T>::kSize);
    float centred[kSums * kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = pivot_of(sums[r], num_columns, inverse_columns);
      values[r].centre(x[r], num_vectors, sums[r], centred + kSums * r);
    }
    Group::template reduce<Sum, 1>(centred);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float error = kMeanHasError<T> ? centred[kSums * r + kSums - 1] : 0.0f;
      statistics[r] = layer_statistics(sums[r], error, centred[kSums * r], inverse_columns, eps);
    }
  }
}

}  // namespace ac4k
