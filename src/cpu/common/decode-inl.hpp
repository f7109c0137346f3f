// DecodeKernels of linear_table.hpp over a level's quads: one to four tokens against a tile of 64
// rows.
#pragma once

#include "cpu/common/linear_table.hpp"
#include "cpu/common/read_ahead-inl.hpp"
#include "cpu/common/weight_formats-inl.hpp"

namespace ac4k::cpu {
namespace {

// Does the level multiply by scales of 256 columns at a time, four short blocks being one long one?
template <class Q, class Format>
constexpr bool kWholeGroups = Format::kLong || (Format::kFourScales && Q::kFourBlocks);

template <class Q, class Format>
constexpr bool kSmallGroups = Format::kSmallScales && Q::kHasSmallScales;

// The offset of codes, or how often a minimum counts: by what sums of activations are multiplied.
// Lanes of short blocks repeat each scale.
template <class Q, class Format>
constexpr float sum_factor() {
  const float factor = Format::kHasMinimum ? 1.0f : -Format::kOffset;
  return kWholeGroups<Q, Format> ? factor : factor / Q::kScaleCopies;
}
#define AC4K_SUM_FACTOR(Format) \
  {sum_factor<Q, Format>(), sum_factor<Q, Format>() * Format::kSecondUnit}
template <class Q>
constexpr float kSumFactors[][2] = {AC4K_FORMAT_POLICIES(AC4K_SUM_FACTOR)};
#undef AC4K_SUM_FACTOR

// 256 numbers in steps of the result; 0 when one of them is not finite, or where steps so small are
// flushed.
inline float to_fixed_point(const float* x, int16_t (&fixed)[kGroupColumns]) {
  // As integers, which are in the same order and which a compiler compares many at a time.
  constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  uint32_t bits[kGroupColumns];
  __builtin_memcpy(bits, x, sizeof bits);
  uint32_t most = 0;
  for (const uint32_t each : bits) most = most < (each & kMagnitude) ? each & kMagnitude : most;
  if (most >= kInfinity) return 0;
  float largest;
  __builtin_memcpy(&largest, &most, sizeof largest);
  if (most == 0) largest = 1;
  // The inverse of tiny steps would be infinite, and denormal ones must not be too small.
  const bool tiny = largest < 0x1p-100f;
  const float lift = tiny ? 0x1p100f : 1.0f;
  const float step = largest / kLargestFixed + (tiny ? 0x1p-149f : 0.0f);
  if (!(step > 0)) return 0;
  const float inverse = 1 / (step * lift);
  for (int i = 0; i < kGroupColumns; ++i) {
    const float scaled = x[i] * lift * inverse;
    fixed[i] =
        static_cast<int16_t>(static_cast<int32_t>(scaled + __builtin_copysignf(0.5f, scaled)));
  }
  return step;
}

template <class Q>
bool prepare_group(const float* x, WeightFormat format, ActivationGroup* group) {
  int16_t fixed[kGroupColumns];
  group->scale = to_fixed_point(x, fixed);
  if (group->scale == 0) return false;
  const auto& factors = kSumFactors<Q>[static_cast<int>(format)];
  for (int i = 0; i < 16; ++i) {
    int32_t sum = 0;
    for (int k = 0; k < 16; ++k) sum += fixed[16 * i + k];
    for (int row = 0; row < 2; ++row) {
      group->sums[row][i] = static_cast<float>(sum) * factors[row];
    }
  }
  const bool in_order = bytes_in_order(format);
  for (int j = 0; j < 4; ++j) {
    int16_t ordered[64];
    for (int lane = 0; lane < 16; ++lane) {
      // Two columns side by side, twice: quad_column without its table.
      const int column = 64 * j + quad_column(in_order, lane, 0);
      uint64_t first = 0, second = 0;
      __builtin_memcpy(&first, fixed + column, 4);
      __builtin_memcpy(&second, fixed + column + 8, 4);
      const uint64_t four = in_order ? first | second << 32
                                     : (first & 0xffff) | (second & 0xffff) << 16 |
                                           (first >> 16) << 32 | (second >> 16) << 48;
      __builtin_memcpy(ordered + 4 * lane, &four, 8);
    }
    Q::store_planes(ordered, group->planes[j]);
  }
  return true;
}

// Scales of 256 columns, of which each sub-block takes four. Where codes are looked up, a level may
// have a way that shuffles less.
template <class Q, class Format>
struct SpreadScales {
  typename Q::Lanes lanes;
  template <int kSubBlock>
  AC4K_INLINE typename Q::Lanes at() const {
    return Q::template spread<kSubBlock>(lanes);
  }
};
template <class Q, class Format>
  requires(Format::kLookedUp && requires { typename Q::ScalesInMemory; })
struct SpreadScales<Q, Format> : Q::ScalesInMemory {
  AC4K_INLINE SpreadScales(typename Q::Lanes scales) : Q::ScalesInMemory(scales) {}
};

template <class Q, class Format, int kTokens>
struct QuadSums {
  using Codes = typename Q::Codes;
  using Lanes = typename Q::Lanes;
  using Sums = typename Q::Sums;
  Sums sums[2][kTokens];

