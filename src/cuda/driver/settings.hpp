// Settings of the JIT. Each starts from the environment, which is read once, on first use.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace ac4k::cuda {

// "auto": a cubin of the package, else the JIT. "force": always the JIT. "off": never compile.
Status set_jit_mode(std::string_view mode);
const char* jit_mode();

// A colon list of cache roots: the first is written, the rest are only looked up. The getter tells
// the list in force; empty when there is none (no home directory). Setting "" goes back to the
// environment: AC4K_CACHE_DIR, else $XDG_CACHE_HOME/ac4k, else ~/.cache/ac4k.
Status set_cache_dir(std::string_view list);
std::string cache_dir();

// A libnvrtc.so to use instead of searching for one. Has no effect once one was loaded.
Status set_nvrtc_path(std::string_view path);
std::string nvrtc_path();

// A colon list of directories with cuda_fp16.h, searched before those beside NVRTC.
Status set_cuda_include(std::string_view list);
std::string cuda_include();

// The folder with cubin/ and src/: "ac4k" beside the library's own file.
std::filesystem::path data_dir();
void set_data_dir_for_testing(const std::filesystem::path& path);

// "a:b" -> {"a", "b"}; empty parts are dropped.
std::vector<std::filesystem::path> split_path_list(std::string_view list);

}  // namespace ac4k::cuda
