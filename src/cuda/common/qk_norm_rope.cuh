// RMS norm of q and k, then RoPE, in one pass. The normalised values are rounded to their type in
// between, so that the result is that of the two ops one after the other.
#pragma once

#include "common/norm.cuh"
#include "common/rope.cuh"

namespace ac4k {

__device__ __forceinline__ float rms_scale(float sum_of_squares, const RopeTensor& tensor,
                                           float eps) {
  return rms_statistics(sum_of_squares, tensor.inverse_columns, eps).scale;
}

// In pairs: a 16-bit number on its own takes the slow conversion.
template <bool kCastFirst, typename T, int kBytes>
__device__ __forceinline__ void normalise_run(Vector<T, kBytes>& run, float scale,
                                              const Vector<T, kBytes>& weight) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float values[kSize], weights[kSize];
  widen(run, values);
  widen(weight, weights);
#pragma unroll
  for (float& value : values) value = __fmul_rn(value, scale);
  if constexpr (kCastFirst) widen(narrow<T, kBytes>(values), values);
#pragma unroll
  for (int j = 0; j < kSize; ++j) values[j] = __fmul_rn(values[j], weights[j]);
  run = narrow<T, kBytes>(values);
}

// Makes the compiler forget what it widened, which takes twice the registers of 16-bit values.
template <typename T>
__device__ __forceinline__ void forget_widened(uint4& bits) {
  if constexpr (sizeof(T) == 2) {
    asm volatile("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
  }
}
template <typename T>
__device__ __forceinline__ void forget_widened(uint2& bits) {
  if constexpr (sizeof(T) == 2) asm volatile("" : "+r"(bits.x), "+r"(bits.y));
}

// Sums of squares are added up here: matrix products, which long rows of norms have, were slower.

// The squares of a slot's elements, added up.
template <typename T, typename Values>
__device__ __forceinline__ float sum_of_slot(const Values& values) {
  using Row = RowRegisters<T, static_cast<int>(sizeof(Values) / sizeof(Vector<T>))>;
  return sum_by_additions<true>(reinterpret_cast<const Row&>(values));
}
// The norm of a slot whose head has this scale.
template <bool kCastFirst, typename Run, typename Values>
__device__ __forceinline__ void normalise_slot(Values& values, float scale, const Values& weights) {
#pragma unroll
  for (int r = 0; r < static_cast<int>(sizeof(Values) / sizeof(Run)); ++r) {
    normalise_run<kCastFirst>(reinterpret_cast<Run*>(values.runs)[r], scale,
                              reinterpret_cast<const Run*>(weights.runs)[r]);
  }
}
template <typename T, typename Values>
__device__ __forceinline__ void forget_widened_slot(Values& values) {
#pragma unroll
  for (auto& run : values.runs) forget_widened<T>(run);
}

// Pairs of a thread: 16 bytes of a head.
template <typename T>
inline constexpr int kSlotPairs = 8 / sizeof(T);

// Norm over each head, then RoPE.
//
// Block (x, y): x lanes, a power of two, share a head, y items stand over each other; an item is a
// group of up to heads_a_group heads of one token, one after the other: while one is worked on, the
// next kAhead are on their way. Grid: ceil(items / y). All pointers, strides and table rows allow
// 16-byte accesses. No shared memory: a head is summed up by shuffles. kLanes: x, where each lane
// has a slot and all of them are rotated, or 0 for any. kCastFirst: what cast_first says. Roofline:
// HBM, 1 read to 1 write.
template <typename T, typename Source, bool kNeox, int kLanes, bool kCastFirst>
__device__ __forceinline__ void norm_rotate_groups(const typename Source::Params& params) {
  constexpr int kPairs = kSlotPairs<T>, kAhead = 3;
  using Slot = Slot<T, kPairs, kNeox, true>;
  using Run = typename Slot::Run;
  using Values = typename Slot::Values;
  constexpr bool kWhole = kLanes > 0;
  const RopeHeads& heads = params.heads;
  const unsigned item = blockIdx.x * blockDim.y + threadIdx.y;
  // Idle lanes take part in the shuffles only.
  const bool active = item < heads.num_items && (kWhole || threadIdx.x < heads.num_slots);
  const unsigned token = active ? divide(item, heads.num_groups) : 0;
  const int group_index = active ? static_cast<int>(item - token * heads.num_groups.divisor) : 0;
  wait_for_previous_kernels();
  // First of all: a position has to be there before its row of the table can be asked for.
  const auto place = Source::place_of(params, token);
  const RopeTensor& tensor = heads.tensors[group_index >= heads.tensors[0].num_groups];
  const Slot slot(kWhole || active ? threadIdx.x : 0, Source::rotary_pairs(params), heads.head_dim);
  const Values weights = slot.template load<kWhole>(static_cast<const T*>(tensor.weight));
  const HeadGroup<T> group(heads, token, group_index);
  const T* in = group.in;
  T* out = group.out;
  int left = active ? group.num_heads - group.first : 0;  // heads from the present one on

  Values ahead[kAhead] = {};
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (left > i * group.step) ahead[i] = slot.template load<kWhole>(in);
    in += group.in_step;
  }
  const bool rotated = kWhole || slot.pair >= 0;
  Angles<typename Source::Scalar, kPairs> angles;
  if (rotated) {
    angles = Source::template load<kPairs, true>(params, place,
                                                 kWhole ? threadIdx.x * kPairs : slot.pair);
  }
  allow_next_kernel();

#pragma unroll 1
  for (int i = heads.heads_a_group; i > 0; --i) {  // the same for all lanes of a warp
    Values values = ahead[0];
#pragma unroll
    for (int j = 0; j + 1 < kAhead; ++j) ahead[j] = ahead[j + 1];
    // What lanes without a further head go on with does not matter.
    if (left > kAhead * group.step) ahead[kAhead - 1] = slot.template load<kWhole>(in);
    in += group.in_step;

    float sum[1] = {sum_of_slot<T>(values)};
    reduce_lanes<Sum>(sum, kWhole ? kLanes : blockDim.x);
    forget_widened_slot<T>(values);
    normalise_slot<kCastFirst, Run>(values, rms_scale(sum[0], tensor, params.eps), weights);
    if (rotated) Slot::rotate_all(values, angles);
    if (left > 0) slot.template store<kWhole>(out, values);
    out += group.out_step;
    left -= group.step;
  }
}

