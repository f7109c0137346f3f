// What becomes of a tensor whose extent is known: one-byte codes, or blocks of NVFP4.
#pragma once

#include "common/quantize_e2m1.cuh"
#include "sm90a/quantize_tensor.h"

namespace ac4k {

// Those with a zero point beside the scale order the two; the others have nothing else to tell, and
// a release would wait for all memory.
template <bool kOrdered>
__device__ __forceinline__ void publish_scale(float* address, float value) {
  if constexpr (kOrdered) {
    asm volatile("st.release.gpu.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
  }
}
template <bool kOrdered>
__device__ __forceinline__ float see_scale(const float* address) {
  float value;
  if constexpr (kOrdered) {
    asm volatile("ld.acquire.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  }
  return value;
}
__device__ __forceinline__ void store_relaxed(ExtentSlot* address, ExtentSlot value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
__device__ __forceinline__ ExtentSlot load_relaxed(const ExtentSlot* address) {
  ExtentSlot value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

// Such a type has: Element and Format of x and its Extent; kUnits, neighbours that are encoded
// together; the Rule that comes from the extent and is an output, its scale last, which is not
// negative; encode() of items, each `step` behind the one before, and stored if it is before `end`,
// with a Table of what follows from the rule and kTeams of threads that have a tile each; and what
// else has to be written. In a cluster a thread has single units: prepare() finds what it can
// before the rule is known, encode_units() stores those below `num_units`, both by whole warps.
template <typename T, typename TheFormat>
struct ByteCodes {
  using Element = T;
  using Format = TheFormat;
  using Params = FlatParams<QuantizeParams>;
  using Rule = ScaleAndZero;
  struct Table {};
  static constexpr bool kHasTable = false;
  static constexpr int kUnits = 1, kTeams = 2;

  static __device__ __forceinline__ Rule rule_of(const Params& params,
                                                 const Extent<Format>& extent) {
    return extent.scale(params.quantize.pow2_scale);
  }
  static __device__ __forceinline__ void store_rule(const Params& params, const Rule& rule) {
    if constexpr (has_zero<Format>) *params.quantize.zero = rule.zero;
    *params.quantize.scale = rule.scale;
  }
  static __device__ __forceinline__ void publish_rule(const Params& params, const Rule& rule) {
    if constexpr (has_zero<Format>) *params.quantize.zero = rule.zero;
    publish_scale<has_zero<Format>>(params.quantize.scale, rule.scale);
  }
  static __device__ __forceinline__ float* scale_of(const Params& params) {
    return params.quantize.scale;
  }
  static __device__ __forceinline__ float load_scale(const Params& params) {
    return see_scale<has_zero<Format>>(params.quantize.scale);
  }
  // After load_scale() gave one that is not negative.
  static __device__ __forceinline__ Rule rule_with(const Params& params, float scale) {
    Rule rule{scale, inverse_of_found(scale), 0};
    if constexpr (has_zero<Format>) rule.zero = *static_cast<volatile int*>(params.quantize.zero);
    return rule;
  }
  template <int kItems>
  static __device__ __forceinline__ void encode(const Params& params, uint32_t first, uint32_t step,
                                                uint32_t end,
                                                const Unit<T> (&items)[kItems][kUnits],
                                                const Rule& rule, const Table&) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const uint2 codes = encode_unit<Format>(items[i][0], rule.inverse, rule.zero);
      const uint32_t item = first + i * step;
      if (item < end) static_cast<uint2*>(params.quantize.codes)[item] = codes;
    }
  }
  struct Prepared {};
  static __device__ __forceinline__ Prepared prepare(const Unit<T>&) { return {}; }
  template <int kCount>
  static __device__ __forceinline__ void encode_units(const Params& params, uint32_t first,
                                                      uint32_t step, uint32_t num_units,
                                                      const Unit<T> (&units)[kCount],
                                                      const Prepared (&)[kCount],
                                                      const Rule& rule) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint2 codes = encode_unit<Format>(units[i], rule.inverse, rule.zero);
      const uint32_t unit = first + i * step;
      if (unit < num_units) static_cast<uint2*>(params.quantize.codes)[unit] = codes;
    }
  }
  static __device__ __forceinline__ void store_padding(const Params&, uint32_t, uint32_t) {}
};

template <typename T>
struct Nvfp4Codes {
  using Element = T;
  using Format = E4M3;  // any whose extent is the largest magnitude
  using Params = FlatParams<BlockQuantizeParams>;
  using Rule = float;
  using Table = Nvfp4Factors;
  static constexpr bool kHasTable = true;
  static constexpr int kUnits = kNvBlock / kUnit, kTeams = 4;

  static __device__ __forceinline__ Rule rule_of(const Params&, const Extent<Format>& extent) {
    return nvfp4_global_scale(extent.high);
  }
  static __device__ __forceinline__ void store_rule(const Params& params, Rule rule) {
    *params.quantize.global_scale = rule;
  }
  static __device__ __forceinline__ void publish_rule(const Params& params, Rule rule) {
    publish_scale<false>(params.quantize.global_scale, rule);
  }
  static __device__ __forceinline__ float* scale_of(const Params& params) {
    return params.quantize.global_scale;
  }
  static __device__ __forceinline__ float load_scale(const Params& params) {
    return see_scale<false>(params.quantize.global_scale);
  }
  static __device__ __forceinline__ Rule rule_with(const Params&, float scale) { return scale; }
  static __device__ __forceinline__ void fill_table(Table& table, Rule rule) {
    if (threadIdx.x < Table::kCodes) table.find(threadIdx.x, rule);
  }
  template <int kItems>
  static __device__ __forceinline__ void encode(const Params& params, uint32_t first, uint32_t step,
                                                uint32_t end,
                                                const Unit<T> (&items)[kItems][kUnits], Rule rule,
                                                const Table& table) {
    Nvfp4Block blocks[kItems];
    encode_nvfp4(items, Nvfp4KnownScales{rule, table}, blocks);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const uint32_t item = first + i * step;
      if (item < end) {
        static_cast<unsigned long long*>(params.quantize.codes)[item] = blocks[i].codes;
        store_scale(params, item, blocks[i].scale);
      }
    }
  }
  using Prepared = Nvfp4Pair;
  static __device__ __forceinline__ Prepared prepare(const Unit<T>& half) {
    return nvfp4_pair(half);
  }
  template <int kCount>
  static __device__ __forceinline__ void encode_units(const Params& params, uint32_t first,
                                                      uint32_t step, uint32_t num_units,
                                                      const Unit<T> (&units)[kCount],
                                                      const Prepared (&prepared)[kCount],
                                                      Rule rule) {
    Nvfp4Half halves[kCount];
    encode_nvfp4_halves(units, prepared, rule, halves);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t unit = first + i * step;
      if (unit < num_units) {
        static_cast<uint32_t*>(params.quantize.codes)[unit] = halves[i].codes;
        if (unit % kUnits == 0) store_scale(params, unit / kUnits, halves[i].scale);
      }
    }
  }
  // Zeros to the right of all rows and below the last, by `num_threads` threads.
  static __device__ __forceinline__ void store_padding(const Params& params, uint32_t thread,
                                                       uint32_t num_threads) {
    if (!params.quantize.tiled) return;
    unsigned char* scales = static_cast<unsigned char*>(params.quantize.scales);
    const int64_t rows = params.quantize.num_rows, blocks = params.blocks_a_row.divisor;
    const int64_t across = static_cast<int64_t>(scale_tiles(params)) * kScaleTileBlocks;
    const int64_t to_the_right = rows * (across - blocks);
    const int64_t below =
        ((rows + kScaleTileRows - 1) / kScaleTileRows * kScaleTileRows - rows) * across;
    for (int64_t i = thread; i < to_the_right + below; i += num_threads) {
      const bool right = i < to_the_right;
      const int64_t width = right ? across - blocks : across, n = right ? i : i - to_the_right;
      const int64_t row = n / width, k = n - row * width;
      scales[tiled_scale_offset(right ? row : rows + row, static_cast<int>(right ? blocks + k : k),
                                scale_tiles(params))] = 0;
    }
  }

 private:
  static __device__ __forceinline__ void store_scale(const Params& params, uint32_t item,
                                                     unsigned char scale) {
    int64_t place = item;
    if (params.quantize.tiled) {
      const uint32_t row = divide(item, params.blocks_a_row);
      place = tiled_scale_offset(row, static_cast<int>(item - row * params.blocks_a_row.divisor),
                                 scale_tiles(params));
    }
    static_cast<unsigned char*>(params.quantize.scales)[place] = scale;
  }
  static __device__ __forceinline__ int scale_tiles(const Params& params) {
    return static_cast<int>((params.blocks_a_row.divisor + kScaleTileBlocks - 1) /
                            kScaleTileBlocks);
  }
};

}  // namespace ac4k
