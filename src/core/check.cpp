#include "core/check.hpp"

#include <cstring>

namespace ac4k {
namespace {

constexpr int64_t kUnbound = -1;
constexpr const char* kKindNames[] = {"None", "a tensor", "an int", "a float", "a bool", "a str"};

const char* expected_kind(ParamKind kind) {
  switch (kind) {
    case ParamKind::tensor: return "a tensor";
    case ParamKind::integer: return "an int";
    case ParamKind::real: return "a float";
    case ParamKind::boolean: return "a bool";
    case ParamKind::choice: return "a str";
  }
  return "";
}

template <typename... Parts>
[[gnu::cold]] Status argument_error(Status code, const Op& op, std::string_view name,
                                    const Parts&... parts) {
  return fail(code, op.signature.name, ": argument '", name, "': ", parts...);
}

std::string types_text(const TypeVariable& variable) {
  std::string text;
  for (const DType type : variable.types) {
    text += (text.empty() ? "" : ", ") + std::string(display_name(type));
  }
  return text;
}

std::string dims_text(const TensorType& type) {
  std::string text = type.leading ? "[..." : "[";
  for (const Dim& dim : type.dims) text += (text.size() > 1 ? ", " : "") + dim.text;
  return text + "]";
}

std::string device_text(DLDevice device) {
  const char* name = device.device_type == kDLCPU    ? "cpu"
                     : device.device_type == kDLCUDA ? "cuda"
                     : device.device_type == kDLROCM ? "rocm"
                                                     : nullptr;
  if (device.device_type == kDLCPU) return "cpu";
  if (name == nullptr) return "DLPack device type " + std::to_string(device.device_type);
  return std::string(name) + ":" + std::to_string(device.device_id);
}

// Pinned memory is CPU memory, managed memory belongs to the GPU that is asked to use it.
DLDevice normalised(DLDevice device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
      device.device_type == kDLROCMHost) {
    return {kDLCPU, 0};
  }
  if (device.device_type == kDLCUDAManaged) return {kDLCUDA, device.device_id};
  return device;
}

// While a call is being bound: who fixed what, for the error texts.
struct Binding {
  Call& call;
  const Op& op;
  std::string_view name;  // the argument being looked at
  std::array<int, AC4K_MAX_ARGS> dim_source{};
  int type_source[AC4K_MAX_OUTPUTS] = {};
  int device_source = -1;
  int leading_source = -1;

  const char* param_name(int index) const {
    return op.signature.params[static_cast<size_t>(index)].name.c_str();
  }

  Status check_dtype(const TensorType& type, DLDataType got, int source) {
    if (type.type_variable < 0) {
      const DLDataType expected = to_dlpack(type.dtype);
      if (got.code != expected.code || got.bits != expected.bits || got.lanes != 1) {
        return argument_error(AC4K_INVALID_TYPE, op, name, "expected dtype ",
                              display_name(type.dtype), ", got ", display_name(got));
      }
      return AC4K_OK;
    }
    const auto variable_index = static_cast<size_t>(type.type_variable);
    const TypeVariable& variable = op.signature.type_variables[variable_index];
    DType& bound = call.types[variable_index];
    if (bound != DType::count) {
      const DLDataType expected = to_dlpack(bound);
      if (got.code == expected.code && got.bits == expected.bits && got.lanes == 1) return AC4K_OK;
      return argument_error(AC4K_INVALID_TYPE, op, name, "expected dtype ", display_name(bound),
                            ", as '", param_name(type_source[variable_index]), "' has, got ",
                            display_name(got));
    }
    for (const DType allowed : variable.types) {
      const DLDataType candidate = to_dlpack(allowed);
      if (got.code == candidate.code && got.bits == candidate.bits && got.lanes == 1) {
        bound = allowed;
        type_source[variable_index] = source;
        return AC4K_OK;
      }
    }
    return argument_error(AC4K_INVALID_TYPE, op, name, "expected dtype ", types_text(variable),
                          ", got ", display_name(got));
  }

