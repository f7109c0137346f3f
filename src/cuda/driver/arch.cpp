// The architecture table and its spellings.
#include "cuda/driver/arch.hpp"

namespace ac4k::cuda {

const std::vector<Architecture>& architectures() {
  static const auto* const table = new std::vector<Architecture>{
#define AC4K_CUDA_ARCH(name, major, minor, state) {#name, major, minor, state},
#include "cuda/architectures.def"
#undef AC4K_CUDA_ARCH
  };
  return *table;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& entry : architectures()) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

const Architecture* find_architecture(int major, int minor) {
  for (const Architecture& entry : architectures()) {
    if (entry.major == major && entry.minor == minor) return &entry;
  }
  return nullptr;
}

std::string known_architectures() {
  std::string names;
  for (const Architecture& entry : architectures()) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

Status compiler_arch(std::string_view arch, std::string* out) {
  const auto refuse = [&] {
    return fail(AC4K_INVALID_VALUE, "unknown CUDA architecture '", arch,
                "': expected a name like sm90a; the library knows ", known_architectures());
  };
  if (!arch.starts_with("sm")) return refuse();
  std::string_view digits = arch.substr(2);
  if (digits.ends_with('a') || digits.ends_with('f')) digits.remove_suffix(1);
  if (digits.size() < 2 || digits.size() > 3) return refuse();
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return refuse();
  *out = "sm_" + std::string(arch.substr(2));
  return AC4K_OK;
}

}  // namespace ac4k::cuda
