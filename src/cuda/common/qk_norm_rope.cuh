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

// One run of elements, as Slot has it. Its sum of squares is that of one lane of rms_norm.
template <typename T, int kBytes>
__device__ __forceinline__ float sum_of_squares(const Vector<T, kBytes>& run) {
  float values[Vector<T, kBytes>::kSize];
  widen(run, values);
  float sum = 0.0f;
#pragma unroll
  for (const float value : values) sum = __fmaf_rn(value, value, sum);
  return sum;
}
// In pairs: a 16-bit number on its own takes the slow conversion.
template <typename T, int kBytes>
__device__ __forceinline__ void normalise_run(Vector<T, kBytes>& run, float scale,
                                              const Vector<T, kBytes>& weight, bool cast_first) {
  constexpr int kSize = Vector<T, kBytes>::kSize;
  float values[kSize], weights[kSize];
  widen(run, values);
  widen(weight, weights);
#pragma unroll
  for (float& value : values) value = __fmul_rn(value, scale);
  if (cast_first) widen(narrow<T, kBytes>(values), values);
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

// Norm over each head, then RoPE.
//
// Block (x, y): x lanes, a power of two, share a head, y items stand over each other; an item is a
// group of up to heads_a_group heads of one token, one after the other: while one is worked on, the
// next kAhead are on their way. Grid: ceil(items / y). All pointers, strides and table rows allow
// 16-byte accesses. No shared memory: a head is summed up by shuffles. kLanes: x, or 0 for any.
// Roofline: HBM, 1 read to 1 write.
template <typename T, typename Source, int kPairs, int kAhead, bool kNeox, int kLanes>
__device__ __forceinline__ void norm_rotate_groups(const typename Source::Params& params) {
  using Slot = Slot<T, kPairs, kNeox, true>;
  using Run = typename Slot::Run;
  using Values = typename Slot::Values;
  const RopeHeads& heads = params.heads;
  const unsigned item = blockIdx.x * blockDim.y + threadIdx.y;
  const bool active = item < heads.num_items && threadIdx.x < heads.num_slots;
  // Idle lanes take part in the shuffles only.
  const unsigned token = active ? divide(item, heads.num_groups) : 0;
  const int group_index = active ? static_cast<int>(item - token * heads.num_groups.divisor) : 0;
  const HeadGroup<T> group(heads, token, group_index);
  const RopeTensor& tensor = heads.tensors[group_index >= heads.tensors[0].num_groups];
  const Slot slot(active ? threadIdx.x : 0, Source::rotary_pairs(params), heads.head_dim);
  const T* in = group.in;
  T* out = group.out;
  int left = active ? group.num_heads - group.first : 0;  // heads from the present one on

  wait_for_previous_kernels();
  Values ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    ahead[i] = Values{};
    if (left > i * group.step) ahead[i] = slot.load(in);
    in += group.in_step;
  }
  const auto place = Source::place_of(params, token);
  const bool rotated = slot.pair >= 0 && Source::rotates(place);
  Angles<typename Source::Scalar, kPairs> angles;
  if (rotated) angles = Source::template load<kPairs, true>(params, place, slot.pair);
  const Values weights = slot.load(static_cast<const T*>(tensor.weight));
  allow_next_kernel();

#pragma unroll 1
  for (int i = heads.heads_a_group; i > 0; --i) {  // the same for all lanes of a warp
    Values values = ahead[0];
#pragma unroll
    for (int j = 0; j + 1 < kAhead; ++j) ahead[j] = ahead[j + 1];
    ahead[kAhead - 1] = Values{};
    if (left > kAhead * group.step) ahead[kAhead - 1] = slot.load(in);
    in += group.in_step;

    Run* runs = reinterpret_cast<Run*>(values.runs);
    float sums[1] = {sum_of_squares(runs[0])};
    if constexpr (kNeox) sums[0] += sum_of_squares(runs[1]);
#pragma unroll
    for (int r = 0; r < Slot::kRuns; ++r) forget_widened<T>(values.runs[r]);
    reduce_lanes<Sum>(sums, kLanes > 0 ? kLanes : blockDim.x);
    const float scale = rms_scale(sums[0], tensor, params.eps);
#pragma unroll
    for (int r = 0; r < Slot::kRuns; ++r) {
      normalise_run(runs[r], scale, reinterpret_cast<const Run*>(weights.runs)[r],
                    params.cast_first);
    }
    if (rotated) Slot::rotate_all(values, angles);
    if (left > 0) slot.store(out, values);
    out += group.out_step;
    left -= group.step;
  }
}

