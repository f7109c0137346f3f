// A libcuda.so.1 whose GPU is the model: modules are PTX, memory is the host's, launches are over
// when they return.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/driver/abi.hpp"
#include "machine.hpp"
#include "tensor_map.hpp"

using namespace ac4k::cuda;

namespace {

constexpr int kNumSms = 132;
constexpr CUresult kLaunchFailed = static_cast<CUresult>(719);

struct Function {
  model::Module* module;
  std::string name;
};

std::mutex mutex;
std::string last_error;
int capability = 90;
thread_local CUcontext current = nullptr;
const auto the_context = reinterpret_cast<CUcontext>(uintptr_t{0x1000});

uint16_t bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
  }
  return 0;
}

CUresult failed(const std::exception& error) {
  last_error = error.what();
  return kLaunchFailed;
}

}  // namespace

extern "C" {

// --- For tests -----------------------------------------------------------------------------------

void model_set_capability(int major_minor) { capability = major_minor; }
// Decides about the order in which threads and copies go on.
void model_set_seed(uint64_t seed) { model::machine().seed = 2 * seed + 1; }
// What kernels may touch from here on, besides what was allowed before.
void model_allow(const void* from, size_t bytes, int writable) {
  model::allow_global(from, bytes, writable != 0);
}
void model_forget() { model::forget_global(); }

// --- The driver ----------------------------------------------------------------------------------

// NVRTC asks for it, and does without.
CUresult cuGetExportTable(const void** table, const void*) {
  return *table = nullptr, CUDA_ERROR_NOT_FOUND;
}
CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** name) { return *name = "model", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) {
  return *text = last_error.c_str(), CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int id) { return *device = id, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<size_t>(size), "model of sm_%d", capability);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  return *bytes = size_t{140} << 30, CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = kNumSms;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 60 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = capability >= 90 && capability < 120 ? 228 * 1024 : 100 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = capability >= 90 && capability < 120 ? 227 * 1024 : 99 * 1024;
      break;
    default:
      *value = 1;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = the_context, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = current, CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return current = context, CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return *context = std::exchange(current, nullptr), CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) {
  return CUDA_ERROR_INVALID_VALUE;  // the host's
}
CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**,
                           unsigned int, CUlibraryOption*, void**, unsigned int) {
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text,
                   "\x7f"
                   "ELF",
                   4) == 0) {
    last_error = "the model runs PTX, not a cubin";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  *library = reinterpret_cast<CUlibrary>(new model::Module(text));
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  auto* const module = reinterpret_cast<model::Module*>(library);
  if (!module->has(name)) return CUDA_ERROR_NOT_FOUND;
  *kernel = reinterpret_cast<CUkernel>(new Function{module, name});
  return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return *function = reinterpret_cast<CUfunction>(kernel), CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute, CUkernel kernel, CUdevice) {
  const std::lock_guard lock(mutex);
  const auto* function = reinterpret_cast<const Function*>(kernel);
  try {  // static shared memory
    *value = static_cast<int>(function->module->kernel(function->name).static_shared -
                              model::kReservedShared);
  } catch (const std::exception& error) {
    return failed(error);
  }
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
  const std::lock_guard lock(mutex);
  const auto* function = reinterpret_cast<const Function*>(handle);
  model::Launch launch;
  launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.dynamic_shared = config->sharedMemBytes;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = attribute.value.clusterDim;
      launch.cluster = {cluster.x, cluster.y, cluster.z};
    }
    launch.cooperative |= attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  }
  try {
    const model::Kernel& kernel = function->module->kernel(function->name);
    constexpr size_t kAlignment = 128;
    std::vector<unsigned char> memory(kernel.parameter_bytes + kAlignment);
    unsigned char* parameters =
        memory.data() + kAlignment - reinterpret_cast<uintptr_t>(memory.data()) % kAlignment;
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      std::memcpy(parameters + kernel.parameters[i].at, params[i], kernel.parameters[i].bytes);
    }
    model::run(kernel, launch, parameters);
  } catch (const std::exception& error) {
    return failed(error);
  }
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction, const CUlaunchConfig* config) {
  const unsigned int blocks = config->numAttrs > 0 ? config->attrs[0].value.clusterDim.x : 1;
  return *count = static_cast<int>(kNumSms / blocks), CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType type, uint32_t rank,
                                void* address, const uint64_t* dims, const uint64_t* strides,
                                const uint32_t* box, const uint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  model::TensorMap map = {};
  map.address = reinterpret_cast<uintptr_t>(address);
  map.rank = static_cast<uint16_t>(rank);
  map.element_bytes = bytes_of(type);
  map.swizzle_128 = swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
  if (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && !map.swizzle_128) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t d = 0; d < rank; ++d) {
    map.dims[d] = static_cast<uint32_t>(std::min<uint64_t>(dims[d], UINT32_MAX));
    map.box[d] = static_cast<uint16_t>(box[d]);
    map.strides[d] = d == 0 ? map.element_bytes : strides[d - 1];
  }
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // extern "C"
