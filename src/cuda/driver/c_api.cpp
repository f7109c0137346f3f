// The C functions for kernels of one's own and for the cache.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "ac4k/ac4k.h"
#include "core/guarded.hpp"
#include "core/status.hpp"
#include "cuda/driver/cache.hpp"
#include "cuda/driver/device.hpp"
#include "cuda/driver/jit.hpp"
#include "cuda/driver/kernel_report.hpp"
#include "cuda/driver/launch.hpp"
#include "cuda/driver/module.hpp"

// A kernel handed out to the user. Handles are kept and given again for the same contents, so that
// compiling in a loop does not grow the process.
struct ac4k_kernel {
  std::string lowered;  // the kernel's name in the cubin
  std::string json;
  size_t num_params;  // 0 where the cubin does not tell
  ac4k::cuda::Kernel kernel;

  ac4k_kernel(ac4k::cuda::Module* module, const std::string& entry,
              const ac4k::cuda::KernelResources& resources)
      : lowered(resources.name),
        json(ac4k::cuda::kernel_report(module->cubin(), entry, resources)),
        num_params(resources.param_bytes ? resources.param_bytes->size() : 0),
        kernel(module, lowered.c_str()) {}
};

namespace ac4k::cuda {
namespace {

Status resolve_arch(const char* given, std::string* arch) {
  if (given != nullptr && *given != '\0') {
    *arch = given;
    return AC4K_OK;
  }
  int device = 0;
  AC4K_TRY(current_device(&device));
  Status status = AC4K_OK;
  const DeviceProperties* properties = device_properties(device, status);
  if (properties != nullptr) *arch = properties->arch;
  return status;
}

std::vector<std::string> split_lines(const char* text) {
  std::vector<std::string> lines;
  std::string_view left = text != nullptr ? text : "";
  while (!left.empty()) {
    const size_t end = left.find('\n');
    if (const std::string_view line = left.substr(0, end); !line.empty()) lines.emplace_back(line);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  }
  return lines;
}

std::mutex& handles_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// The handle for (module object or cache key, entry), made by `make` when there is none.
template <typename Make>
Status remember(const std::string& identity, const std::string& entry, Make&& make,
                ac4k_kernel** out) {
  static auto* const handles =
      new std::map<std::pair<std::string, std::string>, std::unique_ptr<ac4k_kernel>>;
  const std::lock_guard lock(handles_mutex());
  std::unique_ptr<ac4k_kernel>& slot = (*handles)[{identity, entry}];
  if (slot == nullptr) AC4K_TRY(make(&slot));
  *out = slot.get();
  return AC4K_OK;
}

Status jit_compile(const char* source, const char* entry, const char* options, const char* given,
                   ac4k_kernel** out) {
  std::string arch;
  AC4K_TRY(resolve_arch(given, &arch));
  Cubin cubin;
  AC4K_TRY(compile_source(source, entry, split_lines(options), arch, on_miss_by_setting(), &cubin));
  const std::string identity = cubin.key;
  return remember(
      identity, entry,
      [&](std::unique_ptr<ac4k_kernel>* slot) -> Status {
        KernelResources resources;
        AC4K_TRY(find_kernel(cubin, entry, cubin.lowered[entry], &resources));
        // Outlives the handle, as the library it loads outlives both.
        auto* const module = new Module(std::move(cubin));
        *slot = std::make_unique<ac4k_kernel>(module, entry, resources);
        return AC4K_OK;
      },
      out);
}

Status kernel_find(const char* name, const char* entry, const char* given, ac4k_kernel** out) {
  std::string arch;
  AC4K_TRY(resolve_arch(given, &arch));
  Module* module = nullptr;
  AC4K_TRY(find_module(name, arch, on_miss_by_setting(), &module));
  return remember(
      std::string(name) + " " + arch, entry,
      [&](std::unique_ptr<ac4k_kernel>* slot) -> Status {
        KernelResources resources;
        AC4K_TRY(find_kernel(module->cubin(), entry, entry, &resources));
        *slot = std::make_unique<ac4k_kernel>(module, entry, resources);
        return AC4K_OK;
      },
      out);
}

// Building is asked for, so neither the setting jit nor the package's cubins keep it from
// compiling.
Status jit_build(const char* module, const char* given, std::string* report) {
  std::string arch;
  AC4K_TRY(resolve_arch(given, &arch));
  std::vector<std::string> modules;
  if (module != nullptr && *module != '\0') {
    modules.emplace_back(module);
  } else {
    modules = list_modules(arch);
    if (modules.empty()) {
      return fail(AC4K_RUNTIME_ERROR, "there are no kernel sources in ",
                  (data_dir() / "src").string());
    }
  }
  std::vector<Cubin> cubins(modules.size());
  for (size_t i = 0; i < modules.size(); ++i) {
    AC4K_TRY(compile_module(modules[i], arch, OnMiss::compile, &cubins[i]));
  }
  return cubins_report(cubins, report);
}

Status check_pointers(const char* function, std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (pointer == nullptr) return fail(AC4K_INVALID_VALUE, function, ": a pointer is null");
  }
  return AC4K_OK;
}

Status check_params(const ac4k_kernel& kernel, void* const* params) {
  for (size_t i = 0; i < kernel.num_params; ++i) {
    if (params != nullptr && params[i] != nullptr) continue;
    return fail(AC4K_INVALID_VALUE, "ac4k_kernel_launch: ", kernel.lowered,
                ": argument 'params': expected ", kernel.num_params, " pointers, got null at ", i);
  }
  return AC4K_OK;
}

}  // namespace
}  // namespace ac4k::cuda