  template <int kSubBlock>
  AC4K_INLINE void add_part(const uint8_t* blocks, int quad,
                            const SpreadScales<Q, Format> (&scales)[2],
                            const ActivationGroup* const (&x)[kTokens]) {
    Codes codes[2];
    const uint8_t* block = blocks + kSubBlock / Format::kSubBlocks * Format::kBlockBytes;
    codes_of<Q, Format>(block, kSubBlock % Format::kSubBlocks, quad, codes);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Sums scale = Q::repeated(scales[i].template at<kSubBlock>());
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[i][t] = fma(Q::dot(codes[i], x[t]->planes[kSubBlock]), scale, sums[i][t]);
      }
    }
  }

  // Where codes times scales are bytes, 256 columns are one sum of integers.
  template <int kSubBlock, class Scales, class Sum>
  AC4K_INLINE void add_small(const uint8_t* block, int quad, const Scales (&scales)[2],
                             const ActivationGroup* const (&x)[kTokens],
                             Sum (&integers)[2][kTokens]) {
    Codes codes[2];
    codes_of<Q, Format>(block, kSubBlock, quad, codes);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Codes scaled = Q::template times<kSubBlock>(codes[i], scales[i]);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        Q::add_dot(scaled, x[t]->planes[kSubBlock], integers[i][t]);
      }
    }
  }
  AC4K_INLINE void add_group(const uint8_t* block, int quad,
                             const ActivationGroup* const (&x)[kTokens])
    requires(kSmallGroups<Q, Format>)
  {
    typename Q::SmallScales scales[2];
    typename Q::Sum integers[2][kTokens];
    Lanes d[2], minimums[2];
    Format::template small_scales<Q>(block, quad, scales, d);
    Format::template minimums<Q>(block, quad, minimums);
    add_small<0>(block, quad, scales, x, integers);
    add_small<1>(block, quad, scales, x, integers);
    add_small<2>(block, quad, scales, x, integers);
    add_small<3>(block, quad, scales, x, integers);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[i][t] = Q::folded(
            fma(Q::value(integers[i][t]), d[i], minimums[i] * Lanes::load(x[t]->sums[i])));
      }
    }
  }

  AC4K_INLINE void add_group(const uint8_t* blocks, int quad,
                             const ActivationGroup* const (&x)[kTokens])
    requires(kWholeGroups<Q, Format> && !kSmallGroups<Q, Format>)
  {
    Lanes scales[2], minimums[2];
    group_scales<Q, Format>(blocks, quad, scales, minimums);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[i][t] =
            Q::folded((Format::kHasMinimum ? minimums[i] : scales[i]) * Lanes::load(x[t]->sums[i]));
      }
    }
    const SpreadScales<Q, Format> spread[2] = {{scales[0]}, {scales[1]}};
    add_part<0>(blocks, quad, spread, x);
    add_part<1>(blocks, quad, spread, x);
    add_part<2>(blocks, quad, spread, x);
    add_part<3>(blocks, quad, spread, x);
  }

  // Sub-blocks `first` and on of the group: one block.
  AC4K_INLINE void add_short(const uint8_t* block, int first, int quad,
                             const ActivationGroup* const (&x)[kTokens]) {
    Lanes scales[2], minimums[2];
    Format::template scales<Q>(block, quad, scales);
    if constexpr (Format::kHasMinimum) Format::template minimums<Q>(block, quad, minimums);
#pragma GCC unroll 2
    for (int j = 0; j < Format::kSubBlocks; ++j) {
      Codes codes[2];
      codes_of<Q, Format>(block, j, quad, codes);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const Sums scale = Q::repeated(scales[i]);
        const Sums offset = Format::kHasMinimum ? Q::repeated(minimums[i]) : scale;
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          const Sums sum = Q::repeated(Lanes::load_four(x[t]->sums[i] + 4 * (first + j)));
          sums[i][t] = fma(offset, sum, sums[i][t]);
          sums[i][t] = fma(Q::dot(codes[i], x[t]->planes[first + j]), scale, sums[i][t]);
        }
      }
    }
  }

  AC4K_INLINE void add_group(const uint8_t* blocks, int quad,
                             const ActivationGroup* const (&x)[kTokens])
    requires(!kWholeGroups<Q, Format>)
  {
    constexpr int kSubBlocks = Format::kSubBlocks, kGroupBlocks = 4 / kSubBlocks;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) sums[i][t] = Sums::broadcast(0);
    }
