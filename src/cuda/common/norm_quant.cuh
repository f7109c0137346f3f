// Norms whose result is quantised to FP8 or INT8: the norm's result is rounded to its dtype, then
// quantised by the rule of quantize.cuh, so that codes and scales are those of the two ops run one
// after the other.
#pragma once

#include "common/norm.cuh"
#include "common/norm_quant.h"
#include "common/quantize.cuh"

namespace ac4k {

__device__ __forceinline__ float scale_for(OutputFormat format, float amax) {
  return format == OutputFormat::e4m3   ? scale_of<E4M3::kMax>(amax, false)
         : format == OutputFormat::e5m2 ? scale_of<E5M2::kMax>(amax, false)
                                        : scale_of<Int8::kMax>(amax, false);
}

// max |x| of a vector; NaN counts for nothing.
template <typename T>
__device__ __forceinline__ float amax_of(const Vector<T>& vector) {
  if constexpr (sizeof(T) == 2) {
    return reinterpret_cast<const Unit<T>&>(vector).amax();
  } else {
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < Vector<T>::kSize; ++j) largest = fmaxf(largest, fabsf(vector.values[j]));
    return largest;
  }
}
// The same of a thread's part of a normalised row. Past the end of a row RMS norm makes zeros of
// zeros, or NaN, and no one need ask where that is.
template <NormKind kKind, bool kWhole, typename T, int kVectors>
__device__ __forceinline__ float amax_of(const RowRegisters<T, kVectors>& y, uint32_t num_vectors) {
  float largest = 0.0f;
  Unit<T> largest_pairs = Unit<T>::zero();
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (!kWhole && kKind == NormKind::layer && y.index(i) >= num_vectors) continue;
    if constexpr (sizeof(T) == 2) {
      const auto& unit = reinterpret_cast<const Unit<T>&>(y.vectors[i]);
      if (kWhole && i == 0) {
        largest_pairs = unit;
      } else {
        largest_pairs.raise_in_magnitude(unit);
      }
    } else {
      largest = fmaxf(largest, amax_of(y.vectors[i]));
    }
  }
  return sizeof(T) == 2 ? largest_pairs.amax() : largest;
}

// Four codes; the format is the same for the whole grid.
__device__ __forceinline__ uint32_t encode4(OutputFormat format, float a, float b, float c,
                                            float d) {
  return format == OutputFormat::e4m3   ? E4M3::encode4(a, b, c, d)
         : format == OutputFormat::e5m2 ? E5M2::encode4(a, b, c, d)
                                        : Int8::encode4(a, b, c, d);
}

// The codes of a vector, 8 bytes or (of float) 4.
template <typename Format, typename T>
__device__ __forceinline__ void store_codes(unsigned char* to, const Vector<T>& vector,
                                            float inverse) {
  constexpr int kSize = Vector<T>::kSize;
  float v[kSize];
  widen(vector, v);
#pragma unroll
  for (int j = 0; j < kSize; ++j) v[j] = __fmul_rn(v[j], inverse);
  const uint32_t low = Format::encode4(v[0], v[1], v[2], v[3]);
  if constexpr (kSize == 4) {
    *reinterpret_cast<uint32_t*>(to) = low;
  } else {
    *reinterpret_cast<uint2*>(to) = uint2{low, Format::encode4(v[4], v[5], v[6], v[7])};
  }
}
// The codes of a thread's part of a row, vector i times inverse[i]; `to` is where its first belong.
template <typename Format, bool kWhole, typename T, int kVectors>
__device__ __forceinline__ void store_codes(unsigned char* to, const RowRegisters<T, kVectors>& y,
                                            uint32_t num_vectors,
                                            const float (&inverses)[kVectors]) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (kWhole || y.index(i) < num_vectors) store_codes<Format>(to, y.vectors[i], inverses[i]);
    to += blockDim.x * Vector<T>::kSize;
  }
}

// 1 / scale of each row, whose scale comes from its largest number.
template <NormKind kKind, bool kWhole, typename Group, typename T, int kVectors, typename Params>
__device__ __forceinline__ void found_inverses(
    const Params& params, const NormPart& part,
    const RowRegisters<T, kVectors> (&y)[Group::kNumRows], float (&scales)[Group::kNumRows],
    float (&inverses)[Group::kNumRows]) {
#pragma unroll
  for (int r = 0; r < Group::kNumRows; ++r)
    scales[r] = amax_of<kKind, kWhole>(y[r], vectors_of<T>(part));
  Group::template reduce<Max, 2>(scales);
#pragma unroll
  for (int r = 0; r < Group::kNumRows; ++r) {
    scales[r] = scale_for(params.format, scales[r]);
    inverses[r] = inverse_of_found(scales[r]);
  }
}

