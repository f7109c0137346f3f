// Which headers a source reaches: what the cache key must know besides the source itself.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/driver/sha256.hpp"

namespace ac4k::cuda {

// Reads a whole file; false when it cannot be read.
bool read_file(const std::filesystem::path& path, std::string* out);

// One #include line met on the way, in the order the compiler would meet it. It has no path: the
// same tree in another place gives the same records.
struct IncludeRecord {
  std::string spelling;     // "a.cuh" or <a.cuh>, with its quotes
  int file = -1;            // the how-manyth file met; -1 when none is found
  std::string sha256 = {};  // of its contents, on its first record
};

// Every include reached from `source`, which lies in `folder` (empty: nowhere), cycles included.
// Conditions are not evaluated and comments not skipped: a header too many costs a compile, one too
// few would give a stale kernel. `first` are spellings included before the source.
std::vector<IncludeRecord> scan_includes(std::string_view source,
                                         const std::filesystem::path& folder,
                                         const std::vector<std::filesystem::path>& roots,
                                         const std::vector<std::string>& first = {});

void add_to_hash(const std::vector<IncludeRecord>& records, Sha256* hash);

}  // namespace ac4k::cuda
