// The runner of w4a16.h: checks of bare pointers and sizes, then the op `w4a16_gemm`.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "ac4k/w4a16.h"
#include "cpu/kernels.hpp"
#include "cpu/linear.hpp"
#include "cpu/packed_w4.hpp"
#include "cuda/driver/device.hpp"
#include "cuda/driver/pointer.hpp"
#include "ops/w4a16_gemm.hpp"
#include "ops/w4a16_tuning.hpp"

struct ac4k_w4a16_runner {
  ac4k::DType type;
  ac4k_w4a16_quant quant;
  DLDevice device;
  const ac4k_op* op;
};

namespace ac4k {
namespace {

using Runner = ac4k_w4a16_runner;
using Product = ac4k_w4a16_product;

constexpr const char* kName = "W4A16Runner";
constexpr const char* kQuantNames[] = {"per_channel", "group", "group_zeros"};
constexpr const char* kActivationNames[] = {"none", "silu", "gelu", "gelu_tanh"};
constexpr const char* kLayoutNames[] = {"g32", "g64", "g128", "g32z", "g64z", "g128z"};
constexpr int64_t kAlignment = 16;

template <typename... Parts>
Status wrong(const char* function, const char* argument, const Parts&... parts) {
  return fail(AC4K_INVALID_VALUE, kName, ".", function, ": argument '", argument, "': expected ",
              parts...);
}

Status check_not_null(const char* function, const char* argument, const void* pointer) {
  if (pointer != nullptr) return AC4K_OK;
  return wrong(function, argument, "a pointer, got null");
}

Status check_runner(const char* function, const Runner* runner) {
  return check_not_null(function, "runner", runner);
}

Status check_size(const char* function, const char* argument, int64_t size) {
  if (size >= 0 && size <= std::numeric_limits<int32_t>::max()) return AC4K_OK;
  return wrong(function, argument, "a size of 0 to 2^31 - 1, got ", size);
}

Status check_sizes(const char* function, int64_t M, int64_t N, int64_t K) {
  AC4K_TRY(check_size(function, "M", M));
  AC4K_TRY(check_size(function, "N", N));
  return check_size(function, "K", K);
}

// Checks the group size, and finds the layout that holds it.
Status find_format(const char* function, const Runner& runner, int64_t K, int64_t group_size,
                   WeightFormat* format) {
  if (group_size <= 0 || K % group_size != 0) {
    return wrong(function, "group_size", "a divisor of K = ", K, ", got ", group_size);
  }
  if (runner.quant == AC4K_W4A16_PER_CHANNEL && group_size != K) {
    return wrong(function, "group_size", "K = ", K, " for per_channel, got ", group_size);
  }
  const bool small = group_size == 32 || group_size == 64;
  if (!small && group_size % 128 != 0 && group_size != K) {
    return wrong(function, "group_size", "32, 64, a multiple of 128 or K = ", K, ", got ",
                 group_size);
  }
  const int layout = (group_size == 32   ? 0
                      : group_size == 64 ? 1
                                         : 2) +
                     (runner.quant == AC4K_W4A16_GROUP_ZEROS ? 3 : 0);
  *format = w4_format(layout, runner.type);
  return AC4K_OK;
}

int64_t packed_size(WeightFormat format, int64_t N, int64_t K) {
  const WeightBlock& block = block_of(format);
  return ceil_div(N, kPackedRows) * packed_blocks(block, K) * packed_block_bytes(block);
}

Status check_pointer(const char* function, const Runner& runner, const char* argument,
                     const void* pointer, int64_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) != 0) {
    return wrong(function, argument, "an address that is a multiple of ", alignment, ", got ",
                 pointer);
  }
  const int device = cuda::device_of(pointer);
  const bool on_host = runner.device.device_type == kDLCPU;
  if (on_host ? device == cuda::kHostMemory : device == runner.device.device_id) return AC4K_OK;
  std::string place = device == cuda::kHostMemory ? "the host" : "cuda:" + std::to_string(device);
  return wrong(
      function, argument, "memory of ",
      on_host ? std::string("the host") : "cuda:" + std::to_string(runner.device.device_id),
      ", got memory of ", place);
}

