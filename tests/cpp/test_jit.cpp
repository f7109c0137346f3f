// The JIT without a GPU: real compiles where NVRTC is found.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ac4k/ac4k.h"
#include "cuda/driver/cache.hpp"
#include "cuda/driver/cubin.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/jit.hpp"
#include "cuda/driver/json_reader.hpp"
#include "cuda/driver/nvrtc.hpp"
#include "scratch.hpp"

#if defined(__SANITIZE_ADDRESS__)
// NVRTC keeps memory of its own until the process ends.
extern "C" const char* __lsan_default_suppressions() { return "leak:libnvrtc\n"; }
#endif

namespace {

using namespace ac4k;
using namespace ac4k::cuda;
namespace fs = std::filesystem;

// The one a user would get, else the PyPI package of the development environment.
const Nvrtc* find_nvrtc() {
  const Nvrtc* nvrtc = nullptr;
  if (Nvrtc::get(&nvrtc) == AC4K_OK) return nvrtc;
  std::vector<fs::path> places;
  if (const char* given = std::getenv("VIRTUAL_ENV")) places.emplace_back(given);
#if defined(AC4K_SOURCE_DIR)
  places.push_back(fs::path(AC4K_SOURCE_DIR) / ".venv");
#endif
  for (const fs::path& place : places) {
    std::error_code error;
    for (const auto& python : fs::directory_iterator(place / "lib", error)) {
      const fs::path file = python.path() / "site-packages/nvidia/cu13/lib/libnvrtc.so.13";
      if (!fs::exists(file, error)) continue;
      EXPECT_EQ(set_nvrtc_path(file.string()), AC4K_OK);
      if (Nvrtc::get(&nvrtc) == AC4K_OK) return nvrtc;
    }
  }
  return nullptr;
}

class JitTest : public Scratch {
 protected:
  void SetUp() override {
    Scratch::SetUp();
    ASSERT_EQ(set_cache_dir((root / "cache").string()), AC4K_OK);
    set_data_dir_for_testing(root / "data");
    write(root / "data/src/common/twice.cuh",
          "template <typename T> __device__ T twice(T x) { return x + x; }\n");
    write(root / "data/src/common/module.cu",
          "#include \"common/twice.cuh\"\n"
          "extern \"C\" __global__ void __launch_bounds__(128) f(float* x) {\n"
          "  __shared__ float s[64];\n"
          "  s[threadIdx.x % 64] = x[threadIdx.x];\n"
          "  __syncthreads();\n"
          "  x[threadIdx.x] = twice(s[(threadIdx.x * 7) % 64]);\n}\n"
          "extern \"C\" __global__ void g(float* x) { x[0] = 1; }\n");
    nvrtc = find_nvrtc();
  }
  void TearDown() override {
    set_data_dir_for_testing("");
    EXPECT_EQ(set_cache_dir(""), AC4K_OK);
    EXPECT_EQ(set_jit_mode("auto"), AC4K_OK);
    Scratch::TearDown();
  }
  const Nvrtc* nvrtc = nullptr;
};

#define AC4K_NEEDS_NVRTC() \
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine: " << ac4k_last_error()

TEST(NvrtcTest, MissingOneSaysWhatToInstall) {
  // In a process of its own: this one may have a compiler loaded.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        (void)set_nvrtc_path("/nowhere/libnvrtc.so.13");
        const Nvrtc* none = nullptr;
        const Status status = Nvrtc::get(&none);
        std::fprintf(stderr, "%s\n", ac4k_last_error());
        std::exit(status == AC4K_UNSUPPORTED ? 0 : 1);
      },
      testing::ExitedWithCode(0), "nowhere/libnvrtc.so.13.*pip install ac4k\\[jit\\]");
}

