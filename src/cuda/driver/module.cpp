// Loading cubins and resolving kernels: the slow path of a first call.
#include "cuda/driver/module.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/guarded.hpp"
#include "core/waiting.hpp"
#include "cuda/driver/arch.hpp"

namespace ac4k::cuda {
namespace {

// Static and dynamic bytes a block may have without asking for more.
constexpr int kSharedByDefault = 48 * 1024;

// Loading a module is no stream operation, but a capture in the default mode forbids it all the
// same; a relaxed thread is let through.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& api) : api_(api) {
    api_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { api_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

struct Slot {
  std::mutex mutex;  // held while this module is compiled; other modules go on
  std::unique_ptr<Module> module;
};

Slot& slot_of(const std::string& name, const std::string& arch) {
  static auto* const mutex = new std::mutex;
  static auto* const slots = new std::map<std::pair<std::string, std::string>, Slot>;
  const std::lock_guard lock(*mutex);
  return (*slots)[{name, arch}];
}

// The driver answers with an error when the legacy default stream is asked while another stream is
// captured: a compile is as wrong then.
bool is_capturing(const Driver& api, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return api.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

Status Module::library(const Driver& api, CUlibrary* out) {
  *out = library_.load(std::memory_order_acquire);
  if (*out != nullptr) return AC4K_OK;
  const std::lock_guard lock(mutex_);
  *out = library_.load(std::memory_order_acquire);
  if (*out != nullptr) return AC4K_OK;
  const RelaxedCapture relaxed(api);
  const CUresult result =
      api.cuLibraryLoadData(out, cubin_.bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    const Status status = check(api, result, "cuLibraryLoadData");
    return fail(status, ac4k_last_error(), " of ", cubin_.name, " for ", cubin_.arch, " (",
                cubin_.origin, ")");
  }
  library_.store(*out, std::memory_order_release);
  return AC4K_OK;
}

Status find_module(const std::string& name, const std::string& arch, OnMiss on_miss, Module** out) {
  Slot& slot = slot_of(name, arch);
  const std::lock_guard lock(slot.mutex);
  if (slot.module == nullptr) {
    Cubin cubin;
    AC4K_TRY(find_cubin(name, arch, on_miss, &cubin));
    slot.module = std::make_unique<Module>(std::move(cubin));
  }
  *out = slot.module.get();
  return AC4K_OK;
}

Status Kernel::resolve(int device, CUstream stream, CUkernel* out) {
  const Waiting waiting;
  // Reads files and compiles, inside ac4k_call.
  return guarded(entry_, [&] { return load(device, stream, out); });
}

Status Kernel::load(int device, CUstream stream, CUkernel* out) {
  const Driver* api = nullptr;
  AC4K_TRY(require_driver(&api));
  Status status = AC4K_OK;
  const DeviceProperties* properties = device_properties(device, status);
  if (properties == nullptr) return status;
  const DeviceGuard guard(device);
  AC4K_TRY(guard.status());

  Module* module = module_;
  if (module != nullptr) {
    if (module->cubin().arch != properties->arch) {
      return fail(AC4K_INVALID_VALUE, name_, " was compiled for ", module->cubin().arch,
                  ", but device ", device, " (", properties->name, ") is ", properties->arch);
    }
  } else {
    if (!properties->supported) {
      return fail(AC4K_UNSUPPORTED, properties->name, " is ", properties->arch,
                  ", for which AC4K has no kernels; it has them for ", known_architectures());
    }
    const OnMiss on_miss =
        is_capturing(*api, stream) ? OnMiss::refuse_capturing : on_miss_by_setting();
    AC4K_TRY(find_module(name_, properties->arch, on_miss, &module));
  }

  CUlibrary library = nullptr;
  AC4K_TRY(module->library(*api, &library));
  const RelaxedCapture relaxed(*api);
  const CUresult result = api->cuLibraryGetKernel(out, library, entry_);
  if (result != CUDA_SUCCESS) {
    const Status failed = check(*api, result, "cuLibraryGetKernel");
    return fail(failed, ac4k_last_error(), ": kernel ", entry_, " of ", name_, " for ",
                module->cubin().arch);
  }
  // Brings the code to this device now: done lazily it would happen in the launch, where a capture
  // may forbid it.
  CUfunction function = nullptr;
  AC4K_CUDA_TRY(*api, cuKernelGetFunction, &function, *out);
  Slot& slot = slots_[static_cast<size_t>(device)];
  int fixed = 0;
  AC4K_CUDA_TRY(*api, cuKernelGetAttribute, &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, *out,
                properties->handle);
  // Not over what another thread has raised meanwhile.
  uint32_t none = 0;
  slot.shared.compare_exchange_strong(none,
                                      static_cast<uint32_t>(std::max(0, kSharedByDefault - fixed)),
                                      std::memory_order_acq_rel);
  slot.kernel.store(*out, std::memory_order_release);
  return AC4K_OK;
}

Status Kernel::raise_shared(int device, uint32_t bytes) {
  const Driver* api = nullptr;
  AC4K_TRY(require_driver(&api));
  Status status = AC4K_OK;
  const DeviceProperties* properties = device_properties(device, status);
  if (properties == nullptr) return status;
  Slot& slot = slots_[static_cast<size_t>(device)];
  const CUkernel kernel = slot.kernel.load(std::memory_order_acquire);
  int fixed = 0;
  AC4K_CUDA_TRY(*api, cuKernelGetAttribute, &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel,
                properties->handle);
  const int64_t limit = int64_t{properties->shared_per_block} - fixed;
  if (bytes > limit) {
    return fail(AC4K_INVALID_VALUE, "kernel ", entry_, " of ", name_, ": ", bytes,
                " bytes of dynamic shared memory asked for; ", properties->name, " has ", limit,
                " for it");
  }
  // Straight to all there is: only the launch decides what a block really takes, and no two threads
  // can then lower each other's value.
  AC4K_CUDA_TRY(*api, cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                static_cast<int>(limit), kernel, properties->handle);
  slot.shared.store(static_cast<uint32_t>(limit), std::memory_order_release);
  return AC4K_OK;
}

Status Kernel::allow_large_clusters(int device) {
  Slot& slot = slots_[static_cast<size_t>(device)];
  if (slot.large_clusters.load(std::memory_order_acquire)) return AC4K_OK;
  Status status = AC4K_OK;
  const DeviceProperties* properties = device_properties(device, status);
  if (properties == nullptr) return status;
  AC4K_CUDA_TRY(*driver(), cuKernelSetAttribute,
                CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1,
                slot.kernel.load(std::memory_order_acquire), properties->handle);
  slot.large_clusters.store(true, std::memory_order_release);
  return AC4K_OK;
}

}  // namespace ac4k::cuda
