// ac4k_info_json: what was built and what runs here.
#include <algorithm>
#include <string>
#include <string_view>

#include "ac4k/ac4k.h"
#include "core/build_config.hpp"
#include "core/json.hpp"
#include "core/status.hpp"
#include "cpu/kernels.hpp"
#include "cuda/driver/device.hpp"
#include "cuda/driver/driver.hpp"
#include "cuda/driver/settings.hpp"

namespace ac4k {
namespace {

// "sm90a,sm89" -> ["sm90a", "sm89"]
void write_list(JsonWriter& json, std::string_view list) {
  json.begin_array();
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    json.value(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  json.end_array();
}

void write_build(JsonWriter& json) {
  json.key("build").begin_object();
  json.key("backend").value(AC4K_BUILD_BACKEND);
  json.key("cuda_archs");
  write_list(json, AC4K_BUILD_CUDA_ARCHS);
  json.key("rocm_archs");
  write_list(json, AC4K_BUILD_ROCM_ARCHS);
  json.key("compiler").value(AC4K_BUILD_COMPILER);
  json.key("git").value(AC4K_BUILD_GIT);
  json.key("type").value(AC4K_BUILD_TYPE);
  json.end_object();
}

void write_cpu(JsonWriter& json) {
  json.key("cpu").begin_object();
  json.key("isa").value(cpu::name_of(cpu::active_isa()));
  json.key("best_isa").value(cpu::name_of(cpu::detected_isa()));
  json.key("threads").value(cpu::num_threads());
  json.end_object();
}

void write_cuda(JsonWriter& json) {
  json.key("cuda").begin_object();
  const int count = cuda::device_count();
  json.key("driver").value(cuda::driver() != nullptr);
  if (cuda::driver() == nullptr) json.key("why_not").value(cuda::driver_error());
  json.key("devices").begin_array();
  for (int id = 0; id < count; ++id) {
    Status status = AC4K_OK;
    const auto* properties = cuda::device_properties(id, status);
    if (properties == nullptr) continue;
    json.begin_object();
    json.key("id").value(id);
    json.key("name").value(properties->name);
    json.key("arch").value(properties->arch);
    json.key("sms").value(properties->sm_count);
    json.key("l2_bytes").value(static_cast<int64_t>(properties->l2_bytes));
    json.end_object();
  }
  json.end_array();
  json.key("jit").value(cuda::jit_mode());
  json.key("cache_dir").value(cuda::cache_dir());
  json.end_object();
}

}  // namespace
}  // namespace ac4k

extern "C" {

const char* ac4k_version(void) { return AC4K_VERSION; }

int32_t ac4k_abi_version(void) { return AC4K_ABI_VERSION; }

const char* ac4k_info_json(void) {
  thread_local std::string text;
  ac4k::JsonWriter json;
  json.begin_object();
  json.key("version").value(AC4K_VERSION);
  ac4k::write_build(json);
  ac4k::write_cpu(json);
  ac4k::write_cuda(json);
  json.end_object();
  text = json.take();
  return text.c_str();
}

}  // extern "C"