// One scale a row, or one for all (given): 1 / scale of each row. Plain rows have found scales of
// their own.
template <NormKind kKind, bool kPlain, typename Group, typename T, int kVectors, typename Params>
__device__ __forceinline__ void row_inverses(const Params& params, const NormPart& part,
                                             uint32_t block,
                                             const RowRegisters<T, kVectors> (&y)[Group::kNumRows],
                                             float (&inverses)[Group::kNumRows]) {
  constexpr int kRows = Group::kNumRows;
  const bool per_tensor = !kPlain && params.kind == ScaleKind::per_tensor;
  float scales[kRows];
  if (!kPlain && params.given_scales != nullptr) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t row = readable_row<Group>(Group::row(block, r), part.num_rows);
      scales[r] = params.given_scales[per_tensor ? 0 : row];
      inverses[r] = inverse_of(scales[r]);
    }
  } else {
    found_inverses<kKind, kPlain, Group>(params, part, y, scales, inverses);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t row = Group::row(block, r);
    const bool writes = per_tensor ? row == 0 : Group::kAlwaysInRange || row < part.num_rows;
    if (threadIdx.x == 0 && writes) params.scales[per_tensor ? 0 : row] = scales[r];
  }
}

// A scale for each 128 columns of a row, whose lanes are neighbours: 16 of them, or 32 of float.
// Where fewer lanes share a row it has no more columns than that. 1 / scale for each vector of this
// thread.
template <typename Group, typename T, int kVectors, typename Params>
__device__ __forceinline__ void group_inverses(const Params& params, uint32_t row, bool in_range,
                                               uint32_t num_vectors,
                                               const RowRegisters<T, kVectors>& y,
                                               float (&inverses)[kVectors]) {
  constexpr unsigned kLanes = kScaleGroup / Vector<T>::kSize;
  const uint32_t num_groups = (num_vectors + kLanes - 1) / kLanes;
  const int64_t first = static_cast<int64_t>(row) * num_groups;
  const bool one_group = !Group::kSharedByBlock && blockDim.x < kLanes;
  float amax_of_all = 0.0f;
  if (one_group) amax_of_all = amax_of<NormKind::layer, false>(y, num_vectors);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const uint32_t index = y.index(i);
    const bool writes = in_range && index < num_vectors;
    float scale[1];
    if (params.given_scales != nullptr) {
      scale[0] = writes ? params.given_scales[first + index / kLanes] : 1.0f;
      inverses[i] = inverse_of(scale[0]);
    } else {
      scale[0] = one_group ? amax_of_all : index < num_vectors ? amax_of(y.vectors[i]) : 0.0f;
      reduce_lanes<Max>(scale, one_group ? blockDim.x : kLanes);
      scale[0] = scale_for(params.format, scale[0]);
      inverses[i] = inverse_of_found(scale[0]);
    }
    if (writes && index % kLanes == 0) params.scales[first + index / kLanes] = scale[0];
  }
}

// Codes and scales of normalised rows.
template <NormKind kKind, bool kPlain, typename Group, typename T, int kVectors, typename Params>
__device__ __forceinline__ void quantise_rows(
    const Params& params, const NormPart& part, uint32_t block,
    const RowRegisters<T, kVectors> (&y)[Group::kNumRows]) {
  constexpr int kRows = Group::kNumRows;
  const uint32_t num_vectors = vectors_of<T>(part);
  const bool in_groups = !kPlain && params.kind == ScaleKind::group128;
  float of_rows[kRows];
  if (!in_groups) row_inverses<kKind, kPlain, Group>(params, part, block, y, of_rows);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t row = Group::row(block, r);
    const bool in_range = Group::kAlwaysInRange || row < part.num_rows;
    float inverses[kVectors];
    if (in_groups) {
      group_inverses<Group>(params, row, in_range, num_vectors, y[r], inverses);
    } else {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) inverses[i] = of_rows[r];
    }
    if (!in_range) continue;
    unsigned char* to = params.codes + row * part.num_columns +
                        threadIdx.x * static_cast<uint32_t>(Vector<T>::kSize);
    switch (params.format) {
      case OutputFormat::e4m3:
        store_codes<E4M3, kPlain>(to, y[r], num_vectors, inverses);
        break;
      case OutputFormat::e5m2:
        store_codes<E5M2, kPlain>(to, y[r], num_vectors, inverses);
        break;
      case OutputFormat::int8:
        store_codes<Int8, kPlain>(to, y[r], num_vectors, inverses);
        break;
    }
  }
}

// As norm_rows (norm.cuh), with codes and scales as results. Shared memory: up to 512 bytes.
// Roofline: HBM, 2 bytes read to 1 written for 16-bit types (4 to 3 with a residual).
template <NormKind kKind, typename T, const RowVariant& kVariant, typename Params>
__device__ __forceinline__ void norm_quant_rows(const Params& params) {
  using Group = typename GroupOf<kVariant>::type;
  const auto [part, block] = part_of(params.norm);
  RowRegisters<T, kVariant.vectors_per_thread> y[Group::kNumRows];
  if (part.plain) {
    normalised_rows<kKind, true, Group>(params.norm, part, block, y);
    quantise_rows<kKind, true, Group>(params, part, block, y);
  } else {
    normalised_rows<kKind, false, Group>(params.norm, part, block, y);
    quantise_rows<kKind, false, Group>(params, part, block, y);
  }
}

