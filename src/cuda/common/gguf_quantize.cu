// GGUF blocks whose scales follow from the largest or smallest numbers: q4_0 to q8_1, mxfp4, nvfp4.
#include "common/gguf_quantize.cuh"

namespace ac4k {

using gguf::Byte;
using gguf::Exact;

inline constexpr int kPart = 8;  // numbers of a thread; four threads have 32

__device__ __forceinline__ float exchange(float value, int lanes) {
  return __shfl_xor_sync(kWholeWarp, value, lanes);
}
// Over the threads that share kThreads * 8 numbers. No NaN is among them.
template <int kThreads>
__device__ __forceinline__ float largest(float value) {
#pragma unroll
  for (int lanes = 1; lanes < kThreads; lanes *= 2) value = fmaxf(value, exchange(value, lanes));
  return value;
}
template <int kThreads>
__device__ __forceinline__ float largest_magnitude(const float (&x)[kPart]) {
  float size = 0.0f;
#pragma unroll
  for (int i = 0; i < kPart; ++i) size = fmaxf(size, fabsf(x[i]));
  return largest<kThreads>(size);
}
// The number of largest magnitude and the smallest number, each the first one of several.
struct Found {
  float value;
  int place;
};
template <typename Better>
__device__ __forceinline__ float first_best(const float (&x)[kPart], int place,
                                            const Better& better) {
  Found found{x[0], place};
#pragma unroll
  for (int i = 1; i < kPart; ++i) {
    if (better(x[i], found.value)) found.value = x[i], found.place = place + i;
  }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2) {
    const Found other{exchange(found.value, lanes),
                      __shfl_xor_sync(kWholeWarp, found.place, lanes)};
    const bool mine_loses = better(other.value, found.value) ||
                            (!better(found.value, other.value) && other.place < found.place);
    if (mine_loses) found = other;
  }
  return found.value;
}
__device__ __forceinline__ float extreme_of(const float (&x)[kPart], int place) {
  return first_best(x, place, [](float a, float b) { return fabsf(a) > fabsf(b); });
}
__device__ __forceinline__ float smallest_of(const float (&x)[kPart], int place) {
  return first_best(x, place, [](float a, float b) { return a < b; });
}
__device__ __forceinline__ float inverse_or_zero(float d) {
  return d == 0.0f ? 0.0f : __fdiv_rn(1.0f, d);
}
__device__ __forceinline__ unsigned truncated(Exact value, float high) {
  return static_cast<unsigned>(gguf::clamp(value, Exact(0.0f), Exact(high)).v);
}
__device__ __forceinline__ void put_half(Byte* to, float value) {
  const unsigned bits = gguf::half_bits(value);
  to[0] = static_cast<Byte>(bits);
  to[1] = static_cast<Byte>(bits >> 8);
}

// Eight codes of a byte each.
struct EightCodes {
  uint32_t words[2] = {0, 0};
  __device__ __forceinline__ void put(int i, uint32_t code) { words[i / 4] |= code << (i % 4 * 8); }
  __device__ __forceinline__ void store(Byte* to) const {
#pragma unroll
    for (int i = 0; i < kPart; ++i) to[i] = static_cast<Byte>(words[i / 4] >> (i % 4 * 8));
  }
};
// Codes and those of the thread `lanes` further on as nibbles; the lower thread stores them.
__device__ __forceinline__ void store_nibbles(const EightCodes& codes, int lanes, bool stores,
                                              Byte* to) {
  EightCodes packed;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t low = codes.words[i] & 0x0f0f0f0fu;
    packed.words[i] = low | __shfl_xor_sync(kWholeWarp, low, lanes) << 4;
  }
  if (stores) packed.store(to);
}
// The fifth bits of a thread's codes: a byte.
__device__ __forceinline__ Byte fifth_bits(const EightCodes& codes) {
  // Gathers the lowest bits of four bytes in the highest byte's low half.
  const uint32_t low = ((codes.words[0] >> 4 & 0x01010101u) * 0x10204080u) >> 28;
  const uint32_t high = ((codes.words[1] >> 4 & 0x01010101u) * 0x10204080u) >> 28;
  return static_cast<Byte>(low | high << 4);
}