std::vector<std::string> configs_of(const Runner& runner, int64_t M, int64_t N, int64_t K) {
  if (runner.device.device_type == kDLCPU) {
    return {std::begin(kW4CpuConfigs), std::end(kW4CpuConfigs)};
  }
  return w4a16_cuda_configs(runner.device.device_id, runner.type, M, N, K);
}

int64_t workspace_of(const Runner& runner, int64_t M, int64_t N, int64_t K) {
  return runner.device.device_type == kDLCPU
             ? 0
             : w4a16_cuda_workspace(runner.device.device_id, M, N, K);
}

Status tune_key(const Runner& runner, int64_t M, int64_t N, int64_t K, int64_t group_size,
                W4TuneKey* key) {
  if (runner.device.device_type == kDLCPU) {
    // Machines of different kinds may share a cache directory.
    key->device = "cpu " + std::to_string(cpu::cpu_signature()) + " " +
                  cpu::name_of(cpu::active_isa()) + " " + std::to_string(cpu::num_threads());
  } else {
    Status status = AC4K_OK;
    const auto* device = cuda::device_properties(runner.device.device_id, status);
    if (device == nullptr) return status;
    key->device = device->name;
  }
  key->kind =
      std::string(runner.type == DType::bf16 ? "bf16 " : "f16 ") + kQuantNames[runner.quant];
  key->M = M, key->N = N, key->K = K, key->group_size = group_size;
  return AC4K_OK;
}