#pragma GCC unroll 4
    for (int b = 0; b < kGroupBlocks; ++b) {
      add_short(blocks + b * Format::kBlockBytes, b * kSubBlocks, quad, x);
    }
  }
};

// The blocks of 256 columns, one group after another. Where the last has fewer blocks than the
// others, the rest is zeros, and so are the activations that meet them.
template <class Format>
class GroupReader {
 public:
  static constexpr int kBlocks = 4 / Format::kSubBlocks;
  static constexpr int64_t kBytes = kBlocks * Format::kBlockBytes;
  GroupReader(const uint8_t* tile, int64_t num_blocks)
      : tile_(tile), num_whole_(num_blocks / kBlocks), rest_(num_blocks % kBlocks) {
    if (rest_ == 0) return;
    const int64_t bytes = rest_ * Format::kBlockBytes;
    __builtin_memcpy(last_, tile + num_whole_ * kBytes, static_cast<std::size_t>(bytes));
    __builtin_memset(last_ + bytes, 0, static_cast<std::size_t>(kBytes - bytes));
  }
  int64_t size() const { return num_whole_ + (rest_ != 0); }
  AC4K_INLINE const uint8_t* operator[](int64_t index) const {
    return index < num_whole_ ? tile_ + index * kBytes : last_;
  }
  // A quad's share of the way through a group, whose planes are read side by side.
  AC4K_INLINE void advance(const ReadAhead& ahead, int64_t index, int quad) const {
    constexpr int64_t kShare = kBytes / kPackedQuads;
    ahead.advance<kShare, kBytes>(tile_ + index * kBytes + quad * kShare);
  }

 private:
  const uint8_t* tile_;
  int64_t num_whole_, rest_;
  alignas(64) uint8_t last_[Format::kLong ? 1 : kBytes];
};

// Weights stream through once, 256 columns of all 64 rows at a time; the lanes of the sums wait in
// the first-level cache.
template <class Q, class Format, int kTokens>
void decode_tile(const DecodeArgs& args) {
  using Sums = typename Q::Sums;
  alignas(64) float lanes[kPackedQuads][2][kTokens][sizeof(Sums) / sizeof(float)];
  const GroupReader<Format> groups(args.tile, args.num_blocks);
  const ReadAhead read_ahead(args.end);
  const ActivationGroup* x[kTokens];
  for (int t = 0; t < kTokens; ++t) x[t] = args.activations + t * args.row_stride;
  for (int64_t group = 0; group < groups.size(); ++group) {
    const uint8_t* blocks = groups[group];
    for (int quad = 0; quad < kPackedQuads; ++quad) {
      groups.advance(read_ahead, group, quad);
      QuadSums<Q, Format, kTokens> quad_sums;
      quad_sums.add_group(blocks, quad, x);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
        for (int t = 0; t < kTokens; ++t) {
          float* total = lanes[quad][i][t];
          const Sums scale = Sums::broadcast(x[t]->scale);
          const Sums sum = quad_sums.sums[i][t];
          (group == 0 ? sum * scale : fma(sum, scale, Sums::load(total))).store(total);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) ++x[t];
  }
  for (int quad = 0; quad < kPackedQuads; ++quad) {
    for (int i = 0; i < 2; ++i) {
      for (int t = 0; t < kTokens; ++t) {
        const float sum = Sums::load(lanes[quad][i][t]).sum();
        args.sums[t * kPackedRows + row_of_quad(quad, i)] =
            i == 0 ? sum : sum * (1.0f / Format::kSecondUnit);
      }
    }
  }
}

template <class Q>
constexpr DecodeKernels make_decode_kernels() {
#define AC4K_DECODE(Format)                                                         \
  {                                                                                 \
    decode_tile<Q, Format, 1>, decode_tile<Q, Format, 2>, decode_tile<Q, Format, 4> \
  }
  return {.prepare = prepare_group<Q>, .decode = {AC4K_FORMAT_POLICIES(AC4K_DECODE)}};
#undef AC4K_DECODE
}

}  // namespace
}  // namespace ac4k::cpu
