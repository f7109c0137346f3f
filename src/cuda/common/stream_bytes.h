// What the host hands to common/stream_bytes.cu.
#pragma once

namespace ac4k {

struct StreamBytesParams {
  void* out;
  const void* src;
  long long read_bytes;
  long long write_bytes;
};

inline constexpr int kStreamThreads = 256;
inline constexpr int kStreamMaxReads = 4;    // reads per write that have a kernel of their own
inline constexpr int kStreamVectors[kStreamMaxReads] = {4, 4, 2, 2};  // vectors a thread writes

}  // namespace ac4k
