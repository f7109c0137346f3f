// A folder for a test's files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ac4k {

inline void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A folder that is gone after the test.
class Scratch : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ac4k_test.XXXXXX").string();
    root = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  std::filesystem::path root;
};

}  // namespace ac4k
