// Opening libcuda.so.1 and resolving what AC4K calls.
#include "cuda/driver/driver.hpp"

#include <dlfcn.h>

namespace ac4k::cuda {
namespace {

const char* libcuda_path = "libcuda.so.1";

std::string describe(const Driver& api, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return "CUDA error " + std::to_string(static_cast<int>(result));
  }
  if (api.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no text";
  return std::string(name) + " (" + text + ")";
}

struct Opened {
  Driver api;
  bool usable = false;
  std::string reason;

  Opened() { usable = open(); }

  bool open() {
    // Never closed: kernels, contexts and the driver's own threads live until the process ends.
    void* handle = dlopen(libcuda_path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* text = dlerror();
      reason = std::string("no CUDA driver: ") + (text != nullptr ? text : libcuda_path);
      return false;
    }
#define AC4K_CUDA_RESOLVE(function, symbol, parameters)                                       \
  api.function = reinterpret_cast<CUresult(*) parameters>(dlsym(handle, #symbol));            \
  if (api.function == nullptr) {                                                              \
    reason = "the CUDA driver has no " #symbol "; AC4K needs a driver of CUDA 12.0 or later"; \
    return false;                                                                             \
  }
    AC4K_CUDA_FUNCTIONS(AC4K_CUDA_RESOLVE)
#undef AC4K_CUDA_RESOLVE
    if (const CUresult result = api.cuInit(0); result != CUDA_SUCCESS) {
      reason = describe(api, result) + ": during cuInit";
      return false;
    }
    api.cuDriverGetVersion(&api.version);
    return true;
  }
};

const Opened& opened() {
  static const Opened* const once = new Opened;  // outlives every static destructor
  return *once;
}

}  // namespace

bool is_driver_loaded() {
  void* library = dlopen(libcuda_path, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

const Driver* driver() {
  static const Driver* const api = opened().usable ? &opened().api : nullptr;
  return api;
}

const std::string& driver_error() { return opened().reason; }

Status require_driver(const Driver** out) {
  *out = driver();
  if (*out == nullptr) return fail(AC4K_UNSUPPORTED, "CUDA is not usable here: ", driver_error());
  return AC4K_OK;
}

Status check(const Driver& api, CUresult result, const char* function) {
  if (result == CUDA_SUCCESS) [[likely]]
    return AC4K_OK;
  const Status code = result == CUDA_ERROR_OUT_OF_MEMORY                  ? AC4K_OUT_OF_MEMORY
                      : result == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE ? AC4K_UNSUPPORTED
                                                                          : AC4K_RUNTIME_ERROR;
  return fail(code, describe(api, result), ": during ", function);
}

void set_libcuda_path_for_testing(const char* path) { libcuda_path = path; }

}  // namespace ac4k::cuda
