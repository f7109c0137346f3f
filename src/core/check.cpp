#include "core/check.hpp"

#include <bit>

namespace ac4k {
namespace {

constexpr int kOutput = -1;  // the index errors know outputs by
constexpr const char* kKindNames[] = {"None", "a tensor", "an int", "a float", "a bool", "a str"};

// ---- Texts: only for errors, so they may take their time ---------------------------------------

const char* expected_kind(ParamKind kind) {
  switch (kind) {
    case ParamKind::tensor:
      return "a tensor";
    case ParamKind::integer:
      return "an int";
    case ParamKind::real:
      return "a float";
    case ParamKind::boolean:
      return "a bool";
    case ParamKind::choice:
      return "a str";
  }
  return "";
}

const char* name_of(const Op& op, int index) {
  return index == kOutput ? "out" : op.signature.params[static_cast<size_t>(index)].name.c_str();
}

template <typename... Parts>
[[gnu::cold, gnu::noinline]] Status argument_error(Status code, const Op& op, int index,
                                                   const Parts&... parts) {
  return fail(code, op.signature.name, ": argument '", name_of(op, index), "': ", parts...);
}

std::string types_text(const TypeVariable& variable) {
  std::string text;
  for (const DType type : variable.types) {
    text += (text.empty() ? "" : ", ") + std::string(display_name(type));
  }
  return text;
}

std::string dims_text(const Op& op, const TensorType& type) {
  std::string text = type.leading ? "[..." : "[";
  for (const Dim& dim : type.dims) {
    text += (text.size() > 1 ? ", " : "") + dim.text(op.signature.dim_names);
  }
  return text + "]";
}

std::string shape_text(const DLTensor& tensor) {
  return ac4k::shape_text(tensor.ndim, tensor.shape);
}

std::string device_text(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
      return "cpu";
    case kDLCUDA:
      return "cuda:" + std::to_string(device.device_id);
    case kDLROCM:
      return "rocm:" + std::to_string(device.device_id);
    case kDLExtDev:
      return "another device";
    default:
      return "DLPack device type " + std::to_string(device.device_type);
  }
}

// ---- Checks: on every call's path
// ----------------------------------------------------------------

bool same(DLDevice a, DLDevice b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Pinned memory is CPU memory, managed memory belongs to the GPU that is asked to use it.
DLDevice normalised(DLDevice device) {
  if (device.device_type == kDLCUDA) return device;
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost:
      return {kDLCPU, 0};
    case kDLCUDAManaged:
      return {kDLCUDA, device.device_id};
    default:
      return device;
  }
}

[[gnu::cold, gnu::noinline]] void view_error(const Op& op, int index, const DLTensor& tensor,
                                             bool overflow) {
  const auto size = static_cast<uintptr_t>((tensor.dtype.bits + 7) / 8);
  const auto misaligned = reinterpret_cast<uintptr_t>(data_of(tensor)) % size;
  if (tensor.ndim < 0 || tensor.ndim > AC4K_MAX_DIMS) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected at most ", AC4K_MAX_DIMS,
                         " dimensions, got ", tensor.ndim);
  } else if (overflow) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index,
                         "expected fewer than 2^63 bytes, got shape ", shape_text(tensor));
  } else if (tensor.data == nullptr) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected data, got a null pointer");
  } else if (misaligned != 0) {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected data aligned to ", size,
                         " bytes, got address modulo ", size, " = ", misaligned);
  } else {
    (void)argument_error(AC4K_INVALID_VALUE, op, index, "expected a contiguous tensor, got shape ",
                         shape_text(tensor), " with strides ",
                         ac4k::shape_text(tensor.ndim, tensor.strides));
  }
}

// What every tensor must be, whatever the op. Gives the number of elements, or -1 after an error.
[[gnu::always_inline]] inline int64_t check_view(const Op& op, int index, const DLTensor& tensor,
                                                 bool strided) {
  if (static_cast<uint32_t>(tensor.ndim) > AC4K_MAX_DIMS) [[unlikely]] {
    view_error(op, index, tensor, false);
    return -1;
  }
  const int64_t size = (tensor.dtype.bits + 7) / 8;
  int64_t elements = 1;
  bool overflow = false, empty = false;
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t extent = tensor.shape[i];
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(elements, extent, &elements) || extent < 0;
  }
  if (empty) return 0;
  int64_t bytes;
  overflow |= __builtin_mul_overflow(elements, size, &bytes);
  // Sizes of elements are powers of two.
  const auto misaligned =
      reinterpret_cast<uintptr_t>(data_of(tensor)) & static_cast<uintptr_t>(size - 1);
  if (overflow || tensor.data == nullptr || misaligned != 0 || !(strided || is_contiguous(tensor)))
      [[unlikely]] {
    view_error(op, index, tensor, overflow);
    return -1;
  }
  return elements;
}