  Status check_shape(const TensorType& type, const DLTensor& tensor, int source) {
    const int fixed = static_cast<int>(type.dims.size());
    const int leading = tensor.ndim - fixed;
    if (leading < 0 || (leading > 0 && !type.leading)) {
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected shape ", dims_text(type),
                            ", got ", shape_text(tensor.ndim, tensor.shape));
    }
    if (type.leading) {
      if (call.leading_ndim < 0) {
        call.leading_ndim = leading;
        call.leading_shape = tensor.shape;
        leading_source = source;
      } else {
        bool same = leading == call.leading_ndim;
        for (int i = 0; same && i < leading; ++i) same = tensor.shape[i] == call.leading_shape[i];
        if (!same) {
          return argument_error(AC4K_INVALID_VALUE, op, name, "expected shape ", dims_text(type),
                                " with ... = ", shape_text(call.leading_ndim, call.leading_shape),
                                ", as '", param_name(leading_source), "' has, got ",
                                shape_text(tensor.ndim, tensor.shape));
        }
      }
    }
    for (int i = 0; i < fixed; ++i) {
      AC4K_TRY(check_dim(type, type.dims[static_cast<size_t>(i)], tensor, leading + i, source));
    }
    return AC4K_OK;
  }

  Status check_dim(const TensorType& type, const Dim& dim, const DLTensor& tensor, int axis,
                   int source) {
    const int64_t got = tensor.shape[axis];
    if (dim.symbol < 0) {
      if (got == dim.multiply) return AC4K_OK;
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected shape ", dims_text(type),
                            ", got ", shape_text(tensor.ndim, tensor.shape));
    }
    const auto symbol = static_cast<size_t>(dim.symbol);
    int64_t& bound = call.dims[symbol];
    if (bound == kUnbound) {
      if (got % dim.multiply != 0) {
        return argument_error(AC4K_INVALID_VALUE, op, name, "expected shape ", dims_text(type),
                              ", got ", shape_text(tensor.ndim, tensor.shape));
      }
      bound = got / dim.multiply * dim.divide;
      dim_source[symbol] = source;
      return AC4K_OK;
    }
    if (bound % dim.divide == 0 && bound / dim.divide * dim.multiply == got) return AC4K_OK;
    return argument_error(AC4K_INVALID_VALUE, op, name, "expected shape ", dims_text(type), " with ",
                          op.signature.dim_names[symbol], " = ", bound, ", set by '",
                          param_name(dim_source[symbol]), "', got ",
                          shape_text(tensor.ndim, tensor.shape));
  }

  // What every tensor must be, whatever the op.
  Status check_view(const DLTensor& tensor, bool strided) {
    if (tensor.ndim < 0 || tensor.ndim > AC4K_MAX_DIMS) {
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected at most ", AC4K_MAX_DIMS,
                            " dimensions, got ", tensor.ndim);
    }
    int64_t bytes = (tensor.dtype.bits + 7) / 8;
    bool empty = false;
    for (int i = 0; i < tensor.ndim; ++i) empty = empty || tensor.shape[i] == 0;
    for (int i = 0; i < tensor.ndim && !empty; ++i) {
      if (tensor.shape[i] < 0 || __builtin_mul_overflow(bytes, tensor.shape[i], &bytes)) {
        return argument_error(AC4K_INVALID_VALUE, op, name, "expected fewer than 2^63 bytes, got shape ",
                              shape_text(tensor.ndim, tensor.shape));
      }
    }
    if (empty) return AC4K_OK;
    if (tensor.data == nullptr) {
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected data, got a null pointer");
    }
    const auto size = static_cast<uintptr_t>((tensor.dtype.bits + 7) / 8);
    if (reinterpret_cast<uintptr_t>(data_of(tensor)) % size != 0) {
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected data aligned to ", size,
                            " bytes, got address modulo ", size, " = ",
                            reinterpret_cast<uintptr_t>(data_of(tensor)) % size);
    }
    if (!strided && !is_contiguous(tensor)) {
      return argument_error(AC4K_INVALID_VALUE, op, name, "expected a contiguous tensor, got shape ",
                            shape_text(tensor.ndim, tensor.shape), " with strides ",
                            shape_text(tensor.ndim, tensor.strides));
    }
    return AC4K_OK;
  }

  Status check_device(const DLTensor& tensor, int source) {
    const DLDevice device = normalised(tensor.device);
    if (device_source < 0) {
      call.device = device;
      device_source = source;
      return AC4K_OK;
    }
    if (device.device_type == call.device.device_type && device.device_id == call.device.device_id) {
      return AC4K_OK;
    }
    return argument_error(AC4K_INVALID_VALUE, op, name, "expected a tensor on ",
                          device_text(call.device), ", as '", param_name(device_source),
                          "' is, got one on ", device_text(device));
  }

  Status tensor_argument(const Param& param, const DLTensor& tensor, int source) {
    AC4K_TRY(check_dtype(param.tensor, tensor.dtype, source));
    AC4K_TRY(check_view(tensor, param.tensor.strided));
    AC4K_TRY(check_shape(param.tensor, tensor, source));
    return check_device(tensor, source);
  }

  Status choice_argument(const Param& param, const char* text, ac4k_arg* result) {
    for (size_t i = 0; text != nullptr && i < param.choices.size(); ++i) {
      if (param.choices[i] == text) {
        result->value.integer = static_cast<int64_t>(i);
        return AC4K_OK;
      }
    }
    std::string choices;
    for (const auto& choice : param.choices) choices += (choices.empty() ? "" : ", ") + choice;
    return argument_error(AC4K_INVALID_VALUE, op, name, "expected one of ", choices, ", got '",
                          text ? text : "", "'");
  }
};

