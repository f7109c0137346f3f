#include "ops/w4a16_tuning.hpp"

#include <unistd.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <locale>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "core/number.hpp"
#include "cuda/driver/file_lock.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/settings.hpp"

namespace ac4k {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "w4a16_tuned.tsv";
constexpr auto kPatience = std::chrono::seconds(2);

// Lines of a file: key, config, microseconds, separated by tabs. Keys hold the library's version.
struct Result {
  std::string config;
  double microseconds;
};
using Results = std::map<std::string, Result>;

void read_into(const fs::path& path, Results* results) {
  std::string text;
  if (!cuda::read_file(path, &text)) return;
  std::istringstream file(std::move(text));
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string key, config, time;
    if (!std::getline(fields, key, '\t') || !std::getline(fields, config, '\t') ||
        !std::getline(fields, time) || key.empty() || config.empty()) {
      continue;  // not ours, or cut off
    }
    (*results)[key] = {config, parse_number(time).value_or(0)};
  }
}

// Results of this process, and those of the files in the cache directories, read when it changes.
struct Store {
  std::mutex mutex;
  Results ours, from_files;
  std::string read_from;
  bool was_read = false;
};
Store& store() {
  static auto* const instance = new Store;
  return *instance;
}

// By renaming: others see the old file or the new one, whole.
void write_file(const fs::path& root, const std::string& key, const Result& result) {
  std::error_code error;
  fs::create_directories(root, error);
  const fs::path path = root / kFile, temporary = path.string() + "." + std::to_string(getpid());
  const cuda::FileLock lock(path.string() + ".lock", kPatience, "tuning");
  Results all;
  read_into(path, &all);
  all[key] = result;
  {
    std::ofstream file(temporary);
    for (const auto& [name, each] : all) {
      file << name << '\t' << each.config << '\t' << text_of(each.microseconds) << '\n';
    }
    if (!file.flush()) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, path, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace

std::string W4TuneKey::text() const {
  const int64_t tokens =
      M <= 16 ? M : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(M)));
  std::ostringstream text;
  text.imbue(std::locale::classic());  // the process may have one that groups digits
  text << AC4K_VERSION << ' ' << device << ' ' << kind << " g" << group_size << ' ' << tokens << 'x'
       << N << 'x' << K;
  return text.str();
}

std::optional<std::string> w4_tuned(const W4TuneKey& key) {
  Store& all = store();
  const std::string text = key.text();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.ours.find(text); found != all.ours.end()) return found->second.config;
  if (const std::string list = cuda::cache_dir(); !all.was_read || list != all.read_from) {
    all.from_files.clear();
    const auto roots = cuda::split_path_list(list);
    for (auto root = roots.rbegin(); root != roots.rend(); ++root) {
      read_into(*root / kFile, &all.from_files);
    }
    all.read_from = list;
    all.was_read = true;
  }
  const auto found = all.from_files.find(text);
  if (found == all.from_files.end()) return std::nullopt;
  return found->second.config;
}

void w4_remember(const W4TuneKey& key, const std::string& config, double microseconds) {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  const Result result{config, microseconds};
  all.ours[key.text()] = result;
  const auto roots = cuda::split_path_list(cuda::cache_dir());
  if (!roots.empty()) write_file(roots[0], key.text(), result);
}

}  // namespace ac4k