template <typename T, typename Source, int kPairs, int kAhead, bool kNeox>
__device__ __forceinline__ void norm_rotate_heads(const typename Source::Params& params) {
  constexpr int kUsualLanes = 128 / (2 * kPairs);  // of the usual head
  if (blockDim.x == kUsualLanes) {
    norm_rotate_groups<T, Source, kPairs, kAhead, kNeox, kUsualLanes>(params);
  } else {
    norm_rotate_groups<T, Source, kPairs, kAhead, kNeox, 0>(params);
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
      normalise_run(runs[r], scale, reinterpret_cast<const Run*>(weights.runs)[r],
                    params.cast_first);
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

// Norm over all heads of a token, then RoPE; the heads of a token lie in a row.
//
// Grid: tokens. Block: whole warps, a multiple of the vectors of a head, so that a thread's vectors
// (kVectors of q and as many of k) share their cosines and sines. All pointers, strides and table
// rows allow 16-byte accesses. Shared memory: 272 bytes. Roofline: HBM, 1 read to 1 write.
template <typename T, typename Source, int kVectors, int kMaxThreads>
__device__ __forceinline__ void norm_rotate_rows(const typename Source::Params& params) {
  constexpr int kPairs = 8 / sizeof(T);
  using Slot = Slot<T, kPairs, false, true>;
  using Run = typename Slot::Run;
  const RopeHeads& heads = params.heads;
  const unsigned token = blockIdx.x;
  const Slot slot(threadIdx.x % static_cast<unsigned>(heads.num_slots),
                  Source::rotary_pairs(params), heads.head_dim);
  wait_for_previous_kernels();
  Run values[2][kVectors];
  const Run* in[2];
  Run* out[2];
  unsigned num_vectors[2];
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const RopeTensor& tensor = heads.tensors[t];
    const TokenOffsets offsets = token_offsets(heads, tensor, token);
    in[t] = reinterpret_cast<const Run*>(static_cast<const T*>(tensor.in) + offsets.in);
    out[t] = reinterpret_cast<Run*>(static_cast<T*>(tensor.out) + offsets.out);
    num_vectors[t] = static_cast<unsigned>(tensor.num_heads * heads.num_slots);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const unsigned index = threadIdx.x + i * blockDim.x;
      values[t][i] = Run{};
      if (index < num_vectors[t]) values[t][i] = load(in[t] + index);
    }
  }
  // One thread finds the place of the token, while the loads are under way: there is much to it.
  __shared__ typename Source::Place place;
  if (threadIdx.x == 0) place = Source::place_of(params, token);
  __syncthreads();
  const bool rotated = Source::rotates(place);
  Angles<typename Source::Scalar, kPairs> angles;
  if (rotated) angles = Source::template load<kPairs, true>(params, place, slot.pair);
  allow_next_kernel();

  float sums[2] = {0.0f, 0.0f};
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float elements[Run::kSize];
      widen(values[t][i], elements);
#pragma unroll
      for (const float value : elements) sums[t] = __fmaf_rn(value, value, sums[t]);
      forget_widened<T>(reinterpret_cast<uint4&>(values[t][i]));
    }
  }
  BlockGroup<kMaxThreads>::template reduce<Sum, 0>(sums);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const float scale = rms_scale(sums[t], heads.tensors[t], params.eps);
    const Run* weights = static_cast<const Run*>(heads.tensors[t].weight);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const unsigned index = threadIdx.x + i * blockDim.x;
      if (index >= num_vectors[t]) break;
      normalise_run(values[t][i], scale, load(weights + index), params.cast_first);
      if (rotated) {
        Slot::rotate_all(reinterpret_cast<typename Slot::Values&>(values[t][i]), angles);
      }
      store(out[t] + index, values[t][i]);
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