TEST_F(JitTest, OffRefuses) {
  ASSERT_EQ(set_jit_mode("off"), AC4K_OK);
  Cubin cubin;
  EXPECT_EQ(find_cubin("common/module", "sm90a", on_miss_by_setting(), &cubin), AC4K_UNSUPPORTED);
  const std::string text = ac4k_last_error();
  for (const char* part : {"common/module", "sm90a", "ac4k jit build"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(set_jit_mode("sometimes"), AC4K_INVALID_VALUE);
  EXPECT_STREQ(jit_mode(), "off");
}

TEST_F(JitTest, BadNamesAreRefused) {
  Cubin cubin;
  for (const char* bad : {"", "/etc/passwd", "../x", "common/", "a b", "common/none"}) {
    EXPECT_EQ(compile_module(bad, "sm90a", OnMiss::compile, &cubin), AC4K_INVALID_VALUE) << bad;
  }
  EXPECT_EQ(find_cubin("common/module", "sm9x", OnMiss::compile, &cubin), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_jit_compile(nullptr, "f", nullptr, "sm90a", nullptr), AC4K_INVALID_VALUE);
}

TEST_F(JitTest, PackageCubinComesFirstUnlessForced) {
  write(root / "data/cubin/common.module.sm90a.cubin", "from the package");
  Cubin cubin;
  ASSERT_EQ(find_cubin("common/module", "sm90a", OnMiss::refuse_off, &cubin), AC4K_OK);
  EXPECT_EQ(cubin.bytes, "from the package");
  EXPECT_STREQ(cubin.origin, "package");
  AC4K_NEEDS_NVRTC();
  ASSERT_EQ(set_jit_mode("force"), AC4K_OK);
  Cubin forced;
  ASSERT_EQ(find_cubin("common/module", "sm90a", on_miss_by_setting(), &forced), AC4K_OK);
  EXPECT_STREQ(forced.origin, "compiled");
}

TEST_F(JitTest, CompilesAModuleAndFindsItAgain) {
  AC4K_NEEDS_NVRTC();
  Cubin cubin;
  EXPECT_EQ(compile_module("common/module", "sm90a", OnMiss::refuse_capturing, &cubin),
            AC4K_RUNTIME_ERROR);
  EXPECT_NE(std::string(ac4k_last_error()).find("would compile under stream capture"),
            std::string::npos);
  ASSERT_EQ(compile_module("common/module", "sm90a", OnMiss::compile, &cubin), AC4K_OK)
      << ac4k_last_error();
  EXPECT_STREQ(cubin.origin, "compiled");
  std::vector<KernelResources> kernels;
  ASSERT_EQ(read_cubin(cubin.bytes, &kernels), AC4K_OK);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "f");
  EXPECT_GT(kernels[0].registers, 0);
  EXPECT_EQ(kernels[0].local_bytes, 0);
  EXPECT_EQ(kernels[0].shared_bytes, 256);
  EXPECT_EQ(kernels[1].shared_bytes, 0);
  Cubin older;  // without the shared memory that the system keeps from 9.0 on
  ASSERT_EQ(compile_module("common/module", "sm89", OnMiss::compile, &older), AC4K_OK);
  ASSERT_EQ(read_cubin(older.bytes, &kernels), AC4K_OK);
  EXPECT_EQ(kernels[0].shared_bytes, 256);
  for (const OnMiss way : {OnMiss::compile, OnMiss::refuse_capturing, OnMiss::refuse_off}) {
    Cubin again;
    ASSERT_EQ(compile_module("common/module", "sm90a", way, &again), AC4K_OK);
    EXPECT_STREQ(again.origin, "cache");
    EXPECT_EQ(again.bytes, cubin.bytes);
  }
}

TEST_F(JitTest, CubinsTellTheSizesOfParameters) {
  AC4K_NEEDS_NVRTC();
  const char* source =
      "struct Odd { double a[3]; char b; };\n"
      "struct Large { char bytes[20000]; };\n"
      "extern \"C\" __global__ void mixed(int* y, Odd odd, short s, bool b) { *y = odd.b + s; }\n"
      "extern \"C\" __global__ void unused(int, double) {}\n"
      "extern \"C\" __global__ void none() {}\n"
      "extern \"C\" __global__ void large(const __grid_constant__ Large p, char* y) {\n"
      "  *y = p.bytes[19999];\n"
      "}\n";
  for (const char* arch : {"sm89", "sm90a", "sm100a", "sm120a"}) {
    Cubin cubin;
    ASSERT_EQ(compile_source(source, "mixed", {}, arch, OnMiss::compile, &cubin), AC4K_OK)
        << ac4k_last_error();
    std::vector<KernelResources> kernels;
    ASSERT_EQ(read_cubin(cubin.bytes, &kernels), AC4K_OK);
    ASSERT_EQ(kernels.size(), 4u);
    using Sizes = std::vector<uint32_t>;
    EXPECT_EQ(kernels[0].param_bytes, (Sizes{20000, 8})) << arch;
    EXPECT_EQ(kernels[1].param_bytes, (Sizes{8, 32, 2, 1})) << arch;
    EXPECT_EQ(kernels[2].param_bytes, Sizes{}) << arch;
    EXPECT_EQ(kernels[3].param_bytes, (Sizes{4, 8})) << arch;
  }
  ac4k_kernel* kernel = nullptr;
  ASSERT_EQ(ac4k_jit_compile(source, "unused", nullptr, "sm90a", &kernel), AC4K_OK);
  ac4k_launch launch = {};
  int number = 0;
  void* params[] = {&number, nullptr};
  for (void** given : {static_cast<void**>(nullptr), params}) {
    EXPECT_EQ(ac4k_kernel_launch(kernel, &launch, given), AC4K_INVALID_VALUE);
    EXPECT_NE(std::string(ac4k_last_error()).find("'params': expected 2 pointers"),
              std::string::npos)
        << ac4k_last_error();
  }
}

TEST_F(JitTest, KeyFollowsHeadersFlagsAndArchAndNoPaths) {
  AC4K_NEEDS_NVRTC();
  const auto key_of = [](const char* arch) {
    Cubin cubin;
    EXPECT_EQ(compile_module("common/module", arch, OnMiss::compile, &cubin), AC4K_OK)
        << ac4k_last_error();
    return cubin.key;
  };
  const std::string before = key_of("sm90a");
  EXPECT_NE(before, key_of("sm89"));
  fs::rename(root / "data", root / "moved");
  set_data_dir_for_testing(root / "moved");
  EXPECT_EQ(before, key_of("sm90a"));
  write(root / "moved/src/common/twice.cuh",
        "template <typename T> __device__ T twice(T x) { return 2 * x; }\n");
  EXPECT_NE(before, key_of("sm90a"));

  const std::string source = "#include <h.cuh>\n__global__ void f(int* x) { *x = VALUE; }";
  write(root / "i1/h.cuh", "");
  write(root / "i2/h.cuh", "");
  write(root / "i3/h.cuh", "// different\n");
  const auto source_key = [&](const std::vector<std::string>& options) {
    Cubin cubin;
    EXPECT_EQ(compile_source(source, "f", options, "sm90a", OnMiss::compile, &cubin), AC4K_OK)
        << ac4k_last_error();
    return cubin.key;
  };
  const auto include = [&](const char* folder) { return "-I" + (root / folder).string(); };
  const std::string one = source_key({"-DVALUE=1", include("i1")});
  EXPECT_EQ(one, source_key({"-DVALUE=1", include("i2")}));
  EXPECT_EQ(one, source_key({"-DVALUE=1", "-I", (root / "i2").string()}));
  EXPECT_EQ(one, source_key({"-DVALUE=1", "--include-path=" + (root / "i2").string()}));
  EXPECT_NE(one, source_key({"-DVALUE=1", include("i3")}));
  EXPECT_NE(one, source_key({"-DVALUE=2", include("i1")}));
}

TEST_F(JitTest, TemplatesErrorsAndSpills) {
  AC4K_NEEDS_NVRTC();
  const char* source =
      "#include <cuda_bf16.h>\n"
      "template <typename T, int N> __global__ void scale(T* x) { x[threadIdx.x] *= T(N); }\n"
      "__global__ void __launch_bounds__(1024, 2) spill(float* y, int n) {\n"
      "  float a[80];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 80; i++) a[i] = y[i * n];\n"
      "  __syncthreads();\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 80; i++) y[i * n + 1] = a[79 - i] * a[(i * 7) % 80];\n}\n";
  ac4k_kernel* kernel = nullptr;
  ASSERT_EQ(ac4k_jit_compile(source, "scale<__nv_bfloat16, 3>", nullptr, "sm90a", &kernel), AC4K_OK)
      << ac4k_last_error();
  const auto json = parse_json(ac4k_kernel_json(kernel));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->get("name"), "scale<__nv_bfloat16, 3>");
  EXPECT_EQ(json->get("origin"), "compiled");
  EXPECT_EQ(json->get("local_bytes"), "0");
  ac4k_kernel* same = nullptr;
  ASSERT_EQ(ac4k_jit_compile(source, "scale<__nv_bfloat16, 3>", "", "sm90a", &same), AC4K_OK);
  EXPECT_EQ(kernel, same);

  ASSERT_EQ(ac4k_jit_compile(source, "spill", nullptr, "sm90a", &kernel), AC4K_OK);
  const auto spilled = parse_json(ac4k_kernel_json(kernel));
  ASSERT_TRUE(spilled);
  EXPECT_GT(spilled->number("local_bytes"), 0);
  EXPECT_LE(spilled->number("registers"), 32);

  EXPECT_EQ(ac4k_jit_compile("__global__ void f() { oops; }", "f", nullptr, "sm90a", &kernel),
            AC4K_RUNTIME_ERROR);
  const std::string text = ac4k_last_error();
  EXPECT_NE(text.find("kernel.cu(1): error: identifier \"oops\" is undefined"), std::string::npos)
      << text;
  EXPECT_EQ(ac4k_jit_compile(source, "nothing", nullptr, "sm90a", &kernel), AC4K_RUNTIME_ERROR);
  EXPECT_EQ(ac4k_jit_compile(source, "spill", "--no-such-option", "sm90a", &kernel),
            AC4K_RUNTIME_ERROR);
}