template <typename T, typename Source, bool kNeox>
__device__ __forceinline__ void norm_rotate_heads(const typename Source::Params& params) {
  constexpr int kUsualLanes = kUsualHeadDim / (2 * kSlotPairs<T>);
  const bool usual = params.heads.head_dim == kUsualHeadDim && params.rotary_dim == kUsualHeadDim;
  if (usual && !params.cast_first) {
    norm_rotate_groups<T, Source, kNeox, kUsualLanes, false>(params);
  } else if (usual) {
    norm_rotate_groups<T, Source, kNeox, kUsualLanes, true>(params);
  } else if (params.cast_first) {
    norm_rotate_groups<T, Source, kNeox, 0, true>(params);
  } else {
    norm_rotate_groups<T, Source, kNeox, 0, false>(params);
  }
}

// The same for many heads of the usual size, all of which is rotated: a thread has 16 bytes of each
// of kUsualHeads heads of a token, and asks for all of them before it looks at the first.
//
// Block (x, y): x lanes of 16 bytes are a head, y items stand over each other. Grid: ceil(items /
// y). Alignment as above.
template <typename T, typename Source, bool kNeox, bool kCastFirst>
__device__ __forceinline__ void norm_rotate_usual_of(const typename Source::Params& params) {
  constexpr int kPairs = kSlotPairs<T>, kLanes = kUsualHeadDim / (2 * kPairs);
  using Slot = Slot<T, kPairs, kNeox, true>;
  using Values = typename Slot::Values;
  constexpr int kRunDistance = kLanes * kPairs;  // from one run of a slot to its other
  const RopeHeads& heads = params.heads;
  const unsigned item = blockIdx.x * blockDim.y + threadIdx.y;
  const bool active = item < heads.num_items;  // the others take part in the shuffles only
  const unsigned token = active ? divide(item, heads.num_groups) : 0;
  const int group_index = active ? static_cast<int>(item - token * heads.num_groups.divisor) : 0;
  const unsigned first = threadIdx.x * Slot::kRun;
  wait_for_previous_kernels();
  const auto place = Source::place_of(params, token);
  const RopeTensor& tensor = heads.tensors[group_index >= heads.tensors[0].num_groups];
  const HeadGroup<T> group(heads, token, group_index);

  Values values[kUsualHeads] = {};
  const T* in = group.in + first;
#pragma unroll
  for (int i = 0; i < kUsualHeads; ++i) {
    find_now(in);
    if (group.has(i)) values[i] = Slot::template load_runs<kRunDistance>(in);
    in += group.in_step;
  }
  const Values weights =
      Slot::template load_runs<kRunDistance>(static_cast<const T*>(tensor.weight) + first);
  const auto angles =
      Source::template load<kPairs, true>(params, place, static_cast<int>(threadIdx.x * kPairs));
  allow_next_kernel();

  float sums[kUsualHeads];
#pragma unroll
  for (int i = 0; i < kUsualHeads; ++i) {
    sums[i] = sum_of_slot<T>(values[i]);
    forget_widened_slot<T>(values[i]);
  }
  reduce_lanes<Sum>(sums, kLanes);
  T* out = group.out + first;
#pragma unroll
  for (int i = 0; i < kUsualHeads; ++i) {
    find_now(out);
    const float scale = rms_scale(sums[i], tensor, params.eps);
    normalise_slot<kCastFirst, typename Slot::Run>(values[i], scale, weights);
    Slot::rotate_all(values[i], angles);
    if (active && group.has(i)) Slot::template store_runs<kRunDistance>(out, values[i]);
    out += group.out_step;
  }
}
template <typename T, typename Source, bool kNeox>
__device__ __forceinline__ void norm_rotate_usual(const typename Source::Params& params) {
  if (params.cast_first) {
    norm_rotate_usual_of<T, Source, kNeox, true>(params);
  } else {
    norm_rotate_usual_of<T, Source, kNeox, false>(params);
  }
}

