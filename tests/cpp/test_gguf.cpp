// GGUF files: every seed of the fuzzer, every truncation and single-byte damage of them, and what
// the C ABI tells about a good one.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../fuzz/walk_gguf.hpp"
#include "gguf/text.hpp"

namespace ac4k::gguf {
namespace {

using File = std::unique_ptr<ac4k_gguf, decltype(&ac4k_gguf_close)>;

std::map<std::string, std::string> corpus() {
  std::map<std::string, std::string> files;
  const auto folder = std::filesystem::path(AC4K_SOURCE_DIR) / "tests/fuzz/corpus/gguf";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path().stem()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  return files;
}

// From a heap block of exactly that size, so that ASan sees a read behind it.
Walk walk_copy(const std::string& bytes, size_t size) {
  const std::unique_ptr<char[]> copy(new char[size]);
  std::memcpy(copy.get(), bytes.data(), size);
  return walk(copy.get(), size);
}

File open_seed(const std::string& name) {
  const auto path =
      std::filesystem::path(AC4K_SOURCE_DIR) / "tests/fuzz/corpus/gguf" / (name + ".gguf");
  ac4k_gguf* file = nullptr;
  EXPECT_EQ(ac4k_gguf_open(path.c_str(), &file), AC4K_OK) << ac4k_last_error();
  return {file, ac4k_gguf_close};
}

std::map<std::string, ac4k_gguf_value> values_of(const ac4k_gguf* file) {
  std::map<std::string, ac4k_gguf_value> values;
  for (size_t i = 0; i < ac4k_gguf_get_header(file).num_values; ++i) {
    ac4k_gguf_string key;
    ac4k_gguf_value value;
    EXPECT_EQ(ac4k_gguf_get_value(file, i, &key, &value), AC4K_OK);
    values[{key.data, key.num_bytes}] = value;
  }
  return values;
}

std::map<std::string, ac4k_gguf_tensor> tensors_of(const ac4k_gguf* file) {
  std::map<std::string, ac4k_gguf_tensor> tensors;
  for (size_t i = 0; i < ac4k_gguf_get_header(file).num_tensors; ++i) {
    ac4k_gguf_tensor tensor;
    EXPECT_EQ(ac4k_gguf_get_tensor(file, i, &tensor), AC4K_OK);
    tensors[{tensor.name.data, tensor.name.num_bytes}] = tensor;
  }
  return tensors;
}

TEST(Gguf, SeedsAreTakenOrRefusedAsTheirNamesSay) {
  const auto files = corpus();
  ASSERT_GT(files.size(), 60u);
  for (const auto& [name, bytes] : files) {
    const ac4k_status status = walk_copy(bytes, bytes.size()).status;
    if (name.starts_with("ok_")) {
      EXPECT_EQ(status, AC4K_OK) << name << ": " << ac4k_last_error();
    } else if (name.starts_with("bad_")) {
      EXPECT_NE(status, AC4K_OK) << name;
    }
  }
}

TEST(Gguf, EveryTruncationIsNoticed) {
  const std::string bytes = corpus().at("ok_tensors");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(walk_copy(bytes, size).status, AC4K_OK) << size;
  }
}

TEST(Gguf, NoDamagedByteIsTooMuch) {
  int taken = 0, refused = 0;
  for (const auto& [name, bytes] : corpus()) {
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 1024); ++i) {
      for (const int change : {0x01, 0x80, 0xFF}) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(damaged[i] ^ change);
        ++(walk_copy(damaged, damaged.size()).status == AC4K_OK ? taken : refused);
      }
    }
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 10000);
}

TEST(Gguf, ValuesAreAsWritten) {
  const File file = open_seed("ok_tensors");
  ASSERT_NE(file, nullptr);
  const auto values = values_of(file.get());
  EXPECT_EQ(values.size(), 20u);
  const ac4k_gguf_value& text = values.at("string");
  EXPECT_EQ(text.kind, AC4K_GGUF_STRING);
  EXPECT_EQ(std::string(static_cast<const char*>(text.data), text.num_bytes), "größe 🎈\n");
  double number = 0;
  std::memcpy(&number, values.at("f64").data, sizeof number);
  EXPECT_EQ(number, 0.1);

  const ac4k_gguf_value& nested = values.at("nested");
  EXPECT_EQ(nested.kind, AC4K_GGUF_ARRAY);
  EXPECT_EQ(nested.element_kind, AC4K_GGUF_ARRAY);
  std::vector<ac4k_gguf_value> inner;
  for (ac4k_gguf_value element{}; ac4k_gguf_next_element(&nested, &element);) {
    inner.push_back(element);
  }
  ASSERT_EQ(inner.size(), 3u);
  EXPECT_EQ(inner[0].element_kind, AC4K_GGUF_STRING);
  EXPECT_EQ(inner[0].count, 3u);
  EXPECT_EQ(inner[1].element_kind, AC4K_GGUF_INT16);
  EXPECT_EQ(inner[1].num_bytes, 2u);
  EXPECT_EQ(inner[2].count, 0u);
  std::vector<std::string> strings;
  for (ac4k_gguf_value element{}; ac4k_gguf_next_element(&inner[0], &element);) {
    strings.emplace_back(static_cast<const char*>(element.data), element.count);
  }
  EXPECT_EQ(strings, (std::vector<std::string>{"a", "", "ccc"}));
  ac4k_gguf_value none{};
  EXPECT_EQ(ac4k_gguf_next_element(&text, &none), 0);
}

