// ac4k._torch: every op of the table as a boxed kernel of torch's dispatcher, on the stable ABI
// (torch 2.11 and later). Schemas and fake kernels are defined in ac4k/_torch_door.py; this file
// holds no word about any single op.
#include <Python.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "ac4k/ac4k.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

constexpr size_t kMaxOps = 512;

struct DTypeRow {
  ScalarType torch;
  DLDataType dlpack;
};
constexpr DTypeRow kDTypes[] = {
    {ScalarType::Float, {kDLFloat, 32, 1}},
    {ScalarType::Double, {kDLFloat, 64, 1}},
    {ScalarType::Half, {kDLFloat, 16, 1}},
    {ScalarType::BFloat16, {kDLBfloat, 16, 1}},
    {ScalarType::Byte, {kDLUInt, 8, 1}},
    {ScalarType::Char, {kDLInt, 8, 1}},
    {ScalarType::Short, {kDLInt, 16, 1}},
    {ScalarType::Int, {kDLInt, 32, 1}},
    {ScalarType::Long, {kDLInt, 64, 1}},
    {ScalarType::Bool, {kDLBool, 8, 1}},
    {ScalarType::ComplexFloat, {kDLComplex, 64, 1}},
    {ScalarType::ComplexDouble, {kDLComplex, 128, 1}},
    {ScalarType::Float8_e4m3fn, {kDLFloat8_e4m3fn, 8, 1}},
    {ScalarType::Float8_e5m2, {kDLFloat8_e5m2, 8, 1}},
};

DLDataType to_dlpack(ScalarType type) {
  for (const DTypeRow& row : kDTypes) {
    if (row.torch == type) return row.dlpack;
  }
  return {kDLOpaqueHandle, 8, 1};  // no op takes it: the check says so
}

int32_t to_torch(DLDataType type) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dlpack.code == type.code && row.dlpack.bits == type.bits) {
      return static_cast<int32_t>(to<int32_t>(from(row.torch)));
    }
  }
  throw std::runtime_error("ac4k: torch has no such dtype");
}

// A tensor that is held, and its view.
struct Held {
  std::optional<Tensor> tensor;
  DLTensor view{};

  // Takes it off torch's stack: an optional one may be none.
  void own(StableIValue value, bool optional) {
    if (optional) {
      tensor = to<std::optional<Tensor>>(value);
    } else {
      tensor = to<Tensor>(value);
    }
  }

  // Whatever the dispatcher lets through: None becomes an undefined tensor, and tensors of other
  // devices come along with ours. Neither may be asked for its memory.
  void look(const ac4k_op* op, const char* name) {
    if (!tensor->defined()) {
      throw std::runtime_error(std::string(ac4k_op_name(op)) + ": argument '" + name +
                               "': expected a tensor, got None");
    }
    const bool on_gpu = tensor->is_cuda(), on_cpu = tensor->is_cpu();
    view.device = on_gpu   ? DLDevice{kDLCUDA, tensor->get_device_index()}
                  : on_cpu ? DLDevice{kDLCPU, 0}
                           : DLDevice{kDLExtDev, 0};
    view.data = on_gpu || on_cpu ? tensor->data_ptr() : nullptr;
    view.ndim = static_cast<int32_t>(tensor->dim());
    view.shape = const_cast<int64_t*>(tensor->sizes().data());
    view.strides = const_cast<int64_t*>(tensor->strides().data());
    view.dtype = to_dlpack(tensor->scalar_type());
  }
};

// A string argument, freed by hand: torch 2.13's own conversion forgets to.
struct HeldString {
  StringHandle handle = nullptr;
  ~HeldString() {
    if (handle != nullptr) torch_delete_string(handle);
  }

  const char* text(const ac4k_op* op, const char* name) const {
    const char* text = nullptr;
    size_t length = 0;
    torch_string_c_str(handle, &text);
    torch_string_length(handle, &length);
    if (std::strlen(text) != length) {
      throw std::runtime_error(std::string(ac4k_op_name(op)) + ": argument '" + name +
                               "': expected no zero bytes");
    }
    return text;
  }
};

void throw_unless_ok(ac4k_status status) {
  if (status != AC4K_OK) throw std::runtime_error(ac4k_last_error());
}

// libtorch_cuda is there only in CUDA builds of torch, and by the time a CUDA tensor comes.
void* current_cuda_stream(int32_t device_index) {
  using Function = AOTITorchError (*)(int32_t, void**);
  static const auto function = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    return library
               ? reinterpret_cast<Function>(dlsym(library, "aoti_torch_get_current_cuda_stream"))
               : nullptr;
  }();
  void* stream = nullptr;
  if (function == nullptr || function(device_index, &stream) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("ac4k: torch does not tell its current CUDA stream");
  }
  return stream;
}

// Everything a boxed call took off torch's stack.
struct BoxedArgs {
  std::array<Held, AC4K_MAX_ARGS> tensors;
  std::array<HeldString, AC4K_MAX_ARGS> strings;
  std::array<ac4k_arg, AC4K_MAX_ARGS> values{};
  const Held* first = nullptr;

  // Every handle is owned before any is looked at: what is refused is freed with the others.
  void own(const ac4k_op* op, const StableIValue* stack, size_t num_params) {
    for (size_t i = 0; i < num_params; ++i) {
      const ac4k_param param = ac4k_op_param(op, i);
      if (param.kind == AC4K_ARG_TENSOR) {
        tensors[i].own(stack[i], param.has_default != 0);
      } else if (param.kind == AC4K_ARG_STRING) {
        strings[i].handle = to<StringHandle>(stack[i]);
      }
    }
  }

