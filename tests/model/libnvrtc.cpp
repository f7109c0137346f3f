// An NVRTC that gives PTX where cubins are asked for: the real one, at MODEL_NVRTC, for virtual
// architectures.
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

void* symbol(const char* name) {
  static void* const library = dlopen(std::getenv("MODEL_NVRTC"), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace

#define AC4K_FORWARD(function, parameters, arguments)                                \
  int function parameters {                                                          \
    static const auto real = reinterpret_cast<int(*) parameters>(symbol(#function)); \
    return real arguments;                                                           \
  }

extern "C" {

AC4K_FORWARD(nvrtcVersion, (int* major, int* minor), (major, minor))
AC4K_FORWARD(nvrtcCreateProgram,
             (void** program, const char* source, const char* name, int count,
              const char* const* headers, const char* const* names),
             (program, source, name, count, headers, names))
AC4K_FORWARD(nvrtcDestroyProgram, (void** program), (program))
AC4K_FORWARD(nvrtcAddNameExpression, (void* program, const char* name), (program, name))
AC4K_FORWARD(nvrtcGetLoweredName, (void* program, const char* name, const char** lowered),
             (program, name, lowered))
AC4K_FORWARD(nvrtcGetProgramLogSize, (void* program, size_t* size), (program, size))
AC4K_FORWARD(nvrtcGetProgramLog, (void* program, char* log), (program, log))
AC4K_FORWARD(nvrtcGetPTXSize, (void* program, size_t* size), (program, size))
AC4K_FORWARD(nvrtcGetPTX, (void* program, char* text), (program, text))

int nvrtcGetCUBINSize(void* program, size_t* size) { return nvrtcGetPTXSize(program, size); }
int nvrtcGetCUBIN(void* program, char* text) { return nvrtcGetPTX(program, text); }

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  static const auto real =
      reinterpret_cast<int (*)(void*, int, const char* const*)>(symbol("nvrtcCompileProgram"));
  std::vector<std::string> mine(options, options + count);
  std::vector<const char*> given;
  for (std::string& option : mine) {
    if (option.find("split-compile") != std::string::npos) continue;  // for cubins only
    const size_t at = option.find("sm_");
    if (at != std::string::npos) option.replace(at, 3, "compute_");
    given.push_back(option.c_str());
  }
  return real(program, static_cast<int>(given.size()), given.data());
}

const char* nvrtcGetErrorString(int result) {
  static const auto real = reinterpret_cast<const char* (*)(int)>(symbol("nvrtcGetErrorString"));
  return real(result);
}

}  // extern "C"