TEST(Gguf, TensorsAreWhereTheFileSays) {
  const File file = open_seed("ok_tensors");
  ASSERT_NE(file, nullptr);
  const ac4k_gguf_header header = ac4k_gguf_get_header(file.get());
  EXPECT_EQ(header.version, 3u);
  EXPECT_EQ(header.alignment, 32u);
  EXPECT_EQ(header.data_offset % 32, 0u);
  const auto tensors = tensors_of(file.get());
  EXPECT_EQ(tensors.at("scalar").ndim, 0);
  EXPECT_EQ(tensors.at("scalar").num_bytes, 4u);
  const ac4k_gguf_tensor& weight = tensors.at("blk.0.up.weight");
  EXPECT_STREQ(weight.format, "q4_0");
  EXPECT_EQ(weight.shape[0], 3);
  EXPECT_EQ(weight.shape[1], 64);
  EXPECT_EQ(weight.num_bytes, 3u * 2 * 18);
  EXPECT_EQ(weight.offset, header.data_offset + 64);
  EXPECT_EQ(weight.data, static_cast<const char*>(header.bytes) + weight.offset);
  const ac4k_gguf_tensor& four = tensors.at("four");
  EXPECT_EQ(std::vector<int64_t>(four.shape, four.shape + 4), (std::vector<int64_t>{4, 3, 2, 1}));
  EXPECT_EQ(tensors.at("nothing").num_bytes, 0u);
  EXPECT_EQ(ac4k_gguf_get_header(open_seed("ok_alignment_64").get()).alignment, 64u);
}

TEST(Gguf, WrongUseIsAnError) {
  const File file = open_seed("ok_empty");
  ac4k_gguf* opened = file.get();
  EXPECT_EQ(ac4k_gguf_open(nullptr, &opened), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_open("/", nullptr), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_open("/", &opened), AC4K_INVALID_VALUE);
  EXPECT_EQ(opened, nullptr);
  EXPECT_EQ(ac4k_gguf_open("/nowhere/\xff.gguf", &opened), AC4K_RUNTIME_ERROR);
  EXPECT_STREQ(ac4k_last_error(), "gguf: /nowhere/?.gguf: cannot open: No such file or directory");
  EXPECT_EQ(ac4k_gguf_read(nullptr, 1, &opened), AC4K_INVALID_VALUE);
  ac4k_gguf_tensor tensor;
  ac4k_gguf_string key;
  ac4k_gguf_value value;
  EXPECT_EQ(ac4k_gguf_get_tensor(file.get(), 0, &tensor), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_get_value(file.get(), 0, &key, &value), AC4K_INVALID_VALUE);
  const ac4k_gguf* none = nullptr;
  EXPECT_EQ(ac4k_gguf_get_tensor(none, 0, &tensor), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_get_tensor(file.get(), 0, nullptr), AC4K_INVALID_VALUE);
  EXPECT_STREQ(ac4k_last_error(), "gguf: argument 'tensor': expected a pointer");
  EXPECT_EQ(ac4k_gguf_get_value(none, 0, &key, &value), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_get_value(file.get(), 0, nullptr, &value), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_get_value(file.get(), 0, &key, nullptr), AC4K_INVALID_VALUE);
  EXPECT_EQ(ac4k_gguf_get_header(none).num_tensors, 0u);
  EXPECT_EQ(ac4k_gguf_next_element(nullptr, &value), 0);
  ac4k_gguf_close(nullptr);
}

TEST(Gguf, Utf8IsStrict) {
  for (const char* good :
       {"", "plain text of many letters", "größe", "日本語", "🎈", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE2\x82",
                          "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "long ascii and then \xFF", "\xC3 "}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
  EXPECT_EQ(gguf::quoted("a\n\x7F"), "'a\\x0a\\x7f'");
  const std::string long_text = std::string(95, 'x') + "ß" + std::string(500, 'y');
  const std::string cut = gguf::quoted(long_text);
  EXPECT_TRUE(is_utf8(cut));
  EXPECT_TRUE(cut.ends_with("...'"));
}

}  // namespace
}  // namespace ac4k::gguf
