#include "core/status.hpp"

#include <utility>

namespace ac4k {
namespace {
thread_local std::string last_error;
}

Status fail_with(Status code, std::string text) {
  last_error = std::move(text);
  return code;
}

}  // namespace ac4k

extern "C" const char* ac4k_last_error(void) { return ac4k::last_error.c_str(); }
