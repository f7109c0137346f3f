// Rotations of RoPE, where cosines and sines come from, and the walk over tokens and heads.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/integers.cuh"
#include "common/rope.h"
#include "common/types.cuh"

namespace ac4k {

__device__ __forceinline__ unsigned quotient(unsigned n, const FastDivisor& by) {
  return divide(n, by);
}
__device__ __forceinline__ int64_t quotient(int64_t n, const FastDivisor& by) {
  return n / by.divisor;
}

// Each product and sum is rounded for itself: bit for bit what PyTorch's float32 operators give.
__device__ __forceinline__ void rotate(float a, float b, float cos, float sin, float& first,
                                       float& second) {
  first = __fsub_rn(__fmul_rn(a, cos), __fmul_rn(b, sin));
  second = __fadd_rn(__fmul_rn(b, cos), __fmul_rn(a, sin));
}
// As nvcc contracts a product of complex128, which is what PyTorch runs on the GPU; the result is
// rounded to float32 (and from there to its type).
__device__ __forceinline__ void rotate(float a, float b, double cos, double sin, float& first,
                                       float& second) {
  const double x = a, y = b;
  first = __double2float_rn(__fma_rn(x, cos, -__dmul_rn(y, sin)));
  second = __double2float_rn(__fma_rn(y, cos, __dmul_rn(x, sin)));
}

template <typename Scalar>
__device__ __forceinline__ Scalar quiet_nan() {
  return static_cast<Scalar>(__int_as_float(0x7fffffff));
}

template <typename Scalar, int kPairs>
struct Angles {
  Scalar cos[kPairs];
  Scalar sin[kPairs];
};

// `kCount` floats in a row, by the widest loads their size allows when `kVector` promises
// alignment.
template <int kCount, bool kVector>
__device__ __forceinline__ void load_floats(const float* from, float* to) {
  if constexpr (kVector && kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 part = __ldca(reinterpret_cast<const float4*>(from + i));
      to[i] = part.x, to[i + 1] = part.y, to[i + 2] = part.z, to[i + 3] = part.w;
    }
  } else if constexpr (kVector && kCount == 2) {
    const float2 part = __ldca(reinterpret_cast<const float2*>(from));
    to[0] = part.x, to[1] = part.y;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = from[i];
  }
}

// --- Where cosines and sines come from ---------------------------------------------------------

// A source has a Place, what is known of a token before its table rows are read; `rotates` says
// whether the token is rotated at all, `load` gives the angles of a few pairs.

// One position a token, cosines and sines in a row.
struct TablePositions {
  using Params = RopeParams;
  using FewParams = FewRopeParams;
  using Scalar = float;
  using Place = ComingInteger;

  template <typename Params>
  static __device__ __forceinline__ int rotary_pairs(const Params& params) {
    return params.rotary_dim / 2;
  }
  template <typename Params, typename Index>
  static __device__ __forceinline__ Place place_of(const Params& params, Index token) {
    return load_integer(params.positions, params.wide_positions, token);
  }
  static __device__ __forceinline__ bool rotates(const Place&) { return true; }
  template <int kPairs, bool kVector, typename Params>
  static __device__ __forceinline__ Angles<float, kPairs> load(const Params& params,
                                                               const Place& place, int pair) {
    Angles<float, kPairs> angles;
    const int position = place.below(params.num_positions);
    if (position < 0) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) angles.cos[i] = angles.sin[i] = quiet_nan<float>();
      return angles;
    }
    const float* row = params.cos_sin + static_cast<int64_t>(position) * params.rotary_dim + pair;
    load_floats<kPairs, kVector>(row, angles.cos);
    load_floats<kPairs, kVector>(row + params.rotary_dim / 2, angles.sin);
    return angles;
  }
};

// Three positions a token: each pair uses the one of its section.
struct SectionPositions {
  using Params = RopeParams;
  using FewParams = FewMropeParams;
  using Scalar = float;
  struct Place {
    ComingInteger positions[3];
  };