// A contiguous tensor of the runner's device.
class View {
 public:
  View(const Runner& runner, const void* data, DLDataType type,
       std::initializer_list<int64_t> shape)
      : tensor_{} {
    std::copy(shape.begin(), shape.end(), shape_);
    tensor_.data = const_cast<void*>(data);
    tensor_.device = runner.device;
    tensor_.ndim = static_cast<int32_t>(shape.size());
    tensor_.dtype = type;
    tensor_.shape = shape_;
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const DLTensor* get() const { return &tensor_; }

 private:
  int64_t shape_[3];
  DLTensor tensor_;
};

ac4k_arg tensor_arg(const DLTensor* tensor) {
  ac4k_arg arg{};
  arg.kind = tensor->data == nullptr ? AC4K_ARG_NONE : AC4K_ARG_TENSOR;
  arg.value.tensor = tensor;
  return arg;
}
ac4k_arg text_arg(const char* text) {
  ac4k_arg arg{};
  arg.kind = AC4K_ARG_STRING;
  arg.value.string = text;
  return arg;
}
ac4k_arg int_arg(int64_t value) {
  ac4k_arg arg{};
  arg.kind = AC4K_ARG_INT;
  arg.value.integer = value;
  return arg;
}
ac4k_arg real_arg(double value) {
  ac4k_arg arg{};
  arg.kind = AC4K_ARG_FLOAT;
  arg.value.real = value;
  return arg;
}

Status check_product(const char* function, const Runner& runner, const Product& p,
                     WeightFormat* format) {
  AC4K_TRY(check_sizes(function, p.M, p.N, p.K));
  AC4K_TRY(find_format(function, runner, p.K, p.group_size, format));
  if (const int64_t bytes = packed_size(*format, p.N, p.K); p.b_bytes != bytes) {
    return wrong(function, "b_bytes", bytes, ", as a packed weight [", p.N, ", ", p.K,
                 "] has (ac4k_w4a16_runner_pack makes it), got ", p.b_bytes);
  }
  const int64_t count = std::ssize(configs_of(runner, p.M, p.N, p.K));
  if (p.config < 0 || p.config >= count) {
    return wrong(function, "config", "one of 0 to ", count - 1, ", got ", p.config);
  }
  if (p.activation < AC4K_W4A16_NONE || p.activation > AC4K_W4A16_GELU_TANH) {
    return wrong(function, "activation", "an ac4k_w4a16_activation, got ", p.activation);
  }
  const int64_t workspace = workspace_of(runner, p.M, p.N, p.K);
  if (p.workspace_bytes < workspace) {
    return wrong(function, "workspace_bytes", "at least ", workspace, ", got ", p.workspace_bytes);
  }
  if (workspace > 0) {
    AC4K_TRY(check_not_null(function, "workspace", p.workspace));
    AC4K_TRY(check_pointer(function, runner, "workspace", p.workspace, kAlignment));
  }
  const auto required = [&](const char* name, const void* pointer, bool there, int64_t alignment) {
    if (!there) return Status{AC4K_OK};
    AC4K_TRY(check_not_null(function, name, pointer));
    return check_pointer(function, runner, name, pointer, alignment);
  };
  const int64_t element = size_of(runner.type);
  AC4K_TRY(required("a", p.a, p.M > 0 && p.K > 0, element));
  AC4K_TRY(required("b", p.b, p.N > 0 && p.K > 0, kAlignment));
  AC4K_TRY(required("c", p.c, p.M > 0 && p.N > 0, element));
  AC4K_TRY(required("bias", p.bias, p.bias != nullptr, element));
  return required("residual", p.residual, p.residual != nullptr, element);
}

Status run(const Runner& runner, const Product& p, WeightFormat format) {
  if (p.M == 0 || p.N == 0) return AC4K_OK;
  const DLDataType type =
      runner.type == DType::bf16 ? DLDataType{kDLBfloat, 16, 1} : DLDataType{kDLFloat, 16, 1};
  const WeightBlock& block = block_of(format);
  // Nothing to read is no null pointer to the op.
  static const uint16_t nothing = 0;
  const View a(runner, p.K > 0 ? p.a : &nothing, type, {p.M, p.K});
  const View b(runner, p.K > 0 ? p.b : &nothing, {kDLUInt, 8, 1},
               {ceil_div(p.N, kPackedRows), packed_blocks(block, p.K), packed_block_bytes(block)});
  const View bias(runner, p.bias, type, {p.N}), residual(runner, p.residual, type, {p.M, p.N});
  const View c(runner, p.c, type, {p.M, p.N});
  const ac4k_arg args[] = {tensor_arg(a.get()),
                           tensor_arg(b.get()),
                           tensor_arg(bias.get()),
                           real_arg(double{p.alpha}),
                           tensor_arg(residual.get()),
                           int_arg(p.N),
                           text_arg(kLayoutNames[w4_index(format) % kNumW4Layouts]),
                           text_arg(kActivationNames[p.activation]),
                           int_arg(p.config)};
  const DLTensor* const outputs[] = {c.get()};
  return ac4k_call(runner.op, args, std::size(args), outputs, 1, p.stream);
}

Status wait_for(const Runner& runner) {
  return runner.device.device_type == kDLCPU ? AC4K_OK : ac4k_synchronize(runner.device.device_id);
}

// Microseconds of a product, the least of several runs; each run is many products on a GPU, where
// launches overlap.
Status time_config(const Runner& runner, const Product& p, WeightFormat format, double seconds,
                   double* microseconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const int batch = runner.device.device_type == kDLCPU ? 1 : 20;
  AC4K_TRY(run(runner, p, format));  // loads the kernel, fills caches
  AC4K_TRY(wait_for(runner));
  double least = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    for (int i = 0; i < batch; ++i) AC4K_TRY(run(runner, p, format));
    AC4K_TRY(wait_for(runner));
    least = std::min(least, since(start) / batch);
  } while (since(begin) < seconds);
  *microseconds = least * 1e6;
  return AC4K_OK;
}

}  // namespace
}  // namespace ac4k

using namespace ac4k;

