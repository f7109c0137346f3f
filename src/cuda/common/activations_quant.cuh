// Activations whose result is quantised: y is computed in float32, rounded to T and then encoded,
// as the two ops one after another would. x is read once, where rows are aligned.
#pragma once

#include "common/activations.cuh"
#include "common/activations_quant.h"
#include "common/dependent_launch.cuh"
#include "common/quantize.cuh"
#include "common/rows.cuh"

namespace ac4k {

// Sources: how neighbours of y are made of x. `Columns` is what all rows have in common, `load`
// issues the loads, `y` computes; `one` is for any alignment.
struct NoColumns {
  template <typename Params>
  __device__ __forceinline__ void load(const Params&, int64_t) {}
};

template <typename T, typename Act>
struct GatedSource {
  template <int kCount>
  using Columns = NoColumns;
  template <int kCount>
  struct Of {
    Unit<T, kCount> gate, factor;

    template <typename Params>
    __device__ __forceinline__ void load(const Params& params, const T* row, int64_t column) {
      gate = Unit<T, kCount>::load(row + column);
      factor = Unit<T, kCount>::load(row + params.num_columns + column);
    }
    __device__ __forceinline__ Unit<T, kCount> y(const NoColumns&) const {
      float a[kCount], b[kCount];
      gate.widen(a);
      factor.widen(b);
#pragma unroll
      for (int i = 0; i < kCount; ++i) a[i] = Act::apply(a[i]) * b[i];
      return Unit<T, kCount>::narrowed(a);
    }
  };
  static __device__ __forceinline__ float one(const ActivationQuantParams& params, const T* row,
                                              int64_t column) {
    return Act::apply(widen(row[column])) * widen(row[params.num_columns + column]);
  }
};

template <typename T>
struct Relu2Source {
  template <int kCount>
  using Columns = NoColumns;
  template <int kCount>
  struct Of {
    Unit<T, kCount> x;

    template <typename Params>
    __device__ __forceinline__ void load(const Params&, const T* row, int64_t column) {
      x = Unit<T, kCount>::load(row + column);
    }
    // NaN stays NaN.
    __device__ __forceinline__ Unit<T, kCount> y(const NoColumns&) const {
      Unit<T, kCount> positive = x;
      float a[kCount];
      if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (uint32_t& pair : positive.words) pair = larger_pair<T, true>(pair, 0);
      }
      positive.widen(a);
#pragma unroll
      for (float& value : a) {
        if constexpr (sizeof(T) == 4) value = larger<true>(value, 0.0f);
        value *= value;
      }
      return Unit<T, kCount>::narrowed(a);
    }
  };
  static __device__ __forceinline__ float one(const ActivationQuantParams&, const T* row,
                                              int64_t column) {
    return relu2(widen(row[column]));
  }
};

template <typename T, bool kTanh>
struct AddGeluSource {
  template <int kCount>
  struct Columns {
    Unit<T, kCount> bias;

    template <typename Params>
    __device__ __forceinline__ void load(const Params& params, int64_t column) {
      bias = Unit<T, kCount>::load(static_cast<const T*>(params.bias) + column);
    }
  };
  template <int kCount>
  struct Of {
    Unit<T, kCount> x;

    template <typename Params>
    __device__ __forceinline__ void load(const Params&, const T* row, int64_t column) {
      x = Unit<T, kCount>::load(row + column);
    }
    __device__ __forceinline__ Unit<T, kCount> y(const Columns<kCount>& columns) const {
      float a[kCount], b[kCount];
      x.widen(a);
      columns.bias.widen(b);
#pragma unroll
      for (int i = 0; i < kCount; ++i) a[i] = gelu<T, kTanh>(a[i] + b[i]);
      return Unit<T, kCount>::narrowed(a);
    }
  };
  static __device__ __forceinline__ float one(const ActivationQuantParams& params, const T* row,
                                              int64_t column) {
    return gelu<T, kTanh>(widen(row[column]) + widen(static_cast<const T*>(params.bias)[column]));
  }
};

// The format is the same for all threads: a branch costs less than three times the kernels. It is
// taken once, around all that depends on it.
template <typename Body>
__device__ __forceinline__ void with_format(int format, const Body& body) {
  if (format == kFormatE4M3) {
    body.template run<E4M3>();
  } else if (format == kFormatE5M2) {
    body.template run<E5M2>();
  } else {
    body.template run<Int8>();
  }
}

template <typename T>
__device__ __forceinline__ const T* x_row(const ActivationQuantParams& params, int64_t row) {
  return static_cast<const T*>(params.x) + offset_of_row(params.rows, static_cast<uint32_t>(row));
}

