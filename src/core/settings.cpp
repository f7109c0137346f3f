// ac4k_set and ac4k_get: one table of settings, each owned by the part it steers.

#include "cuda/driver/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/status.hpp"
#include "cpu/kernels.hpp"
#include "cuda/driver/launch.hpp"

namespace ac4k {
namespace {

Status set_num_threads(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const long count = std::strtol(copy.c_str(), &end, 10);
  if (copy.empty() || *end != '\0' || count != static_cast<int>(count)) {
    return fail(AC4K_INVALID_VALUE, "num_threads: expected a number, got '", text, "'");
  }
  return cpu::set_num_threads(static_cast<int>(count));
}

Status set_dependent_launch(std::string_view text) {
  if (text != "on" && text != "off") {
    return fail(AC4K_INVALID_VALUE, "dependent_launch: expected on or off, got '", text, "'");
  }
  cuda::set_dependent_launch(text == "on");
  return AC4K_OK;
}

struct Setting {
  const char* name;
  Status (*set)(std::string_view);
  std::string (*get)();
};

constexpr Setting kSettings[] = {
    {"cpu_isa", cpu::set_isa, [] { return std::string(cpu::name_of(cpu::active_isa())); }},
    {"num_threads", set_num_threads, [] { return std::to_string(cpu::num_threads()); }},
    {"dependent_launch", set_dependent_launch,
     [] { return std::string(cuda::dependent_launch() ? "on" : "off"); }},
    {"jit", cuda::set_jit_mode, [] { return std::string(cuda::jit_mode()); }},
    {"cache_dir", cuda::set_cache_dir, [] { return std::string(cuda::cache_dir()); }},
    {"nvrtc_path", cuda::set_nvrtc_path, [] { return std::string(cuda::nvrtc_path()); }},
    {"cuda_include", cuda::set_cuda_include, [] { return std::string(cuda::cuda_include()); }},
};

const Setting* find(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (name == setting.name) return &setting;
  }
  return nullptr;
}

// The environment is read once, while the library loads. A bad value is named and otherwise
// ignored: a library that fails to load helps nobody.
const bool kEnvironmentRead = [] {
  const auto take = [](const char* variable, const char* value, Status (*set)(std::string_view)) {
    if (value == nullptr || *value == '\0' || set(value) == AC4K_OK) return;
    std::fprintf(stderr, "ac4k: ignored %s: %s\n", variable, ac4k_last_error());
  };
  take("AC4K_CPU_ISA", std::getenv("AC4K_CPU_ISA"), cpu::set_isa);
  take("AC4K_NUM_THREADS", std::getenv("AC4K_NUM_THREADS"), set_num_threads);
  return true;
}();

}  // namespace

}  // namespace ac4k

extern "C" {

ac4k_status ac4k_set(const char* name, const char* value) {
  const ac4k::Setting* setting = name ? ac4k::find(name) : nullptr;
  if (setting == nullptr || value == nullptr) {
    std::string names;
    for (const auto& known : ac4k::kSettings)
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return ac4k::fail(AC4K_INVALID_VALUE, "ac4k_set: expected one of ", names,
                      " and a value, got '", name ? name : "", "'");
  }
  return setting->set(value);
}

const char* ac4k_get(const char* name) {
  thread_local std::string result;
  const ac4k::Setting* setting = name ? ac4k::find(name) : nullptr;
  if (setting == nullptr) return nullptr;
  result = setting->get();
  return result.c_str();
}

}  // extern "C"