// Formats: encode() is called by the threads of a block, `part` is the place of a thread's numbers.
template <int kBits>
struct Extreme {  // d * (code - 2^(kBits - 1))
  static constexpr int kValues = 32, kBytes = kBits == 4 ? 18 : 22;
  static __device__ __forceinline__ void encode(const float (&x)[kPart], int part, Byte* block) {
    constexpr float kMiddle = 1 << (kBits - 1), kTop = 2 * kMiddle - 1;
    const float d = __fmul_rn(extreme_of(x, part * kPart), -1.0f / kMiddle);
    const Exact inverse = inverse_or_zero(d);
    EightCodes codes;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      codes.put(i, truncated(Exact(x[i]) * inverse + Exact(kMiddle + 0.5f), kTop));
    }
    if (part == 0) put_half(block, d);
    if (kBits == 5) block[2 + part] = fifth_bits(codes);
    store_nibbles(codes, 2, part < 2, block + (kBits == 5 ? 6 : 2) + part * kPart);
  }
};
template <int kBits>
struct Ranged {  // d * code + m
  static constexpr int kValues = 32, kBytes = kBits == 4 ? 20 : 24;
  static __device__ __forceinline__ void encode(const float (&x)[kPart], int part, Byte* block) {
    constexpr float kTop = (1 << kBits) - 1;
    const float low = smallest_of(x, part * kPart);
    float high = x[0];
#pragma unroll
    for (int i = 1; i < kPart; ++i) high = fmaxf(high, x[i]);
    // Adding 0: never -0, whatever the zeros' signs.
    const float d = ((Exact(largest<4>(high)) - Exact(low) + Exact(0.0f)) / Exact(kTop)).v;
    const Exact inverse = inverse_or_zero(d);
    EightCodes codes;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      codes.put(i, truncated((Exact(x[i]) - Exact(low)) * inverse + Exact(0.5f), kTop));
    }
    if (part == 0) put_half(block, d);
    if (part == 1) put_half(block + 2, low);
    if (kBits == 5) block[4 + part] = fifth_bits(codes);
    store_nibbles(codes, 2, part < 2, block + (kBits == 5 ? 8 : 4) + part * kPart);
  }
};
template <bool kWithSum>
struct Bytes {  // d * code; q8_1 has the sum too
  static constexpr int kValues = 32, kBytes = kWithSum ? 36 : 34;
  static __device__ __forceinline__ void encode(const float (&x)[kPart], int part, Byte* block) {
    const float d = __fdiv_rn(largest_magnitude<4>(x), 127.0f);
    const float inverse = inverse_or_zero(d);
    EightCodes codes;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      // Half away from zero: the next integer where at least a half is cut off.
      const float scaled = __fmul_rn(x[i], inverse);
      const float size = gguf::clamp(Exact(fabsf(scaled)), Exact(0.0f), Exact(127.0f)).v;
      const int whole = static_cast<int>(size);
      const int rounded = size - static_cast<float>(whole) < 0.5f ? whole : whole + 1;
      const int code = scaled < 0.0f ? -rounded : rounded;
      sum += code;
      codes.put(i, static_cast<uint32_t>(code) & 255u);
    }
    if (part == 0) put_half(block, d);
    if constexpr (kWithSum) {
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      if (part == 1) put_half(block + 2, __fmul_rn(static_cast<float>(sum), d));
    }
    codes.store(block + (kWithSum ? 4 : 2) + part * kPart);
  }
};
struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17;
  static __device__ __forceinline__ void encode(const float (&x)[kPart], int part, Byte* block) {
    const unsigned e = gguf::mxfp4_scale(largest_magnitude<4>(x));
    const float d = gguf::half_of_e8m0(e);
    EightCodes codes;
#pragma unroll
    for (int i = 0; i < kPart; ++i) codes.put(i, gguf::fp4_code(x[i], d));
    if (part == 0) block[0] = static_cast<Byte>(e);
    store_nibbles(codes, 2, part < 2, block + 1 + part * kPart);
  }
};
struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 36;
  static __device__ __forceinline__ void encode(const float (&x)[kPart], int part, Byte* block) {
    const unsigned scale = gguf::ue4m3_of(__fdiv_rn(largest_magnitude<2>(x), 6.0f));
    const float d = gguf::half_of_ue4m3(scale);
    EightCodes codes;
#pragma unroll
    for (int i = 0; i < kPart; ++i) codes.put(i, gguf::fp4_code(x[i], d));
    const int sub_block = part / 2;
    if (part % 2 == 0) block[sub_block] = static_cast<Byte>(scale);
    store_nibbles(codes, 1, part % 2 == 0, block + 4 + sub_block * kPart);
  }
};

// Grid: one block of threads for 2048 numbers, a thread has eight neighbours. Shared memory: the
// blocks, at most 2.3 KB, which are written in wide stores. Alignment: any, 16 bytes for speed.
// Roofline: HBM.
template <typename T, typename Format>
__device__ __forceinline__ void gguf_quantize(const GgufQuantizeParams& params) {
  constexpr int kThreads = Format::kValues / kPart, kBlocks = kGgufThreads / kThreads;
  static_assert(kBlocks * Format::kBytes % 16 == 0);
  __shared__ __align__(16) Byte tile[kBlocks * Format::kBytes];
  const int local = static_cast<int>(threadIdx.x) / kThreads;
  const int part = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kBlocks, block = first + local;
  float x[kPart] = {};
  wait_for_previous_kernels();
  if (block < params.num_blocks) {
    load_cleaned(numbers_of_block<Format::kValues, T>(params, block) + part * kPart,
                 params.x_aligned, x);
  }
  allow_next_kernel();
  Format::encode(x, part, tile + local * Format::kBytes);
  __syncthreads();
  const int64_t left = params.num_blocks - first;
  const int count = left < kBlocks ? static_cast<int>(left) : kBlocks;
  bytes_from_shared(tile, static_cast<Byte*>(params.blocks) + first * Format::kBytes,
                    count * Format::kBytes, params.out_aligned);
}

using Q4_0 = Extreme<4>;
using Q5_0 = Extreme<5>;
using Q4_1 = Ranged<4>;
using Q5_1 = Ranged<5>;
using Q8_0 = Bytes<false>;
using Q8_1 = Bytes<true>;

}  // namespace ac4k

AC4K_QUANTIZE_TYPES(Q4_0, q4_0, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Q4_1, q4_1, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Q5_0, q5_0, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Q5_1, q5_1, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Q8_0, q8_0, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Q8_1, q8_1, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Mxfp4, mxfp4, gguf_quantize, ac4k::kGgufThreads)
AC4K_QUANTIZE_TYPES(Nvfp4, nvfp4, gguf_quantize, ac4k::kGgufThreads)