// The largest of a block's values, none of which is negative, in each thread. Called once; 128
// bytes of shared memory.
__device__ __forceinline__ float block_max(float value) {
  __shared__ float parts[32];
  const unsigned thread = threadIdx.x, warps = (blockDim.x + 31) / 32;
  float values[1] = {value};
  reduce_warp<Max>(values);
  if (thread % 32 == 0) parts[thread / 32] = values[0];
  __syncthreads();
  values[0] = thread % 32 < warps ? parts[thread % 32] : 0.0f;
  reduce_warp<Max>(values);
  return values[0];
}

// A row's codes and scale, once its largest number is known.
template <typename T, int kUnits>
struct RowOfCodes {
  const Unit<T> (&y)[kUnits];
  float amax;
  unsigned char* codes;
  int end;       // columns
  float* scale;  // null: another thread writes it

  template <typename Format>
  __device__ __forceinline__ void run() const {
    const float found = scale_of<Format::kMax>(amax, false), inverse = inverse_of_found(found);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
      if (column < end) {
        *reinterpret_cast<uint2*>(codes + column) = encode_unit<Format>(y[i], inverse);
      }
    }
    if (scale != nullptr) *scale = found;
  }
};

// One scale a row. Block (bx, by): bx threads a row, each with kUnits units of y in registers; by
// rows, only when a row has one warp or less (bx divides 32). Grid: ceil(rows / by). Rows of x and
// codes are whole units, x aligned to 16 bytes. Roofline: HBM.
template <typename T, typename Source, int kUnits>
__device__ __forceinline__ void activation_quant_rows(const ActivationQuantParams& params) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool inside = row < params.num_rows;
  const T* x = x_row<T>(params, inside ? row : 0);
  const int end = inside ? static_cast<int>(params.num_columns) : 0;
  wait_for_previous_kernels();
  typename Source::template Of<kUnit> sources[kUnits];
  typename Source::template Columns<kUnit> columns[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
    if (column < end) {
      sources[i].load(params, x, column);
      columns[i].load(params, column);
    }
  }
  allow_next_kernel();
  Unit<T> y[kUnits];
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    const int column = static_cast<int>(threadIdx.x + i * blockDim.x) * kUnit;
    y[i] = Unit<T>::zero();
    if (column < end) y[i] = sources[i].y(columns[i]);
    amax = fmaxf(amax, y[i].amax());
  }
  if (blockDim.x > 32) {
    amax = block_max(amax);
  } else {
    float values[1] = {amax};
    reduce_lanes<Max>(values, blockDim.x);
    amax = values[0];
  }
  with_format(params.format,
              RowOfCodes<T, kUnits>{y, amax, params.codes + row * params.num_columns, end,
                                    threadIdx.x == 0 && inside ? params.scale + row : nullptr});
}

// Tiles of blockDim.x threads side by side and blockDim.y over each other. Grid: column tiles * row
// tiles, columns fastest. Alignment as above, no shared memory.
struct QuantTile {
  int64_t column, row;  // the thread's, in threads

  explicit __device__ __forceinline__ QuantTile(const ActivationQuantParams& params) {
    const unsigned row_tile = divide(blockIdx.x, params.column_tiles);
    const unsigned column_tile = blockIdx.x - row_tile * params.column_tiles.divisor;
    column = static_cast<int64_t>(column_tile) * blockDim.x + threadIdx.x;
    row = static_cast<int64_t>(row_tile) * blockDim.y + threadIdx.y;
  }
};

// Where a thread's units of y are: one after another by row_step rows and column_step columns.
struct UnitPlaces {
  int64_t row, column;  // of the first
  int row_step, column_step;
  int64_t num_rows, num_columns;

  __device__ __forceinline__ int64_t row_of(int i) const { return row + i * row_step; }
  __device__ __forceinline__ int64_t column_of(int i) const { return column + i * column_step; }
  __device__ __forceinline__ bool has(int i) const {
    return row_of(i) < num_rows && column_of(i) < num_columns;
  }
};

// Zeros where there is no unit.
template <typename T, typename Source, int kUnits>
__device__ __forceinline__ void make_units(const ActivationQuantParams& params,
                                           const UnitPlaces& places, Unit<T> (&y)[kUnits]) {
  typename Source::template Of<kUnit> sources[kUnits];
  typename Source::template Columns<kUnit> columns[kUnits];
  wait_for_previous_kernels();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (!places.has(i)) continue;
    sources[i].load(params, x_row<T>(params, places.row_of(i)), places.column_of(i));
    columns[i].load(params, places.column_of(i));
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    y[i] = Unit<T>::zero();
    if (places.has(i)) y[i] = sources[i].y(columns[i]);
  }
}

template <typename T>
struct GroupOfCodes {
  const ActivationQuantParams& params;
  const UnitPlaces& places;
  const Unit<T> (&y)[kActivationQuantUnits];

