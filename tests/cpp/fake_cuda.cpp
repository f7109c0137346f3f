// A libcuda.so.1 without a GPU: enough of it to watch modules being loaded and kernels launched.
// Built into a shared library by the tests; every kernel name but "missing" exists in every cubin.
#include "fake_cuda.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

using namespace ac4k::cuda;

namespace {

FakeCuda state;
std::mutex mutex;
thread_local CUcontext stack[16] = {};
thread_local int depth = 0;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

constexpr int kCapability[FakeCuda::kNumDevices] = {90, 90, 89, 70};
constexpr CUresult kCaptureUnsupported = static_cast<CUresult>(900);

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(0x1000 + device));
}
int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context) - 0x1000);
}
bool forbidden() { return state.capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED; }

}  // namespace

extern "C" {

FakeCuda* fake_cuda_state() { return &state; }

CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
          : result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                               : "CUDA_ERROR_SOMETHING";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  return *text = "what the driver says", CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int id) { return *device = id, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = FakeCuda::kNumDevices, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  return *bytes = size_t{140} << 30, CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = kCapability[device] / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = kCapability[device] % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 60 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 * 1024;
      break;
    default:
      *value = 1;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return *context = context_of(device), CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  return *context = depth > 0 ? stack[depth - 1] : nullptr, CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  return *device = device_of(stack[depth - 1]), CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const std::lock_guard lock(mutex);
  ++state.num_pushes;
  return stack[depth++] = context, CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  const std::lock_guard lock(mutex);
  ++state.num_pops;
  return *context = stack[--depth], CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr pointer) {
  const auto device = static_cast<unsigned int>(pointer / FakeCuda::kMemory);
  if (device >= FakeCuda::kNumDevices) return CUDA_ERROR_INVALID_VALUE;  // the host's
  constexpr unsigned int kDeviceMemory = 2;
  const unsigned int answer = which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? kDeviceMemory : device;
  return std::memcpy(value, &answer, sizeof answer), CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = state.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return std::swap(*mode, capture_mode), CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned int,
                           CUlibraryOption*, void**, unsigned int) {
  if (forbidden()) return kCaptureUnsupported;
  const std::lock_guard lock(mutex);
  *library = reinterpret_cast<CUlibrary>(static_cast<uintptr_t>(0x100 + ++state.num_loads));
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  *kernel = reinterpret_cast<CUkernel>(library);
  return std::strcmp(name, "missing") == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (forbidden()) return kCaptureUnsupported;
  return *function = reinterpret_cast<CUfunction>(kernel), CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute, CUkernel, CUdevice) {
  return *value = 1024, CUDA_SUCCESS;  // static shared memory
}
CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel, CUdevice) {
  const std::lock_guard lock(mutex);
  ++state.num_attribute_sets;
  (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? state.max_dynamic_shared
                                                            : state.large_clusters) = value;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void** params, void**) {
  const std::lock_guard lock(mutex);
  if (state.launch_result != 0) return static_cast<CUresult>(state.launch_result);
  ++state.num_launches;
  state.config = *config;
  std::copy_n(config->attrs, config->numAttrs, state.attributes);
  state.device_of_launch = depth > 0 ? device_of(stack[depth - 1]) : -1;
  state.first_param = params != nullptr ? params[0] : nullptr;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction, const CUlaunchConfig* config) {
  const unsigned int blocks = config->numAttrs > 0 ? config->attrs[0].value.clusterDim.x : 1;
  return *count = static_cast<int>(132 / blocks), CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, uint32_t rank, void*,
                                const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return map->opaque[0] = rank, CUDA_SUCCESS;
}

}  // extern "C"