void set_default(const Param& param, ac4k_arg* arg) {
  switch (param.kind) {
    case ParamKind::tensor: arg->kind = AC4K_ARG_NONE; break;
    case ParamKind::real:
      arg->kind = AC4K_ARG_FLOAT;
      arg->value.real = param.default_real;
      break;
    case ParamKind::integer:
    case ParamKind::boolean:
    case ParamKind::choice:
      arg->kind = AC4K_ARG_INT;
      arg->value.integer = param.default_integer;
      break;
  }
}

// The bytes a non-empty view touches, as [first, last).
struct Extent {
  uintptr_t first, last;
};

Extent extent_of(const DLTensor& tensor) {
  const int64_t size = (tensor.dtype.bits + 7) / 8;
  auto first = reinterpret_cast<uintptr_t>(data_of(tensor));
  if (tensor.strides == nullptr) {
    return {first, first + static_cast<uintptr_t>(num_elements(tensor) * size)};
  }
  auto last = first + static_cast<uintptr_t>(size);
  for (int i = 0; i < tensor.ndim; ++i) {
    const auto reach = static_cast<uintptr_t>((tensor.shape[i] - 1) * tensor.strides[i] * size);
    (tensor.strides[i] < 0 ? first : last) += reach;
  }
  return {first, last};
}

}  // namespace

Status bind(const Op& op, const ac4k_arg* args, size_t num_args, Call* call) {
  const auto& params = op.signature.params;
  if (num_args > params.size()) {
    return fail(AC4K_INVALID_TYPE, op.signature.name, ": expected at most ", params.size(),
                " arguments, got ", num_args);
  }
  call->dims.fill(kUnbound);
  call->types.fill(DType::count);
  Binding binding{*call, op, {}};

  // Scalars first: an int may fix a dim that tensors are then checked against.
  bool has_scalars = false;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = params[i];
    ac4k_arg& bound = call->args[i];
    if (i >= num_args || (args[i].kind == AC4K_ARG_NONE && param.has_default)) {
      if (!param.has_default) {
        return argument_error(AC4K_INVALID_TYPE, op, param.name, "missing");
      }
      set_default(param, &bound);
      continue;
    }
    bound = args[i];
    if (param.kind == ParamKind::tensor) {
      if (bound.kind == AC4K_ARG_TENSOR && bound.value.tensor != nullptr) continue;
    } else {
      has_scalars = true;
      binding.name = param.name;
      if (param.kind == ParamKind::choice && bound.kind == AC4K_ARG_STRING) {
        AC4K_TRY(binding.choice_argument(param, bound.value.string, &bound));
        continue;
      }
      if (param.kind == ParamKind::integer && bound.kind == AC4K_ARG_INT) continue;
      if (param.kind == ParamKind::boolean && bound.kind == AC4K_ARG_BOOL) continue;
      if (param.kind == ParamKind::real && bound.kind == AC4K_ARG_FLOAT) continue;
      if (param.kind == ParamKind::real && bound.kind == AC4K_ARG_INT) {
        bound = {AC4K_ARG_FLOAT, {.real = static_cast<double>(bound.value.integer)}};
        continue;
      }
    }
    const auto kind = static_cast<size_t>(bound.kind);
    return argument_error(AC4K_INVALID_TYPE, op, param.name, "expected ", expected_kind(param.kind),
                          ", got ", kind < 6 ? kKindNames[kind] : "an unknown kind");
  }
  for (size_t i = 0; has_scalars && i < params.size(); ++i) {
    if (params[i].dim_symbol < 0) continue;
    const int64_t value = call->args[i].value.integer;
    if (value < 0) {
      return argument_error(AC4K_INVALID_VALUE, op, params[i].name, "expected at least 0, got ",
                            value);
    }
    call->dims[static_cast<size_t>(params[i].dim_symbol)] = value;
    binding.dim_source[static_cast<size_t>(params[i].dim_symbol)] = static_cast<int>(i);
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind != ParamKind::tensor || call->args[i].kind == AC4K_ARG_NONE) continue;
    binding.name = params[i].name;
    AC4K_TRY(binding.tensor_argument(params[i], *call->args[i].value.tensor, static_cast<int>(i)));
  }
  return op.decl.check ? op.decl.check(*call) : AC4K_OK;
}

