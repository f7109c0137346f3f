// Reading a cubin without a GPU: its kernels, and what each takes of a multiprocessor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace ac4k::cuda {

struct KernelResources {
  std::string name;      // as cuLibraryGetKernel wants it
  int registers = 0;     // a thread
  int local_bytes = 0;   // a thread: spilled registers, and arrays that are not in registers
  int shared_bytes = 0;  // a block, static
  // Of each parameter, in their order; nothing where the cubin tells it in a way not known here.
  std::optional<std::vector<uint32_t>> param_bytes = {};
};

// Every kernel of a cubin, by name. `cubin` is not trusted: a damaged one is an error, not a crash.
Status read_cubin(std::string_view cubin, std::vector<KernelResources>* out);

}  // namespace ac4k::cuda
