// Packing is done once for a model: plain loops, a tile of 64 rows at a time on each thread. Codes
// of a packed block are spread out to a byte each, then written to the planes; the small scale
// records are rewritten row by row.
#include "cpu/packed_weights.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/gguf_codes.hpp"
#include "cpu/packed_planes.hpp"

namespace ac4k::cpu {
namespace {

struct Matrix {
  WeightFormat format;
  int64_t N, K;
  const WeightBlock& block;
  int64_t row_blocks;         // GGUF blocks of a row
  int64_t blocks_per_packed;  // GGUF blocks of a row in one packed block

  Matrix(WeightFormat which, int64_t rows, int64_t columns)
      : format(which),
        N(rows),
        K(columns),
        block(block_of(which)),
        row_blocks(columns / block.values),
        blocks_per_packed(block.packed_columns / block.values) {}
  int64_t tile_bytes() const { return packed_blocks(block, K) * packed_block_bytes(block); }
};

}  // namespace

Status pack_weight(WeightFormat format, const uint8_t* blocks, int64_t N, int64_t K,
                   uint8_t* packed) {
  const Matrix m(format, N, K);
  for_each_tile(N, K, [&](int64_t tile) {
    uint8_t* to = packed + tile * m.tile_bytes();
    std::memset(to, 0, static_cast<std::size_t>(m.tile_bytes()));
    Codes codes;
    for (int64_t b = 0; b < packed_blocks(m.block, K); ++b, to += packed_block_bytes(m.block)) {
      std::memset(codes, 0, sizeof codes);
      const int64_t first = b * m.blocks_per_packed;
      const int64_t count = std::min(m.blocks_per_packed, m.row_blocks - first);
      const int64_t rows = std::min<int64_t>(kPackedRows, N - tile * kPackedRows);
      const auto source = [&](int64_t row, int64_t i) {
        return blocks + ((tile * kPackedRows + row) * m.row_blocks + first + i) * m.block.bytes;
      };
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < count; ++i) {
          read_codes(format, source(row, i), codes[row] + i * m.block.values);
        }
      }
      const int64_t scales = for_each_plane(format, [&](int64_t at, int column, int shift, int w) {
        write_plane(codes, column, shift, w, to + at);
      });
      const int64_t quad_bytes = (packed_block_bytes(m.block) - scales) / kPackedQuads;
      for (int row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < count; ++i) {
          pack_scales(format, source(row, i), static_cast<int>(i), half_of(row),
                      to + scales + quad_of(row) * quad_bytes);
        }
      }
    }
  });
  return AC4K_OK;
}

Status unpack_weight(WeightFormat format, const uint8_t* packed, int64_t N, int64_t K,
                     uint8_t* blocks) {
  const Matrix m(format, N, K);
  for_each_tile(N, K, [&](int64_t tile) {
    const uint8_t* from = packed + tile * m.tile_bytes();
    Codes codes;
    for (int64_t b = 0; b < packed_blocks(m.block, K); ++b, from += packed_block_bytes(m.block)) {
      std::memset(codes, 0, sizeof codes);
      const int64_t scales = for_each_plane(format, [&](int64_t at, int column, int shift, int w) {
        read_plane(from + at, column, shift, w, codes);
      });
      const int64_t quad_bytes = (packed_block_bytes(m.block) - scales) / kPackedQuads;
      const int64_t first = b * m.blocks_per_packed;
      const int64_t count = std::min(m.blocks_per_packed, m.row_blocks - first);
      const int64_t rows = std::min<int64_t>(kPackedRows, N - tile * kPackedRows);
      for (int row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < count; ++i) {
          uint8_t* to =
              blocks + ((tile * kPackedRows + row) * m.row_blocks + first + i) * m.block.bytes;
          write_codes(format, codes[row] + i * m.block.values, to);
          unpack_scales(format, from + scales + quad_of(row) * quad_bytes, static_cast<int>(i),
                        half_of(row), to);
        }
      }
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
