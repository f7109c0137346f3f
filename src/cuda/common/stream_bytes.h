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
// Reads per write, then writes per read, that have a kernel of their own.
inline constexpr int kStreamReads[] = {1, 2, 3, 4, 8};
inline constexpr int kStreamWrites[] = {2, 4};

}  // namespace ac4k
