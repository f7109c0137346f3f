// JSON about kernels, cubins and the cache: what the command line and the gates print.
#pragma once

#include <string>
#include <vector>

#include "core/status.hpp"
#include "cuda/driver/cache.hpp"
#include "cuda/driver/cubin.hpp"
#include "cuda/driver/jit.hpp"

namespace ac4k::cuda {

// The kernel `entry` of a cubin, where it is called `lowered`.
Status find_kernel(const Cubin& cubin, const std::string& entry, const std::string& lowered,
                   KernelResources* out);
// It as {"name", "module", "arch", "registers", "local_bytes", "shared_bytes", "param_bytes" (a
// list, or null), "origin", "key", "compiler", "seconds", "cubin_bytes", "log"}.
std::string kernel_report(const Cubin& cubin, const std::string& entry,
                          const KernelResources& resources);
// Whole cubins: a list of {"module", "arch", ..., "kernels": [{"name", "registers", ...}]}.
Status cubins_report(const std::vector<Cubin>& cubins, std::string* json);
// Every entry of the cache.
std::string cache_report(const std::vector<CacheListing>& entries);

}  // namespace ac4k::cuda
