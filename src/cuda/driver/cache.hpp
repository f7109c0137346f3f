// The kernel cache on disk, shared by every process that has the same roots.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace ac4k::cuda {

struct CacheEntry {
  std::string cubin;
  std::string name;      // module or entry, for people
  std::string arch;      // "sm90a"
  std::string compiler;  // Nvrtc::id()
  std::string flags;     // without paths, one a line
  std::string log;       // the compiler's warnings
  std::map<std::string, std::string> lowered;
  double seconds = 0;  // what the compile took
};

struct CacheListing {
  std::string key;
  std::filesystem::path path;
  bool writable = false;  // in the first root
  CacheEntry entry;       // without the cubin
  uint64_t cubin_bytes = 0;
};

// Entry <root>/jit/<key>/ = kernel.cubin + meta.json, where the key covers the contents of
// everything the cubin was made from.
// Invariant other processes see: an entry appears by one rename, complete and synced, and is never
// changed afterwards. Whoever loses the race to rename drops its own copy. meta.json has size and
// SHA-256 of the cubin, so that a damaged entry is found out, removed and built again.
// Nothing of the cache can make a build fail: where it cannot be written, it is done without.
class Cache {
 public:
  using Builder = std::function<Status(CacheEntry*)>;
  enum class Origin { cache, compiled };

  // The roots of the setting cache_dir: the first is written, the others only read.
  static Cache from_settings();
  explicit Cache(std::vector<std::filesystem::path> roots,
                 std::chrono::milliseconds lock_patience = std::chrono::minutes(2));

  // A whole, undamaged entry of any root.
  std::optional<CacheEntry> find(const std::string& key) const;
  // find(), else `build` and store. `name` is for the messages.
  Status get_or_build(const std::string& key, const std::string& name, const Builder& build,
                      CacheEntry* out, Origin* origin) const;

  std::vector<CacheListing> list() const;
  // Removes the entries of the first root, or those of a name and an architecture, where these are
  // not empty; how many there were.
  int64_t clear(std::string_view name, std::string_view arch) const;

 private:
  std::optional<CacheEntry> read(const std::filesystem::path& directory) const;
  bool store(const std::string& key, const CacheEntry& entry) const;
  void discard(const std::filesystem::path& directory) const;
  bool prepare() const;

  std::vector<std::filesystem::path> roots_;
  std::chrono::milliseconds lock_patience_;
};

}  // namespace ac4k::cuda