  template <typename Params>
  static __device__ __forceinline__ int rotary_pairs(const Params& params) {
    return params.rotary_dim / 2;
  }
  static __device__ __forceinline__ Place place_of(const RopeParams& params, int64_t token) {
    return place_at(params, token, static_cast<int64_t>(params.heads.num_tokens));
  }
  static __device__ __forceinline__ Place place_of(const FewMropeParams& params, int token) {
    return place_at(params, token, params.num_tokens);
  }
  static __device__ __forceinline__ bool rotates(const Place&) { return true; }
  // The axes of pairs from `pair` on, of a vector of them at most, two bits each.
  template <typename Params>
  static __device__ __forceinline__ unsigned axes_from(const Params& params, int pair) {
    return params.axes[pair / kRopeAxesAWord] >> (2 * (pair % kRopeAxesAWord));
  }
  template <int kPairs, bool kVector>
  static __device__ __forceinline__ Angles<float, kPairs> load(const RopeParams& params,
                                                               const Place& place, int pair) {
    const Rows<int64_t> rows(params, place);
    if constexpr (!kVector) {
      static_assert(kPairs == 1);
      return load_each<1>(params, rows, static_cast<unsigned>(axis_of(params, pair)), pair);
    }
    // Sections in a row: mostly all pairs have the same axis.
    const unsigned axes = axes_from(params, pair);
    const int64_t row = rows.of(axes & 3);
    constexpr unsigned kAll = (1u << (2 * kPairs)) - 1;
    if ((axes & kAll) == (axes & 3) * (0x5555u & kAll) && row >= 0) {
      Angles<float, kPairs> angles;
      const float* values = params.cos_sin + row + pair;
      load_floats<kPairs, true>(values, angles.cos);
      load_floats<kPairs, true>(values + params.rotary_dim / 2, angles.sin);
      return angles;
    }
    return load_each<kPairs>(params, rows, axes, pair);
  }
  template <int kPairs, bool kVector>
  static __device__ __forceinline__ Angles<float, kPairs> load(const FewMropeParams& params,
                                                               const Place& place, int pair) {
    return load_each<kPairs>(params, Rows<int>(params, place), axes_from(params, pair), pair);
  }

 private:
  // Offsets of the three rows in the table, or negative.
  template <typename Offset>
  struct Rows {
    Offset offsets[3];

    template <typename Params>
    __device__ __forceinline__ Rows(const Params& params, const Place& place) {
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        offsets[axis] = static_cast<Offset>(place.positions[axis].below(params.num_positions)) *
                        params.rotary_dim;
      }
    }
    __device__ __forceinline__ Offset of(unsigned axis) const {
      return axis == 0 ? offsets[0] : axis == 1 ? offsets[1] : offsets[2];
    }
  };
  template <typename Params, typename Index>
  static __device__ __forceinline__ Place place_at(const Params& params, Index token,
                                                   Index num_tokens) {
    Place place;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      place.positions[axis] =
          load_integer(params.positions, params.wide_positions, axis * num_tokens + token);
    }
    return place;
  }
  static __device__ __forceinline__ int axis_of(const RopeParams& params, int pair) {
    if (params.interleaved_sections) {
      const int axis = pair % 3;
      return axis == 1   ? pair < 3 * params.section_h
             : axis == 2 ? 2 * (pair < 3 * params.section_w)
                         : 0;
    }
    return (pair >= params.section_t) + (pair >= params.section_t + params.section_h);
  }
  template <int kPairs, typename Params, typename Offset>
  static __device__ __forceinline__ Angles<float, kPairs> load_each(const Params& params,
                                                                    const Rows<Offset>& rows,
                                                                    unsigned axes, int pair) {
    Angles<float, kPairs> angles;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Offset row = rows.of(axes >> (2 * i) & 3);
      const float* values = params.cos_sin + (row + pair + i);
      angles.cos[i] = row < 0 ? quiet_nan<float>() : values[0];
      angles.sin[i] = row < 0 ? quiet_nan<float>() : values[params.rotary_dim / 2];
    }
    return angles;
  }
};

// A token's place in its sample's grid of frames, rows and columns; each axis has its own pairs.
template <typename Table, typename Compute>
struct GridPositions {
  using Params = Rope3dParams;
  using Scalar = Compute;