// Binds tensors one after another, remembering who fixed what for the error texts. Masks say what
// is bound, so that nothing has to be cleared first.
class Binder {
 public:
  explicit Binder(Call& call) : call_(call), op_(call.op) {}

  void fix_dim(int symbol, int64_t value, int source) {
    call_.dims[static_cast<size_t>(symbol)] = value;
    dim_source_[symbol] = source;
    bound_dims_ |= 1u << symbol;
  }

  [[gnu::always_inline]] inline Status tensor(const TensorType& type, const DLTensor& tensor,
                                              int source) {
    AC4K_TRY(check_dtype(type, tensor.dtype, source));
    AC4K_TRY(check_device(tensor, source));
    if (check_view(op_, source, tensor, type.strided) < 0) return AC4K_INVALID_VALUE;
    return check_shape(type, tensor, source);
  }

 private:
  [[gnu::always_inline]] inline Status check_dtype(const TensorType& type, DLDataType got,
                                                   int source) {
    const uint32_t word = word_of(got);
    if (type.type_variable < 0) {
      if (word == type.dtype_word) [[likely]]
        return AC4K_OK;
      return argument_error(AC4K_INVALID_TYPE, op_, source, "expected dtype ",
                            display_name(type.dtype), ", got ", display_name(got));
    }
    const auto index = static_cast<size_t>(type.type_variable);
    if (bound_types_ & (1u << index)) {
      if (word == call_.type_words[index]) [[likely]]
        return AC4K_OK;
      return argument_error(AC4K_INVALID_TYPE, op_, source, "expected dtype ",
                            display_name(call_.types[index]), ", as '",
                            name_of(op_, type_source_[index]), "' has, got ", display_name(got));
    }
    const TypeVariable& variable = op_.signature.type_variables[index];
    const size_t count = variable.words.size();
    for (size_t i = 0; i < count; ++i) {
      if (variable.words[i] == word) {
        call_.types[index] = variable.types[i];
        call_.type_words[index] = word;
        type_source_[index] = source;
        bound_types_ |= 1u << index;
        return AC4K_OK;
      }
    }
    return argument_error(AC4K_INVALID_TYPE, op_, source, "expected dtype ", types_text(variable),
                          ", got ", display_name(got));
  }

