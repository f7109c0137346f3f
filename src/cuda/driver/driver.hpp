// The CUDA driver, opened when first asked for. A machine without one gets a null and the reason.
#pragma once

#include <string>

#include "core/status.hpp"
#include "cuda/driver/abi.hpp"

namespace ac4k::cuda {

// function, symbol in libcuda.so.1, parameters. A symbol with a version differs from the function's
// name: the unversioned symbol is an older function with another meaning.
#define AC4K_CUDA_FUNCTIONS(X)                                                                    \
  X(cuInit, cuInit, (unsigned int))                                                               \
  X(cuDriverGetVersion, cuDriverGetVersion, (int*))                                               \
  X(cuGetErrorName, cuGetErrorName, (CUresult, const char**))                                     \
  X(cuGetErrorString, cuGetErrorString, (CUresult, const char**))                                 \
  X(cuDeviceGet, cuDeviceGet, (CUdevice*, int))                                                   \
  X(cuDeviceGetCount, cuDeviceGetCount, (int*))                                                   \
  X(cuDeviceGetName, cuDeviceGetName, (char*, int, CUdevice))                                     \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, CUdevice))                                   \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, CUdevice_attribute, CUdevice))             \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                   \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext*))                                               \
  X(cuCtxGetDevice, cuCtxGetDevice, (CUdevice*))                                                  \
  X(cuCtxSynchronize, cuCtxSynchronize, (void))                                                   \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext))                                           \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext*))                                            \
  X(cuPointerGetAttribute, cuPointerGetAttribute, (void*, CUpointer_attribute, CUdeviceptr))      \
  X(cuStreamIsCapturing, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus*))                 \
  X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode*)) \
  X(cuLibraryLoadData, cuLibraryLoadData,                                                         \
    (CUlibrary*, const void*, CUjit_option*, void**, unsigned int, CUlibraryOption*, void**,      \
     unsigned int))                                                                               \
  X(cuLibraryGetKernel, cuLibraryGetKernel, (CUkernel*, CUlibrary, const char*))                  \
  X(cuKernelGetFunction, cuKernelGetFunction, (CUfunction*, CUkernel))                            \
  X(cuKernelGetAttribute, cuKernelGetAttribute, (int*, CUfunction_attribute, CUkernel, CUdevice)) \
  X(cuKernelSetAttribute, cuKernelSetAttribute, (CUfunction_attribute, int, CUkernel, CUdevice))  \
  X(cuLaunchKernelEx, cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))      \
  X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters,                                   \
    (int*, CUfunction, const CUlaunchConfig*))                                                    \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                                               \
    (CUtensorMap*, CUtensorMapDataType, uint32_t, void*, const uint64_t*, const uint64_t*,        \
     const uint32_t*, const uint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,                 \
     CUtensorMapL2promotion, CUtensorMapFloatOOBfill))

// Invariant: every pointer is set, and cuInit succeeded.
struct Driver {
#define AC4K_CUDA_MEMBER(function, symbol, parameters) CUresult(*function) parameters = nullptr;
  AC4K_CUDA_FUNCTIONS(AC4K_CUDA_MEMBER)
#undef AC4K_CUDA_MEMBER
  int version = 0;  // 13000 for CUDA 13.0
};

// Whether this process has loaded the driver's library, for whatever reason.
bool is_driver_loaded();
// Null when this machine has no usable driver. One load after the first call, from any thread.
const Driver* driver();
// Why driver() is null; empty when it is not.
const std::string& driver_error();
// As driver(), failing with AC4K_UNSUPPORTED and the reason.
Status require_driver(const Driver** out);

// AC4K_OK, or "CUDA_ERROR_X (what): during cuY" under the code that fits.
Status check(const Driver& api, CUresult result, const char* function);

// AC4K_CUDA_TRY(*api, cuDeviceGet, &device, 0): calls, and returns from the enclosing function
// with the driver's text on failure.
#define AC4K_CUDA_TRY(api, function, ...) \
  AC4K_TRY(::ac4k::cuda::check((api), (api).function(__VA_ARGS__), #function))

// Tests put a fake in the driver's place. Only before the first driver().
void set_libcuda_path_for_testing(const char* path);

}  // namespace ac4k::cuda