  struct alignas(16) Place {
    unsigned rows[3];       // of the table, one an axis: their first pairs
    bool inside, complete;  // complete: the table has all of them
  };
  // Sizes past the number of tokens make no difference, so that 32 bits hold them all.
  template <typename Index>
  static __device__ __forceinline__ Place place_of(const Params& params, Index token) {
    const unsigned tokens = params.tokens.divisor;
    const int64_t sample = quotient(token, params.tokens);
    const auto index = static_cast<unsigned>(token - sample * tokens);
    unsigned sizes[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int64_t size = integer_at(params.grid_sizes, params.wide_grid, sample * 3 + i);
      sizes[i] = size < 0 ? 0 : size < tokens ? static_cast<unsigned>(size) : tokens;
    }
    const unsigned long long area = static_cast<unsigned long long>(sizes[1]) * sizes[2];
    const unsigned frame = area < tokens ? static_cast<unsigned>(area) : tokens;
    Place place{{}, index < static_cast<unsigned long long>(sizes[0]) * frame, true};
    if (place.inside) {
      place.rows[0] = index / frame;
      const unsigned rest = index - place.rows[0] * frame;
      place.rows[1] = rest / sizes[2];
      place.rows[2] = rest - place.rows[1] * sizes[2];
#pragma unroll
      for (unsigned& row : place.rows) {
        const bool missing = row >= params.num_positions;
        place.complete = place.complete && !missing;
        row = missing ? kMissing : row * rotary_pairs(params);
      }
    }
    return place;
  }
  static __device__ __forceinline__ int rotary_pairs(const Params& params) {
    return params.heads.head_dim / 2;
  }
  static __device__ __forceinline__ bool rotates(const Place& place) { return place.inside; }
  template <int kPairs, bool kVector>
  static __device__ __forceinline__ Angles<Scalar, kPairs> load(const Params& params,
                                                                const Place& place, int pair) {
    Angles<Scalar, kPairs> angles;
    unsigned rows[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      rows[i] = pair + i < params.axis_ends[0]   ? place.rows[0]
                : pair + i < params.axis_ends[1] ? place.rows[1]
                                                 : place.rows[2];
    }
    if (place.complete) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) load_pair<kVector>(params, rows[i], pair, i, angles);
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        angles.cos[i] = angles.sin[i] = quiet_nan<Scalar>();
        if (rows[i] != kMissing) load_pair<kVector>(params, rows[i], pair, i, angles);
      }
    }
    return angles;
  }

 private:
  static constexpr unsigned kMissing = ~0u;

  template <bool kVector, int kPairs>
  static __device__ __forceinline__ void load_pair(const Params& params, unsigned row, int pair,
                                                   int i, Angles<Scalar, kPairs>& angles) {
    using Both = Vector<Table, 2 * sizeof(Table)>;
    const Table* values =
        static_cast<const Table*>(params.table) + (row + static_cast<unsigned>(pair)) * int64_t{2};
    Both both;
    if constexpr (kVector) {
      both = reinterpret_cast<const Both*>(values)[i];
    } else {
      both = {values[2 * i], values[2 * i + 1]};
    }
    angles.cos[i] = static_cast<Scalar>(both.values[0]);
    angles.sin[i] = static_cast<Scalar>(both.values[1]);
  }
};

// --- Tokens and heads --------------------------------------------------------------------------

// Offsets of a token's first head, in elements.
struct TokenOffsets {
  int64_t in, out;
};
template <typename Index>
__device__ __forceinline__ TokenOffsets token_offsets(const RopeHeads& heads,
                                                      const RopeTensor& tensor, Index token) {
  TokenOffsets offsets{0, 0};
#pragma unroll 1
  for (int d = heads.ndim - 1; d > 0; --d) {
    const Index size = static_cast<Index>(heads.shape[d]);
    const Index rest = token / size;
    const int64_t coordinate = token - rest * size;
    offsets.in += coordinate * tensor.in_strides[d];
    offsets.out += coordinate * tensor.out_strides[d];
    token = rest;
  }
  offsets.in += token * tensor.in_strides[0];
  offsets.out += token * tensor.out_strides[0];
  return offsets;
}

// The heads first, first + step, ... below num_heads of one token.
template <typename T>
struct HeadGroup {
  const T* in;  // the first of them
  T* out;
  int64_t in_step, out_step;
  int first, step, num_heads;

