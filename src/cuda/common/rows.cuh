// Rows on the device: their offsets, reductions over the threads that share one, and a row held in
// registers.
#pragma once

#include "common/rows.h"
#include "common/types.cuh"

namespace ac4k {

inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr int kWarpThreads = 32;

__device__ __forceinline__ int64_t offset_of_row(const RowOffsets& rows, uint32_t row) {
  int64_t offset = 0;
#pragma unroll 1
  for (int i = 0; i < rows.num_inner; ++i) {
    const RowLevel& level = rows.inner[i];
    const uint32_t rest = divide(row, level.size);
    offset += (row - rest * level.size.divisor) * level.stride;
    row = rest;
  }
  return offset + row * rows.stride;
}

struct Sum {
  static constexpr float kIdentity = 0.0f;
  static __device__ __forceinline__ float apply(float a, float b) { return a + b; }
};
// Of magnitudes: NaN is passed over.
struct Max {
  static constexpr float kIdentity = 0.0f;
  static __device__ __forceinline__ float apply(float a, float b) { return fmaxf(a, b); }
};

// Blocks are one row of whole warps, or several of a power of two up to 32.
__device__ __forceinline__ uint32_t lane_of_warp() {
  return (threadIdx.y * blockDim.x + threadIdx.x) % kWarpThreads;
}

// Over `width` neighbouring lanes, a power of two; every lane gets the result. Groups of kShared
// lanes hold the same value already, which counts once.
template <typename Reduction, int kShared = 1, int kCount>
__device__ __forceinline__ void reduce_lanes(float (&values)[kCount], unsigned width) {
#pragma unroll
  for (unsigned offset = kWarpThreads / 2; offset >= kShared; offset /= 2) {
    if (offset < width) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] = Reduction::apply(values[i], __shfl_xor_sync(kWholeWarp, values[i], offset));
      }
    }
  }
}

// Over a warp. Magnitudes, NaN not among them, are in the order of their bits.
template <typename Reduction, int kShared = 1, int kCount>
__device__ __forceinline__ void reduce_warp(float (&values)[kCount]) {
  if constexpr (is_same<Reduction, Max>) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = __uint_as_float(__reduce_max_sync(kWholeWarp, __float_as_uint(values[i])));
  } else {
    reduce_lanes<Reduction, kShared>(values, kWarpThreads);
  }
}

// Threads that share a row. Block (width, height), width a power of two up to 32: each of the
// `height` groups has `kRows` rows, that many apart.
template <int kRows>
struct WarpGroup {
  static constexpr int kNumRows = kRows;
  static constexpr bool kAlwaysInRange = false, kSharedByBlock = false;
  // May be past the last row: threads have to take part in the reductions all the same.
  static __device__ __forceinline__ uint32_t row(uint32_t block, int i) {
    return (block * kRows + static_cast<uint32_t>(i)) * blockDim.y + threadIdx.y;
  }
  // `kSlot`: reductions of one kernel that follow each other take different ones.
  template <typename Reduction, int kSlot, int kShared = 1, int kCount>
  static __device__ __forceinline__ void reduce(float (&values)[kCount]) {
    reduce_lanes<Reduction, kShared>(values, blockDim.x);
  }
  // Whether it is so for all threads that may not part ways; those of a row agree.
  static __device__ __forceinline__ bool all(bool so) { return __all_sync(kWholeWarp, so); }
};

// One row a block of whole warps, at most `kMaxThreads`. Shared memory: 128 bytes a value and slot.
template <int kMaxThreads>
struct BlockGroup {
  static constexpr int kNumRows = 1;
  static constexpr bool kAlwaysInRange = true, kSharedByBlock = true;
  static constexpr int kThreads = kMaxThreads;
  static __device__ __forceinline__ uint32_t row(uint32_t block, int) { return block; }
  // Each warp leaves its part, then every thread adds up all of them in the same order. The largest
  // part is found by a warp's lanes together.
  template <typename Reduction, int kSlot, int kShared = 1, int kCount>
  static __device__ __forceinline__ void reduce(float (&values)[kCount]) {
    __shared__ float4 parts[kCount][kWarpThreads / 4];
    reduce_warp<Reduction, kShared>(values);
    const unsigned thread = threadIdx.x, num_warps = blockDim.x / kWarpThreads;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float* part = reinterpret_cast<float*>(parts[i]);
      if (thread % kWarpThreads == 0) part[thread / kWarpThreads] = values[i];
      // Warps that are not there.
      if (thread >= num_warps && thread < kWarpThreads) part[thread] = Reduction::kIdentity;
    }
    __syncthreads();
    if constexpr (is_same<Reduction, Max>) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] = reinterpret_cast<const float*>(parts[i])[thread % kWarpThreads];
      }
      reduce_warp<Reduction>(values);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        float total = Reduction::kIdentity;
#pragma unroll
        for (int j = 0; j < kMaxThreads / kWarpThreads / 4; ++j) {
          const float4 four = parts[i][j];
          total = Reduction::apply(total, Reduction::apply(Reduction::apply(four.x, four.y),
                                                           Reduction::apply(four.z, four.w)));
        }
        values[i] = total;
      }
    }
  }
  static __device__ __forceinline__ bool all(bool so) { return so; }
};

template <const RowVariant& kVariant, bool kBlock = kVariant.whole_block>
struct GroupOf {
  using type = WarpGroup<kVariant.rows_per_thread>;
};
template <const RowVariant& kVariant>
struct GroupOf<kVariant, true> {
  using type = BlockGroup<kVariant.max_threads>;
};

// A row to read from in any case: threads without one read the last.
template <typename Group>
__device__ __forceinline__ uint32_t readable_row(uint32_t row, uint32_t num_rows) {
  return Group::kAlwaysInRange ? row : min(row, num_rows - 1);
}

// This thread's part of one row: vector i is number threadIdx.x + i * blockDim.x of the row, so
// that neighbours read side by side. Vectors past the end are zeros.
template <typename T, int kVectors>
struct RowRegisters {
  using Vec = Vector<T>;
  Vec vectors[kVectors];

  static __device__ __forceinline__ uint32_t index(int i) {
    return threadIdx.x + static_cast<uint32_t>(i) * blockDim.x;
  }
  // kWhole: no thread's vector is past the end.
  template <bool kWhole = false>
  __device__ __forceinline__ void load_from(const T* row, uint32_t num_vectors) {
    const uint4* from = reinterpret_cast<const uint4*>(row);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      uint4 bits{};
      if (kWhole || index(i) < num_vectors) bits = __ldca(from + index(i));
      vectors[i] = *reinterpret_cast<const Vec*>(&bits);
    }
  }
  // Keeps the compiler from holding on to what it made of the numbers, which takes twice the
  // registers of 16-bit ones. `zero` is 0, which the compiler must not know.
  __device__ __forceinline__ void forget_widened(uint32_t zero) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      uint32_t* words = reinterpret_cast<uint32_t*>(&vectors[i]);
#pragma unroll
      for (int j = 0; j < 4; ++j) asm volatile("xor.b32 %0, %0, %1;" : "+r"(words[j]) : "r"(zero));
    }
  }
  template <bool kWhole = false>
  __device__ __forceinline__ void store_to(T* row, uint32_t num_vectors) const {
    Vec* to = reinterpret_cast<Vec*>(row);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (kWhole || index(i) < num_vectors) store(to + index(i), vectors[i]);
    }
  }
};

}  // namespace ac4k
