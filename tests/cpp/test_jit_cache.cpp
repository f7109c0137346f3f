// The JIT without a GPU: hashes, the include scanner, the cache under races and damage, and real
// compiles where NVRTC is found.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ac4k/ac4k.h"
#include "cuda/driver/cache.hpp"
#include "cuda/driver/cubin.hpp"
#include "cuda/driver/file_lock.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/jit.hpp"
#include "cuda/driver/json_reader.hpp"
#include "cuda/driver/nvrtc.hpp"
#include "cuda/driver/sha256.hpp"

#if defined(__SANITIZE_ADDRESS__)
// NVRTC keeps memory of its own until the process ends.
extern "C" const char* __lsan_default_suppressions() { return "leak:libnvrtc\n"; }
#endif

namespace {

using namespace ac4k;
using namespace ac4k::cuda;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void make_fifo(const fs::path& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }

std::string read(const fs::path& path) {
  std::string text;
  EXPECT_TRUE(read_file(path, &text)) << path;
  return text;
}

// A folder that is gone after the test.
class Scratch : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ac4k_test.XXXXXX").string();
    root = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(root); }
  fs::path root;
};

// Vectors of FIPS 180-4 and NIST's examples.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesDoNotMatterButFieldsDo) {
  const std::string text(300, 'x');
  for (size_t cut = 0; cut <= text.size(); cut += 7) {
    EXPECT_EQ(Sha256().add(text.substr(0, cut)).add(text.substr(cut)).hex(), sha256_hex(text));
  }
  EXPECT_NE(Sha256().add_field("ab").add_field("c").hex(),
            Sha256().add_field("a").add_field("bc").hex());
}

TEST(JsonReader, ReadsAndRefuses) {
  const auto value = parse_json(R"( {"a": "x\n\"\u0041", "b": [1, -2.5e3, null], "c": {}} )");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->get("a"), "x\n\"A");
  EXPECT_EQ(value->fields.at("b").items.size(), 3u);
  EXPECT_EQ(value->get("missing"), "");
  for (const char* bad : {"", "{", "{\"a\"}", "{\"a\":}", "[1,]", "\"x", "{} x", "nul", "\"\\x\"",
                          "\"\\u12", "{\"a\":1,}", "-", "\\"}) {
    EXPECT_FALSE(parse_json(bad)) << bad;
  }
  EXPECT_FALSE(parse_json(std::string(100000, '[')));  // no deep recursion
}

class Includes : public Scratch {
 protected:
  std::string key(const fs::path& tree, const std::string& source) {
    Sha256 hash;
    add_to_hash(scan_includes(source, tree, {tree, tree / "include"}), &hash);
    return hash.hex();
  }
};

TEST_F(Includes, ResolvesAndFollows) {
  write(root / "common/a.cuh", "#include \"b.cuh\"\n");       // beside the includer
  write(root / "common/b.cuh", "#  include <c.cuh> // c\n");  // from a root
  write(root / "include/c.cuh", "int c;\n");
  const auto records = scan_includes(
      "#pragma once\n  #include \"common/a.cuh\"\n#include <vector>\n#include MACRO\n"
      "#if __has_include(<c.cuh>)\n#include \"common/a.cuh\"",
      root, {root, root / "include"});
  ASSERT_EQ(records.size(), 7u);
  EXPECT_EQ(records[0].spelling, "\"common/a.cuh\"");
  EXPECT_EQ(records[1].file, 1);
  EXPECT_EQ(records[2].sha256, sha256_hex("int c;\n"));
  EXPECT_EQ(records[3].file, -1);  // <vector> is nowhere, and still in the key
  EXPECT_EQ(records[4].spelling, "include MACRO");
  EXPECT_EQ(records[5].file, 2);  // __has_include
  EXPECT_EQ(records[6].file, 0);  // again
}

TEST_F(Includes, CyclesEnd) {
  write(root / "a.cuh", "#include \"b.cuh\"\n#include \"a.cuh\"\n");
  write(root / "b.cuh", "#include \"a.cuh\"\n");
  EXPECT_EQ(scan_includes("#include \"a.cuh\"\n", root, {root}).size(), 4u);
}

