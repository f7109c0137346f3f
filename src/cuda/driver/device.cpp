// Device properties and primary contexts, each asked for once a device.
#include "cuda/driver/device.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/driver/arch.hpp"

namespace ac4k::cuda {
namespace {

// Zero-initialised, filled once, never freed: readers hold no lock.
std::array<std::atomic<const DeviceProperties*>, kMaxDevices> properties_cache;
std::array<std::atomic<CUcontext>, kMaxDevices> context_cache;

std::mutex& device_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Status check_id(const Driver& api, int id) {
  int count = 0;
  AC4K_CUDA_TRY(api, cuDeviceGetCount, &count);
  if (id < 0 || id >= count) {
    return fail(AC4K_INVALID_VALUE, "CUDA device ", id, " does not exist: this machine has ",
                count);
  }
  if (id >= kMaxDevices) {
    return fail(AC4K_UNSUPPORTED, "CUDA device ", id, ": at most ", kMaxDevices, " are supported");
  }
  return AC4K_OK;
}

Status query(const Driver& api, int id, DeviceProperties* out) {
  AC4K_TRY(check_id(api, id));
  out->id = id;
  AC4K_CUDA_TRY(api, cuDeviceGet, &out->handle, id);
  char name[256] = {};
  AC4K_CUDA_TRY(api, cuDeviceGetName, name, sizeof name - 1, out->handle);
  out->name = name;
  size_t total = 0;
  AC4K_CUDA_TRY(api, cuDeviceTotalMem, &total, out->handle);
  out->total_bytes = static_cast<int64_t>(total);

  int l2_bytes = 0;
  const struct {
    CUdevice_attribute attribute;
    int* value;
  } wanted[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->sm_count},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &out->shared_per_block},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &out->shared_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &out->threads_per_sm},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &out->clock_khz},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &out->memory_clock_khz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &out->memory_bus_bits},
  };
  for (const auto& [attribute, value] : wanted) {
    AC4K_CUDA_TRY(api, cuDeviceGetAttribute, value, attribute, out->handle);
  }
  out->l2_bytes = l2_bytes;
  if (const Architecture* known = find_architecture(out->major, out->minor)) {
    out->arch = known->name;
    out->supported = true;
  } else {
    out->arch = "sm" + std::to_string(out->major * 10 + out->minor);
  }
  return AC4K_OK;
}

// Retained once a device and kept: releasing it could tear down what the caller still uses.
Status primary_context(const Driver& api, int id, CUcontext* out) {
  *out = context_cache[static_cast<size_t>(id)].load(std::memory_order_acquire);
  if (*out != nullptr) return AC4K_OK;
  const std::lock_guard lock(device_mutex());
  auto& slot = context_cache[static_cast<size_t>(id)];
  *out = slot.load(std::memory_order_acquire);
  if (*out != nullptr) return AC4K_OK;
  CUdevice handle = 0;
  AC4K_CUDA_TRY(api, cuDeviceGet, &handle, id);
  AC4K_CUDA_TRY(api, cuDevicePrimaryCtxRetain, out, handle);
  slot.store(*out, std::memory_order_release);
  return AC4K_OK;
}

}  // namespace

int device_count() {
  const Driver* api = driver();
  int count = 0;
  if (api == nullptr || api->cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return count;
}

Status current_device(int* id) {
  const Driver* api = nullptr;
  AC4K_TRY(require_driver(&api));
  *id = 0;
  CUcontext context = nullptr;
  AC4K_CUDA_TRY(*api, cuCtxGetCurrent, &context);
  if (context != nullptr) AC4K_CUDA_TRY(*api, cuCtxGetDevice, id);
  return AC4K_OK;
}

const DeviceProperties* device_properties(int id, Status& status) {
  status = AC4K_OK;
  const bool in_range = id >= 0 && id < kMaxDevices;
  if (in_range) [[likely]] {
    const auto* known = properties_cache[static_cast<size_t>(id)].load(std::memory_order_acquire);
    if (known != nullptr) [[likely]]
      return known;
  }
  const Driver* api = nullptr;
  if ((status = require_driver(&api)) != AC4K_OK) return nullptr;
  auto fresh = std::make_unique<DeviceProperties>();
  if ((status = query(*api, id, fresh.get())) != AC4K_OK) return nullptr;
  const DeviceProperties* expected = nullptr;
  auto& slot = properties_cache[static_cast<size_t>(id)];
  if (slot.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) {
    return fresh.release();
  }
  return expected;  // another thread was first
}

DeviceGuard::DeviceGuard(int device) : status_(enter(device)) {}

Status DeviceGuard::enter(int device) {
  const Driver* api = nullptr;
  AC4K_TRY(require_driver(&api));
  CUcontext current = nullptr;
  AC4K_CUDA_TRY(*api, cuCtxGetCurrent, &current);
  if (device >= 0 && device < kMaxDevices && current != nullptr) [[likely]] {
    const auto& known = context_cache[static_cast<size_t>(device)];
    if (current == known.load(std::memory_order_acquire)) [[likely]]
      return AC4K_OK;
  }
  AC4K_TRY(check_id(*api, device));
  if (current != nullptr) {
    CUdevice on = -1;
    CUdevice wanted = -1;
    AC4K_CUDA_TRY(*api, cuDeviceGet, &wanted, device);
    AC4K_CUDA_TRY(*api, cuCtxGetDevice, &on);
    if (on == wanted) {
      // Remembers the primary context, so that the next call takes the short way above.
      CUcontext primary = nullptr;
      return primary_context(*api, device, &primary);
    }
  }
  CUcontext primary = nullptr;
  AC4K_TRY(primary_context(*api, device, &primary));
  AC4K_CUDA_TRY(*api, cuCtxPushCurrent, primary);
  pushed_ = true;
  return AC4K_OK;
}

DeviceGuard::~DeviceGuard() {
  CUcontext popped = nullptr;
  if (pushed_) driver()->cuCtxPopCurrent(&popped);
}

}  // namespace ac4k::cuda
