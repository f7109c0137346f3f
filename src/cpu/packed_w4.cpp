// As packed_weights.cpp: once for a model, plain loops. Scales of a group that is larger than a
// block are repeated in each of its blocks.
#include "cpu/packed_w4.hpp"

#include <cstring>

#include "cpu/packed_planes.hpp"

namespace ac4k::cpu {
namespace {

// Where a packed matrix keeps its codes and scales.
struct W4Layout {
  const WeightBlock& block;
  bool zeros;
  int64_t num_blocks, block_bytes, scales_at, quad_bytes;

  W4Layout(WeightFormat format, int64_t K)
      : block(block_of(format)),
        zeros(w4_has_zeros(format)),
        num_blocks(packed_blocks(block, K)),
        block_bytes(packed_block_bytes(block)),
        scales_at(int64_t{kPackedRows} * block.packed_columns / 2),
        quad_bytes((block_bytes - scales_at) / kPackedQuads) {}

  int64_t tile_bytes() const { return num_blocks * block_bytes; }
  int entries() const { return block.packed_columns / block.values; }  // of a row in a block
  // The scale of a row's entry; its zero point is the next number.
  int64_t entry_at(int row, int entry) const {
    const int64_t number = half_of(row) * entries() + entry;
    return scales_at + quad_of(row) * quad_bytes + number * (zeros ? 4 : 2);
  }
};

}  // namespace

Status pack_w4(const W4Matrix<const uint8_t, const uint16_t>& from, uint8_t* packed) {
  const W4Layout layout(from.format, from.K);
  const int64_t group = from.num_groups > 0 ? from.K / from.num_groups : 1;
  for_each_tile(from.N, from.K, [&](int64_t tile) {
    uint8_t* to = packed + tile * layout.tile_bytes();
    std::memset(to, 0, static_cast<std::size_t>(layout.tile_bytes()));
    const int rows = static_cast<int>(std::min<int64_t>(kPackedRows, from.N - tile * kPackedRows));
    Codes codes;
    for (int64_t b = 0; b < layout.num_blocks; ++b, to += layout.block_bytes) {
      const int64_t first = b * layout.block.packed_columns;
      const int64_t columns = std::min<int64_t>(layout.block.packed_columns, from.K - first);
      std::memset(codes, 0, sizeof codes);
      for (int row = 0; row < rows; ++row) {
        const int64_t n = tile * kPackedRows + row;
        std::memcpy(codes[row], from.codes + n * from.K + first, static_cast<std::size_t>(columns));
        for (int entry = 0; entry * layout.block.values < columns; ++entry) {
          const int64_t at = n * from.num_groups + (first + entry * layout.block.values) / group;
          uint8_t* record = to + layout.entry_at(row, entry);
          std::memcpy(record, from.scales + at, 2);
          if (layout.zeros) std::memcpy(record + 2, from.zeros + at, 2);
        }
      }
      for_each_plane(from.format, [&](int64_t at, int column, int shift, int width) {
        write_plane(codes, column, shift, width, to + at);
      });
    }
  });
  return AC4K_OK;
}

Status unpack_w4(const uint8_t* packed, const W4Matrix<uint8_t, uint16_t>& to) {
  const W4Layout layout(to.format, to.K);
  const int64_t group = to.num_groups > 0 ? to.K / to.num_groups : 1;
  for_each_tile(to.N, to.K, [&](int64_t tile) {
    const uint8_t* from = packed + tile * layout.tile_bytes();
    const int rows = static_cast<int>(std::min<int64_t>(kPackedRows, to.N - tile * kPackedRows));
    Codes codes;
    for (int64_t b = 0; b < layout.num_blocks; ++b) {
      const uint8_t* block = from + b * layout.block_bytes;
      const int64_t first = b * layout.block.packed_columns;
      const int64_t columns = std::min<int64_t>(layout.block.packed_columns, to.K - first);
      std::memset(codes, 0, sizeof codes);
      for_each_plane(to.format, [&](int64_t at, int column, int shift, int width) {
        read_plane(block + at, column, shift, width, codes);
      });
      for (int row = 0; row < rows; ++row) {
        std::memcpy(to.codes + (tile * kPackedRows + row) * to.K + first, codes[row],
                    static_cast<std::size_t>(columns));
      }
    }
    for (int row = 0; row < rows; ++row) {
      for (int64_t g = 0; g < to.num_groups; ++g) {
        const int64_t column = g * group, at = (tile * kPackedRows + row) * to.num_groups + g;
        const int entry =
            static_cast<int>(column % layout.block.packed_columns / layout.block.values);
        const uint8_t* record = from + column / layout.block.packed_columns * layout.block_bytes +
                                layout.entry_at(row, entry);
        std::memcpy(to.scales + at, record, 2);
        if (layout.zeros) std::memcpy(to.zeros + at, record + 2, 2);
      }
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
