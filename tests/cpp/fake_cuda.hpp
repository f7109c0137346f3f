// What the fake CUDA driver of the tests remembers.
#pragma once

#include "cuda/driver/abi.hpp"

struct FakeCuda {
  // Devices: 0 and 1 are 9.0, 2 is 8.9, 3 is 7.0 (which AC4K has no kernels for).
  static constexpr int kNumDevices = 4;
  // Device i has the addresses from i times this, 0 the first ones; what lies behind is the host's.
  static constexpr unsigned long long kMemory = 0x10000;

  // Set by a test.
  bool capturing = false;
  int launch_result = 0;

  // Counted by the fake.
  int num_loads = 0;
  int num_pushes = 0;
  int num_pops = 0;
  int num_launches = 0;
  int num_attribute_sets = 0;
  int max_dynamic_shared = 0;
  int large_clusters = 0;
  int device_of_launch = -1;
  void* first_param = nullptr;
  ac4k::cuda::CUlaunchConfig config = {};
  ac4k::cuda::CUlaunchAttribute attributes[4] = {};
};