extern "C" {

ac4k_status ac4k_w4a16_runner_create(DLDataType activation_type, int32_t quant, DLDevice device,
                                     ac4k_w4a16_runner** runner) {
  constexpr const char* kFunction = "create";
  AC4K_TRY(check_not_null(kFunction, "runner", runner));
  *runner = nullptr;
  const bool is_f16 = activation_type.code == kDLFloat, is_bf16 = activation_type.code == kDLBfloat;
  if (activation_type.bits != 16 || activation_type.lanes != 1 || !(is_f16 || is_bf16)) {
    return fail(AC4K_INVALID_TYPE, kName,
                ".create: argument 'activation_type': expected float16 or "
                "bfloat16, got code ",
                int{activation_type.code}, " of ", int{activation_type.bits}, " bits");
  }
  if (quant < AC4K_W4A16_PER_CHANNEL || quant > AC4K_W4A16_GROUP_ZEROS) {
    return wrong(kFunction, "quant", "an ac4k_w4a16_quant, got ", quant);
  }
  if (device.device_type == kDLCUDA) {
    Status status = AC4K_OK;
    if (cuda::device_properties(device.device_id, status) == nullptr) return status;
  } else if (device.device_type != kDLCPU) {
    return fail(AC4K_UNSUPPORTED, kName, ".create: argument 'device': expected cpu or cuda, got ",
                "DLPack device type ", static_cast<int>(device.device_type));
  }
  *runner = new (std::nothrow)
      ac4k_w4a16_runner{is_bf16 ? DType::bf16 : DType::f16, static_cast<ac4k_w4a16_quant>(quant),
                        device, ac4k_find_op("w4a16_gemm")};
  return *runner != nullptr ? AC4K_OK : fail(AC4K_OUT_OF_MEMORY, kName, ".create: no memory");
}

void ac4k_w4a16_runner_destroy(ac4k_w4a16_runner* runner) { delete runner; }

ac4k_status ac4k_w4a16_runner_packed_size(const ac4k_w4a16_runner* runner, int64_t N, int64_t K,
                                          int64_t group_size, int64_t* bytes) {
  constexpr const char* kFunction = "packed_size";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, 0, N, K));
  WeightFormat format;
  AC4K_TRY(find_format(kFunction, *runner, K, group_size, &format));
  AC4K_TRY(check_not_null(kFunction, "bytes", bytes));
  *bytes = packed_size(format, N, K);
  return AC4K_OK;
}

ac4k_status ac4k_w4a16_runner_pack(const ac4k_w4a16_runner* runner, const uint8_t* q,
                                   const void* scales, const void* zeros, int64_t N, int64_t K,
                                   int64_t group_size, void* packed, int64_t packed_bytes) {
  constexpr const char* kFunction = "pack";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, 0, N, K));
  WeightFormat format;
  AC4K_TRY(find_format(kFunction, *runner, K, group_size, &format));
  const Runner host{runner->type, runner->quant, {kDLCPU, 0}, nullptr};
  const struct {
    const char* name;
    const void* pointer;
    int64_t alignment;
  } pointers[] = {{"q", q, 1}, {"scales", scales, 2}, {"packed", packed, 1}};
  for (const auto& [name, pointer, alignment] : pointers) {
    AC4K_TRY(check_not_null(kFunction, name, pointer));
    AC4K_TRY(check_pointer(kFunction, host, name, pointer, alignment));
  }
  if (w4_has_zeros(format)) {
    AC4K_TRY(check_not_null(kFunction, "zeros", zeros));
    AC4K_TRY(check_pointer(kFunction, host, "zeros", zeros, 2));
  } else if (zeros != nullptr) {
    return wrong(kFunction, "zeros", "null for ", kQuantNames[runner->quant], ", got a pointer");
  }
  if (const int64_t bytes = packed_size(format, N, K); packed_bytes != bytes) {
    return wrong(kFunction, "packed_bytes", bytes, ", got ", packed_bytes);
  }
  for (int64_t i = 0; i < N * K; ++i) {
    if (q[i] > 15) return wrong(kFunction, "q", "codes of 0 to 15, got ", int{q[i]});
  }
  return cpu::pack_w4({.format = format,
                       .N = N,
                       .K = K,
                       .num_groups = K / group_size,
                       .codes = q,
                       .scales = static_cast<const uint16_t*>(scales),
                       .zeros = static_cast<const uint16_t*>(zeros)},
                      static_cast<uint8_t*>(packed));
}

ac4k_status ac4k_w4a16_runner_workspace_size(const ac4k_w4a16_runner* runner, int64_t M, int64_t N,
                                             int64_t K, int64_t* bytes) {
  constexpr const char* kFunction = "workspace_size";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, M, N, K));
  AC4K_TRY(check_not_null(kFunction, "bytes", bytes));
  *bytes = workspace_of(*runner, M, N, K);
  return AC4K_OK;
}