TEST_F(Includes, KeyKnowsContentsAndNotPlaces) {
  const std::string source = "#include \"x/a.cuh\"\n";
  for (const char* tree : {"one", "two/deeper"}) {
    write(root / tree / "x/a.cuh", "#include \"b.cuh\"\n");
    write(root / tree / "x/b.cuh", "int b;\n");
  }
  const std::string before = key(root / "one", source);
  EXPECT_EQ(before, key(root / "two/deeper", source));
  fs::last_write_time(root / "one/x/b.cuh", fs::file_time_type::clock::now() - 24h);
  EXPECT_EQ(before, key(root / "one", source));
  write(root / "one/x/b.cuh", "int c;\n");
  EXPECT_NE(before, key(root / "one", source));
  fs::remove(root / "two/deeper/x/b.cuh");
  EXPECT_NE(before, key(root / "two/deeper", source));
}

class CacheTest : public Scratch {
 protected:
  // A build that leaves one byte in `count`, whoever runs it.
  Cache::Builder builder(std::chrono::milliseconds takes = 0ms) {
    return [this, takes](CacheEntry* entry) {
      std::ofstream(root / "count", std::ios::app) << '.';
      std::this_thread::sleep_for(takes);
      *entry = {.cubin = "the cubin",
                .name = "op",
                .arch = "sm90a",
                .compiler = "cc 1",
                .flags = "-a\n-b",
                .log = "quote \" and\ttab",
                .lowered = {{"f<1>", "_Z1f"}},
                .seconds = 0.5};
      return AC4K_OK;
    };
  }
  size_t num_builds() { return fs::exists(root / "count") ? fs::file_size(root / "count") : 0; }
  Cache::Origin get(const Cache& cache, std::chrono::milliseconds takes = 0ms) {
    CacheEntry entry;
    Cache::Origin origin;
    EXPECT_EQ(cache.get_or_build(kKey, "op", builder(takes), &entry, &origin), AC4K_OK);
    EXPECT_EQ(entry.cubin, "the cubin");
    EXPECT_EQ(entry.lowered.at("f<1>"), "_Z1f");
    EXPECT_EQ(entry.log, "quote \" and\ttab");
    EXPECT_EQ(entry.seconds, 0.5);
    return origin;
  }

  static void in_processes(int count, const std::function<void()>& body) {
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        body();
        _exit(HasFailure() ? 1 : 0);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
  }

  const std::string kKey = std::string(64, 'a');
};

TEST_F(CacheTest, BuildsOnceAndFindsAgain) {
  const Cache cache({root / "c"});
  EXPECT_FALSE(cache.find(kKey));
  EXPECT_EQ(get(cache), Cache::Origin::compiled);
  EXPECT_EQ(get(cache), Cache::Origin::cache);
  EXPECT_EQ(get(Cache({root / "c"})), Cache::Origin::cache);
  EXPECT_EQ(num_builds(), 1u);
  EXPECT_TRUE(fs::is_empty(root / "c/tmp"));
  ASSERT_EQ(cache.list().size(), 1u);
  EXPECT_EQ(cache.list()[0].entry.arch, "sm90a");
  EXPECT_EQ(cache.list()[0].cubin_bytes, 9u);
  EXPECT_EQ(cache.clear(), 1);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_EQ(get(cache), Cache::Origin::compiled);
}

TEST_F(CacheTest, FailedBuildLeavesNothing) {
  const Cache cache({root / "c"});
  CacheEntry entry;
  Cache::Origin origin;
  const auto failing = [](CacheEntry*) { return fail(AC4K_RUNTIME_ERROR, "no"); };
  EXPECT_EQ(cache.get_or_build(kKey, "op", failing, &entry, &origin), AC4K_RUNTIME_ERROR);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_EQ(get(cache), Cache::Origin::compiled);
}