TEST_F(JitTest, TextTakesNoHeaderFromTheCurrentDirectory) {
  AC4K_NEEDS_NVRTC();
  write(root / "here/stray.cuh", "");
  const fs::path before = fs::current_path();
  fs::current_path(root / "here");
  Cubin cubin;
  EXPECT_EQ(compile_source("#include \"stray.cuh\"\n__global__ void f() {}", "f", {}, "sm90a",
                           OnMiss::compile, &cubin),
            AC4K_RUNTIME_ERROR);
  fs::current_path(before);
}

TEST_F(JitTest, BuildListClear) {
  AC4K_NEEDS_NVRTC();
  write(root / "data/src/sm89/other.cu", "#error not for this architecture\n");
  ASSERT_EQ(set_jit_mode("off"), AC4K_OK);  // building is asked for, and done all the same
  const char* report = nullptr;
  ASSERT_EQ(ac4k_jit_build(nullptr, "sm90a", &report), AC4K_OK) << ac4k_last_error();
  const auto built = parse_json(report);
  ASSERT_TRUE(built);
  ASSERT_EQ(built->items.size(), 1u);
  EXPECT_EQ(built->items[0].get("module"), "common/module");
  EXPECT_EQ(built->items[0].fields.at("kernels").items.size(), 2u);
  ac4k_kernel* kernel = nullptr;
  // A name of its own, since modules are remembered for the life of the process.
  fs::copy_file(root / "data/src/common/module.cu", root / "data/src/common/build_list_clear.cu");
  ASSERT_EQ(ac4k_jit_build("common/build_list_clear", "sm90a", nullptr), AC4K_OK);
  ASSERT_EQ(ac4k_kernel_find("common/build_list_clear", "f", "sm90a", &kernel), AC4K_OK)
      << ac4k_last_error();
  EXPECT_EQ(parse_json(ac4k_kernel_json(kernel))->get("origin"), "cache");
  EXPECT_EQ(ac4k_kernel_find("common/build_list_clear", "h", "sm90a", &kernel), AC4K_INVALID_VALUE);
  EXPECT_NE(std::string(ac4k_last_error()).find("it has f, g"), std::string::npos);
  const auto listed = parse_json(ac4k_jit_list_json());
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->items.size(), 1u);  // equal contents, one entry
  int64_t removed = 0;
  EXPECT_EQ(ac4k_jit_clear(nullptr, "sm89", &removed), AC4K_OK);
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(ac4k_jit_clear(nullptr, nullptr, &removed), AC4K_OK);
  EXPECT_EQ(removed, 1);
  EXPECT_STREQ(ac4k_jit_list_json(), "[]");
}

TEST_F(JitTest, DamagedCubinsAreErrorsNotCrashes) {
  std::vector<KernelResources> kernels;
  EXPECT_EQ(read_cubin("", &kernels), AC4K_RUNTIME_ERROR);
  EXPECT_EQ(read_cubin("not an ELF file at all, but long enough to be one, or so it seems to be",
                       &kernels),
            AC4K_RUNTIME_ERROR);
  AC4K_NEEDS_NVRTC();
  Cubin cubin;
  ASSERT_EQ(compile_module("common/module", "sm90a", OnMiss::compile, &cubin), AC4K_OK);
  // Every truncation, and every byte of the head and the tables flipped: any answer but a crash.
  for (size_t size = 0; size < cubin.bytes.size(); size += 17) {
    (void)read_cubin(std::string_view(cubin.bytes).substr(0, size), &kernels);
  }
  for (size_t at = 0; at < cubin.bytes.size(); ++at) {
    std::string damaged = cubin.bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    (void)read_cubin(damaged, &kernels);
  }
}

}  // namespace
