// Binding the inputs of a call.
#include "core/check.hpp"

#include "core/check_detail.hpp"

namespace ac4k {
namespace {

using namespace check;

constexpr const char* kKindNames[] = {"None", "a tensor", "an int", "a float", "a bool", "a str"};

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
    case ParamKind::dtype:
      return "a dtype";
  }
  return "";
}

std::string types_text(const TypeVariable& variable) {
  std::string text;
  for (const DType type : variable.types) {
    text += (text.empty() ? "" : ", ") + std::string(display_name(type));
  }
  return text;
}

std::string dims_text(const Call& call, const TensorType& type) {
  const Shape& shape = call.shape_of(type);
  std::string text = shape.leading ? "[..." : "[";
  for (const Dim& dim : shape.dims) {
    text += (text.size() > 1 ? ", " : "") + dim.text(call.op.signature.dim_names);
  }
  text += "]";
  if (type.chooser >= 0) {
    const Param& chooser = call.op.signature.params[static_cast<size_t>(type.chooser)];
    text += " for " + chooser.name + " '" +
            chooser.choices[static_cast<size_t>(call.integer(type.chooser))] + "'";
  }
  return text;
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

  void fix_type(int variable, int64_t choice, int source) {
    const auto index = static_cast<size_t>(variable);
    const auto chosen = static_cast<size_t>(choice);
    call_.types[index] = op_.signature.type_variables[index].types[chosen];
    call_.type_words[index] = op_.signature.type_variables[index].words[chosen];
    type_source_[index] = source;
    bound_types_ |= 1u << index;
  }

  [[gnu::always_inline]] inline Status tensor(const TensorType& type, const DLTensor& tensor,
                                              int source) {
    AC4K_TRY(check_dtype(type, tensor.dtype, source));
    AC4K_TRY(check_device(tensor, source));
    if (check_view(op_, source, tensor, type.layout) < 0) return AC4K_INVALID_VALUE;
    if (type.is_mutable) AC4K_TRY(check_writable_view(op_, source, tensor));
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
    const Shape& shape = call_.shape_of(type);
    const Dim* dims = shape.dims.data();
    const int fixed = static_cast<int>(shape.dims.size());
    const int leading = tensor.ndim - fixed;
    if (leading < 0 || (leading > 0 && !shape.leading)) return shape_error(type, tensor, source);
    if (shape.leading) AC4K_TRY(check_leading(type, tensor, leading, source));
    for (int i = 0; i < fixed; ++i) {
      const Dim& dim = dims[i];
      const int64_t got = tensor.shape[leading + i];
      if (dim.symbol < 0 || (bound_dims_ & (1u << dim.symbol))) {
        if (dim.extent(call_.bound(dim)) != got) return dim_error(type, dim, tensor, source);
      } else if (dim.is_plain) {
        fix_dim(dim.symbol, got, source);
      } else {
        if (got % dim.multiply != 0 || dim.round_up) return shape_error(type, tensor, source);
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
    return argument_error(
        AC4K_INVALID_VALUE, op_, source, "expected shape ", dims_text(call_, type),
        " with ... = ", ac4k::shape_text(call_.leading_ndim, call_.leading_shape), ", as '",
        name_of(op_, leading_source_), "' has, got ", shape_text(tensor));
  }

  Status shape_error(const TensorType& type, const DLTensor& tensor, int source) const {
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected shape ",
                          dims_text(call_, type), ", got ", shape_text(tensor));
  }

  Status dim_error(const TensorType& type, const Dim& dim, const DLTensor& tensor,
                   int source) const {
    if (dim.symbol < 0) return shape_error(type, tensor, source);
    const auto symbol = static_cast<size_t>(dim.symbol);
    return argument_error(AC4K_INVALID_VALUE, op_, source, "expected shape ",
                          dims_text(call_, type), " with ", op_.signature.dim_names[symbol], " = ",
                          call_.dims[symbol], ", set by '", name_of(op_, dim_source_[symbol]),
                          "', got ", shape_text(tensor));
  }

  Call& call_;
  const Op& op_;
  uint32_t bound_dims_ = 0, bound_types_ = 0;
  int device_source_ = -1, leading_source_ = -1;
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

// As bind_choice, for the name of a dtype, short or long.
Status bind_dtype(const Op& op, int index, const Param& param, const char* text, ac4k_arg* arg) {
  const auto& types = op.signature.type_variables[static_cast<size_t>(param.type_variable)].types;
  for (size_t i = 0; text != nullptr && i < types.size(); ++i) {
    if (std::string_view(text) == name_of(types[i])) text = param.choices[i].c_str();
  }
  return bind_choice(op, index, param, text, arg);
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
    case ParamKind::dtype:
      if (arg->kind != AC4K_ARG_STRING) break;
      return bind_dtype(op, index, param, arg->value.string, arg);
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

[[gnu::noinline]] Status bind_after_scalars(const Op& op, Binder& binder, Call* call) {
  const auto& params = op.signature.params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind == ParamKind::dtype) {
      binder.fix_type(params[i].type_variable, call->args[i].value.integer, static_cast<int>(i));
    }
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
  const bool scalars_first = op.signature.scalars_first;
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
      if (!scalars_first) AC4K_TRY(binder.tensor(params[i].tensor, *bound.value.tensor, index));
    } else {
      AC4K_TRY(bind_scalar(op, index, params[i], &bound));
    }
  }
  if (scalars_first) [[unlikely]]
    AC4K_TRY(bind_after_scalars(op, binder, call));
  if (op.signature.has_mutable) AC4K_TRY(check_mutable_apart(*call));
  return op.decl.check ? op.decl.check(*call) : AC4K_OK;
}

}  // namespace ac4k
