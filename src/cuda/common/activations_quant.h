// What the host hands to the kernels of activations with a quantised result.
#pragma once

#include "fast_divisor.h"
#include "rows.h"

namespace ac4k {

// One-byte formats, in the order of cpu::CodeFormat.
enum QuantFormat : int { kFormatE4M3, kFormatE5M2, kFormatInt8 };
// Which numbers share a scale, in the order of the ops' parameter.
enum QuantScales : int { kScalePerToken, kScalePerTensor, kScaleGroup128 };

struct ActivationQuantParams {
  const void* x;
  const void* bias;  // add_gelu only
  unsigned char* codes;
  float* scale;
  const float* given;  // null: scales are found
  RowOffsets rows;     // of x
  long long num_rows;
  long long num_columns;  // of the codes
  FastDivisor column_tiles;
  unsigned groups;  // scales of a row; 1 if there is one for all of it
  int format;
  int scales;
};

// Of small tensors, where 32-bit offsets are enough.
struct FewActivationQuantParams {
  const void* x;
  const void* bias;
  unsigned char* codes;
  float* scale;
  int stride;  // of a row of x
  int num_columns;
  int groups;  // of 128 columns of a row
  int format;
};

inline constexpr int kActivationQuantThreads = 256;
inline constexpr int kActivationQuantMaxThreads = 1024;
// Of long rows, four units a thread: float has twice the registers to hold.
inline constexpr int kActivationQuantLongThreads = 1024;
inline constexpr int kActivationQuantLongThreadsF32 = 512;
inline constexpr int kActivationQuantUnit = 8;   // neighbours a thread handles at once
inline constexpr int kActivationQuantUnits = 2;  // of a thread of a tile
inline constexpr int kActivationGroup = 128;
inline constexpr int kActivationGroupThreads =
    kActivationGroup / (kActivationQuantUnit * kActivationQuantUnits);
inline constexpr int kActivationFewThreads = 128;
inline constexpr int kActivationFewBlocks = 1024;  // at most

}  // namespace ac4k
