// Loaded cubins, and the handles op files launch kernels by.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "core/status.hpp"
#include "cuda/driver/device.hpp"
#include "cuda/driver/jit.hpp"

namespace ac4k::cuda {

// A cubin and the CUlibrary made from it, which serves every device of the cubin's architecture.
// Invariant: loaded at most once, never unloaded; lives as long as the process.
class Module {
 public:
  explicit Module(Cubin cubin) : cubin_(std::move(cubin)) {}

  const Cubin& cubin() const { return cubin_; }
  // Loads it on the first call, under stream capture too.
  Status library(const Driver& api, CUlibrary* out);

 private:
  const Cubin cubin_;
  std::mutex mutex_;
  std::atomic<CUlibrary> library_ = nullptr;
};

// The module for an architecture, made on the first call. Threads that ask for the same one wait
// for each other; a failure is not remembered.
Status find_module(const std::string& name, const std::string& arch, OnMiss on_miss, Module** out);

// One kernel: (module, entry). In op files a static object, which costs nothing until it is used:
//   constinit Kernel mul_add_f32("common/elementwise", "mul_add_f32");
// Invariant: a device's slot goes from empty to its CUkernel once, and stays.
class Kernel {
 public:
  constexpr Kernel(const char* module, const char* entry) : name_(module), entry_(entry) {}
  // A kernel of a cubin at hand; both outlive it.
  Kernel(Module* module, const char* entry)
      : name_(module->cubin().name.c_str()), entry_(entry), module_(module) {}

  const char* module() const { return name_; }
  const char* entry() const { return entry_; }

  // One atomic load after the first call for a device. `stream` tells whether the call is being
  // captured, in which case a compile is refused and a load is not.
  Status get(int device, CUstream stream, CUkernel* out) {
    if (device >= 0 && device < kMaxDevices) [[likely]] {
      *out = slots_[static_cast<size_t>(device)].kernel.load(std::memory_order_acquire);
      if (*out != nullptr) [[likely]]
        return AC4K_OK;
    }
    return resolve(device, stream, out);
  }

  // Lets blocks of this kernel have `bytes` of dynamic shared memory; get() comes first. One
  // atomic load once that much was asked for.
  Status allow_shared(int device, uint32_t bytes) {
    const Slot& slot = slots_[static_cast<size_t>(device)];
    if (bytes <= slot.shared.load(std::memory_order_acquire)) [[likely]]
      return AC4K_OK;
    return raise_shared(device, bytes);
  }

  // Lets clusters of this kernel have more than the eight blocks that every GPU with clusters
  // allows; get() comes first.
  Status allow_large_clusters(int device);

 private:
  struct Slot {
    std::atomic<CUkernel> kernel = nullptr;
    std::atomic<bool> large_clusters = false;
    std::atomic<uint32_t> shared = 0;  // dynamic bytes a block may have; set before `kernel`
  };

  Status resolve(int device, CUstream stream, CUkernel* out);
  Status load(int device, CUstream stream, CUkernel* out);
  Status raise_shared(int device, uint32_t bytes);

  const char* name_;
  const char* entry_;
  Module* module_ = nullptr;
  std::array<Slot, kMaxDevices> slots_ = {};
};

}  // namespace ac4k::cuda
