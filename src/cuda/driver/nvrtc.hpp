// NVRTC, NVIDIA's compiler as a library: finding it, and compiling one program with it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace ac4k::cuda {

struct CompileJob {
  std::string source;
  // Where the source lies, for relative includes and messages. Empty: text that lies nowhere.
  std::filesystem::path path;
  std::vector<std::string> options;
  // Kernels to keep and to name: "scale", "scale<float, 4>". Empty: every extern "C" kernel.
  std::vector<std::string> entries;
};

struct CompileResult {
  std::string cubin;
  std::map<std::string, std::string> lowered;  // entry -> name in the cubin
  std::string log;                             // warnings
};

// A loaded NVRTC. It is never unloaded and may be used from several threads at once.
class Nvrtc {
 public:
  // Loads it on the first call: the setting nvrtc_path, else the toolkit ($CUDA_HOME, $CUDA_PATH,
  // /usr/local/cuda), else what the system's loader knows. A failure is not remembered, so that a
  // later setting helps.
  static Status get(const Nvrtc** out);

  // "nvrtc 13.0 65be0db3...": with the build's own id, since two builds of 13.0 may differ.
  const std::string& id() const { return id_; }
  const std::filesystem::path& path() const { return path_; }

  // Directories with cuda_fp16.h: the setting cuda_include, else beside NVRTC, else the toolkit's.
  std::vector<std::filesystem::path> include_dirs() const;

  Status compile(const CompileJob& job, CompileResult* out) const;

 private:
  struct Functions;

  Status load(const std::filesystem::path& file);
  Status search();

  const Functions* functions_ = nullptr;
  std::filesystem::path path_;
  std::string id_;
};

}  // namespace ac4k::cuda