// The slots first_slot, first_slot + step, ... of one head, element by element.
template <typename T, typename Source, bool kNeox>
__device__ __forceinline__ void norm_rotate_elements(const typename Source::Params& params,
                                                     const typename Source::Place& place, T* out,
                                                     const T* in, const T* weight, float scale,
                                                     int first_slot, int step) {
  using Slot = Slot<T, 1, kNeox, false>;
  using Run = typename Slot::Run;
  const RopeHeads& heads = params.heads;
  for (int index = first_slot; index < heads.num_slots; index += step) {
    const Slot slot(index, Source::rotary_pairs(params), heads.head_dim);
    auto values = slot.load(in);
    const auto weights = slot.load(weight);
    Run* runs = reinterpret_cast<Run*>(values.runs);
#pragma unroll
    for (int r = 0; r < Slot::kRuns; ++r) {
      const auto& weight = reinterpret_cast<const Run*>(weights.runs)[r];
      if (params.cast_first) {
        normalise_run<true>(runs[r], scale, weight);
      } else {
        normalise_run<false>(runs[r], scale, weight);
      }
    }
    if (slot.pair >= 0 && Source::rotates(place)) {
      Slot::rotate_all(values, Source::template load<1, false>(params, place, slot.pair));
    }
    slot.store(out, values);
  }
}

// As norm_rotate_heads for any sizes and alignment. Block (32, y): a warp a head; kHeads is 1.
template <typename T, typename Source, bool kNeox>
__device__ __forceinline__ void norm_rotate_any(const typename Source::Params& params) {
  const RopeHeads& heads = params.heads;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (item >= heads.num_items) return;  // whole warps
  const int64_t token = quotient(item, heads.num_groups);
  const int group_index = static_cast<int>(item - token * heads.num_groups.divisor);
  const HeadGroup<T> group(heads, token, group_index);
  const bool is_second = group_index >= heads.tensors[0].num_groups;
  wait_for_previous_kernels();
  allow_next_kernel();
  float sums[1] = {0.0f};
  for (int i = threadIdx.x; i < heads.head_dim; i += kWarpThreads) {
    const float value = widen(group.in[i]);
    sums[0] = __fmaf_rn(value, value, sums[0]);
  }
  reduce_lanes<Sum>(sums, kWarpThreads);
  norm_rotate_elements<T, Source, kNeox>(
      params, Source::place_of(params, token), group.out, group.in,
      static_cast<const T*>(heads.tensors[is_second].weight),
      rms_scale(sums[0], heads.tensors[is_second], params.eps), threadIdx.x, kWarpThreads);
}

// --- Norm over all heads -----------------------------------------------------------------------

// The row of tensor `t`, whose sum of squares is known, becomes its result. kCastFirst: what
// cast_first says.
template <bool kCastFirst, typename Params, typename Scalar, int kPairs, typename T, int kVectors>
__device__ __forceinline__ void finish_row(const Params& params, int t, unsigned num_vectors,
                                           float sum, bool rotated,
                                           const Angles<Scalar, kPairs>& angles,
                                           RowRegisters<T, kVectors>& row) {
  using Slot = Slot<T, kPairs, false, true>;
  const RopeTensor& tensor = params.heads.tensors[t];
  const float scale = rms_scale(sum, tensor, params.eps);
  const auto* weights = static_cast<const Vector<T>*>(tensor.weight);
  // Only now: registers are scarce before.
  auto* out = reinterpret_cast<Vector<T>*>(static_cast<T*>(tensor.out) +
                                           token_offsets(params.heads, tensor, blockIdx.x).out);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const unsigned index = row.index(i);
    if (index >= num_vectors) break;
    auto& vector = row.vectors[i];
    normalise_run<kCastFirst>(vector, scale, load(weights + index));
    if (rotated) Slot::rotate_all(reinterpret_cast<typename Slot::Values&>(vector), angles);
    store(out + index, vector);
  }
}

