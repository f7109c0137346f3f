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

Status run_cuda(const Call& call) {
  static constinit cuda::Kernel by_reads[kStreamMaxReads] = {{kModule, "stream_bytes_1"},
                                                             {kModule, "stream_bytes_2"},
                                                             {kModule, "stream_bytes_3"},
                                                             {kModule, "stream_bytes_4"}};
  static constinit cuda::Kernel any{kModule, "stream_bytes_any"};
  const DLTensor &src = call.tensor(kSrc), &out = call.output();
  const StreamBytesParams params{data_of(out), data_of(src), call.dim(kRead), call.dim(kWrite)};
  const int64_t reads = params.read_bytes / params.write_bytes;
  if (reads >= 1 && reads <= kStreamMaxReads && reads * params.write_bytes == params.read_bytes &&
      params.write_bytes % kVectorBytes == 0 && all_aligned(src, out)) {
    const int64_t tile = kStreamThreads * kVectorBytes;
    return launch_1d(by_reads[reads - 1], call, ceil_div(params.write_bytes, tile), kStreamThreads,
                     params);
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