extern "C" {

ac4k_status ac4k_jit_compile(const char* source, const char* entry, const char* options,
                             const char* arch, ac4k_kernel** kernel) {
  AC4K_TRY(ac4k::cuda::check_pointers("ac4k_jit_compile", {source, entry, kernel}));
  return ac4k::guarded("ac4k_jit_compile", [&] {
    return ac4k::cuda::jit_compile(source, entry, options, arch, kernel);
  });
}

ac4k_status ac4k_kernel_find(const char* module, const char* entry, const char* arch,
                             ac4k_kernel** kernel) {
  AC4K_TRY(ac4k::cuda::check_pointers("ac4k_kernel_find", {module, entry, kernel}));
  return ac4k::guarded("ac4k_kernel_find",
                       [&] { return ac4k::cuda::kernel_find(module, entry, arch, kernel); });
}

const char* ac4k_kernel_json(const ac4k_kernel* kernel) {
  return kernel != nullptr ? kernel->json.c_str() : "null";
}

ac4k_status ac4k_kernel_launch(const ac4k_kernel* kernel, const ac4k_launch* launch,
                               void** params) {
  AC4K_TRY(ac4k::cuda::check_pointers("ac4k_kernel_launch", {kernel, launch}));
  AC4K_TRY(ac4k::cuda::check_params(*kernel, params));
  return ac4k::guarded("ac4k_kernel_launch", [&] {
    const ac4k::cuda::LaunchConfig config = {
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .cluster = {launch->cluster[0], launch->cluster[1], launch->cluster[2]},
        .shared_bytes = launch->shared_bytes,
        .dependent = launch->dependent != 0};
    // Resolving a device's slot is the only change a launch makes to a handle, and it is atomic.
    auto& mutable_kernel = const_cast<ac4k_kernel*>(kernel)->kernel;
    return ac4k::cuda::launch(mutable_kernel, config, launch->device_id, launch->stream, params);
  });
}

ac4k_status ac4k_jit_build(const char* module, const char* arch, const char** report) {
  return ac4k::guarded("ac4k_jit_build", [&]() -> ac4k_status {
    thread_local std::string text;
    AC4K_TRY(ac4k::cuda::jit_build(module, arch, &text));
    if (report != nullptr) *report = text.c_str();
    return AC4K_OK;
  });
}

const char* ac4k_jit_list_json(void) {
  thread_local std::string text;
  const auto list = [&] {
    text = ac4k::cuda::cache_report(ac4k::cuda::Cache::from_settings().list());
    return AC4K_OK;
  };
  return ac4k::guarded("ac4k_jit_list_json", list) == AC4K_OK ? text.c_str() : "[]";
}

ac4k_status ac4k_jit_clear(const char* module, const char* arch, int64_t* num_removed) {
  return ac4k::guarded("ac4k_jit_clear", [&] {
    const int64_t count =
        ac4k::cuda::Cache::from_settings().clear(module ? module : "", arch ? arch : "");
    if (num_removed != nullptr) *num_removed = count;
    return AC4K_OK;
  });
}

}  // extern "C"
