// Names of CUDA architectures: "sm90a" here, sm_90a to the compiler, 9.0 to the driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace ac4k::cuda {

struct Architecture {
  const char* name;
  int major;
  int minor;
  const char* state;  // "measured", "executed through a model", "compiled only"
};

// src/cuda/architectures.def, in its order.
const std::vector<Architecture>& architectures();
// Null when the table has no such entry.
const Architecture* find_architecture(std::string_view name);
const Architecture* find_architecture(int major, int minor);
// "sm89, sm90a, ..." for messages.
std::string known_architectures();

// "sm90a" -> "sm_90a". Any sm<number>[a|f] is taken: a user's kernel may target what the library
// itself is not built for.
Status compiler_arch(std::string_view arch, std::string* out);

}  // namespace ac4k::cuda