TEST_F(CacheTest, DamagedEntryIsRebuiltOnce) {
  const Cache cache({root / "c"});
  const fs::path entry = root / "c/jit" / kKey;
  get(cache);
  size_t expected = 1;
  const std::vector<std::function<void()>> damages = {
      [&] { write(entry / "kernel.cubin", "the cubim"); },
      [&] { write(entry / "kernel.cubin", "the"); },
      [&] { write(entry / "kernel.cubin", ""); },
      [&] { fs::remove(entry / "kernel.cubin"); },
      [&] { fs::remove(entry / "meta.json"); },
      [&] { write(entry / "meta.json", ""); },
      [&] { write(entry / "meta.json", "{\"name\": \"op\""); },
      [&] { write(entry / "meta.json", "[]"); },
      [&] { write(entry / "meta.json", std::string(5000, '\0')); },
      [&] { fs::remove_all(entry), fs::create_directory(entry); },
      [&] { fs::remove_all(entry), write(entry, "a file"); },
      [&] { fs::resize_file(entry / "kernel.cubin", uintmax_t{1} << 40); },
      [&] { fs::resize_file(entry / "meta.json", uintmax_t{1} << 40); },
      [&] { fs::remove(entry / "meta.json"), make_fifo(entry / "meta.json"); },
      [&] { fs::remove(entry / "kernel.cubin"), make_fifo(entry / "kernel.cubin"); },
  };
  for (const auto& damage : damages) {
    damage();
    EXPECT_EQ(get(cache), Cache::Origin::compiled) << expected;
    EXPECT_EQ(num_builds(), ++expected);
    EXPECT_EQ(get(cache), Cache::Origin::cache);
  }
  EXPECT_TRUE(fs::is_empty(root / "c/tmp"));
}

TEST_F(CacheTest, OtherRootsAreOnlyRead) {
  get(Cache({root / "shared"}));
  const Cache cache({root / "mine", root / "shared"});
  EXPECT_EQ(get(cache), Cache::Origin::cache);
  EXPECT_FALSE(fs::exists(root / "mine"));
  write(root / "shared/jit" / kKey / "kernel.cubin", "bad");
  EXPECT_EQ(get(cache), Cache::Origin::compiled);
  EXPECT_TRUE(fs::exists(root / "mine/jit" / kKey));
  EXPECT_EQ(read(root / "shared/jit" / kKey / "kernel.cubin"), "bad");  // not ours to mend
  cache.clear();
  EXPECT_TRUE(fs::exists(root / "shared/jit" / kKey));
}

TEST_F(CacheTest, UnwritableRootStillWorks) {
  // A file where a folder should be stops root too, whom permissions do not.
  write(root / "file", "");
  testing::internal::CaptureStderr();
  for (const Cache& cache : {Cache({root / "file"}), Cache({"/proc/nowhere"}), Cache({})}) {
    EXPECT_EQ(get(cache), Cache::Origin::compiled);
    EXPECT_TRUE(cache.list().empty());
    EXPECT_EQ(cache.clear(), 0);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const size_t said = text.find("cannot be written");
  EXPECT_NE(said, std::string::npos) << text;
  EXPECT_EQ(text.find("kernel cache", text.find('\n')), std::string::npos)
      << "said twice: " << text;
}

// Eight processes at once, several times over: none fails, the entry appears, nobody builds twice.
TEST_F(CacheTest, RacingProcesses) {
  constexpr int kProcesses = 8;
  for (const bool locked : {true, false}) {
    const fs::path place = root / (locked ? "locked" : "unlocked");
    fs::remove(root / "count");
    in_processes(kProcesses, [&] {
      // Without patience nobody waits, and only the renames keep order.
      const Cache cache({place}, locked ? std::chrono::milliseconds(60s) : 0ms);
      get(cache, 50ms);
      get(cache);
    });
    EXPECT_TRUE(Cache({place}).find(kKey));
    EXPECT_TRUE(fs::is_empty(place / "tmp"));
    EXPECT_LE(num_builds(), locked ? 1u : size_t{kProcesses});
  }
}

TEST_F(CacheTest, RacingProcessesMendDamage) {
  const Cache cache({root / "c"});
  get(cache);
  write(root / "c/jit" / kKey / "kernel.cubin", "bad");
  in_processes(8, [&] { get(cache, 10ms); });
  EXPECT_EQ(num_builds(), 2u);
}

TEST_F(CacheTest, KilledProcessLeavesNoLock) {
  const Cache cache({root / "c"});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    get(cache, 60s);
    _exit(0);
  }
  while (num_builds() == 0) std::this_thread::sleep_for(1ms);  // it holds the lock now
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(get(cache), Cache::Origin::compiled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(CacheTest, LockTimesOutWithAMessage) {
  const FileLock held(root / "lock", 0ms, "to test");
  EXPECT_TRUE(held.held());
  testing::internal::CaptureStderr();
  const FileLock late(root / "lock", 50ms, "to test");
  EXPECT_FALSE(late.held());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("another process to test"),
            std::string::npos);
}

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
  EXPECT_EQ(ac4k_jit_clear(&removed), AC4K_OK);
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