  void read(const ac4k_op* op, const StableIValue* stack, size_t num_params) {
    for (size_t i = 0; i < num_params; ++i) {
      const ac4k_param param = ac4k_op_param(op, i);
      if (param.kind == AC4K_ARG_TENSOR) {
        read_tensor(i, op, param);
      } else if (param.kind == AC4K_ARG_STRING) {
        values[i] = {AC4K_ARG_STRING, {.string = strings[i].text(op, param.name)}};
      } else if (param.kind == AC4K_ARG_FLOAT) {
        values[i] = {AC4K_ARG_FLOAT, {.real = to<double>(stack[i])}};
      } else if (param.kind == AC4K_ARG_BOOL) {
        values[i] = {AC4K_ARG_BOOL, {.integer = to<bool>(stack[i])}};
      } else {
        values[i] = {AC4K_ARG_INT, {.integer = to<int64_t>(stack[i])}};
      }
    }
  }

  void read_tensor(size_t i, const ac4k_op* op, const ac4k_param& param) {
    if (!tensors[i].tensor) {
      values[i].kind = AC4K_ARG_NONE;
      return;
    }
    tensors[i].look(op, param.name);
    values[i] = {AC4K_ARG_TENSOR, {.tensor = &tensors[i].view}};
    if (first == nullptr) first = &tensors[i];
  }

  void* stream() const {
    const bool on_gpu = first != nullptr && first->view.device.device_type == kDLCUDA;
    return on_gpu ? current_cuda_stream(first->view.device.device_id) : nullptr;
  }
};

// An output that is not there is an empty tensor in torch's eyes: a schema has a fixed number.
Tensor allocate(const ac4k_op* op, ac4k_tensor_spec spec) {
  if (spec.ndim == AC4K_NO_OUTPUT) {
    spec.ndim = 1;
    spec.shape[0] = 0;
  }
  std::array<int64_t, AC4K_MAX_DIMS> strides{};
  int64_t next = 1;
  for (int i = spec.ndim - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = next;
    next *= spec.shape[i];
  }
  const bool on_gpu = spec.device.device_type == kDLCUDA;
  AtenTensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(
          spec.ndim, spec.shape, strides.data(), to_torch(spec.dtype),
          on_gpu ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu(),
          on_gpu ? spec.device.device_id : 0, &handle) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error(std::string(ac4k_op_name(op)) + ": cannot allocate the output");
  }
  return Tensor(handle);
}

void call_functional(const ac4k_op* op, StableIValue* stack) {
  const size_t num_params = ac4k_op_num_params(op), num_outputs = ac4k_op_num_outputs(op);
  BoxedArgs args;
  args.own(op, stack, num_params);
  args.read(op, stack, num_params);
  ac4k_tensor_spec specs[AC4K_MAX_OUTPUTS];
  throw_unless_ok(ac4k_infer(op, args.values.data(), num_params, specs, num_outputs));
  std::array<Held, AC4K_MAX_OUTPUTS> outputs;
  const DLTensor* views[AC4K_MAX_OUTPUTS] = {};
  for (size_t i = 0; i < num_outputs; ++i) {
    outputs[i].tensor = allocate(op, specs[i]);
    outputs[i].look(op, "out");
    views[i] = specs[i].ndim == AC4K_NO_OUTPUT ? nullptr : &outputs[i].view;
  }
  throw_unless_ok(ac4k_call(op, args.values.data(), num_params, views, num_outputs, args.stream()));
  for (size_t i = 0; i < num_outputs; ++i) stack[i] = from(*outputs[i].tensor);
}

void call_out(const ac4k_op* op, StableIValue* stack) {
  const size_t num_params = ac4k_op_num_params(op), num_outputs = ac4k_op_num_outputs(op);
  std::array<Held, AC4K_MAX_OUTPUTS> outputs;
  for (size_t i = 0; i < num_outputs; ++i) {
    outputs[i].own(stack[num_params + i], ac4k_op_output_is_optional(op, i) != 0);
  }
  BoxedArgs args;
  args.own(op, stack, num_params);
  const DLTensor* views[AC4K_MAX_OUTPUTS] = {};
  for (size_t i = 0; i < num_outputs; ++i) {
    if (!outputs[i].tensor) continue;
    outputs[i].look(op, "out");
    views[i] = &outputs[i].view;
  }
  args.read(op, stack, num_params);
  throw_unless_ok(ac4k_call(op, args.values.data(), num_params, views, num_outputs, args.stream()));
}

// A boxed kernel is a bare function pointer, so each op gets an instance that knows its index.
template <size_t kIndex, bool kOut>
void boxed(StableIValue* stack, uint64_t, uint64_t) {
  const ac4k_op* op = ac4k_op_at(kIndex);
  kOut ? call_out(op, stack) : call_functional(op, stack);
}

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);

template <bool kOut, size_t... kIndices>
constexpr std::array<Boxed, kMaxOps> boxed_table(std::index_sequence<kIndices...>) {
  return {boxed<kIndices, kOut>...};
}

void implement(torch::stable::detail::StableLibrary& library) {
  static constexpr auto kFunctional = boxed_table<false>(std::make_index_sequence<kMaxOps>());
  static constexpr auto kOut = boxed_table<true>(std::make_index_sequence<kMaxOps>());
  for (size_t i = 0; i < ac4k_num_ops() && i < kMaxOps; ++i) {
    const std::string name = ac4k_op_name(ac4k_op_at(i));
    library.impl(name.c_str(), kFunctional[i]);
    if (ac4k_op_num_outputs(ac4k_op_at(i)) > 0) {
      library.impl((name + ".out").c_str(), kOut[i]);
    }
  }
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ac4k, CPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(ac4k, CUDA, library) { implement(library); }

// An empty Python module: importing it runs the registrations above.
PyMODINIT_FUNC PyInit__torch() {
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_torch", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return PyModule_Create(&definition);
}