  [[gnu::always_inline]] inline Status check_device(const DLTensor& tensor, int source) {
    const DLDevice device = normalised(tensor.device);
    if (device_source_ < 0) {
      call_.device = device;
      device_source_ = source;
      return AC4K_OK;
    }
    if (same(device, call_.device)) [[likely]]
      return AC4K_OK;
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected a tensor on ",
                          device_text(call_.device), ", as '", name_of(op_, device_source_),
                          "' is, got one on ", device_text(device));
  }

  [[gnu::always_inline]] inline Status check_shape(const TensorType& type, const DLTensor& tensor,
                                                   int source) {
    const Dim* dims = type.dims.data();
    const int fixed = static_cast<int>(type.dims.size());
    const int leading = tensor.ndim - fixed;
    if (leading < 0 || (leading > 0 && !type.leading)) return shape_error(type, tensor, source);
    if (type.leading) AC4K_TRY(check_leading(type, tensor, leading, source));
    for (int i = 0; i < fixed; ++i) {
      const Dim& dim = dims[i];
      const int64_t got = tensor.shape[leading + i];
      if (dim.symbol < 0) {
        if (got != dim.multiply) return shape_error(type, tensor, source);
      } else if (bound_dims_ & (1u << dim.symbol)) {
        const int64_t bound = call_.dims[static_cast<size_t>(dim.symbol)];
        const bool fits = dim.is_plain
                              ? bound == got
                              : bound % dim.divide == 0 && bound / dim.divide * dim.multiply == got;
        if (!fits) return dim_error(type, dim, tensor, source);
      } else if (dim.is_plain) {
        fix_dim(dim.symbol, got, source);
      } else {
        if (got % dim.multiply != 0) return shape_error(type, tensor, source);
        fix_dim(dim.symbol, got / dim.multiply * dim.divide, source);
      }
    }
    return AC4K_OK;
  }

  Status check_leading(const TensorType& type, const DLTensor& tensor, int leading, int source) {
    if (call_.leading_ndim < 0) {
      call_.leading_ndim = leading;
      call_.leading_shape = tensor.shape;
      leading_source_ = source;
      return AC4K_OK;
    }
    bool fits = leading == call_.leading_ndim;
    for (int i = 0; fits && i < leading; ++i) fits = tensor.shape[i] == call_.leading_shape[i];
    if (fits) [[likely]]
      return AC4K_OK;
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected shape ", dims_text(op_, type),
                          " with ... = ", ac4k::shape_text(call_.leading_ndim, call_.leading_shape),
                          ", as '", name_of(op_, leading_source_), "' has, got ",
                          shape_text(tensor));
  }

  Status shape_error(const TensorType& type, const DLTensor& tensor, int source) const {
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected shape ", dims_text(op_, type),
                          ", got ", shape_text(tensor));
  }

  Status dim_error(const TensorType& type, const Dim& dim, const DLTensor& tensor,
                   int source) const {
    const auto symbol = static_cast<size_t>(dim.symbol);
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected shape ", dims_text(op_, type),
                          " with ", op_.signature.dim_names[symbol], " = ", call_.dims[symbol],
                          ", set by '", name_of(op_, dim_source_[symbol]), "', got ",
                          shape_text(tensor));
  }

  Call& call_;
  const Op& op_;
  uint32_t bound_dims_ = 0, bound_types_ = 0;
  int device_source_ = -1, leading_source_ = -1;
  DLDevice first_device_;                                          // as it came
  int dim_source_[AC4K_MAX_ARGS], type_source_[AC4K_MAX_OUTPUTS];  // valid where the masks say so
};

// Puts the index of the choice that `text` names into `arg`.
Status bind_choice(const Op& op, int index, const Param& param, const char* text, ac4k_arg* arg) {
  const size_t count = param.choices.size();
  for (size_t i = 0; text != nullptr && i < count; ++i) {
    // Bindings hand over the very string of ac4k_op_choice, mostly.
    if (param.choices[i].c_str() == text || param.choices[i] == text) {
      *arg = {AC4K_ARG_INT, {.integer = static_cast<int64_t>(i)}};
      return AC4K_OK;
    }
  }
  std::string choices;
  for (const auto& choice : param.choices) choices += (choices.empty() ? "" : ", ") + choice;
  return argument_error(AC4K_INVALID_VALUE, op, index, "expected one of ", choices, ", got '",
                        text ? text : "", "'");
}

Status bind_default(const Op& op, int index, const Param& param, ac4k_arg* arg) {
  if (!param.has_default) return argument_error(AC4K_INVALID_TYPE, op, index, "missing");
  if (param.kind == ParamKind::tensor) {
    arg->kind = AC4K_ARG_NONE;
  } else if (param.kind == ParamKind::real) {
    *arg = {AC4K_ARG_FLOAT, {.real = param.default_real}};
  } else {
    *arg = {AC4K_ARG_INT, {.integer = param.default_integer}};
  }
  return AC4K_OK;
}

