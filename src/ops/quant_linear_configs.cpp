// Which kernels `quant_linear` can be told to use, for whoever compares them.
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "ops/quant_linear.hpp"

namespace ac4k {
namespace {

constexpr const char* kName = "quant_linear_configs";

Status find_format(const char* name, WeightFormat* format) {
  std::string known;
  for (int i = 0; i < kNumWeightFormats && !is_w4(static_cast<WeightFormat>(i)); ++i) {
    *format = static_cast<WeightFormat>(i);
    if (name != nullptr && std::string_view(name) == block_of(*format).name) return AC4K_OK;
    known += (i > 0 ? ", " : "") + std::string(block_of(*format).name);
  }
  return fail(AC4K_INVALID_VALUE, kName, ": argument 'fmt': expected one of ", known, ", got ",
              name != nullptr ? name : "null");
}

Status check_size(const char* argument, int64_t size) {
  if (size >= 0 && size <= std::numeric_limits<int32_t>::max()) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, kName, ": argument '", argument,
              "': expected a size of 0 to 2^31 - 1, got ", size);
}

Status configs(const char* fmt, DLDevice device, int64_t tokens, int64_t N, int64_t K,
               std::vector<std::string>* names) {
  WeightFormat format;
  AC4K_TRY(find_format(fmt, &format));
  AC4K_TRY(check_size("tokens", tokens));
  AC4K_TRY(check_size("N", N));
  AC4K_TRY(check_size("K", K));
  if (K % block_of(format).values != 0) {
    return fail(AC4K_INVALID_VALUE, kName, ": argument 'K': expected a multiple of ",
                block_of(format).values, " for ", fmt, ", got ", K);
  }
  switch (device.device_type) {
    case kDLCPU:
      *names = {"auto"};
      return AC4K_OK;
    case kDLCUDA:
      return quant_linear_configs(device.device_id, format, tokens, N, K, names);
    default:
      return fail(AC4K_UNSUPPORTED, kName, ": argument 'device': expected cpu or cuda, got DLPack ",
                  "device type ", static_cast<int>(device.device_type));
  }
}

}  // namespace
}  // namespace ac4k

extern "C" ac4k_status ac4k_quant_linear_configs(const char* fmt, DLDevice device, int64_t tokens,
                                                 int64_t N, int64_t K, const char** names_json) {
  using namespace ac4k;
  if (names_json == nullptr) {
    return fail(AC4K_INVALID_VALUE, kName, ": argument 'names_json': expected a pointer, got null");
  }
  std::vector<std::string> names;
  AC4K_TRY(configs(fmt, device, tokens, N, K, &names));
  JsonWriter json;
  json.begin_array();
  for (const std::string& name : names) json.value(name);
  thread_local std::string text;
  text = json.end_array().take();
  *names_json = text.c_str();
  return AC4K_OK;
}
