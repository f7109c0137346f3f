// Writing the reports.
#include "cuda/driver/kernel_report.hpp"

#include <utility>

#include "core/json.hpp"

namespace ac4k::cuda {
namespace {

void write_resources(JsonWriter& json, const KernelResources& resources) {
  json.key("registers").value(resources.registers);
  json.key("local_bytes").value(resources.local_bytes);
  json.key("shared_bytes").value(resources.shared_bytes);
  json.key("param_bytes");
  if (!resources.param_bytes) {
    json.null();
    return;
  }
  json.begin_array();
  for (const uint32_t bytes : *resources.param_bytes) json.value(uint64_t{bytes});
  json.end_array();
}

void write_origin(JsonWriter& json, const Cubin& cubin) {
  json.key("module").value(cubin.name);
  json.key("arch").value(cubin.arch);
  json.key("origin").value(cubin.origin);
  json.key("key").value(cubin.key);
  json.key("compiler").value(cubin.compiler);
  json.key("seconds").value(cubin.seconds);
  json.key("cubin_bytes").value(uint64_t{cubin.bytes.size()});
  json.key("log").value(cubin.log);
}

}  // namespace

Status find_kernel(const Cubin& cubin, const std::string& entry, const std::string& lowered,
                   KernelResources* out) {
  std::vector<KernelResources> kernels;
  AC4K_TRY(read_cubin(cubin.bytes, &kernels));
  std::string names;
  for (KernelResources& kernel : kernels) {
    if (kernel.name == lowered) {
      *out = std::move(kernel);
      return AC4K_OK;
    }
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  return fail(AC4K_INVALID_VALUE, cubin.name, " has no kernel '", entry, "'; it has ", names);
}

std::string kernel_report(const Cubin& cubin, const std::string& entry,
                          const KernelResources& resources) {
  JsonWriter json;
  json.begin_object().key("name").value(entry);
  write_resources(json, resources);
  write_origin(json, cubin);
  json.end_object();
  return json.take();
}

Status cubins_report(const std::vector<Cubin>& cubins, std::string* out) {
  JsonWriter json;
  json.begin_array();
  for (const Cubin& cubin : cubins) {
    std::vector<KernelResources> kernels;
    AC4K_TRY(read_cubin(cubin.bytes, &kernels));
    json.begin_object();
    write_origin(json, cubin);
    json.key("kernels").begin_array();
    for (const KernelResources& kernel : kernels) {
      json.begin_object().key("name").value(kernel.name);
      write_resources(json, kernel);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
  *out = json.take();
  return AC4K_OK;
}

std::string cache_report(const std::vector<CacheListing>& entries) {
  JsonWriter json;
  json.begin_array();
  for (const CacheListing& listing : entries) {
    json.begin_object();
    json.key("key").value(listing.key);
    json.key("name").value(listing.entry.name);
    json.key("arch").value(listing.entry.arch);
    json.key("compiler").value(listing.entry.compiler);
    json.key("flags").value(listing.entry.flags);
    json.key("seconds").value(listing.entry.seconds);
    json.key("cubin_bytes").value(uint64_t{listing.cubin_bytes});
    json.key("path").value(listing.path.string());
    json.key("writable").value(listing.writable);
    json.end_object();
  }
  json.end_array();
  return json.take();
}

}  // namespace ac4k::cuda