  // A token's groups: those of q, then those of k.
  template <typename Index>
  __device__ __forceinline__ HeadGroup(const RopeHeads& heads, Index token, int group) {
    const bool is_second = group >= heads.tensors[0].num_groups;
    const RopeTensor& tensor = heads.tensors[is_second];
    first = is_second ? group - heads.tensors[0].num_groups : group;
    step = tensor.num_groups;
    num_heads = tensor.num_heads;
    const TokenOffsets offsets = token_offsets(heads, tensor, token);
    in = static_cast<const T*>(tensor.in) + offsets.in + first * tensor.in_head_stride;
    out = static_cast<T*>(tensor.out) + offsets.out + first * tensor.out_head_stride;
    in_step = step * tensor.in_head_stride;
    out_step = step * tensor.out_head_stride;
  }
  __device__ __forceinline__ bool has(int i) const { return first + i * step < num_heads; }
};

template <typename Run, bool kVector, int kBytes = sizeof(Run)>
struct RunBits {
  using type = Run;
};
template <typename Run>
struct RunBits<Run, true, 16> {
  using type = uint4;
};
template <typename Run>
struct RunBits<Run, true, 8> {
  using type = uint2;
};

// What one thread does of a head. Rotated: the first and the second elements of kPairs pairs, as
// two runs (neox) or one. Passed through: as many elements in a row.
template <typename T, int kPairs, bool kNeox, bool kVector>
struct Slot {
  static constexpr int kRun = kNeox ? kPairs : 2 * kPairs;
  static constexpr int kRuns = kNeox ? 2 : 1;
  using Run = Vector<T, kRun* static_cast<int>(sizeof(T))>;
  using Bits = typename RunBits<Run, kVector>::type;
  // As loaded: taken apart any earlier, 16-bit elements would be waited for one load at a time.
  struct Values {
    Bits runs[kRuns];
  };

  int pair;  // the first one; -1: passed through
  int starts[kRuns];
  int head_dim;

  __device__ __forceinline__ Slot(int slot, int rotary_pairs, int dim) : head_dim(dim) {
    const int rotary_slots = rotary_pairs / kPairs;
    const bool rotated = slot < rotary_slots;
    pair = rotated ? slot * kPairs : -1;
    starts[0] = rotated ? slot * (kNeox ? kPairs : 2 * kPairs)
                        : 2 * rotary_pairs + (slot - rotary_slots) * (2 * kPairs);
    if constexpr (kNeox) starts[1] = starts[0] + (rotated ? rotary_pairs : kPairs);
  }

  // Zeros past the end of the head. kWhole: there is nothing past it.
  template <bool kWhole = false>
  __device__ __forceinline__ Values load(const T* head) const {
    Values values = {};
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      if constexpr (kVector) {
        if (kWhole || starts[r] < head_dim) {
          values.runs[r] = __ldca(reinterpret_cast<const Bits*>(head + starts[r]));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if (starts[r] + i < head_dim) values.runs[r].values[i] = head[starts[r] + i];
        }
      }
    }
    return values;
  }
  template <bool kWhole = false>
  __device__ __forceinline__ void store(T* head, const Values& values) const {
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      if constexpr (kVector) {
        if (kWhole || starts[r] < head_dim) {
          __stwb(reinterpret_cast<Bits*>(head + starts[r]), values.runs[r]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if (starts[r] + i < head_dim) head[starts[r] + i] = values.runs[r].values[i];
        }
      }
    }
  }
  // The same from the first run on, where the second is known to lie kDistance elements behind it.
  template <int kDistance>
  static __device__ __forceinline__ Values load_runs(const T* first) {
    Values values;
#pragma unroll
    for (int r = 0; r < kRuns; ++r)
      values.runs[r] = __ldca(reinterpret_cast<const Bits*>(first + r * kDistance));
    return values;
  }
  template <int kDistance>
  static __device__ __forceinline__ void store_runs(T* first, const Values& values) {
#pragma unroll
    for (int r = 0; r < kRuns; ++r)
      __stwb(reinterpret_cast<Bits*>(first + r * kDistance), values.runs[r]);
  }
  template <typename Scalar>
  static __device__ __forceinline__ void rotate_all(Values& values,
                                                    const Angles<Scalar, kPairs>& angles) {
    constexpr int kBytes = static_cast<int>(sizeof(Run));
    Run* runs = reinterpret_cast<Run*>(values.runs);
    float elements[kRuns][kRun];
#pragma unroll
    for (int r = 0; r < kRuns; ++r) widen(runs[r], elements[r]);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      float& a = elements[0][kNeox ? i : 2 * i];
      float& b = elements[kRuns - 1][kNeox ? i : 2 * i + 1];
      float first, second;
      rotate(a, b, angles.cos[i], angles.sin[i], first, second);
      a = first;
      b = second;
    }