// Checks the kind of one given argument that is no tensor; a choice becomes its index, an int a
// float where need be.
Status bind_scalar(const Op& op, int index, const Param& param, ac4k_arg* arg) {
  switch (param.kind) {
    case ParamKind::tensor:
      break;
    case ParamKind::choice:
      if (arg->kind != AC4K_ARG_STRING) break;
      return bind_choice(op, index, param, arg->value.string, arg);
    case ParamKind::integer:
      if (arg->kind == AC4K_ARG_INT) return AC4K_OK;
      break;
    case ParamKind::boolean:
      if (arg->kind == AC4K_ARG_BOOL) return AC4K_OK;
      break;
    case ParamKind::real:
      if (arg->kind == AC4K_ARG_FLOAT) return AC4K_OK;
      if (arg->kind != AC4K_ARG_INT) break;
      *arg = {AC4K_ARG_FLOAT, {.real = static_cast<double>(arg->value.integer)}};
      return AC4K_OK;
  }
  const auto kind = static_cast<size_t>(arg->kind);
  return argument_error(AC4K_INVALID_TYPE, op, index, "expected ", expected_kind(param.kind),
                        ", got ",
                        kind < std::size(kKindNames) ? kKindNames[kind] : "nothing known");
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

bool overlap(const Extent& written, const DLTensor& other) {
  if (num_elements(other) == 0) return false;
  const Extent read = extent_of(other);
  return read.first < written.last && written.first < read.last;
}

// An output may share memory with nothing, but for an elementwise op's own input, exactly.
Status check_overlap(const Call& call, const DLTensor& out, const DLTensor* const* outputs,
                     size_t index) {
  const Op& op = call.op;
  const Extent written = extent_of(out);
  for (size_t p = 0; p < op.signature.params.size(); ++p) {
    if (call.args[p].kind != AC4K_ARG_TENSOR) continue;
    const DLTensor& input = *call.args[p].value.tensor;
    if (!overlap(written, input)) continue;
    const bool in_place = op.decl.elementwise && data_of(input) == data_of(out) &&
                          num_elements(input) == num_elements(out) && is_contiguous(input);
    if (!in_place) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput, "expected memory apart from '",
                            op.signature.params[p].name, "', got memory that overlaps it");
    }
  }
  for (size_t j = 0; j < index; ++j) {
    if (overlap(written, *outputs[j])) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput,
                            "expected outputs that do not overlap");
    }
  }
  return AC4K_OK;
}

}  // namespace

namespace {

[[gnu::noinline]] Status bind_after_ints(const Op& op, Binder& binder, Call* call) {
  const auto& params = op.signature.params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].dim_symbol < 0) continue;
    const int64_t value = call->args[i].value.integer;
    if (value < 0) {
      return argument_error(AC4K_INVALID_VALUE, op, static_cast<int>(i),
                            "expected at least 0, got ", value);
    }
    binder.fix_dim(params[i].dim_symbol, value, static_cast<int>(i));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (call->args[i].kind != AC4K_ARG_TENSOR) continue;
    AC4K_TRY(binder.tensor(params[i].tensor, *call->args[i].value.tensor, static_cast<int>(i)));
  }
  return AC4K_OK;
}

}  // namespace

Status bind(const Op& op, const ac4k_arg* args, size_t num_args, Call* call) {
  const Param* params = op.signature.params.data();
  const size_t num_params = op.signature.params.size();
  if (num_args > num_params) {
    return fail(AC4K_INVALID_TYPE, op.signature.name, ": expected at most ", num_params,
                " arguments, got ", num_args);
  }
  Binder binder(*call);
  // Where ints fix dims, they come before the tensors that are checked against them.
  const bool ints_first = op.signature.ints_fix_dims;
  for (size_t i = 0; i < num_params; ++i) {
    ac4k_arg& bound = call->args[i];
    const auto index = static_cast<int>(i);
    if (i >= num_args || (args[i].kind == AC4K_ARG_NONE && params[i].has_default)) {
      AC4K_TRY(bind_default(op, index, params[i], &bound));
      continue;
    }
    bound = args[i];
    if (params[i].kind == ParamKind::tensor && bound.kind == AC4K_ARG_TENSOR &&
        bound.value.tensor != nullptr) [[likely]] {
      if (!ints_first) AC4K_TRY(binder.tensor(params[i].tensor, *bound.value.tensor, index));
    } else {
      AC4K_TRY(bind_scalar(op, index, params[i], &bound));
    }
  }
  if (ints_first) [[unlikely]]
    AC4K_TRY(bind_after_ints(op, binder, call));
  return op.decl.check ? op.decl.check(*call) : AC4K_OK;
}

