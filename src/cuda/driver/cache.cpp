// Finding, storing, listing and clearing cache entries.
#include "cuda/driver/cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "core/json.hpp"
#include "cuda/driver/file_lock.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/json_reader.hpp"
#include "cuda/driver/settings.hpp"
#include "cuda/driver/sha256.hpp"

namespace ac4k::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCubinFile = "kernel.cubin";
constexpr const char* kMetaFile = "meta.json";

std::string meta_json(const CacheEntry& entry) {
  JsonWriter json;
  json.begin_object();
  json.key("name").value(entry.name);
  json.key("arch").value(entry.arch);
  json.key("compiler").value(entry.compiler);
  json.key("flags").value(entry.flags);
  json.key("lowered").begin_object();
  for (const auto& [expression, name] : entry.lowered) json.key(expression).value(name);
  json.end_object();
  json.key("seconds").value(entry.seconds);
  json.key("log").value(entry.log);
  json.key("size").value(uint64_t{entry.cubin.size()});
  json.key("sha256").value(sha256_hex(entry.cubin));
  json.end_object();
  return json.take();
}

// The entry that meta.json tells of, without the cubin; nothing when it is damaged.
std::optional<CacheEntry> read_meta(const fs::path& directory, std::string* sha256,
                                    uint64_t* size) {
  std::string text;
  if (!read_file(directory / kMetaFile, &text)) return std::nullopt;
  const std::optional<JsonValue> meta = parse_json(text);
  if (!meta || meta->kind != JsonValue::Kind::object) return std::nullopt;
  CacheEntry entry;
  entry.name = meta->get("name");
  entry.arch = meta->get("arch");
  entry.compiler = meta->get("compiler");
  entry.flags = meta->get("flags");
  entry.log = meta->get("log");
  entry.seconds = meta->number("seconds");
  if (const auto found = meta->fields.find("lowered"); found != meta->fields.end()) {
    for (const auto& [expression, name] : found->second.fields) {
      entry.lowered[expression] = name.text;
    }
  }
  *sha256 = meta->get("sha256");
  *size = std::strtoull(meta->get("size").c_str(), nullptr, 10);
  return entry;
}

bool write_synced(const fs::path& path, const std::string& contents) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t count = write(fd, contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  const bool synced = fsync(fd) == 0;
  return close(fd) == 0 && synced && done == contents.size();
}

void sync_directory(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// A fresh directory under <root>/tmp; empty when it cannot be made.
fs::path make_temporary(const fs::path& root) {
  std::string path = (root / "tmp" / "XXXXXX").string();
  return mkdtemp(path.data()) != nullptr ? fs::path(path) : fs::path();
}

void say_unwritable_once(const fs::path& root) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  if (root.empty()) {
    std::fprintf(stderr,
                 "ac4k: no kernel cache (neither AC4K_CACHE_DIR nor HOME is set): kernels "
                 "are compiled anew in every process\n");
  } else {
    std::fprintf(stderr,
                 "ac4k: the kernel cache %s cannot be written: kernels are compiled anew "
                 "in every process (AC4K_CACHE_DIR names another place)\n",
                 root.c_str());
  }
}

}  // namespace

Cache Cache::from_settings() { return Cache(split_path_list(cache_dir())); }

Cache::Cache(std::vector<fs::path> roots, std::chrono::milliseconds lock_patience)
    : roots_(std::move(roots)), lock_patience_(lock_patience) {}

bool Cache::prepare() const {
  if (roots_.empty()) return false;
  for (const char* folder : {"jit", "tmp", "locks"}) {
    std::error_code error;
    fs::create_directories(roots_[0] / folder, error);
    if (access((roots_[0] / folder).c_str(), W_OK | X_OK) != 0) return false;
  }
  return true;
}

std::optional<CacheEntry> Cache::read(const fs::path& directory) const {
  std::string sha256;
  uint64_t size = 0;
  std::optional<CacheEntry> entry = read_meta(directory, &sha256, &size);
  const fs::path cubin = directory / kCubinFile;
  std::error_code error;
  if (!entry || fs::file_size(cubin, error) != size || !read_file(cubin, &entry->cubin) ||
      sha256_hex(entry->cubin) != sha256) {
    return std::nullopt;
  }
  return entry;
}

