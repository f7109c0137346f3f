// The plain streaming kernel: reads every byte of src, writes every byte of out, and does next to
// nothing in between. It is the roofline that memory-bound ops are measured against, so it must be
// the fastest plain kernel there is.
#include "common/stream_bytes.h"

#include "common/dependent_launch.cuh"
#include "common/types.cuh"

namespace ac4k {

// out[i] = src[i] ^ src[i + write] ^ ...: kReads streams into one.
// Grid: ceil(vectors of out / (threads * kVectors)); one contiguous tile a block. src and out are
// aligned to 16 bytes, write_bytes is a multiple of 16 and read_bytes = kReads * write_bytes.
template <int kReads>
__device__ __forceinline__ void stream_vectors(const StreamBytesParams& params) {
  constexpr int kVectors = kStreamVectors[kReads - 1];
  constexpr int kTile = kStreamThreads * kVectors;
  const int64_t num_vectors = params.write_bytes / kVectorBytes;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  const auto* src = static_cast<const uint4*>(params.src);
  auto* out = static_cast<uint4*>(params.out);
  wait_for_previous_kernels();
  uint4 values[kVectors][kReads];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
#pragma unroll
    for (int r = 0; r < kReads; ++r) {
      const int64_t index = first + i * kStreamThreads;
      if (index < num_vectors) values[i][r] = __ldcs(src + index + r * num_vectors);
    }
  }
  allow_next_kernel();
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    uint4 sum = values[i][0];
#pragma unroll
    for (int r = 1; r < kReads; ++r) {
      sum.x ^= values[i][r].x;
      sum.y ^= values[i][r].y;
      sum.z ^= values[i][r].z;
      sum.w ^= values[i][r].w;
    }
    const int64_t index = first + i * kStreamThreads;
    if (index < num_vectors) __stcs(out + index, sum);
  }
}

}  // namespace ac4k

#define AC4K_STREAM(reads)                                                                     \
  extern "C" __global__ void __launch_bounds__(ac4k::kStreamThreads)                           \
      stream_bytes_##reads(const __grid_constant__ ac4k::StreamBytesParams params) {           \
    ac4k::stream_vectors<reads>(params);                                                       \
  }

AC4K_STREAM(1)
AC4K_STREAM(2)
AC4K_STREAM(3)
AC4K_STREAM(4)

// Any sizes and alignments. Grid: ceil(write_bytes / threads), one byte of out a thread.
extern "C" __global__ void __launch_bounds__(ac4k::kStreamThreads)
    stream_bytes_any(const __grid_constant__ ac4k::StreamBytesParams params) {
  ac4k::wait_for_previous_kernels();
  ac4k::allow_next_kernel();
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= params.write_bytes) return;
  const auto* src = static_cast<const unsigned char*>(params.src);
  unsigned char result = 0;
  if (params.write_bytes > params.read_bytes) {
    if (params.read_bytes > 0) result = src[i % params.read_bytes];
  } else {
    for (long long j = i; j < params.read_bytes; j += params.write_bytes) result ^= src[j];
  }
  static_cast<unsigned char*>(params.out)[i] = result;
}
