// Loading NVRTC and calling it.
#include "cuda/driver/nvrtc.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "cuda/driver/settings.hpp"

namespace ac4k::cuda {
namespace {

namespace fs = std::filesystem;

using nvrtcResult = int;
using nvrtcProgram = struct _nvrtcProgram*;

// Text without a file gets a name in a folder that does not exist: with a bare name NVRTC would
// take headers from the current directory. Messages show only what follows.
constexpr std::string_view kNowhere = "/ac4k-jit/";

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

std::vector<fs::path> toolkits() {
  std::vector<fs::path> found;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      found.emplace_back(value);
    }
  }
  found.emplace_back("/usr/local/cuda");
  return found;
}

std::string dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

// NVRTC looks for its builtins by name only, which fails when they lie in no directory of the
// loader's: loaded first and globally, they are found.
void load_builtins(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so")) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
}

// The GNU build id of a loaded library, in hex; empty when it has none.
std::string build_id(uintptr_t base) {
  struct Search {
    uintptr_t base;
    std::string id;
  } search{base, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        if (info->dlpi_addr != wanted->base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          const char* const end = at + segment.p_memsz;
          while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const char* name = at + sizeof note;
            const char* desc = name + ((note.n_namesz + 3) & ~3u);
            if (note.n_type == NT_GNU_BUILD_ID && std::strncmp(name, "GNU", 4) == 0) {
              for (unsigned j = 0; j < note.n_descsz; ++j) {
                constexpr char kDigits[] = "0123456789abcdef";
                const auto byte = static_cast<unsigned char>(desc[j]);
                (wanted->id += kDigits[byte >> 4]) += kDigits[byte & 15];
              }
              return 1;
            }
            at = desc + ((note.n_descsz + 3) & ~3u);
          }
        }
        return 1;
      },
      &search);
  return search.id;
}

// The log quotes the source, whatever its encoding; what leaves the library is UTF-8.
void make_ascii(std::string* text) {
  for (char& c : *text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
}

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at)) {
    text->replace(at, from.size(), to);
  }
}

}  // namespace

struct Nvrtc::Functions {
  nvrtcResult (*nvrtcVersion)(int*, int*);
  const char* (*nvrtcGetErrorString)(nvrtcResult);
  nvrtcResult (*nvrtcCreateProgram)(nvrtcProgram*, const char*, const char*, int,
                                    const char* const*, const char* const*);
  nvrtcResult (*nvrtcDestroyProgram)(nvrtcProgram*);
  nvrtcResult (*nvrtcAddNameExpression)(nvrtcProgram, const char*);
  nvrtcResult (*nvrtcCompileProgram)(nvrtcProgram, int, const char* const*);
  nvrtcResult (*nvrtcGetLoweredName)(nvrtcProgram, const char*, const char**);
  nvrtcResult (*nvrtcGetCUBINSize)(nvrtcProgram, size_t*);
  nvrtcResult (*nvrtcGetCUBIN)(nvrtcProgram, char*);
  nvrtcResult (*nvrtcGetProgramLogSize)(nvrtcProgram, size_t*);
  nvrtcResult (*nvrtcGetProgramLog)(nvrtcProgram, char*);
};

Status Nvrtc::get(const Nvrtc** out) {
  static auto* const mutex = new std::mutex;
  static std::atomic<const Nvrtc*> loaded = nullptr;
  if ((*out = loaded.load(std::memory_order_acquire)) != nullptr) return AC4K_OK;
  const std::lock_guard lock(*mutex);
  if ((*out = loaded.load(std::memory_order_acquire)) != nullptr) return AC4K_OK;
  auto fresh = std::make_unique<Nvrtc>();
  AC4K_TRY(fresh->search());
  *out = fresh.release();
  loaded.store(*out, std::memory_order_release);
  return AC4K_OK;
}

Status Nvrtc::search() {
  if (const std::string wanted = nvrtc_path(); !wanted.empty()) return load(wanted);
  std::string places;
  for (const fs::path& toolkit : toolkits()) {
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
      for (const char* soname : kSonames) {
        const fs::path file = toolkit / folder / soname;
        std::error_code error;
        if (fs::exists(file, error) && load(file) == AC4K_OK) return AC4K_OK;
      }
    }
    places += toolkit.string() + ", ";
  }
  for (const char* soname : kSonames) {
    if (load(soname) == AC4K_OK) return AC4K_OK;
  }
  return fail(AC4K_UNSUPPORTED, "the JIT needs NVRTC, and found none (looked in ", places,
              "and the loader's directories): pip install ac4k[jit], or install the CUDA toolkit, "
              "or set nvrtc_path to a libnvrtc.so");
}

Status Nvrtc::load(const fs::path& file) {
  if (file.has_parent_path()) load_builtins(file.parent_path());
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return fail(AC4K_UNSUPPORTED, "the JIT cannot load NVRTC: ", dl_error(),
                "; pip install ac4k[jit] brings one");
  }
  auto functions = std::make_unique<Functions>();
