// What a norm has to know of a row before it can scale it: RMS norm the mean of the squares, layer
// norm mean and variance.
//
// Layer norm: of 16-bit numbers whose mean is small beside their spread, the sums of the numbers
// and of their squares say it all. Otherwise the mean is a pivot only: a second pass over the
// differences to it gives its error and the variance together, so that neither a large mean nor a
// constant row loses digits.
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

// Sums of many 16-bit numbers come from matrix products, which need not widen them: groups of four
// lanes then hold the same sum. Those of few vectors are done before a product would be.
template <typename T, int kVectors>
inline constexpr bool kSumByProducts = sizeof(T) == 2 && kVectors > 2;
template <typename T, int kVectors>
inline constexpr int kSumLanes = kSumByProducts<T, kVectors> ? 4 : 1;

template <bool kSquares, typename T, int kVectors>
__device__ __forceinline__ float sum_by_additions(const RowRegisters<T, kVectors>& x) {
  float sums[2] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    float values[Vector<T>::kSize];
    widen(x.vectors[i], values);
#pragma unroll
    for (int j = 0; j < Vector<T>::kSize; ++j) {
      float& sum = sums[j % 2];
      sum = kSquares ? __fmaf_rn(values[j], values[j], sum) : sum + values[j];
    }
  }
  return sums[0] + sums[1];
}

// The sum of a thread's numbers, or that of kSumLanes lanes, which have part of the same row. Where
// a row has ended there are zeros.
template <typename T, int kVectors>
__device__ __forceinline__ float sum_of(const RowRegisters<T, kVectors>& x) {
  if constexpr (kSumByProducts<T, kVectors>) {
    // Times a matrix of ones: each row of the result has the sum of what four lanes have.
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const auto& words = reinterpret_cast<const uint32_t (&)[4]>(x.vectors[i]);
      multiply_add<T>(sums, words, kOnes<T>, kOnes<T>);
    }
    return sums[0] + sums[2];
  } else {
    return sum_by_additions<false>(x);
  }
}

// The same of the squares.
template <typename T, int kVectors>
__device__ __forceinline__ float sum_of_squares(const RowRegisters<T, kVectors>& x) {
  if constexpr (kSumByProducts<T, kVectors>) {
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
  } else {
    return sum_by_additions<true>(x);
  }
}

// The numbers of vector i of a thread's part of a row, without the pivot where there is one.
template <bool kCentred, typename T, int kVectors>
__device__ __forceinline__ void get_values(const RowRegisters<T, kVectors>& x, int i, float pivot,
                                           float (&values)[Vector<T>::kSize]) {
  widen(x.vectors[i], values);
  if constexpr (kCentred) {
#pragma unroll
    for (int j = 0; j < Vector<T>::kSize; ++j) values[j] -= pivot;
  }
}

// Adds to the sums of the differences to the pivot and of their squares. Vectors past the end of
// the row, of which whole rows have none, do not count.
template <bool kWhole, typename T, int kVectors>
__device__ __forceinline__ void add_differences(const RowRegisters<T, kVectors>& x,
                                                uint32_t num_vectors, float pivot, float* sums) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (!kWhole && x.index(i) >= num_vectors) continue;
    float values[Vector<T>::kSize];
    get_values<true>(x, i, pivot, values);
#pragma unroll
    for (int j = 0; j < Vector<T>::kSize; ++j) {
      sums[0] += values[j];
      sums[1] = __fmaf_rn(values[j], values[j], sums[1]);
    }
  }
}

// Whether the variance may be had from the sum of squares: no more than two bits of it then cancel.
// Not where one of the numbers is no number or the squares are too large.
__device__ __forceinline__ bool squares_suffice(float sum, float sum_of_squares,
                                                float inverse_columns) {
  const float mean = sum * inverse_columns, mean_square = sum_of_squares * inverse_columns;
  return mean * mean <= 0.75f * mean_square && sum_of_squares <= 3.0e38f;
}

// Statistics of rows held in registers; says whether they are for differences to a pivot. Vectors
// past the end of a row are zeros, which a sum does not see; kWhole says that there are none. Where
// a block shares a row there is a barrier inside, which a thread reaches when it has read its part
// of the row.
template <NormKind kKind, bool kWhole, typename Group, typename T, int kVectors>
__device__ __forceinline__ bool row_statistics(
    const RowRegisters<T, kVectors> (&x)[Group::kNumRows], uint32_t num_vectors,
    float inverse_columns, float eps, RowStatistics (&statistics)[Group::kNumRows]) {
  constexpr int kRows = Group::kNumRows;
  constexpr int kShared = kSumLanes<T, kVectors>;
  if constexpr (kKind == NormKind::rms) {
    float squares[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) squares[r] = sum_of_squares(x[r]);
    Group::template reduce<Sum, 0, kShared>(squares);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      statistics[r] = rms_statistics(squares[r], inverse_columns, eps);
    }
    return false;
  }
  float sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = sum_of(x[r]);
  if constexpr (sizeof(T) == 2) {
    float both[2 * kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      both[2 * r] = sums[r];
      both[2 * r + 1] = sum_of_squares(x[r]);
    }
    Group::template reduce<Sum, 0, kShared>(both);
    bool suffice = true;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums[r] = both[2 * r];
      suffice &= squares_suffice(both[2 * r], both[2 * r + 1], inverse_columns);
      statistics[r] = layer_statistics(0.0f, both[2 * r], both[2 * r + 1], inverse_columns, eps);
    }
    if (Group::all(suffice)) return false;
  } else {
    Group::template reduce<Sum, 0, kShared>(sums);
  }
  const float num_columns = static_cast<float>(num_vectors * Vector<T>::kSize);
  float centred[2 * kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = pivot_of(sums[r], num_columns, inverse_columns);
    add_differences<kWhole>(x[r], num_vectors, sums[r], centred + 2 * r);
  }
  Group::template reduce<Sum, 1>(centred);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    statistics[r] =
        layer_statistics(sums[r], centred[2 * r], centred[2 * r + 1], inverse_columns, eps);
  }
  return true;
}

}  // namespace ac4k
