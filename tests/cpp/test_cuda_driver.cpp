// The CUDA driver layer: its ABI against the real header, and everything up to the launch against a
// fake driver. No GPU is needed. Tests with the fake run in processes of their own, since a process
// has one driver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/arch.hpp"
#include "cuda/driver/device.hpp"
#include "cuda/driver/launch.hpp"
#include "cuda/driver/module.hpp"
#include "cuda/driver/settings.hpp"
#include "cuda/driver/tensor_map.hpp"
#include "fake_cuda.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>  // last: it renames functions by macros
#elif __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#endif

namespace {

using namespace ac4k;
namespace cu = ac4k::cuda;
namespace fs = std::filesystem;

#if defined(CUDA_VERSION)
// Values and layouts of abi.hpp against the header at hand.
#define AC4K_SAME(name) static_assert(static_cast<int>(cu::name) == static_cast<int>(::name))
#define AC4K_SAME_OFFSET(type, field) \
  static_assert(offsetof(cu::type, field) == offsetof(::type, field))
AC4K_SAME(CUDA_SUCCESS);
AC4K_SAME(CUDA_ERROR_INVALID_VALUE);
AC4K_SAME(CUDA_ERROR_OUT_OF_MEMORY);
AC4K_SAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
AC4K_SAME(CUDA_ERROR_NO_DEVICE);
AC4K_SAME(CUDA_ERROR_INVALID_DEVICE);
AC4K_SAME(CUDA_ERROR_INVALID_CONTEXT);
AC4K_SAME(CUDA_ERROR_NO_BINARY_FOR_GPU);
AC4K_SAME(CUDA_ERROR_NOT_FOUND);
AC4K_SAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
AC4K_SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
AC4K_SAME(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
AC4K_SAME(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
AC4K_SAME(CU_FUNC_ATTRIBUTE_NUM_REGS);
AC4K_SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
AC4K_SAME(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
AC4K_SAME(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
AC4K_SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
AC4K_SAME(CU_STREAM_CAPTURE_STATUS_NONE);
AC4K_SAME(CU_STREAM_CAPTURE_STATUS_ACTIVE);
AC4K_SAME(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
AC4K_SAME(CU_STREAM_CAPTURE_MODE_GLOBAL);
AC4K_SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
AC4K_SAME(CU_STREAM_CAPTURE_MODE_RELAXED);
AC4K_SAME(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
AC4K_SAME(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
AC4K_SAME(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_UINT8);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_UINT16);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_UINT32);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_INT32);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_UINT64);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_INT64);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
AC4K_SAME(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
AC4K_SAME(CU_TENSOR_MAP_INTERLEAVE_NONE);
AC4K_SAME(CU_TENSOR_MAP_SWIZZLE_NONE);
AC4K_SAME(CU_TENSOR_MAP_SWIZZLE_32B);
AC4K_SAME(CU_TENSOR_MAP_SWIZZLE_64B);
AC4K_SAME(CU_TENSOR_MAP_SWIZZLE_128B);
AC4K_SAME(CU_TENSOR_MAP_L2_PROMOTION_NONE);
AC4K_SAME(CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
AC4K_SAME(CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
AC4K_SAME(CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
AC4K_SAME(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
AC4K_SAME(CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
static_assert(sizeof(cu::CUdeviceptr) == sizeof(::CUdeviceptr));
static_assert(sizeof(cu::CUdevice) == sizeof(::CUdevice));
static_assert(sizeof(cu::CUresult) == sizeof(::CUresult));
static_assert(sizeof(cu::CUtensorMap) == sizeof(::CUtensorMap));
static_assert(sizeof(cu::CUlaunchAttributeValue) == sizeof(::CUlaunchAttributeValue));
static_assert(alignof(cu::CUlaunchAttributeValue) == alignof(::CUlaunchAttributeValue));
static_assert(sizeof(cu::CUlaunchAttribute) == sizeof(::CUlaunchAttribute));
static_assert(sizeof(cu::CUlaunchConfig) == sizeof(::CUlaunchConfig));
AC4K_SAME_OFFSET(CUlaunchAttribute, value);
AC4K_SAME_OFFSET(CUlaunchAttributeValue, clusterDim);
AC4K_SAME_OFFSET(CUlaunchConfig, blockDimX);
AC4K_SAME_OFFSET(CUlaunchConfig, sharedMemBytes);
AC4K_SAME_OFFSET(CUlaunchConfig, hStream);
AC4K_SAME_OFFSET(CUlaunchConfig, attrs);
AC4K_SAME_OFFSET(CUlaunchConfig, numAttrs);
#endif

TEST(CudaArch, TableAndSpellings) {
  ASSERT_NE(cu::find_architecture("sm90a"), nullptr);
  EXPECT_STREQ(cu::find_architecture(9, 0)->name, "sm90a");
  EXPECT_STREQ(cu::find_architecture(8, 9)->name, "sm89");
  EXPECT_EQ(cu::find_architecture(1, 0), nullptr);
  std::string text;
  EXPECT_EQ(cu::compiler_arch("sm100a", &text), AC4K_OK);
  EXPECT_EQ(text, "sm_100a");
  for (const char* bad : {"", "sm", "sm9", "90a", "sm90ab", "sm_90a", "gfx942", "sm90a -I/etc"}) {
    EXPECT_EQ(cu::compiler_arch(bad, &text), AC4K_INVALID_VALUE) << bad;
  }
  EXPECT_NE(std::string(ac4k_last_error()).find("sm90a"), std::string::npos);
}

TEST(TensorMap, SaysWhichRuleIsBroken) {
  alignas(16) static char memory[16];
  const cu::TensorMapSpec good = {.type = cu::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                  .address = memory,
                                  .rank = 2,
                                  .dims = {4096, 100},
                                  .strides = {8192},
                                  .box = {64, 128},
                                  .swizzle = cu::CU_TENSOR_MAP_SWIZZLE_128B};
  EXPECT_EQ(cu::check_tensor_map(good), AC4K_OK);
  const auto expect_broken = [&](auto change, const char* text) {
    cu::TensorMapSpec spec = good;
    change(spec);
    EXPECT_EQ(cu::check_tensor_map(spec), AC4K_INVALID_VALUE) << text;
    EXPECT_NE(std::string(ac4k_last_error()).find(text), std::string::npos) << ac4k_last_error();
  };
  expect_broken([](auto& s) { s.rank = 0; }, "rank must be 1 to 5, got 0");
  expect_broken([](auto& s) { s.rank = 6; }, "rank must be 1 to 5, got 6");
  expect_broken([](auto& s) { s.address = nullptr; }, "address is null");
  expect_broken([](auto& s) { s.address = memory + 8; }, "address must be a multiple of 16");
  expect_broken([](auto& s) { s.dims[1] = 0; }, "dimension 1 must be 1 to 2^32, got 0");
  expect_broken([](auto& s) { s.box[1] = 257; }, "box size 1 must be 1 to 256, got 257");
  expect_broken([](auto& s) { s.strides[0] = 8200; }, "stride of dimension 1");
  expect_broken([](auto& s) { s.box[0] = 4; }, "multiple of 16 bytes, got 4 x 2 = 8");
  expect_broken([](auto& s) { s.box[0] = 128; }, "at most 128 bytes");
  expect_broken(
      [](auto& s) {
        s.type = cu::CU_TENSOR_MAP_DATA_TYPE_UINT16;
        s.fill = cu::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
      },
      "only floating-point");
}

// ---- With the fake driver ----

struct Params {
  const void* x;
  int n;
};

constinit cu::Kernel static_kernel("common/fake", "scale");
constinit cu::Kernel missing_kernel("common/fake", "missing");
constinit cu::Kernel uncompiled_kernel("common/uncompiled", "scale");

// Each test's body runs in a fresh process ("threadsafe"), where no driver is open yet. The fake
// comes from the variable FAKE_LIBCUDA, else it is compiled here, once.
class FakeDriver : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
#if defined(AC4K_SOURCE_DIR)
    if (std::getenv("FAKE_LIBCUDA") != nullptr) return;
    const std::string source = AC4K_SOURCE_DIR;
    built = fs::temp_directory_path() / ("fake_cuda." + std::to_string(getpid()) + ".so");
    const std::string command = "c++ -std=c++20 -shared -fPIC -I" + source + "/src -o " + built +
                                " " + source + "/tests/cpp/fake_cuda.cpp";
    if (std::system(command.c_str()) == 0) setenv("FAKE_LIBCUDA", built.c_str(), 1);
#endif
  }
  static void TearDownTestSuite() {
    if (!built.empty()) unsetenv("FAKE_LIBCUDA");
    std::error_code error;
    fs::remove(built, error);
  }
  void SetUp() override {
    if (std::getenv("FAKE_LIBCUDA") == nullptr) GTEST_SKIP() << "no compiler for the fake driver";
  }

  static void in_child(void (*body)()) {
    EXPECT_EXIT(
        {
          body();
          fs::remove_all(scratch);
          exit_with_result();
        },
        testing::ExitedWithCode(0), "");
  }

  // A child's failures are seen only when they go to stderr.
  [[noreturn]] static void exit_with_result() {
    const testing::TestResult* result =
        testing::UnitTest::GetInstance()->current_test_info()->result();
    for (int i = 0; i < result->total_part_count(); ++i) {
      const testing::TestPartResult& part = result->GetTestPartResult(i);
      std::fprintf(stderr, "%s:%d: %s\n", part.file_name(), part.line_number(), part.message());
    }
    std::exit(HasFailure() ? 1 : 0);
  }

  // In the child: opens the fake, beside a package with cubins of common/fake.
  static FakeCuda& enter(const char* jit_mode = "off") {
    const char* library = std::getenv("FAKE_LIBCUDA");
    cu::set_libcuda_path_for_testing(library);
    EXPECT_NE(cu::driver(), nullptr) << cu::driver_error();
    scratch = fs::temp_directory_path() / ("ac4k_test." + std::to_string(getpid()));
    fs::create_directories(scratch / "cubin");
    fs::create_directories(scratch / "src/common");
    for (const char* arch : {"sm90a", "sm89"}) {
      std::ofstream(scratch / "cubin" / (std::string("common.fake.") + arch + ".cubin")) << "cubin";
    }
    std::ofstream(scratch / "src/common/uncompiled.cu")
        << "extern \"C\" __global__ void scale() {}\n";
    cu::set_data_dir_for_testing(scratch);
    EXPECT_EQ(cu::set_cache_dir((scratch / "cache").string()), AC4K_OK);
    EXPECT_EQ(cu::set_jit_mode(jit_mode), AC4K_OK);
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    return *reinterpret_cast<FakeCuda* (*)()>(dlsym(handle, "fake_cuda_state"))();
  }

  static inline std::string built;
  static inline fs::path scratch;
};

void said(const char* text) {
  EXPECT_NE(std::string(ac4k_last_error()).find(text), std::string::npos)
      << "expected \"" << text << "\" in \"" << ac4k_last_error() << '"';
}

TEST_F(FakeDriver, NoDriverGivesTheReason) {
  in_child([] {
    cu::set_libcuda_path_for_testing("/nowhere/libcuda.so.1");
    EXPECT_EQ(cu::driver(), nullptr);
    EXPECT_NE(cu::driver_error().find("/nowhere/libcuda.so.1"), std::string::npos);
    EXPECT_EQ(cu::device_count(), 0);
    Status status = AC4K_OK;
    EXPECT_EQ(cu::device_properties(0, status), nullptr);
    EXPECT_EQ(status, AC4K_UNSUPPORTED);
    said("no CUDA driver");
    EXPECT_EQ(cu::launch(static_kernel, {}, 0, nullptr, Params{}), AC4K_UNSUPPORTED);
  });
}

TEST_F(FakeDriver, DeviceProperties) {
  in_child([] {
    enter();
    Status status = AC4K_OK;
    const cu::DeviceProperties* first = cu::device_properties(0, status);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->name, "Fake GPU 0");
    EXPECT_EQ(first->arch, "sm90a");
    EXPECT_EQ(first->sm_count, 132);
    EXPECT_EQ(first->l2_bytes, 60 << 20);
    EXPECT_EQ(cu::device_properties(0, status), first);
    EXPECT_EQ(cu::device_properties(2, status)->arch, "sm89");
    EXPECT_EQ(cu::device_properties(3, status)->arch, "sm70");
    EXPECT_FALSE(cu::device_properties(3, status)->supported);
    for (const int bad : {-1, 4, 31, 32, 1000}) {
      EXPECT_EQ(cu::device_properties(bad, status), nullptr);
      EXPECT_EQ(status, AC4K_INVALID_VALUE);
    }
  });
}

TEST_F(FakeDriver, TellsWhoseMemoryItIs) {
  in_child([] {
    const auto device_of = [](uint64_t address) {
      return ac4k_device_of(reinterpret_cast<void*>(address));
    };
    cu::set_libcuda_path_for_testing(std::getenv("FAKE_LIBCUDA"));
    EXPECT_EQ(device_of(FakeCuda::kMemory), -1);  // nobody has opened a driver yet
    enter();
    EXPECT_EQ(device_of(FakeCuda::kMemory - 1), 0);
    EXPECT_EQ(device_of(FakeCuda::kMemory), 1);
    EXPECT_EQ(device_of(FakeCuda::kMemory * 3 + 77), 3);
    int on_host = 0;
    EXPECT_EQ(ac4k_device_of(&on_host), -1);
  });
}

TEST_F(FakeDriver, LaunchPassesEverythingOn) {
  in_child([] {
    FakeCuda& fake = enter();
    const Params params = {nullptr, 7};
    auto* const stream = reinterpret_cast<void*>(0x77);
    const cu::LaunchConfig config = {.grid = {8, 4, 2},
                                     .block = {128, 2, 1},
                                     .cluster = {2, 1, 1},
                                     .shared_bytes = 1000,
                                     .dependent = true,
                                     .cooperative = true};
    ASSERT_EQ(cu::launch(static_kernel, config, 1, stream, params), AC4K_OK) << ac4k_last_error();
    EXPECT_EQ(fake.num_launches, 1);
    EXPECT_EQ(fake.device_of_launch, 1);
    EXPECT_EQ(fake.first_param, &params);
    EXPECT_EQ(fake.config.gridDimX, 8u);
    EXPECT_EQ(fake.config.gridDimZ, 2u);
    EXPECT_EQ(fake.config.blockDimY, 2u);
    EXPECT_EQ(fake.config.sharedMemBytes, 1000u);
    EXPECT_EQ(static_cast<void*>(fake.config.hStream), stream);
    ASSERT_EQ(fake.config.numAttrs, 3u);
    EXPECT_EQ(fake.attributes[0].id, cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    EXPECT_EQ(fake.attributes[0].value.clusterDim.x, 2u);
    EXPECT_EQ(fake.attributes[1].id, cu::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    EXPECT_EQ(fake.attributes[1].value.programmaticStreamSerializationAllowed, 1);
    EXPECT_EQ(fake.attributes[2].id, cu::CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    EXPECT_EQ(fake.attributes[2].value.cooperative, 1);
    EXPECT_EQ(fake.num_pushes, fake.num_pops);
    EXPECT_EQ(fake.num_attribute_sets, 0);
  });
}

TEST_F(FakeDriver, ClustersAtOnce) {
  in_child([] {
    FakeCuda& fake = enter();
    int count = 0;
    const cu::LaunchConfig config = {
        .grid = {8, 1, 1}, .block = {512, 1, 1}, .cluster = {8, 1, 1}, .shared_bytes = 200 * 1024};
    ASSERT_EQ(cu::max_active_clusters(static_kernel, config, 0, nullptr, &count), AC4K_OK);
    EXPECT_EQ(count, 16);
    EXPECT_EQ(fake.num_launches, 0);
    EXPECT_EQ(fake.max_dynamic_shared, 226 * 1024);
    EXPECT_EQ(fake.num_pushes, fake.num_pops);
  });
}

TEST_F(FakeDriver, LargeClustersAreAllowedOnce) {
  in_child([] {
    FakeCuda& fake = enter();
    const auto launch = [](uint32_t blocks) {
      return cu::launch(static_kernel, {.grid = {blocks, 1, 1}, .cluster = {blocks, 1, 1}}, 0,
                        nullptr, Params{});
    };
    ASSERT_EQ(launch(8), AC4K_OK);
    EXPECT_EQ(fake.large_clusters, 0);
    ASSERT_EQ(launch(16), AC4K_OK);
    EXPECT_EQ(fake.large_clusters, 1);
    ASSERT_EQ(launch(16), AC4K_OK);
    EXPECT_EQ(fake.num_attribute_sets, 1);
  });
}

TEST_F(FakeDriver, OneLibraryServesDevicesOfOneArchitecture) {
  in_child([] {
    FakeCuda& fake = enter();
    for (const int device : {0, 1, 2, 0, 1, 2}) {
      ASSERT_EQ(cu::launch(static_kernel, {}, device, nullptr, Params{}), AC4K_OK);
      EXPECT_EQ(fake.device_of_launch, device);
    }
    EXPECT_EQ(fake.num_loads, 2);  // sm90a and sm89
    EXPECT_EQ(cu::launch(static_kernel, {}, 3, nullptr, Params{}), AC4K_UNSUPPORTED);
    said("sm70, for which AC4K has no kernels; it has them for sm89, sm90a");
    EXPECT_EQ(cu::launch(static_kernel, {}, 4, nullptr, Params{}), AC4K_INVALID_VALUE);
  });
}

TEST_F(FakeDriver, CurrentContextIsKept) {
  in_child([] {
    FakeCuda& fake = enter();
    const cu::DeviceGuard outer(1);
    ASSERT_EQ(outer.status(), AC4K_OK);
    const int pushes = fake.num_pushes;
    ASSERT_EQ(cu::launch(static_kernel, {}, 1, nullptr, Params{}), AC4K_OK);
    EXPECT_EQ(fake.num_pushes, pushes);  // already current: nothing to push
    ASSERT_EQ(cu::launch(static_kernel, {}, 0, nullptr, Params{}), AC4K_OK);
    EXPECT_EQ(fake.device_of_launch, 0);
    int device = -1;
    EXPECT_EQ(cu::current_device(&device), AC4K_OK);
    EXPECT_EQ(device, 1);
  });
}

TEST_F(FakeDriver, SharedMemoryIsRaisedOnce) {
  in_child([] {
    FakeCuda& fake = enter();
    const auto launch = [](uint32_t bytes) {
      return cu::launch(static_kernel, {.shared_bytes = bytes}, 0, nullptr, Params{});
    };
    ASSERT_EQ(launch(47 * 1024), AC4K_OK);  // the fake kernel has 1024 static bytes of the 48 K
    EXPECT_EQ(fake.num_attribute_sets, 0);
    ASSERT_EQ(launch(48 * 1024), AC4K_OK);
    EXPECT_EQ(fake.num_attribute_sets, 1);
    ASSERT_EQ(launch(226 * 1024), AC4K_OK);
    EXPECT_EQ(fake.num_attribute_sets, 1);
    EXPECT_EQ(fake.max_dynamic_shared, 226 * 1024);
    EXPECT_EQ(launch(227 * 1024), AC4K_INVALID_VALUE);
    said("Fake GPU 0 has 231424 for it");
    EXPECT_EQ(fake.num_launches, 3);
  });
}

TEST_F(FakeDriver, BadLaunchesAreRefused) {
  in_child([] {
    FakeCuda& fake = enter();
    const auto refused = [](const cu::LaunchConfig& config, const char* text) {
      EXPECT_EQ(cu::launch(static_kernel, config, 0, nullptr, Params{}), AC4K_INVALID_VALUE);
      said(text);
    };
    refused({.grid = {0, 1, 1}}, "grid of 0 x 1 x 1");
    refused({.grid = {0x80000000u, 1, 1}}, "grid of 2147483648 x 1 x 1");
    refused({.grid = {1, 65536, 1}}, "grid of 1 x 65536 x 1");
    refused({.grid = {1, 1, 65536}}, "grid of 1 x 1 x 65536");
    refused({.block = {1025, 1, 1}}, "block of 1025 x 1 x 1");
    refused({.block = {32, 32, 2}}, "block of 32 x 32 x 2");
    refused({.block = {0xffffffffu, 0xffffffffu, 0xffffffffu}}, "block of");
    refused({.grid = {3, 1, 1}, .cluster = {2, 1, 1}}, "clusters of 2 x 1 x 1 do not divide");
    refused({.cluster = {2, 0, 0}}, "clusters of 2 x 0 x 0");
    EXPECT_EQ(fake.num_launches, 0);
    ASSERT_EQ(cu::launch(static_kernel, {.grid = {0x7fffffff, 65535, 65535}}, 0, nullptr, Params{}),
              AC4K_OK);
    fake.launch_result = 2;
    EXPECT_EQ(cu::launch(static_kernel, {}, 0, nullptr, Params{}), AC4K_OUT_OF_MEMORY);
    said("CUDA_ERROR_OUT_OF_MEMORY (what the driver says): during cuLaunchKernelEx");
    said("common/fake:scale");
    fake.launch_result = 720;
    EXPECT_EQ(cu::launch(static_kernel, {.cooperative = true}, 0, nullptr, Params{}),
              AC4K_UNSUPPORTED);
    EXPECT_EQ(cu::launch(missing_kernel, {}, 0, nullptr, Params{}), AC4K_RUNTIME_ERROR);
    said("CUDA_ERROR_NOT_FOUND (what the driver says): during cuLibraryGetKernel: kernel missing");
  });
}

TEST_F(FakeDriver, CaptureLoadsButDoesNotCompile) {
  in_child([] {
    FakeCuda& fake = enter("auto");
    fake.capturing = true;
    ASSERT_EQ(cu::launch(static_kernel, {}, 0, nullptr, Params{}), AC4K_OK) << ac4k_last_error();
    const Status status = cu::launch(uncompiled_kernel, {}, 0, nullptr, Params{});
    if (std::string(ac4k_last_error()).find("NVRTC") != std::string::npos) return;  // none here
    EXPECT_EQ(status, AC4K_RUNTIME_ERROR);
    said("common/uncompiled for sm90a: would compile under stream capture");
  });
}

TEST_F(FakeDriver, HooksGoAroundAFirstUseOnly) {
  in_child([] {
    enter("off");
    static int begun = 0, ended = 0;
    static constexpr ac4k_wait_hooks kHooks = {[] { return static_cast<void*>(&++begun); },
                                               [](void* state) { ended += state == &begun; }};
    ac4k_set_wait_hooks(&kHooks);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cu::launch(static_kernel, {}, 0, nullptr, Params{}), AC4K_OK);
      EXPECT_EQ(begun, 1);
      EXPECT_EQ(ended, 1);
    }
    EXPECT_EQ(cu::launch(uncompiled_kernel, {}, 0, nullptr, Params{}), AC4K_UNSUPPORTED);
    EXPECT_EQ(begun, 2);
    EXPECT_EQ(ended, 2);
    ac4k_set_wait_hooks(nullptr);
    EXPECT_EQ(cu::launch(static_kernel, {}, 1, nullptr, Params{}), AC4K_OK);
    EXPECT_EQ(begun, 2);
  });
}

TEST_F(FakeDriver, OffNamesTheCommand) {
  in_child([] {
    enter("off");
    EXPECT_EQ(cu::launch(uncompiled_kernel, {}, 0, nullptr, Params{}), AC4K_UNSUPPORTED);
    said("common/uncompiled has no compiled kernel for sm90a");
    said("ac4k jit build");
  });
}

TEST_F(FakeDriver, ThreadsResolveOnce) {
  in_child([] {
    FakeCuda& fake = enter();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([i] {
        for (int j = 0; j < 50; ++j) {
          EXPECT_EQ(cu::launch(static_kernel, {.shared_bytes = 64 * 1024}, (i + j) % 3, nullptr,
                               Params{}),
                    AC4K_OK);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fake.num_loads, 2);
    EXPECT_EQ(fake.num_launches, 400);
  });
}

TEST_F(FakeDriver, TensorMapReachesTheDriver) {
  in_child([] {
    enter();
    alignas(16) static char memory[16];
    cu::CUtensorMap map = {};
    const cu::TensorMapSpec spec = {.address = memory, .rank = 1, .dims = {16}, .box = {16}};
    EXPECT_EQ(cu::make_tensor_map(&map, spec), AC4K_OK);
    EXPECT_EQ(map.opaque[0], 1u);
  });
}

}  // namespace