#define AC4K_NVRTC_RESOLVE(function)                                                               \
  functions->function = reinterpret_cast<decltype(functions->function)>(dlsym(handle, #function)); \
  if (functions->function == nullptr) {                                                            \
    return fail(AC4K_UNSUPPORTED, file.string(),                                                   \
                " has no " #function                                                               \
                "; the JIT needs NVRTC 12.0 or later: pip install ac4k[jit]");                     \
  }
  AC4K_NVRTC_RESOLVE(nvrtcVersion)
  AC4K_NVRTC_RESOLVE(nvrtcGetErrorString)
  AC4K_NVRTC_RESOLVE(nvrtcCreateProgram)
  AC4K_NVRTC_RESOLVE(nvrtcDestroyProgram)
  AC4K_NVRTC_RESOLVE(nvrtcAddNameExpression)
  AC4K_NVRTC_RESOLVE(nvrtcCompileProgram)
  AC4K_NVRTC_RESOLVE(nvrtcGetLoweredName)
  AC4K_NVRTC_RESOLVE(nvrtcGetCUBINSize)
  AC4K_NVRTC_RESOLVE(nvrtcGetCUBIN)
  AC4K_NVRTC_RESOLVE(nvrtcGetProgramLogSize)
  AC4K_NVRTC_RESOLVE(nvrtcGetProgramLog)
#undef AC4K_NVRTC_RESOLVE

  int major = 0;
  int minor = 0;
  functions->nvrtcVersion(&major, &minor);
  const link_map* map = nullptr;
  dlinfo(handle, RTLD_DI_LINKMAP, &map);
  path_ = map != nullptr ? fs::path(map->l_name) : file;
  std::string build = map != nullptr ? build_id(map->l_addr) : "";
  if (build.empty()) {
    std::error_code error;
    build = "size " + std::to_string(fs::file_size(path_, error));
  }
  id_ = "nvrtc " + std::to_string(major) + "." + std::to_string(minor) + " " + build;
  functions_ = functions.release();
  return AC4K_OK;
}

std::vector<fs::path> Nvrtc::include_dirs() const {
  const auto has_headers = [](const fs::path& dir) {
    std::error_code error;
    return fs::is_regular_file(dir / "cuda_fp16.h", error);
  };
  std::vector<fs::path> dirs = split_path_list(cuda_include());
  if (std::none_of(dirs.begin(), dirs.end(), has_headers)) {
    std::vector<fs::path> others;
    // Beside it in a toolkit or a CUDA 13 package; in the neighbour package with CUDA 12.
    std::error_code error;
    const fs::path folder = fs::weakly_canonical(path_, error).parent_path();
    others.push_back(folder.parent_path() / "include");
    others.push_back(folder.parent_path().parent_path() / "cuda_runtime" / "include");
    for (const fs::path& toolkit : toolkits()) others.push_back(toolkit / "include");
    // One only: headers of two versions must not mix.
    const auto found = std::find_if(others.begin(), others.end(), has_headers);
    if (found != others.end()) dirs.push_back(*found);
  }
  // CUDA 13 keeps <nv/target> and <cuda/std/...> one level down.
  std::vector<fs::path> all;
  for (const fs::path& dir : dirs) {
    std::error_code error;
    all.push_back(dir);
    if (fs::is_directory(dir / "cccl", error)) all.push_back(dir / "cccl");
  }
  return all;
}

Status Nvrtc::compile(const CompileJob& job, CompileResult* out) const {
  const Functions& nvrtc = *functions_;
  const auto run = [&](nvrtcResult result, const char* function) {
    if (result == 0) return AC4K_OK;
    return fail(AC4K_RUNTIME_ERROR, nvrtc.nvrtcGetErrorString(result), ": during ", function);
  };
  const std::string name =
      job.path.empty() ? std::string(kNowhere) + "kernel.cu" : job.path.string();
  nvrtcProgram program = nullptr;
  AC4K_TRY(
      run(nvrtc.nvrtcCreateProgram(&program, job.source.c_str(), name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram"));
  const auto destroy = [&](nvrtcProgram p) { nvrtc.nvrtcDestroyProgram(&p); };
  const std::unique_ptr<_nvrtcProgram, decltype(destroy)> owner(program, destroy);
  for (const std::string& entry : job.entries) {
    AC4K_TRY(run(nvrtc.nvrtcAddNameExpression(program, entry.c_str()), "nvrtcAddNameExpression"));
  }
  std::vector<const char*> options;
  for (const std::string& option : job.options) options.push_back(option.c_str());
  // By all cores. No part of the key: it changes how long that takes, not what a kernel does.
  options.push_back("-split-compile=0");
  const nvrtcResult compiled =
      nvrtc.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());

  size_t size = 0;
  if (nvrtc.nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
    out->log.resize(size);
    nvrtc.nvrtcGetProgramLog(program, out->log.data());
    out->log.resize(std::strlen(out->log.c_str()));
    replace_all(&out->log, kNowhere, "");
    make_ascii(&out->log);
  }
  if (compiled != 0) {
    return fail(AC4K_RUNTIME_ERROR, nvrtc.nvrtcGetErrorString(compiled),
                out->log.empty() ? "" : "\n", out->log);
  }
  for (const std::string& entry : job.entries) {
    const char* lowered = nullptr;
    AC4K_TRY(
        run(nvrtc.nvrtcGetLoweredName(program, entry.c_str(), &lowered), "nvrtcGetLoweredName"));
    out->lowered[entry] = lowered;
  }
  AC4K_TRY(run(nvrtc.nvrtcGetCUBINSize(program, &size), "nvrtcGetCUBINSize"));
  out->cubin.resize(size);
  return run(nvrtc.nvrtcGetCUBIN(program, out->cubin.data()), "nvrtcGetCUBIN");
}

}  // namespace ac4k::cuda
