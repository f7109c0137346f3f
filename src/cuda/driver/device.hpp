// What a device is, and making it current.
#pragma once

#include <string>

#include "core/status.hpp"
#include "cuda/driver/driver.hpp"

namespace ac4k::cuda {

inline constexpr int kMaxDevices = 32;

struct DeviceProperties {
  int id = 0;
  CUdevice handle = 0;
  std::string name;
  int major = 0;
  int minor = 0;
  std::string arch;        // "sm90a"; "sm80" and the like for one that is not in the table
  bool supported = false;  // the library has kernels for it: it is in architectures.def
  int sm_count = 0;
  int64_t total_bytes = 0;
  int64_t l2_bytes = 0;
  int shared_per_block = 0;  // bytes a block can opt in to
  int shared_per_sm = 0;
  int threads_per_sm = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;  // 0 where the driver no longer tells
  int memory_bus_bits = 0;
};

// 0 without a driver.
int device_count();
// The device of the current context, else 0.
Status current_device(int* id);
// One atomic load after the first call for a device; null with `status` set on failure. Makes no
// context.
const DeviceProperties* device_properties(int id, Status& status);

// Makes a context of `device` current for its lifetime. Whatever context of that device is current
// already stays (the primary one or one of the user's own); otherwise the primary one is pushed.
// Invariant: after destruction the thread's context stack is as before.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  Status status() const { return status_; }

 private:
  Status enter(int device);

  bool pushed_ = false;
  Status status_;
};

}  // namespace ac4k::cuda