std::optional<CacheEntry> Cache::find(const std::string& key) const {
  for (const fs::path& root : roots_) {
    if (auto entry = read(root / "jit" / key)) return entry;
  }
  return std::nullopt;
}

// By rename first, so that nobody meets a half-removed entry.
void Cache::discard(const fs::path& directory) const {
  std::error_code error;
  const fs::path grave = make_temporary(roots_[0]);
  if (!grave.empty()) fs::rename(directory, grave / "entry", error);
  if (grave.empty() || error) fs::remove_all(directory, error);
  fs::remove_all(grave, error);
}

bool Cache::store(const std::string& key, const CacheEntry& entry) const {
  const fs::path fresh = make_temporary(roots_[0]);
  if (fresh.empty()) return false;
  std::error_code error;
  fs::permissions(fresh,
                  fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                      fs::perms::others_read | fs::perms::others_exec,
                  error);
  bool stored = write_synced(fresh / kCubinFile, entry.cubin) &&
                write_synced(fresh / kMetaFile, meta_json(entry));
  if (stored) {
    sync_directory(fresh);
    // Fails when the entry exists by now: another process was first, with the same contents.
    const fs::path target = roots_[0] / "jit" / key;
    fs::rename(fresh, target, error);
    stored = !error || fs::exists(target, error);
    sync_directory(target.parent_path());
  }
  fs::remove_all(fresh, error);
  return stored;
}

Status Cache::get_or_build(const std::string& key, const std::string& name, const Builder& build,
                           CacheEntry* out, Origin* origin) const {
  *origin = Origin::cache;
  const auto found = [&] {
    std::optional<CacheEntry> entry = find(key);
    if (entry) *out = std::move(*entry);
    return entry.has_value();
  };
  if (found()) return AC4K_OK;
  if (!prepare()) {
    say_unwritable_once(roots_.empty() ? fs::path() : roots_[0]);
    *origin = Origin::compiled;
    return build(out);
  }
  const FileLock lock(roots_[0] / "locks" / key, lock_patience_, "to compile " + name);
  if (found()) return AC4K_OK;  // built while we waited
  // Still there and yet not readable: damaged.
  std::error_code error;
  const fs::path damaged = roots_[0] / "jit" / key;
  if (fs::exists(fs::symlink_status(damaged, error))) discard(damaged);
  *origin = Origin::compiled;
  AC4K_TRY(build(out));
  if (!store(key, *out)) say_unwritable_once(roots_[0]);
  return AC4K_OK;
}

std::vector<CacheListing> Cache::list() const {
  std::vector<CacheListing> all;
  for (const fs::path& root : roots_) {
    std::error_code error;
    for (const auto& item : fs::directory_iterator(root / "jit", error)) {
      CacheListing listing{item.path().filename().string(), item.path(), &root == &roots_[0], {}};
      std::string sha256;
      if (auto entry = read_meta(item.path(), &sha256, &listing.cubin_bytes)) {
        listing.entry = std::move(*entry);
      } else {
        listing.entry.name = "(damaged)";
      }
      all.push_back(std::move(listing));
    }
  }
  return all;
}

int64_t Cache::clear(std::string_view name, std::string_view arch) const {
  int64_t removed = 0;
  std::error_code error;
  for (const CacheListing& each : list()) {
    const bool wanted =
        (name.empty() || each.entry.name == name) && (arch.empty() || each.entry.arch == arch);
    if (!each.writable || !wanted) continue;
    discard(each.path);
    removed += fs::exists(each.path, error) ? 0 : 1;
  }
  if (!roots_.empty() && name.empty() && arch.empty()) {
    for (const char* folder : {"tmp", "locks"}) fs::remove_all(roots_[0] / folder, error);
  }
  return removed;
}

}  // namespace ac4k::cuda