  template <typename Format>
  __device__ __forceinline__ void run() const {
    float amax[1] = {y[0].amax()};
#pragma unroll
    for (int i = 1; i < kActivationQuantUnits; ++i) amax[0] = fmaxf(amax[0], y[i].amax());
    reduce_lanes<Max>(amax, kActivationGroupThreads);
    const float scale = scale_of<Format::kMax>(amax[0], false), inverse = inverse_of_found(scale);
    unsigned char* codes = params.codes + places.row * params.num_columns;
#pragma unroll
    for (int i = 0; i < kActivationQuantUnits; ++i) {
      if (places.has(i)) {
        *reinterpret_cast<uint2*>(codes + places.column_of(i)) = encode_unit<Format>(y[i], inverse);
      }
    }
    if (places.has(0) && threadIdx.x % kActivationGroupThreads == 0) {
      params.scale[places.row * params.groups + places.column / kActivationGroup] = scale;
    }
  }
};

// One scale for 128 columns of a row, which a few lanes hold: blocks are a multiple of that wide.
// What the lanes read at once lies side by side. Roofline: HBM.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_groups(const ActivationQuantParams& params) {
  constexpr int kLanes = kActivationGroupThreads;
  const QuantTile tile(params);
  const int64_t column = tile.column / kLanes * kActivationGroup + tile.column % kLanes * kUnit;
  const UnitPlaces places{tile.row, column, 0, kLanes * kUnit, params.num_rows, params.num_columns};
  Unit<T> y[kActivationQuantUnits];
  make_units<T, Source>(params, places, y);
  with_format(params.format, GroupOfCodes<T>{params, places, y});
}

template <typename T>
struct GivenCodes {
  const ActivationQuantParams& params;
  const UnitPlaces& places;
  const Unit<T> (&y)[kActivationQuantUnits];

  template <typename Format>
  __device__ __forceinline__ void run() const {
    const int64_t column = places.column;
#pragma unroll
    for (int i = 0; i < kActivationQuantUnits; ++i) {
      if (!places.has(i)) return;
      const int64_t row = places.row + i;
      const int64_t index = params.scales == kScalePerToken ? row
                            : params.scales == kScalePerTensor
                                ? 0
                                : row * params.groups + column / kActivationGroup;
      const bool first = params.scales == kScalePerToken    ? column == 0
                         : params.scales == kScalePerTensor ? row == 0 && column == 0
                                                            : column % kActivationGroup == 0;
      const float scale = params.given[index];
      *reinterpret_cast<uint2*>(params.codes + row * params.num_columns + column) =
          encode_unit<Format>(y[i], inverse_of(scale));
      if (first) params.scale[index] = scale;
    }
  }
};

// Scales that are given, which are passed on. Roofline: HBM.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_given(const ActivationQuantParams& params) {
  const QuantTile tile(params);
  const UnitPlaces places{tile.row * kActivationQuantUnits,
                          tile.column * kUnit,
                          1,
                          0,
                          params.num_rows,
                          params.num_columns};
  Unit<T> y[kActivationQuantUnits];
  make_units<T, Source>(params, places, y);
  with_format(params.format, GivenCodes<T>{params, places, y});
}

template <typename T>
struct FourCodes {
  const Unit<T, 4>& y;
  float amax;
  unsigned char* codes;  // null: none
  float* scale;          // null: another thread writes it

  template <typename Format>
  __device__ __forceinline__ void run() const {
    const float found = scale_of<Format::kMax>(amax, false), inverse = inverse_of_found(found);
    float v[4];
    y.widen(v);
    if (codes != nullptr) {
      *reinterpret_cast<uint32_t*>(codes) =
          Format::encode4(__fmul_rn(v[0], inverse), __fmul_rn(v[1], inverse),
                          __fmul_rn(v[2], inverse), __fmul_rn(v[3], inverse));
    }
    if (scale != nullptr) *scale = found;
  }
};

// As activation_quant_groups where latency is all there is: a warp for 128 columns of a row, four
// numbers a lane, 32-bit offsets and parameters that fit into one line of constants. Grid: (blocks
// of 512 columns, rows). Roofline: latency.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_few(const FewActivationQuantParams& params) {
  static_assert(kActivationGroup == 4 * 32);
  const int row = static_cast<int>(blockIdx.y), N = params.num_columns;
  const int column = static_cast<int>(blockIdx.x * kActivationFewThreads + threadIdx.x) * 4;
  const bool inside = column < N;
  const T* x = static_cast<const T*>(params.x) + row * params.stride;
  typename Source::template Of<4> source;
  typename Source::template Columns<4> columns;
  wait_for_previous_kernels();
  if (inside) {
    source.load(params, x, column);
    columns.load(params, column);
  }
  allow_next_kernel();
  Unit<T, 4> y = Unit<T, 4>::zero();
  if (inside) y = source.y(columns);
  float amax[1] = {y.amax()};
  reduce_warp<Max>(amax);
  const int group = row * params.groups + column / kActivationGroup;
  with_format(params.format,
              FourCodes<T>{y, amax[0], inside ? params.codes + (row * N + column) : nullptr,
                           inside && threadIdx.x % 32 == 0 ? params.scale + group : nullptr});
}