Status output_spec(const Call& call, size_t index, ac4k_tensor_spec* spec) {
  const TensorType& type = call.op.signature.outputs[index];
  spec->device = call.device;
  spec->dtype = std::bit_cast<DLDataType>(
      type.type_variable < 0 ? type.dtype_word
                             : call.type_words[static_cast<size_t>(type.type_variable)]);
  int ndim = 0;
  bool empty = false, overflow = false;
  int64_t bytes = spec->dtype.bits / 8;
  const auto append = [&](int64_t extent) {
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
    spec->shape[ndim++] = extent;
  };
  for (int i = 0; type.leading && i < call.leading_ndim; ++i) append(call.leading_shape[i]);
  const Dim* dims = type.dims.data();
  const size_t num_dims = type.dims.size();
  for (size_t i = 0; i < num_dims; ++i) {
    const Dim& dim = dims[i];
    const int64_t bound = dim.symbol < 0 ? 1 : call.dim(dim.symbol);
    if (dim.is_plain) {
      append(bound);
      continue;
    }
    if (bound % dim.divide != 0) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": expected a whole ",
                  dim.text(call.op.signature.dim_names), ", got ",
                  call.op.signature.dim_names[static_cast<size_t>(dim.symbol)], " = ", bound);
    }
    append(bound / dim.divide * dim.multiply);
  }
  spec->ndim = ndim;
  if (overflow && !empty) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": the output would have shape ",
                ac4k::shape_text(ndim, spec->shape), ", which passes 2^63 bytes");
  }
  return AC4K_OK;
}

namespace {

// Whether an output is what output_spec asks for, without writing the spec down.
bool fits(const Call& call, const TensorType& type, const DLTensor& out) {
  const uint32_t word = type.type_variable < 0
                            ? type.dtype_word
                            : call.type_words[static_cast<size_t>(type.type_variable)];
  const int leading = type.leading ? call.leading_ndim : 0;
  const Dim* dims = type.dims.data();
  const int fixed = static_cast<int>(type.dims.size());
  bool fit = word_of(out.dtype) == word && out.ndim == leading + fixed &&
             same(normalised(out.device), call.device);
  for (int i = 0; fit && i < leading; ++i) fit = out.shape[i] == call.leading_shape[i];
  for (int i = 0; fit && i < fixed; ++i) {
    const int64_t bound = dims[i].symbol < 0 ? 1 : call.dim(dims[i].symbol);
    const int64_t want = dims[i].is_plain              ? bound
                         : bound % dims[i].divide == 0 ? bound / dims[i].divide * dims[i].multiply
                                                       : -1;
    fit = out.shape[leading + i] == want;
  }
  return fit;
}

[[gnu::cold, gnu::noinline]] Status output_error(const Call& call, size_t index,
                                                 const DLTensor& out) {
  ac4k_tensor_spec spec;
  AC4K_TRY(output_spec(call, index, &spec));
  if (word_of(out.dtype) != word_of(spec.dtype)) {
    return argument_error(AC4K_INVALID_TYPE, call.op, kOutput, "expected dtype ",
                          display_name(spec.dtype), ", got ", display_name(out.dtype));
  }
  const DLDevice device = normalised(out.device);
  if (!same(device, spec.device)) {
    return argument_error(AC4K_INVALID_VALUE, call.op, kOutput, "expected a tensor on ",
                          device_text(spec.device), ", got one on ", device_text(device));
  }
  return argument_error(AC4K_INVALID_VALUE, call.op, kOutput, "expected shape ",
                        ac4k::shape_text(spec.ndim, spec.shape), ", got ", shape_text(out));
}

}  // namespace

Status bind_outputs(const DLTensor* const* outputs, size_t num_outputs, Call* call) {
  const Op& op = call->op;
  if (num_outputs != op.signature.outputs.size()) {
    return fail(AC4K_INVALID_TYPE, op.signature.name, ": expected ", op.signature.outputs.size(),
                " outputs, got ", num_outputs);
  }
  call->outputs = outputs;
  call->empty = true;
  for (size_t i = 0; i < num_outputs; ++i) {
    if (outputs[i] == nullptr) {
      return argument_error(AC4K_INVALID_TYPE, op, kOutput, "expected a tensor, got None");
    }
    const DLTensor& out = *outputs[i];
    if (!fits(*call, op.signature.outputs[i], out)) return output_error(*call, i, out);
    const int64_t elements = check_view(op, kOutput, out, /*strided=*/false);
    if (elements < 0) return AC4K_INVALID_VALUE;
    if (elements == 0) continue;
    call->empty = false;
    AC4K_TRY(check_overlap(*call, out, outputs, i));
  }
  return AC4K_OK;
}

}  // namespace ac4k
