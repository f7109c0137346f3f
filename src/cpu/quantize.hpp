// The quantise and dequantise ops on the CPU. Arguments were checked by the caller.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "cpu/common/table.hpp"
#include "cpu/rows.hpp"
#include "cuda/common/quantize.h"

namespace ac4k::cpu {

// Rows of `num_columns` neighbours, to codes that are contiguous.
struct QuantizeArgs {
  DType type;
  CodeFormat format;
  Granularity granularity;
  Rows x;
  int64_t num_rows;
  int64_t num_columns;
  const float* given;  // null: scales are found
  bool pow2_scale;
  uint8_t* codes;
  float* scale;
  int32_t* zero;  // null: symmetric
};
Status quantize(const QuantizeArgs& args);

struct DequantizeArgs {
  DType type;  // of out
  CodeFormat format;
  Granularity granularity;
  const uint8_t* codes;
  const float* scale;
  const int32_t* zero;  // may be null
  int64_t num_rows;
  int64_t num_columns;
  void* out;
};
Status dequantize(const DequantizeArgs& args);

// Blocks along the rows; columns are whole blocks. `tiled`: the scales lie in tiles of 128 x 4.
struct Nvfp4Args {
  DType type;
  int64_t num_rows;
  int64_t num_columns;
  bool tiled;
};
Status quantize_nvfp4(const Nvfp4Args& args, const Rows& x, const float* given, uint8_t* codes,
                      uint8_t* scales, float* global_scale);
Status dequantize_nvfp4(const Nvfp4Args& args, const uint8_t* codes, const uint8_t* scales,
                        float global_scale, void* out);

struct MxArgs {
  DType type;
  MxFormat format;
  int64_t num_rows;
  int64_t num_columns;
};
Status quantize_mx(const MxArgs& args, const Rows& x, uint8_t* codes, uint8_t* scales);
Status dequantize_mx(const MxArgs& args, const uint8_t* codes, const uint8_t* scales, void* out);

}  // namespace ac4k::cpu
