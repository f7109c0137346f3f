#include "cuda/driver/pointer.hpp"

#include "cuda/driver/driver.hpp"

namespace ac4k::cuda {

int device_of(const void* pointer) {
  if (!is_driver_loaded()) return kHostMemory;
  const Driver* api = driver();
  if (api == nullptr) return kHostMemory;
  constexpr unsigned int kDeviceMemory = 2;
  unsigned int type = 0;
  int ordinal = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  // Fails for memory that the driver does not know.
  if (api->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          CUDA_SUCCESS ||
      type != kDeviceMemory ||
      api->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
          CUDA_SUCCESS) {
    return kHostMemory;
  }
  return ordinal;
}

}  // namespace ac4k::cuda

extern "C" int32_t ac4k_device_of(const void* pointer) { return ac4k::cuda::device_of(pointer); }
