// The planes of a packed block (docs/packed_weights.md): codes of a byte each from and to them.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/weight_formats.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr int kMaxColumns = 256;
constexpr int kThreads = 128;  // of the fragment order: a thread holds 2 rows x 16 columns
constexpr double kCodesPerThread = 1 << 16;

// The order of codes in a sub-block: those of fragment thread t, step s, register i, element e.
struct Place {
  int row, column;
};
constexpr Place place_of(int t, int s, int i, int e) {
  const int lane = t % 32;
  return {16 * (t / 32) + lane / 4 + 8 * (i & 1), 16 * s + 8 * (i >> 1) + 2 * (lane % 4) + e};
}

// How the bits of a code are spread over planes: the lowest in the first.
struct Planes {
  int nibble_bits, pair_bits, single_bits;  // 4 or 0, 2 or 0, 1 or 0
};
constexpr Planes planes_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::q5_0:
    case WeightFormat::q5_1:
    case WeightFormat::q5_k:
      return {4, 0, 1};
    case WeightFormat::q6_k:
      return {4, 2, 0};
    case WeightFormat::q2_k:
      return {0, 2, 0};
    case WeightFormat::q3_k:
      return {0, 2, 1};
    case WeightFormat::q8_0:
      return {0, 0, 0};
    default:
      return {4, 0, 0};
  }
}

// Calls visit(code of the sub-block, byte of the plane, first bit in it) for a plane of `width`
// bits a code; 4-bit fields never cross a byte, nor do the others.
template <class Visit>
void for_each_field(int width, const Visit& visit) {
  for (int t = 0; t < kThreads; ++t) {
    for (int s = 0; s < 4; ++s) {
      for (int i = 0; i < 4; ++i) {
        for (int e = 0; e < 2; ++e) {
          const Place place = place_of(t, s, i, e);
          int byte = 0, bit = 0;
          if (width == 4) {
            bit = 4 * i + 16 * e;
            byte = t * 16 + s * 4;
          } else if (width == 2) {
            bit = 2 * ((s & 1) * 4 + i) + 16 * e;
            byte = t * 8 + (s >> 1) * 4;
          } else if (width == 1) {
            bit = 4 * s + i + 16 * e;
            byte = t * 4;
          } else {
            bit = 8 * ((i >> 1) * 2 + e);
            byte = (s >> 1) * 2048 + t * 16 + 4 * (2 * (s & 1) + (i & 1));
          }
          visit(place, byte + bit / 8, bit % 8);
        }
      }
    }
  }
}

using Codes = uint8_t[kPackedRows][kMaxColumns];

void write_plane(const Codes& codes, int column0, int shift, int width, uint8_t* plane) {
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  for_each_field(width, [&](Place place, int byte, int bit) {
    const int code = codes[place.row][column0 + place.column] >> shift;
    plane[byte] = static_cast<uint8_t>(plane[byte] | (code & mask) << bit);
  });
}

void read_plane(const uint8_t* plane, int column0, int shift, int width, Codes& codes) {
  const auto mask = static_cast<uint8_t>((1 << width) - 1);
  for_each_field(width, [&](Place place, int byte, int bit) {
    uint8_t& code = codes[place.row][column0 + place.column];
    code = static_cast<uint8_t>(code | ((plane[byte] >> bit) & mask) << shift);
  });
}

// Visits the planes of a block in storage order: (offset, first column, shift, width); returns
// where the scales begin.
template <class Visit>
int64_t for_each_plane(WeightFormat format, const Visit& visit) {
  const int sub_blocks = block_of(format).packed_columns / kPackedColumns;
  const Planes planes = planes_of(format);
  const int widths[] = {planes.nibble_bits, planes.pair_bits, planes.single_bits};
  int64_t offset = 0;
  int shift = 0;
  const auto visit_all = [&](int width) {
    for (int j = 0; j < sub_blocks; ++j) {
      visit(offset, j * kPackedColumns, shift, width);
      offset += int64_t{kPackedRows} * kPackedColumns * width / 8;
    }
    shift += width;
  };
  for (const int width : widths) {
    if (width > 0) visit_all(width);
  }
  if (offset == 0) visit_all(8);
  return offset;
}

// Which quad a row of a tile belongs to, and which half of it.
constexpr int quad_of(int row) { return row / 16 * 8 + row % 8; }
constexpr int half_of(int row) { return row % 16 / 8; }

// body(tile) for all tiles, on as many threads as it is worth.
template <class Body>
void for_each_tile(int64_t N, int64_t K, const Body& body) {
  const int64_t tiles = (N + kPackedRows - 1) / kPackedRows;
  const double work = static_cast<double>(N) * static_cast<double>(K);
  const int threads = static_cast<int>(
      std::min<int64_t>(threads_for(work, kCodesPerThread), std::max<int64_t>(tiles, 1)));
  std::atomic<int64_t> next{0};
  run_threads(threads, [&](int) {
    for (;;) {
      const int64_t tile = next.fetch_add(1, std::memory_order_relaxed);
      if (tile >= tiles) return;
      body(tile);
    }
  });
}

}  // namespace
}  // namespace ac4k::cpu