// Norm over all heads of a token, then RoPE; the heads of a token lie in a row.
//
// Grid: tokens. Block: whole warps, a multiple of the vectors of a head, so that a thread's vectors
// (kVectors of q and as many of k) share their cosines and sines. All pointers, strides and table
// rows allow 16-byte accesses. Shared memory: 272 bytes. Roofline: HBM, 1 read to 1 write.
template <typename T, typename Source, int kVectors, int kMaxThreads>
__device__ __forceinline__ void norm_rotate_rows(const typename Source::Params& params) {
  constexpr int kPairs = 8 / sizeof(T);
  const RopeHeads& heads = params.heads;
  const unsigned token = blockIdx.x;
  const FastDivisor& head_vectors = params.head_vectors;
  const unsigned slot = threadIdx.x - divide(threadIdx.x, head_vectors) * head_vectors.divisor;
  const auto num_vectors = [&](int t) { return heads.tensors[t].num_heads * head_vectors.divisor; };
  wait_for_previous_kernels();
  RowRegisters<T, kVectors> rows[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const RopeTensor& tensor = heads.tensors[t];
    const T* in = static_cast<const T*>(tensor.in) + token_offsets(heads, tensor, token).in;
    rows[t].load_from(in, num_vectors(t));
  }
  // One thread finds the place of the token, while the loads are under way: there is much to it.
  __shared__ typename Source::Place place_of_all;
  if (threadIdx.x == 0) place_of_all = Source::place_of(params, token);
  __syncthreads();
  const typename Source::Place place = place_of_all;
  const bool rotated = Source::rotates(place);
  Angles<typename Source::Scalar, kPairs> angles;
  if (rotated) {
    angles = Source::template load<kPairs, true>(params, place, static_cast<int>(slot * kPairs));
  }
  allow_next_kernel();

  float sums[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    sums[t] = sum_by_additions<true>(rows[t]);
#pragma unroll
    for (auto& vector : rows[t].vectors) forget_widened<T>(reinterpret_cast<uint4&>(vector));
  }
  BlockGroup<kMaxThreads>::template reduce<Sum, 0>(sums);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    if (params.cast_first) {
      finish_row<true>(params, t, num_vectors(t), sums[t], rotated, angles, rows[t]);
    } else {
      finish_row<false>(params, t, num_vectors(t), sums[t], rotated, angles, rows[t]);
    }
  }
}

// As norm_rotate_rows for any sizes and alignment: the row is read twice. Block: 256 threads.
template <typename T, typename Source>
__device__ __forceinline__ void norm_rotate_rows_any(const typename Source::Params& params) {
  constexpr int kMaxThreads = kRopeThreads;
  const RopeHeads& heads = params.heads;
  const int64_t token = blockIdx.x;
  wait_for_previous_kernels();
  allow_next_kernel();
  float sums[2] = {0.0f, 0.0f};
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const RopeTensor& tensor = heads.tensors[t];
    const T* in = static_cast<const T*>(tensor.in) + token_offsets(heads, tensor, token).in;
    const int64_t columns = static_cast<int64_t>(tensor.num_heads) * heads.head_dim;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
      const float value = widen(in[i]);
      sums[t] = __fmaf_rn(value, value, sums[t]);
    }
  }
  BlockGroup<kMaxThreads>::template reduce<Sum, 0>(sums);
  const auto place = Source::place_of(params, token);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const RopeTensor& tensor = heads.tensors[t];
    const TokenOffsets offsets = token_offsets(heads, tensor, token);
    const float scale = rms_scale(sums[t], heads.tensors[t], params.eps);
    for (int head = 0; head < tensor.num_heads; ++head) {
      const int64_t first = static_cast<int64_t>(head) * heads.head_dim;
      norm_rotate_elements<T, Source, false>(
          params, place, static_cast<T*>(tensor.out) + offsets.out + first,
          static_cast<const T*>(tensor.in) + offsets.in + first,
          static_cast<const T*>(tensor.weight) + first, scale, threadIdx.x, blockDim.x);
    }
  }
}

}  // namespace ac4k
