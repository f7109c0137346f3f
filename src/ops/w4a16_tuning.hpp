// Which config was the fastest for a size: found by timing, kept for the process and on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/status.hpp"

namespace ac4k {

// What a result is good for. Token counts up to 16 stand for themselves, larger ones for the next
// power of two.
struct W4TuneKey {
  std::string device;  // a GPU's name, or a CPU level and its threads
  std::string kind;    // type and quantisation
  int64_t M, N, K, group_size;

  std::string text() const;
};

// The name of the config; none where it was never timed.
std::optional<std::string> w4_tuned(const W4TuneKey& key);
// For this process, and for later ones where the cache directory can be written.
void w4_remember(const W4TuneKey& key, const std::string& config, double microseconds);

}  // namespace ac4k
