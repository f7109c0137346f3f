// stream_bytes: the roofline of memory-bound ops, as an op.
#include "cuda/common/stream_bytes.h"

#include "core/op.hpp"
#include "cpu/kernels.hpp"
#include "ops/elementwise.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/stream_bytes";
constexpr int kSrc = 0;
constexpr int kRead = 0, kWrite = 1;  // dims

Status run_cpu(const Call& call) {
  return cpu::stream_bytes(data_of(call.tensor(kSrc)), call.dim(kRead), data_of(call.output()),
                           call.dim(kWrite));
}

// The kernel made for this ratio of reads to writes; null when there is none.
cuda::Kernel* tuned_kernel(const StreamBytesParams& params) {
  static constinit cuda::Kernel by_reads[] = {{kModule, "stream_bytes_1"},
                                              {kModule, "stream_bytes_2"},
                                              {kModule, "stream_bytes_3"},
                                              {kModule, "stream_bytes_4"},
                                              {kModule, "stream_bytes_8"}};
  static constinit cuda::Kernel by_writes[] = {{kModule, "stream_copies_2"},
                                               {kModule, "stream_copies_4"}};
  static_assert(std::size(by_reads) == std::size(kStreamReads));
  static_assert(std::size(by_writes) == std::size(kStreamWrites));
  if (params.write_bytes % kVectorBytes != 0 || params.read_bytes % kVectorBytes != 0) {
    return nullptr;
  }
  for (size_t i = 0; i < std::size(by_reads); ++i) {
    if (params.read_bytes == kStreamReads[i] * params.write_bytes) return &by_reads[i];
  }
  for (size_t i = 0; i < std::size(by_writes); ++i) {
    if (params.write_bytes == kStreamWrites[i] * params.read_bytes) return &by_writes[i];
  }
  return nullptr;
}

Status run_cuda(const Call& call) {
  static constinit cuda::Kernel any{kModule, "stream_bytes_any"};
  const DLTensor &src = call.tensor(kSrc), &out = call.output();
  const StreamBytesParams params{data_of(out), data_of(src), call.dim(kRead), call.dim(kWrite)};
  cuda::Kernel* const tuned = all_aligned(src, out) ? tuned_kernel(params) : nullptr;
  if (tuned != nullptr) {
    const int64_t tile = kStreamThreads * kVectorBytes;
    const int64_t smaller = std::min(params.read_bytes, params.write_bytes);
    return launch_1d(*tuned, call, ceil_div(smaller, tile), kStreamThreads, params);
  }
  return launch_1d(any, call, ceil_div(params.write_bytes, kStreamThreads), kStreamThreads, params);
}

const RegisterOp kOp{{
    .signature = "stream_bytes(src: u8[R], W: int) -> u8[W]",
    .types = "",
    .doc = "Read every byte of src and write W bytes: the roofline of memory-bound ops.",
    .formula = "out[i] = src[i] ^ src[i + W] ^ src[i + 2W] ^ ...; when W > R, out[i] = src[i % R].",
    .example = ">>> import numpy as np\n"
               ">>> ac4k.stream_bytes(np.array([1, 2, 4, 8], np.uint8), 2).tolist()\n"
               "[5, 10]",
    .tolerance = 0.0,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
