// GGUF blocks whose scales are searched for: the super-blocks of 256, and iq4_nl. A thread has a
// sub-block, whose sums run in the order of the definition; src/cpu has one in each lane.
#include "common/gguf_quantize.cuh"

namespace ac4k {

using gguf::Byte;
using gguf::Exact;
using gguf::SuperBlock;

// Over the kThreads neighbours that share a super-block.
template <int kThreads>
__device__ __forceinline__ float largest_positive(float value) {
  float found = value > 0.0f ? value : 0.0f;
#pragma unroll
  for (int lanes = 1; lanes < kThreads; lanes *= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, found, lanes);
    if (other > found) found = other;
  }
  return found;
}
// The scale of largest magnitude, the first of several; 0 when none is above 0.
template <int kThreads>
__device__ __forceinline__ float extreme_scale(float scale) {
  float found = gguf::is_larger(scale, 0.0f) ? scale : 0.0f;
  int place = static_cast<int>(threadIdx.x) % kThreads;
#pragma unroll
  for (int lanes = 1; lanes < kThreads; lanes *= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, found, lanes);
    const int its_place = __shfl_xor_sync(kWholeWarp, place, lanes);
    const bool mine_loses =
        gguf::is_larger(other, found) || (!gguf::is_larger(found, other) && its_place < place);
    if (mine_loses) found = other, place = its_place;
  }
  return found;
}

// How a format searches and finishes one sub-block of a super-block.
template <typename Format>
struct Searched : Format {
  static __device__ __forceinline__ void encode(const float (&x)[Format::kSubBlock],
                                                const Exact (&numbers)[Format::kSubBlock],
                                                int index, SuperBlock* block) {
    constexpr int kThreads = 256 / Format::kSubBlock;
    const gguf::AffineFit<Exact> fit = gguf::fit_of(Format{}, numbers);
    const float scale = largest_positive<kThreads>(fit.scale.v);
    const float min = largest_positive<kThreads>(fit.min.v);
    Format::finish(x, fit, scale, min, index, block);
    if (index == 0) {
      block->d = Format::shared_scale(scale);
      block->dmin = Format::shared_scale(min);
    }
  }
};
template <>
struct Searched<gguf::Q3K> : gguf::Q3K {
  static __device__ __forceinline__ void encode(const float (&x)[16], const Exact (&numbers)[16],
                                                int index, SuperBlock* block) {
    Exact codes[16];
    const float scale = gguf::fit_q3(numbers, codes).v;
    const float largest = extreme_scale<16>(scale);
    Byte fitted[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) fitted[i] = static_cast<Byte>(static_cast<int>(codes[i].v));
    finish(x, fitted, scale, largest, index, block);
    if (index == 0) block->d = shared_scale(largest);
  }
};
template <>
struct Searched<gguf::Q6K> : gguf::Q6K {
  static __device__ __forceinline__ void encode(const float (&x)[16], const Exact (&numbers)[16],
                                                int index, SuperBlock* block) {
    const gguf::SymmetricFit<Exact> fit = gguf::fit_symmetric(numbers);
    const float largest = extreme_scale<16>(fit.scale.v);
    finish(x, fit, largest, index, block);
    if (index == 0) block->d = shared_scale(largest);
  }
};
template <>
struct Searched<gguf::Iq4xs> : gguf::Iq4xs {
  static __device__ __forceinline__ void encode(const float (&x)[32], const Exact (&numbers)[32],
                                                int index, SuperBlock* block) {
    const float scale = gguf::fit_iq4(numbers).v;
    const float largest = extreme_scale<8>(scale);
    finish(x, scale, largest, index, block);
    if (index == 0) block->d = shared_scale(largest);
  }
};

// Grid: one block of 128 threads for as many sub-blocks. Shared memory: codes of the super-blocks,
// 300 bytes each, and their bytes; at most 7.5 KB. Alignment: any, 16 bytes for speed. Bound by
// arithmetic: 200 to 1000 operations a number.
template <typename T, typename Format>
__device__ __forceinline__ void gguf_search(const GgufQuantizeParams& params) {
  constexpr int N = Format::kSubBlock, kThreads = 256 / N;
  constexpr int kBlocks = kGgufSearchThreads / kThreads;
  static_assert(kBlocks * Format::kBytes % 16 == 0);
  __shared__ SuperBlock blocks[kBlocks];
  __shared__ __align__(16) Byte tile[kBlocks * Format::kBytes];
  const int local = static_cast<int>(threadIdx.x) / kThreads;
  const int index = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlocks, block = first + local;
  float x[N] = {};
  wait_for_previous_kernels();
  if (block < params.num_blocks) {
    load_cleaned(numbers_of_block<256, T>(params, block) + index * N, params.x_aligned, x);
  }
  allow_next_kernel();
  Exact numbers[N];
#pragma unroll
  for (int i = 0; i < N; ++i) numbers[i] = x[i];
  Format::encode(x, numbers, index, &blocks[local]);
  __syncwarp();
  for (int i = index; i < Format::kBytes; i += kThreads) {
    tile[local * Format::kBytes + i] = Format::byte(blocks[local], i);
  }
  __syncthreads();
  const int64_t left = params.num_blocks - first;
  const int count = left < kBlocks ? static_cast<int>(left) : kBlocks;
  bytes_from_shared(tile, static_cast<Byte*>(params.blocks) + first * Format::kBytes,
                    count * Format::kBytes, params.out_aligned);
}

// The same for blocks of 32, each of them a thread's.
struct Iq4Nl {
  static constexpr int kBytes = 18;
};
template <typename T, typename Format>
__device__ __forceinline__ void gguf_search_iq4_nl(const GgufQuantizeParams& params) {
  __shared__ __align__(16) Byte tile[kGgufSearchThreads * Format::kBytes];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kGgufSearchThreads;
  const int64_t block = first + threadIdx.x;
  float x[32] = {};
  wait_for_previous_kernels();
  if (block < params.num_blocks) {
    load_cleaned(numbers_of_block<32, T>(params, block), params.x_aligned, x);
  }
  allow_next_kernel();
  Exact numbers[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) numbers[i] = x[i];
  const Exact d = gguf::fit_iq4(numbers);
  const Exact inverse = d == Exact(0.0f) ? Exact(0.0f) : Exact(1.0f) / d;
  Byte* to = tile + threadIdx.x * Format::kBytes;
  const unsigned half = gguf::half_bits(d.v);
  to[0] = static_cast<Byte>(half);
  to[1] = static_cast<Byte>(half >> 8);
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const unsigned low = gguf::iq4_code((inverse * numbers[i]).v);
    const unsigned high = gguf::iq4_code((inverse * numbers[i + 16]).v);
    to[2 + i] = static_cast<Byte>(low | high << 4);
  }
  __syncthreads();
  const int64_t left = params.num_blocks - first;
  const int count = left < kGgufSearchThreads ? static_cast<int>(left) : kGgufSearchThreads;
  bytes_from_shared(tile, static_cast<Byte*>(params.blocks) + first * Format::kBytes,
                    count * Format::kBytes, params.out_aligned);
}

}  // namespace ac4k

AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Q2K>, q2_k, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Q3K>, q3_k, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Q4K>, q4_k, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Q5K>, q5_k, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Q6K>, q6_k, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Searched<ac4k::gguf::Iq4xs>, iq4_xs, gguf_search, ac4k::kGgufSearchThreads)
AC4K_QUANTIZE_TYPES(Iq4Nl, iq4_nl, gguf_search_iq4_nl, ac4k::kGgufSearchThreads)