template <typename T, typename Source>
struct RegionOfCodes {
  const ActivationQuantParams& params;
  const T* x;  // null: no row
  int64_t row, first, last, index;

  template <typename Format>
  __device__ __forceinline__ void run() const {
    float scale = 1.0f;
    if (params.given != nullptr) {
      scale = params.given[index];
    } else {
      float amax = 0.0f;
      for (int64_t column = first + threadIdx.x; x && column < last; column += blockDim.x) {
        amax = fmaxf(amax, fabsf(widen(narrow<T>(Source::one(params, x, column)))));
      }
      scale = scale_of<Format::kMax>(block_max(amax), false);
    }
    const float inverse = inverse_of(scale);
    for (int64_t column = first + threadIdx.x; x && column < last; column += blockDim.x) {
      const float y = widen(narrow<T>(Source::one(params, x, column)));
      params.codes[row * params.num_columns + column] = encode_one<Format>(y, inverse);
    }
    if (threadIdx.x == 0 && (params.scales != kScalePerTensor || blockIdx.x == 0)) {
      params.scale[index] = scale;
    }
  }
};

// Any size and alignment: a block for each region of a row that has a scale of its own (the row
// when one scale is given for all). Grid: regions, one at least: without rows, a given scale is
// passed on. y is computed twice where the scale has to be found. Block: 256.
template <typename T, typename Source>
__device__ __forceinline__ void activation_quant_any(const ActivationQuantParams& params) {
  const int64_t N = params.num_columns;
  const int64_t row = blockIdx.x / params.groups, group = blockIdx.x - row * params.groups;
  const int64_t first = params.scales == kScaleGroup128 ? group * kActivationGroup : 0;
  const int64_t last = params.scales == kScaleGroup128 && first + kActivationGroup < N
                           ? first + kActivationGroup
                           : N;
  wait_for_previous_kernels();
  allow_next_kernel();
  with_format(
      params.format,
      RegionOfCodes<T, Source>{params, row < params.num_rows ? x_row<T>(params, row) : nullptr, row,
                               first, last, params.scales == kScalePerTensor ? 0 : blockIdx.x});
}

}  // namespace ac4k

#define AC4K_ACTIVATION_QUANT_KERNEL(name, Params, threads, ...) \
  extern "C" __global__ void __launch_bounds__(threads) name(    \
      const __grid_constant__ ac4k::Params params) {             \
    ac4k::__VA_ARGS__(params);                                   \
  }
// The kernels of one source: AC4K_ACTIVATION_QUANT(name, float, f32, GatedSource<...>).
#define AC4K_ACTIVATION_QUANT(name, T, suffix, ...)                                               \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_rows_1_##suffix, ActivationQuantParams,                     \
                               ac4k::kActivationQuantMaxThreads,                                  \
                               activation_quant_rows<T, __VA_ARGS__, 1>)                          \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_rows_2_##suffix, ActivationQuantParams,                     \
                               ac4k::kActivationQuantThreads,                                     \
                               activation_quant_rows<T, __VA_ARGS__, 2>)                          \
  AC4K_ACTIVATION_QUANT_KERNEL(                                                                   \
      name##_rows_4_##suffix, ActivationQuantParams,                                              \
      sizeof(T) == 4 ? ac4k::kActivationQuantLongThreadsF32 : ac4k::kActivationQuantLongThreads,  \
      activation_quant_rows<T, __VA_ARGS__, 4>)                                                   \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_groups_##suffix, ActivationQuantParams,                     \
                               ac4k::kActivationQuantThreads,                                     \
                               activation_quant_groups<T, __VA_ARGS__>)                           \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_given_##suffix, ActivationQuantParams,                      \
                               ac4k::kActivationQuantThreads,                                     \
                               activation_quant_given<T, __VA_ARGS__>)                            \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_few_##suffix, FewActivationQuantParams,                     \
                               ac4k::kActivationFewThreads, activation_quant_few<T, __VA_ARGS__>) \
  AC4K_ACTIVATION_QUANT_KERNEL(name##_any_##suffix, ActivationQuantParams,                        \
                               ac4k::kActivationQuantThreads,                                     \
                               activation_quant_any<T, __VA_ARGS__>)
