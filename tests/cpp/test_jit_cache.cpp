// What the JIT keeps: hashes, the include scanner, and the cache under races and damage.
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
#include "cuda/driver/file_lock.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/json_reader.hpp"
#include "cuda/driver/sha256.hpp"
#include "scratch.hpp"

namespace {

using namespace ac4k;
using namespace ac4k::cuda;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

void make_fifo(const fs::path& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }

std::string read(const fs::path& path) {
  std::string text;
  EXPECT_TRUE(read_file(path, &text)) << path;
  return text;
}

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
  EXPECT_EQ(cache.clear("", ""), 1);
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
  cache.clear("", "");
  EXPECT_TRUE(fs::exists(root / "shared/jit" / kKey));
}

TEST_F(CacheTest, UnwritableRootStillWorks) {
  // A file where a folder should be stops root too, whom permissions do not.
  write(root / "file", "");
  testing::internal::CaptureStderr();
  for (const Cache& cache : {Cache({root / "file"}), Cache({"/proc/nowhere"}), Cache({})}) {
    EXPECT_EQ(get(cache), Cache::Origin::compiled);
    EXPECT_TRUE(cache.list().empty());
    EXPECT_EQ(cache.clear("", ""), 0);
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

}  // namespace