ac4k_status ac4k_w4a16_runner_num_configs(const ac4k_w4a16_runner* runner, int64_t M, int64_t N,
                                          int64_t K, int64_t* count) {
  constexpr const char* kFunction = "configs";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, M, N, K));
  AC4K_TRY(check_not_null(kFunction, "count", count));
  *count = std::ssize(configs_of(*runner, M, N, K));
  return AC4K_OK;
}

ac4k_status ac4k_w4a16_runner_config_name(const ac4k_w4a16_runner* runner, int64_t M, int64_t N,
                                          int64_t K, int64_t index, const char** name) {
  constexpr const char* kFunction = "configs";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, M, N, K));
  AC4K_TRY(check_not_null(kFunction, "name", name));
  const std::vector<std::string> names = configs_of(*runner, M, N, K);
  if (index < 0 || index >= std::ssize(names)) {
    return wrong(kFunction, "index", "one of 0 to ", std::ssize(names) - 1, ", got ", index);
  }
  // Names are few; each is kept for good.
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  *name = kept->insert(names[static_cast<size_t>(index)]).first->c_str();
  return AC4K_OK;
}

ac4k_status ac4k_w4a16_runner_best_config(const ac4k_w4a16_runner* runner, int64_t M, int64_t N,
                                          int64_t K, int64_t group_size, int64_t* config) {
  constexpr const char* kFunction = "best_config";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_sizes(kFunction, M, N, K));
  WeightFormat format;
  AC4K_TRY(find_format(kFunction, *runner, K, group_size, &format));
  AC4K_TRY(check_not_null(kFunction, "config", config));
  W4TuneKey key;
  AC4K_TRY(tune_key(*runner, M, N, K, group_size, &key));
  if (const auto tuned = w4_tuned(key)) {
    const std::vector<std::string> names = configs_of(*runner, M, N, K);
    const auto found = std::find(names.begin(), names.end(), *tuned);
    if (found != names.end()) {
      *config = found - names.begin();
      return AC4K_OK;
    }
  }
  const bool on_cpu = runner->device.device_type == kDLCPU;
  *config = on_cpu ? static_cast<int64_t>(cpu::path_for(runner->type, format, M)) : 0;
  return AC4K_OK;
}

ac4k_status ac4k_w4a16_runner_gemm(const ac4k_w4a16_runner* runner,
                                   const ac4k_w4a16_product* product) {
  constexpr const char* kFunction = "gemm";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_not_null(kFunction, "product", product));
  WeightFormat format;
  AC4K_TRY(check_product(kFunction, *runner, *product, &format));
  return run(*runner, *product, format);
}

ac4k_status ac4k_w4a16_runner_tune(const ac4k_w4a16_runner* runner,
                                   const ac4k_w4a16_product* product, double seconds, int64_t* best,
                                   double* microseconds) {
  constexpr const char* kFunction = "tune";
  AC4K_TRY(check_runner(kFunction, runner));
  AC4K_TRY(check_not_null(kFunction, "product", product));
  AC4K_TRY(check_not_null(kFunction, "best", best));
  if (!(seconds >= 0 && seconds <= 3600)) {
    return wrong(kFunction, "seconds", "0 to 3600, got ", seconds);
  }
  Product p = *product;
  p.config = 0;
  if (p.residual != nullptr && p.residual == p.c) {
    return wrong(kFunction, "residual",
                 "other memory than c, which is written again and again, got ", "the same");
  }
  WeightFormat format;
  AC4K_TRY(check_product(kFunction, *runner, p, &format));
  const std::vector<std::string> names = configs_of(*runner, p.M, p.N, p.K);
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < names.size(); ++i) {
    p.config = static_cast<int64_t>(i);
    double time = 0;
    AC4K_TRY(time_config(*runner, p, format, seconds / static_cast<double>(names.size()), &time));
    if (microseconds != nullptr) microseconds[i] = time;
    if (time < least) {
      least = time;
      *best = p.config;
    }
  }
  W4TuneKey key;
  AC4K_TRY(tune_key(*runner, p.M, p.N, p.K, p.group_size, &key));
  w4_remember(key, names[static_cast<size_t>(*best)], least);
  return AC4K_OK;
}

}  // extern "C"