#pragma unroll
    for (int r = 0; r < kRuns; ++r) runs[r] = narrow<T, kBytes>(elements[r]);
  }
};

// One thread's share of one group: all loads, then all stores.
template <typename T, typename Source, int kPairs, int kHeads, bool kNeox, bool kVector,
          typename Index>
__device__ __forceinline__ void rotate_slot(const typename Source::Params& params, Index token,
                                            const HeadGroup<T>& group, int index) {
  using Slot = Slot<T, kPairs, kNeox, kVector>;
  const Slot slot(index, Source::rotary_pairs(params), params.heads.head_dim);
  if (slot.pair < 0 && params.heads.in_place) return;
  typename Slot::Values values[kHeads];
  const T* in = group.in;
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    find_now(in);
    if (group.has(i)) values[i] = slot.load(in);
    in += group.in_step;
  }
  // Not before the loads: that the angles wait for it holds them up (measured).
  const auto place = Source::place_of(params, token);
  if (slot.pair >= 0 && Source::rotates(place)) {
    const auto angles = Source::template load<kPairs, kVector>(params, place, slot.pair);
    T* out = group.out;
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      find_now(out);
      if (group.has(i)) {
        Slot::rotate_all(values[i], angles);
        slot.store(out, values[i]);
      }
      out += group.out_step;
    }
  } else if (!params.heads.in_place) {
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      if (group.has(i)) slot.store(group.out + i * group.out_step, values[i]);
    }
  }
}

// Rotates all heads.
//
// Block (x, y): x threads share a head, y items stand over each other; an item is a group of up to
// kHeads heads of one token, for which a thread reads its cosines and sines once. Grid: ceil(items
// / y). With kVector, x is the number of slots and all pointers, strides and table rows allow
// 16-byte accesses. No shared memory. Roofline: HBM, 1 read to 1 write; the tables stay in L2.
template <typename T, typename Source, int kPairs, int kHeads, bool kNeox, bool kVector>
__device__ __forceinline__ void rotate_heads(const typename Source::Params& params) {
  using Index = typename IndexType<kVector>::type;
  const RopeHeads& heads = params.heads;
  const Index item = static_cast<Index>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (item >= heads.num_items) return;
  const Index token = quotient(item, heads.num_groups);
  const HeadGroup<T> group(heads, token, static_cast<int>(item - token * heads.num_groups.divisor));

  wait_for_previous_kernels();
  allow_next_kernel();
  if constexpr (kVector) {
    rotate_slot<T, Source, kPairs, kHeads, kNeox, true>(params, token, group, threadIdx.x);
  } else {
    for (int index = threadIdx.x; index < heads.num_slots; index += blockDim.x) {
      rotate_slot<T, Source, kPairs, kHeads, kNeox, false>(params, token, group, index);
    }
  }
}

// The same where latency is all there is: a head is one item. Block (x, y): x slots of y heads.
// Grid: (ceil(heads / y), tokens). Alignment as with kVector. Roofline: latency.
template <typename T, typename Source, int kPairs, bool kNeox>
__device__ __forceinline__ void rotate_few(const typename Source::FewParams& params) {
  using Slot = Slot<T, kPairs, kNeox, true>;
  const int head = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  const int token = static_cast<int>(blockIdx.y);
  if (head >= params.num_heads) return;
  const bool second = head >= params.num_first_heads;
  const int index = second ? head - params.num_first_heads : head;
  const T* in = static_cast<const T*>(params.in[second]) +
                (token * params.in_token_stride[second] + index * params.in_head_stride[second]);
  T* out = static_cast<T*>(params.out[second]) +
           (token * params.out_token_stride[second] + index * params.out_head_stride[second]);
  const Slot slot(threadIdx.x, Source::rotary_pairs(params), params.head_dim);

  wait_for_previous_kernels();  // before any thread may leave: the grid has to wait
  allow_next_kernel();
  if (slot.pair < 0 && params.in_place) return;
  // First of all: a position has to be there before its row of the table can be asked for.
  const auto place = Source::place_of(params, token);
  auto values = slot.load(in);
  if (slot.pair >= 0 && Source::rotates(place)) {
    Slot::rotate_all(values, Source::template load<kPairs, true>(params, place, slot.pair));
  }
  slot.store(out, values);
}

}  // namespace ac4k