Status output_spec(const Call& call, size_t index, ac4k_tensor_spec* spec) {
  const TensorType& type = call.op.signature.outputs[index];
  const DType dtype = type.type_variable < 0 ? type.dtype : call.type(type.type_variable);
  spec->device = call.device;
  spec->dtype = to_dlpack(dtype);
  int ndim = 0;
  if (type.leading) {
    for (; ndim < call.leading_ndim; ++ndim) spec->shape[ndim] = call.leading_shape[ndim];
  }
  int64_t bytes = size_of(dtype);
  for (const Dim& dim : type.dims) {
    const int64_t bound = dim.symbol < 0 ? 1 : call.dim(dim.symbol);
    if (bound % dim.divide != 0) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": expected a whole ", dim.text, ", got ",
                  call.op.signature.dim_names[static_cast<size_t>(dim.symbol)], " = ", bound);
    }
    spec->shape[ndim++] = bound / dim.divide * dim.multiply;
  }
  spec->ndim = ndim;
  bool empty = false;
  for (int i = 0; i < ndim; ++i) empty = empty || spec->shape[i] == 0;
  for (int i = 0; i < ndim && !empty; ++i) {
    if (__builtin_mul_overflow(bytes, spec->shape[i], &bytes)) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": the output would have shape ",
                  shape_text(ndim, spec->shape), ", which passes 2^63 bytes");
    }
  }
  return AC4K_OK;
}

Status bind_outputs(const DLTensor* const* outputs, size_t num_outputs, Call* call) {
  const Op& op = call->op;
  const auto& types = op.signature.outputs;
  if (num_outputs != types.size()) {
    return fail(AC4K_INVALID_TYPE, op.signature.name, ": expected ", types.size(), " outputs, got ",
                num_outputs);
  }
  Binding binding{*call, op, {}};
  for (size_t i = 0; i < num_outputs; ++i) {
    binding.name = "out";
    if (outputs[i] == nullptr) {
      return argument_error(AC4K_INVALID_TYPE, op, "out", "expected a tensor, got none");
    }
    const DLTensor& out = *outputs[i];
    ac4k_tensor_spec spec;
    AC4K_TRY(output_spec(*call, i, &spec));
    if (std::memcmp(&out.dtype, &spec.dtype, sizeof(DLDataType)) != 0) {
      return argument_error(AC4K_INVALID_TYPE, op, "out", "expected dtype ",
                            display_name(spec.dtype), ", got ", display_name(out.dtype));
    }
    AC4K_TRY(binding.check_view(out, /*strided=*/false));
    bool same_shape = out.ndim == spec.ndim;
    for (int d = 0; same_shape && d < out.ndim; ++d) same_shape = out.shape[d] == spec.shape[d];
    if (!same_shape) {
      return argument_error(AC4K_INVALID_VALUE, op, "out", "expected shape ",
                            shape_text(spec.ndim, spec.shape), ", got ",
                            shape_text(out.ndim, out.shape));
    }
    const DLDevice device = normalised(out.device);
    if (device.device_type != spec.device.device_type || device.device_id != spec.device.device_id) {
      return argument_error(AC4K_INVALID_VALUE, op, "out", "expected a tensor on ",
                            device_text(spec.device), ", got one on ", device_text(device));
    }
    if (num_elements(out) == 0) continue;
    const Extent written = extent_of(out);
    const auto overlaps = [&](const DLTensor& other) {
      if (num_elements(other) == 0) return false;
      const Extent read = extent_of(other);
      return read.first < written.last && written.first < read.last;
    };
    for (size_t p = 0; p < op.signature.params.size(); ++p) {
      if (call->args[p].kind != AC4K_ARG_TENSOR) continue;
      const DLTensor& input = *call->args[p].value.tensor;
      if (!overlaps(input)) continue;
      const bool same = op.decl.elementwise && data_of(input) == data_of(out) &&
                        num_elements(input) == num_elements(out) && is_contiguous(input);
      if (!same) {
        return argument_error(AC4K_INVALID_VALUE, op, "out", "expected memory apart from '",
                              op.signature.params[p].name, "', got memory that overlaps it");
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlaps(*outputs[j])) {
        return argument_error(AC4K_INVALID_VALUE, op, "out", "expected outputs that do not overlap");
      }
    }
  }
  call->outputs = outputs;
  return AC4K_OK;
}

}  // namespace ac4k
