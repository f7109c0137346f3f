// ac4k_synchronize: waiting for a device, for frameworks that have no streams to order by.
#include "cuda/driver/device.hpp"

extern "C" ac4k_status ac4k_synchronize(int32_t device_id) {
  using namespace ac4k;
  const cuda::Driver* api = nullptr;
  AC4K_TRY(cuda::require_driver(&api));
  const cuda::DeviceGuard guard(device_id);
  AC4K_TRY(guard.status());
  return cuda::check(*api, api->cuCtxSynchronize(), "cuCtxSynchronize");
}
