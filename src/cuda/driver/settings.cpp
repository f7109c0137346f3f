// Where the JIT's settings are kept.
#include "cuda/driver/settings.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace ac4k::cuda {
namespace {

constexpr const char* kModes[] = {"auto", "off", "force"};

const char* find_mode(std::string_view mode) {
  for (const char* known : kModes) {
    if (mode == known) return known;
  }
  return nullptr;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string default_cache_dir() {
  if (std::string list = environment("AC4K_CACHE_DIR"); !list.empty()) return list;
  // The XDG rules call a relative path invalid.
  if (std::string root = environment("XDG_CACHE_HOME"); root.starts_with('/')) {
    return root + "/ac4k";
  }
  if (std::string home = environment("HOME"); !home.empty()) return home + "/.cache/ac4k";
  return "";
}

struct Settings {
  std::mutex mutex;  // guards the strings
  std::atomic<const char*> mode = kModes[0];
  const std::string cache_dir_default = default_cache_dir();
  std::string cache_dir;
  std::string nvrtc_path;
  std::string cuda_include;
  std::filesystem::path data_dir;

  Settings() {
    const std::string wanted = environment("AC4K_JIT");
    if (wanted.empty()) return;
    if (const char* known = find_mode(wanted)) {
      mode = known;
    } else {
      std::fprintf(stderr, "ac4k: AC4K_JIT=%s is none of auto, off, force; taking auto\n",
                   wanted.c_str());
    }
  }
};

Settings& settings() {
  static auto* const all = new Settings;
  return *all;
}

Status assign(std::string Settings::* field, std::string_view value) {
  const std::lock_guard lock(settings().mutex);
  settings().*field = value;
  return AC4K_OK;
}

std::string read(std::string Settings::* field) {
  const std::lock_guard lock(settings().mutex);
  return settings().*field;
}

}  // namespace

Status set_jit_mode(std::string_view mode) {
  const char* known = find_mode(mode);
  if (known == nullptr) {
    return fail(AC4K_INVALID_VALUE, "setting 'jit': expected auto, off or force, got '", mode, "'");
  }
  settings().mode = known;
  return AC4K_OK;
}

const char* jit_mode() { return settings().mode; }

Status set_cache_dir(std::string_view list) { return assign(&Settings::cache_dir, list); }

std::string cache_dir() {
  std::string list = read(&Settings::cache_dir);
  return list.empty() ? settings().cache_dir_default : list;
}

Status set_nvrtc_path(std::string_view path) { return assign(&Settings::nvrtc_path, path); }
std::string nvrtc_path() { return read(&Settings::nvrtc_path); }

Status set_cuda_include(std::string_view list) { return assign(&Settings::cuda_include, list); }
std::string cuda_include() { return read(&Settings::cuda_include); }

std::filesystem::path data_dir() {
  {
    const std::lock_guard lock(settings().mutex);
    if (!settings().data_dir.empty()) return settings().data_dir;
  }
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&find_mode), &info) == 0 || info.dli_fname == nullptr) {
    return "ac4k";
  }
  std::error_code error;
  const std::filesystem::path library = std::filesystem::absolute(info.dli_fname, error);
  return library.parent_path() / "ac4k";
}

void set_data_dir_for_testing(const std::filesystem::path& path) {
  const std::lock_guard lock(settings().mutex);
  settings().data_dir = path;
}

std::vector<std::filesystem::path> split_path_list(std::string_view list) {
  std::vector<std::filesystem::path> parts;
  while (!list.empty()) {
    const size_t colon = list.find(':');
    if (const std::string_view part = list.substr(0, colon); !part.empty())
      parts.emplace_back(part);
    list.remove_prefix(colon == std::string_view::npos ? list.size() : colon + 1);
  }
  return parts;
}

}  // namespace ac4k::cuda