// One row a block of whole warps, any length; kBytes as in norm_loop, whose sums these are. Each
// number is normalised again for every use. A warp takes 128 columns at a time, four side by side
// to a lane. Shared memory: up to 512 bytes.
template <NormKind kKind, typename T, int kBytes, typename Params>
__device__ __forceinline__ void norm_quant_loop(const Params& params) {
  using One = Vector<T, sizeof(T)>;
  constexpr int kLaneColumns = kScaleGroup / kWarpThreads;
  const auto [part, row] = part_of(params.norm);
  wait_for_previous_kernels();
  allow_next_kernel();
  const T* x = row_to_normalise<T, kBytes>(params.norm, part, row);
  // The sum was written by other threads than those that read it below.
  if constexpr (is_same<Params, AddNormQuantParams>) __syncthreads();
  const RowStatistics statistics =
      loop_statistics<kKind, T, kBytes>(x, part.num_columns, part.inverse_columns, params.norm.eps);
  const T* weight = static_cast<const T*>(part.weight);
  const T* bias = static_cast<const T*>(part.bias);
  const auto normalised = [&](int64_t column) {
    const One one{{x[column]}}, w{{weight ? weight[column] : narrow<T>(1.0f)}};
    const One b{{bias ? bias[column] : narrow<T>(-0.0f)}};
    return widen(normalise<kKind>(one, statistics, w, b, params.norm.cast_first).values[0]);
  };

  const int64_t num_groups = (part.num_columns + kScaleGroup - 1) / kScaleGroup;
  const bool per_tensor = params.kind == ScaleKind::per_tensor;
  const bool in_groups = params.kind == ScaleKind::group128;
  float scale[1] = {};
  if (!in_groups) {
    if (params.given_scales != nullptr) {
      scale[0] = params.given_scales[per_tensor ? 0 : row];
    } else {
      for (int64_t i = threadIdx.x; i < part.num_columns; i += blockDim.x) {
        scale[0] = fmaxf(scale[0], fabsf(normalised(i)));
      }
      BlockGroup<kRowLoopThreads>::reduce<Max, 2>(scale);
      scale[0] = scale_for(params.format, scale[0]);
    }
    if (threadIdx.x == 0 && (!per_tensor || row == 0))
      params.scales[per_tensor ? 0 : row] = scale[0];
  }
  unsigned char* codes = params.codes + row * part.num_columns;
  const unsigned warp = threadIdx.x / kWarpThreads, lane = threadIdx.x % kWarpThreads;
  for (int64_t group = warp; group < num_groups; group += blockDim.x / kWarpThreads) {
    const int64_t first = group * kScaleGroup + lane * kLaneColumns;
    float y[kLaneColumns];
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      y[j] = first + j < part.num_columns ? normalised(first + j) : 0.0f;
    }
    if (in_groups) {
      const int64_t place = row * num_groups + group;
      if (params.given_scales != nullptr) {
        scale[0] = params.given_scales[place];
      } else {
        scale[0] = 0.0f;
#pragma unroll
        for (int j = 0; j < kLaneColumns; ++j) scale[0] = fmaxf(scale[0], fabsf(y[j]));
        reduce_lanes<Max>(scale, kWarpThreads);
        scale[0] = scale_for(params.format, scale[0]);
      }
      if (lane == 0) params.scales[place] = scale[0];
    }
    const float inverse = inverse_of(scale[0]);
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) y[j] = __fmul_rn(y[j], inverse);
    const uint32_t packed = encode4(params.format, y[0], y[1], y[2], y[3]);
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      if (first + j < part.num_columns) {
        codes[first + j] = static_cast<unsigned char>(packed >> (8 * j));
      }
    }
  }
}

}  // namespace ac4k

// Entry points as in norm.cuh.
#define AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, i)                               \
  extern "C" __global__ void                                                                    \
      __launch_bounds__(ac4k::kFullRowVariants[i].max_threads,                                  \
                        (ac4k::norm_blocks<ac4k::NormKind::kind, decltype(ac4k::Params::norm)>( \
                            ac4k::kFullRowVariants[i])))                                        \
      name##_##i##_##suffix(const __grid_constant__ ac4k::Params params) {                      \
    ac4k::norm_quant_rows<ac4k::NormKind::kind, T, ac4k::kFullRowVariants[i]>(params);          \
  }
#define AC4K_NORM_QUANT_LOOP(name, variant, kind, T, suffix, Params, bytes)                        \
  extern "C" __global__ void __launch_bounds__(ac4k::kRowLoopThreads) name##_##variant##_##suffix( \
      const __grid_constant__ ac4k::Params params) {                                               \
    ac4k::norm_quant_loop<ac4k::NormKind::kind, T, bytes>(params);                                 \
  }
#define AC4K_NORM_QUANT(name, kind, T, suffix, Params)          \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 0)     \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 1)     \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 2)     \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 3)     \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 4)     \
  AC4K_NORM_QUANT_VARIANT(name, kind, T, suffix, Params, 5)     \
  AC4K_NORM_QUANT_LOOP(name, loop, kind, T, suffix, Params, 16) \
  AC4K_NORM_QUANT_LOOP(name, any, kind, T, suffix, Params, sizeof(T))
