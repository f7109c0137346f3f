// Cubins: those of the package, and those NVRTC makes, from the same sources.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "cuda/driver/settings.hpp"  // jit.hpp is where callers look for them

namespace ac4k::cuda {

struct Cubin {
  std::string bytes;
  std::string name;         // "common/stream", or the entry of a user's source
  std::string arch;         // "sm90a"
  const char* origin = "";  // "package", "cache" or "compiled"
  std::string key;          // of the cache; empty for one of the package
  std::string compiler;
  std::string log;                             // the compiler's warnings
  double seconds = 0;                          // what the compile took, now or when it was cached
  std::map<std::string, std::string> lowered;  // entry of a user's source -> name in the cubin
};

// What to do on a cache miss.
enum class OnMiss {
  compile,
  refuse_off,        // the setting jit is "off"
  refuse_capturing,  // a stream capture is under way
};
// compile, or refuse_off when the setting says so.
OnMiss on_miss_by_setting();

// Compiles CUDA C++ text, or takes it from the cache. `entry` is a kernel's name or a name
// expression, `options` are extra compiler options.
Status compile_source(const std::string& source, const std::string& entry,
                      const std::vector<std::string>& options, const std::string& arch,
                      OnMiss on_miss, Cubin* out);
// The same for a module of the library; its kernels are extern "C".
Status compile_module(const std::string& module, const std::string& arch, OnMiss on_miss,
                      Cubin* out);
// The package's cubin (unless the setting jit is "force"), else compile_module.
Status find_cubin(const std::string& module, const std::string& arch, OnMiss on_miss, Cubin* out);

// The modules that make sense for `arch`: everything but other architectures' folders.
std::vector<std::string> list_modules(const std::string& arch);

}  // namespace ac4k::cuda
