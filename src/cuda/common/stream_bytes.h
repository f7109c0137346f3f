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
inline constexpr int kStreamMaxReads = 4;  // reads per write that have a kernel of their own

}  // namespace ac4k
