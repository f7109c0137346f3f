// The plain streaming kernel: reads every byte of src, writes every byte of out, and does next to
// nothing in between. It is the roofline that memory-bound ops are measured against, so it must be
// the fastest plain kernel there is.
#include "common/dependent_launch.cuh"
#include "common/stream_bytes.h"
#include "common/types.cuh"

namespace ac4k {

// out[i] = src[i] ^ src[i + write] ^ ...: kReads streams into one, one vector of out a thread.
// Grid: ceil(vectors of out / threads). src and out are aligned to 16 bytes, write_bytes is a
// multiple of 16 and read_bytes = kReads * write_bytes. Measured against 2, 4 and 8 vectors a
// thread, 512 threads, and evict-first and read-only hints: nothing was faster by more than 1 %
// from 33 MB to 2 GB (H200: 252 us for 1.07 GB, 4.26 TB/s).
template <int kReads>
__device__ __forceinline__ void stream_vectors(const StreamBytesParams& params) {
  const int64_t num_vectors = params.write_bytes / kVectorBytes;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kStreamThreads + threadIdx.x;
  const auto* src = static_cast<const uint4*>(params.src);
  wait_for_previous_kernels();
  allow_next_kernel();
  if (index >= num_vectors) return;
  uint4 values[kReads];
#pragma unroll
  for (int r = 0; r < kReads; ++r) values[r] = __ldca(src + index + r * num_vectors);
#pragma unroll
  for (int r = 1; r < kReads; ++r) {
    values[0].x ^= values[r].x;
    values[0].y ^= values[r].y;
    values[0].z ^= values[r].z;
    values[0].w ^= values[r].w;
  }
  __stwb(static_cast<uint4*>(params.out) + index, values[0]);
}

// out[i] = src[i % read]: one stream into kWrites, one vector of src a thread, write_bytes =
// kWrites * read_bytes. Otherwise as stream_vectors.
template <int kWrites>
__device__ __forceinline__ void stream_copies(const StreamBytesParams& params) {
  const int64_t num_vectors = params.read_bytes / kVectorBytes;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kStreamThreads + threadIdx.x;
  wait_for_previous_kernels();
  allow_next_kernel();
  if (index >= num_vectors) return;
  const uint4 value = __ldca(static_cast<const uint4*>(params.src) + index);
#pragma unroll
  for (int w = 0; w < kWrites; ++w) {
    __stwb(static_cast<uint4*>(params.out) + index + w * num_vectors, value);
  }
}

}  // namespace ac4k

#define AC4K_STREAM(reads)                                                                 \
  extern "C" __global__ void __launch_bounds__(ac4k::kStreamThreads) stream_bytes_##reads( \
      const __grid_constant__ ac4k::StreamBytesParams params) {                            \
    ac4k::stream_vectors<reads>(params);                                                   \
  }

AC4K_STREAM(1)
AC4K_STREAM(2)
AC4K_STREAM(3)
AC4K_STREAM(4)
AC4K_STREAM(8)

#define AC4K_STREAM_COPIES(writes)                                                           \
  extern "C" __global__ void __launch_bounds__(ac4k::kStreamThreads) stream_copies_##writes( \
      const __grid_constant__ ac4k::StreamBytesParams params) {                              \
    ac4k::stream_copies<writes>(params);                                                     \
  }

AC4K_STREAM_COPIES(2)
AC4K_STREAM_COPIES(4)

// Any sizes and alignments. Grid: ceil(write_bytes / threads), one byte of out a thread.
extern "C" __global__ void __launch_bounds__(ac4k::kStreamThreads) stream_bytes_any(
    const __grid_constant__ ac4k::StreamBytesParams params) {
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
