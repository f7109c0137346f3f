#include "python/op_call.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "python/tensor.hpp"
#include "python/torch_guard.hpp"

namespace ac4k::python {
namespace {

// When no tensor has more elements, a CPU op is quicker than letting go of the GIL is worth.
constexpr int64_t kReleaseGilElements = 16384;

struct Choice {
  PyObject* name;  // interned
  const char* text;
};

// "bfloat16" of torch.bfloat16, numpy.dtype("bfloat16"), ml_dtypes.bfloat16; null when it is none.
PyObject* dtype_name(PyObject* dtype) {
  if (PyUnicode_Check(dtype)) return Py_NewRef(dtype);
  Ref name(PyType_Check(dtype) ? PyObject_GetAttrString(dtype, "__name__") : PyObject_Str(dtype));
  if (!name || !PyUnicode_Check(name.get())) return nullptr;
  return PyObject_CallMethod(name.get(), "removeprefix", "s", "torch.");
}

struct OpBinding {
  const ac4k_op* op;
  std::vector<ac4k_param> params;
  std::vector<std::vector<Choice>> choices;  // by parameter
  std::vector<PyObject*> names;              // interned, `out` last
  std::vector<uint8_t> tensor_params, scalar_params;
  size_t num_outputs;
  bool optional_outputs;  // how many there are depends on the arguments
  PyMethodDef method;

  size_t num_slots() const { return params.size() + 1; }  // parameters, then `out`
  size_t out_slot() const { return params.size(); }
};

// The `self` of an op's function: plain memory, since a capsule checks its name on every call.
struct OpObject {
  PyObject_HEAD OpBinding* binding;
};

// One object per parameter and one for `out`, null where nothing was given.
using Slots = PyObject* const*;

bool place_keyword(const OpBinding& binding, PyObject* name, PyObject* value, PyObject** slots) {
  const size_t count = binding.num_slots();
  size_t index = 0;
  while (index < count && binding.names[index] != name) ++index;
  if (index == count) {  // not the interned object
    for (index = 0; index < count; ++index) {
      if (PyUnicode_Compare(binding.names[index], name) == 0) break;
    }
  }
  if (index == count) {
    PyErr_Format(PyExc_TypeError, "%s: unexpected argument '%U'", ac4k_op_name(binding.op), name);
    return false;
  }
  if (slots[index] != nullptr) {
    PyErr_Format(PyExc_TypeError, "%s: argument '%U' given twice", ac4k_op_name(binding.op), name);
    return false;
  }
  slots[index] = value;
  return true;
}

[[gnu::noinline]] bool place_arguments(const OpBinding& binding, PyObject* const* args,
                                       Py_ssize_t num_args, PyObject* keywords, PyObject** slots) {
  std::fill_n(slots, binding.num_slots(), nullptr);
  if (static_cast<size_t>(num_args) > binding.num_slots()) {
    PyErr_Format(PyExc_TypeError, "%s: expected at most %zu arguments, got %zd",
                 ac4k_op_name(binding.op), binding.num_slots(), num_args);
    return false;
  }
  for (Py_ssize_t i = 0; i < num_args; ++i) slots[i] = args[i];
  const Py_ssize_t num_keywords = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t i = 0; i < num_keywords; ++i) {
    if (!place_keyword(binding, PyTuple_GetItem(keywords, i), args[num_args + i], slots)) {
      return false;
    }
  }
  return true;
}

// As many views as an op has parameters: the call path pays for no more.
class Views {
 public:
  explicit Views(size_t count) : count_(count) {
    for (size_t i = 0; i < count_; ++i) new (&(*this)[i]) TensorView;
  }
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views() {
    for (size_t i = 0; i < count_; ++i) (*this)[i].~TensorView();
  }
  TensorView& operator[](size_t i) {
    return *reinterpret_cast<TensorView*>(storage_ + i * sizeof(TensorView));
  }

 private:
  size_t count_;
  alignas(TensorView) unsigned char storage_[AC4K_MAX_ARGS * sizeof(TensorView)];
};

// Says which argument of which op it was that could not be read. Only of plain errors: others are
// not about the argument, or more than a text.
void name_argument(const OpBinding& binding, PyObject* name) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const bool plain =
      type == PyExc_ValueError || type == PyExc_TypeError || type == PyExc_NotImplementedError;
  if (type != nullptr && !plain) {
    return PyErr_Restore(type, value, traceback);
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref text(PyObject_Str(value ? value : Py_None));
  PyErr_Clear();
  PyErr_Format(type ? type : PyExc_TypeError, "%s: argument '%U': %U", ac4k_op_name(binding.op),
               name, text ? text.get() : name);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

// The string handed over is the binding's own: the caller's may not live as long as the call.
[[gnu::noinline]] bool read_dtype(const OpBinding& binding, size_t index, PyObject* object,
                                  ac4k_arg* arg) {
  Ref name(dtype_name(object));
  for (const Choice& choice : binding.choices[index]) {
    if (name && PyUnicode_Compare(choice.name, name.get()) == 0) {
      *arg = {AC4K_ARG_STRING, {.string = choice.text}};
      return true;
    }
  }
  PyErr_Clear();
  Ref expected(PyUnicode_FromString(""));
  for (const Choice& choice : binding.choices[index]) {
    expected = Ref(PyUnicode_FromFormat("%U%s%U", expected.get(),
                                        &choice == binding.choices[index].data() ? "" : ", ",
                                        choice.name));
    if (!expected) return false;
  }
  PyErr_Format(PyExc_TypeError, "%s: argument '%s': expected dtype %U, got %R",
               ac4k_op_name(binding.op), binding.params[index].name, expected.get(), object);
  return false;
}

bool read_scalar(const OpBinding& binding, size_t index, PyObject* object, ac4k_arg* arg) {
  const char* expected = "a str";
  switch (binding.params[index].kind) {
    case AC4K_ARG_BOOL:
      expected = "a bool";
      if (!PyBool_Check(object)) break;
      *arg = {AC4K_ARG_BOOL, {.integer = object == Py_True}};
      return true;
    case AC4K_ARG_INT: {
      expected = "an int";
      if (!PyIndex_Check(object)) break;
      Ref number(PyNumber_Index(object));
      if (!number) return false;
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
      if (overflow != 0) {
        PyErr_Format(PyExc_ValueError, "%s: argument '%s': expected an int of 64 bits, got %R",
                     ac4k_op_name(binding.op), binding.params[index].name, object);
        return false;
      }
      *arg = {AC4K_ARG_INT, {.integer = value}};
      return true;
    }
    case AC4K_ARG_FLOAT: {
      expected = "a float";
      if (PyUnicode_Check(object)) break;
      const double value = PyFloat_AsDouble(object);
      if (value == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
        PyErr_Clear();
        break;
      }
      *arg = {AC4K_ARG_FLOAT, {.real = value}};
      return true;
    }
    default: {
      for (const Choice& choice : binding.choices[index]) {
        if (choice.name == object) [[likely]] {
          *arg = {AC4K_ARG_STRING, {.string = choice.text}};
          return true;
        }
      }
      if (binding.params[index].is_dtype) return read_dtype(binding, index, object, arg);
      if (!PyUnicode_Check(object)) break;
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(object, &size);
      if (text == nullptr) {
        PyErr_Clear();
        break;
      }
      if (std::strlen(text) != static_cast<size_t>(size)) {
        PyErr_Format(PyExc_ValueError, "%s: argument '%s': expected no zero bytes, got %R",
                     ac4k_op_name(binding.op), binding.params[index].name, object);
        return false;
      }
      *arg = {AC4K_ARG_STRING, {.string = text}};
      return true;
    }
  }
  Ref type_name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  PyErr_Format(PyExc_TypeError, "%s: argument '%s': expected %s, got %U", ac4k_op_name(binding.op),
               binding.params[index].name, expected,
               type_name ? type_name.get() : binding.names[index]);
  return false;
}

// ac4k._torch_door.route(op name, parameters, out): the dispatcher's way.
[[gnu::noinline]] PyObject* call_torch_op(const OpBinding& binding, Slots slots) {
  Ref door(PyImport_ImportModule("ac4k._torch_door"));
  Ref route(door ? PyObject_GetAttrString(door.get(), "route") : nullptr);
  Ref params(PyTuple_New(static_cast<Py_ssize_t>(binding.params.size())));
  if (!route || !params) return nullptr;
  for (size_t i = 0; i < binding.params.size(); ++i) {
    PyObject* value = slots[i];
    if (value == nullptr) {
      if (!binding.params[i].has_default) {
        PyErr_Format(PyExc_TypeError, "%s: argument '%s': missing", ac4k_op_name(binding.op),
                     binding.params[i].name);
        return nullptr;
      }
      value = Py_None;  // route() puts the schema's default in
    }
    Py_INCREF(value);
    PyTuple_SetItem(params.get(), static_cast<Py_ssize_t>(i), value);
  }
  PyObject* out = slots[binding.out_slot()];
  return PyObject_CallFunction(route.get(), "sOO", ac4k_op_name(binding.op), params.get(),
                               out ? out : Py_None);
}

// Launches keep the GIL, which costs more to let go of than they take, but for what they wait for.
thread_local bool keeps_gil = false;

void* release_gil() {
  if (!keeps_gil) return nullptr;  // a call that has let go of it, or not one of ours
  keeps_gil = false;
  return PyEval_SaveThread();
}

void take_gil(void* state) {
  if (state == nullptr) return;
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
  keeps_gil = true;
}

constexpr ac4k_wait_hooks kWaitHooks = {release_gil, take_gil};

bool is_large(const DLTensor& tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] == 0) return false;
    count *= tensor.shape[d] < kReleaseGilElements ? tensor.shape[d] : kReleaseGilElements;
    if (count >= kReleaseGilElements) return true;
  }
  return false;
}

// Whether any tensor is large: with one token the weights are, and not what comes first.
bool is_large(const OpBinding& binding, const ac4k_arg* args, const DLTensor* const* outputs) {
  for (const uint8_t i : binding.tensor_params) {
    if (args[i].kind == AC4K_ARG_TENSOR && is_large(*args[i].value.tensor)) return true;
  }
  for (size_t i = 0; i < binding.num_outputs; ++i) {
    if (outputs[i] != nullptr && is_large(*outputs[i])) return true;
  }
  return false;
}

// False with a Python exception set when it fails.
bool run(const OpBinding& binding, const ac4k_arg* args, const DLTensor* const* outputs,
         const TensorView* first) {
  const bool on_gpu = first != nullptr && first->tensor().device.device_type == kDLCUDA;
  void* stream = nullptr;
  if (on_gpu && !first->stream(&stream)) return false;
  const auto call = [&] {
    return ac4k_call(binding.op, args, binding.params.size(), outputs, binding.num_outputs, stream);
  };
  ac4k_status status = AC4K_OK;
  if (on_gpu || !is_large(binding, args, outputs)) {
    keeps_gil = true;
    status = call();
    keeps_gil = false;
  } else {
    PyThreadState* state = PyEval_SaveThread();
    status = call();
    PyEval_RestoreThread(state);
  }
  if (status != AC4K_OK) raise_status(status);
  return status == AC4K_OK;
}

// Which outputs these arguments have: `places[i]` is the i-th of those. -1 after an error.
Py_ssize_t present_outputs(const OpBinding& binding, const ac4k_arg* args, size_t* places) {
  Py_ssize_t count = 0;
  if (!binding.optional_outputs) {
    for (; static_cast<size_t>(count) < binding.num_outputs; ++count) {
      places[count] = static_cast<size_t>(count);
    }
    return count;
  }
  ac4k_tensor_spec specs[AC4K_MAX_OUTPUTS];
  const ac4k_status status =
      ac4k_infer(binding.op, args, binding.params.size(), specs, binding.num_outputs);
  if (status != AC4K_OK) {
    raise_status(status);
    return -1;
  }
  for (size_t i = 0; i < binding.num_outputs; ++i) {
    if (specs[i].ndim != AC4K_NO_OUTPUT) places[count++] = i;
  }
  return count;
}

// The outputs a caller gave, as views: a tensor where there is one, else a tuple.
TensorView::Result read_outputs(const OpBinding& binding, PyObject* out, Py_ssize_t count,
                                const size_t* places, Views& views, bool* torch_seen) {
  const auto read_one = [&](PyObject* object, TensorView* view) {
    const auto result = view->read(object, torch_seen);
    if (result == TensorView::Result::ok && view->readonly()) {
      PyErr_Format(PyExc_ValueError,
                   "%s: argument 'out': expected a writable array, got a read-only one",
                   ac4k_op_name(binding.op));
      return TensorView::Result::error;
    }
    if (result == TensorView::Result::use_torch_op && torch_is_negated(object)) {
      PyErr_Format(PyExc_ValueError,
                   "%s: argument 'out': expected a tensor, got a lazily negated view",
                   ac4k_op_name(binding.op));
      return TensorView::Result::error;
    }
    if (result == TensorView::Result::error)
      name_argument(binding, binding.names[binding.out_slot()]);
    return result;
  };
  if (count == 1) return read_one(out, &views[places[0]]);
  if (!PyTuple_Check(out) || PyTuple_Size(out) != count) {
    PyErr_Format(PyExc_TypeError, "%s: argument 'out': expected %s%zd tensors",
                 ac4k_op_name(binding.op), count == 0 ? "None, there are " : "a tuple of ", count);
    return TensorView::Result::error;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto result = read_one(PyTuple_GetItem(out, i), &views[places[i]]);
    if (result != TensorView::Result::ok) return result;
  }
  return TensorView::Result::ok;
}

PyObject* call_into(const OpBinding& binding, const ac4k_arg* args, Slots slots,
                    const TensorView* first, bool torch_seen) {
  Views views(binding.num_outputs);
  PyObject* out = slots[binding.out_slot()];
  size_t places[AC4K_MAX_OUTPUTS];
  const Py_ssize_t count = present_outputs(binding, args, places);
  if (count < 0) return nullptr;
  switch (read_outputs(binding, out, count, places, views, &torch_seen)) {
    case TensorView::Result::error:
      return nullptr;
    case TensorView::Result::use_torch_op:
      return call_torch_op(binding, slots);
    case TensorView::Result::ok:
      break;
  }
  const DLTensor* outputs[AC4K_MAX_OUTPUTS] = {};
  for (Py_ssize_t i = 0; i < count; ++i) outputs[places[i]] = &views[places[i]].tensor();
  if (!run(binding, args, outputs, first)) return nullptr;
  Py_INCREF(out);
  return out;
}

PyObject* call_allocating(const OpBinding& binding, const ac4k_arg* args, PyObject* prototype,
                          const TensorView& first) {
  ac4k_tensor_spec specs[AC4K_MAX_OUTPUTS];
  const ac4k_status status =
      ac4k_infer(binding.op, args, binding.params.size(), specs, binding.num_outputs);
  if (status != AC4K_OK) return raise_status(status);
  Output made[AC4K_MAX_OUTPUTS];
  const DLTensor* outputs[AC4K_MAX_OUTPUTS];
  size_t count = 0, last = 0;
  for (size_t i = 0; i < binding.num_outputs; ++i) {
    outputs[i] = nullptr;
    if (specs[i].ndim == AC4K_NO_OUTPUT) continue;
    if (!made[i].allocate(specs[i], prototype, first)) return nullptr;
    outputs[i] = &made[i].tensor();
    last = i;
    ++count;
  }
  if (!run(binding, args, outputs, &first)) return nullptr;
  if (count == 1) return made[last].finish();
  if (count == 0) Py_RETURN_NONE;
  Ref results(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0, place = 0; results && i < binding.num_outputs; ++i) {
    if (outputs[i] == nullptr) continue;
    PyObject* result = made[i].finish();
    if (result == nullptr) return nullptr;
    PyTuple_SetItem(results.get(), static_cast<Py_ssize_t>(place++), result);
  }
  return results.release();
}

PyObject* missing_argument(const OpBinding& binding, size_t index) {
  PyErr_Format(PyExc_TypeError, "%s: argument '%s': missing", ac4k_op_name(binding.op),
               binding.params[index].name);
  return nullptr;
}

// No tensor and no `out`: nothing tells where the result should be.
PyObject* call_without_tensors(const OpBinding& binding, const ac4k_arg* values) {
  ac4k_tensor_spec specs[AC4K_MAX_OUTPUTS];
  const ac4k_status status =
      ac4k_infer(binding.op, values, binding.params.size(), specs, binding.num_outputs);
  if (status != AC4K_OK) return raise_status(status);
  return PyErr_Format(PyExc_TypeError,
                      "%s: expected at least one tensor, or out=", ac4k_op_name(binding.op));
}

PyObject* call_with(const OpBinding& binding, Slots slots) {
  // Tensors first: whether torch's dispatcher has to see the call is decided by them alone.
  const size_t num_params = binding.params.size();
  Views views(num_params);
  ac4k_arg values[AC4K_MAX_ARGS];
  const TensorView* first = nullptr;
  bool torch_seen = false;
  PyObject* prototype = nullptr;
  for (const uint8_t i : binding.tensor_params) {
    PyObject* object = slots[i];
    if (object == nullptr || object == Py_None) [[unlikely]] {
      if (object == nullptr && !binding.params[i].has_default) return missing_argument(binding, i);
      values[i].kind = AC4K_ARG_NONE;
      continue;
    }
    const auto result = views[i].read(object, &torch_seen);
    if (result != TensorView::Result::ok) [[unlikely]] {
      if (result == TensorView::Result::use_torch_op) return call_torch_op(binding, slots);
      name_argument(binding, binding.names[i]);
      return nullptr;
    }
    if (binding.params[i].is_mutable && views[i].readonly()) {
      PyErr_Format(PyExc_ValueError,
                   "%s: argument '%U': expected a writable array, got a read-only one",
                   ac4k_op_name(binding.op), binding.names[i]);
      return nullptr;
    }
    values[i] = {AC4K_ARG_TENSOR, {.tensor = &views[i].tensor()}};
    if (first == nullptr) {
      first = &views[i];
      prototype = object;
    }
  }
  for (const uint8_t i : binding.scalar_params) {
    PyObject* object = slots[i];
    if (object == nullptr || object == Py_None) {
      if (object == nullptr && !binding.params[i].has_default) return missing_argument(binding, i);
      values[i].kind = AC4K_ARG_NONE;
    } else if (!read_scalar(binding, i, object, &values[i])) {
      return nullptr;
    }
  }
  PyObject* out = slots[binding.out_slot()];
  if (out != nullptr && out != Py_None) return call_into(binding, values, slots, first, torch_seen);
  if (first == nullptr) return call_without_tensors(binding, values);
  return call_allocating(binding, values, prototype, *first);
}

PyObject* call_op(PyObject* self, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  const OpBinding& binding = *reinterpret_cast<OpObject*>(self)->binding;
  // ac4k/ops.py gives everything by position.
  if (keywords == nullptr && static_cast<size_t>(num_args) == binding.num_slots()) [[likely]] {
    return call_with(binding, args);
  }
  PyObject* slots[AC4K_MAX_ARGS + 1];
  if (!place_arguments(binding, args, num_args, keywords, slots)) return nullptr;
  return call_with(binding, slots);
}

}  // namespace

bool add_ops(PyObject* module) {
  ac4k_set_wait_hooks(&kWaitHooks);
  PyType_Slot slots[] = {{0, nullptr}};
  PyType_Spec spec = {"ac4k._C.Op", sizeof(OpObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  auto* op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));  // lives for ever
  Ref module_name(PyUnicode_FromString("ac4k._C"));
  if (op_type == nullptr || !module_name) return false;
  for (size_t i = 0; i < ac4k_num_ops(); ++i) {
    auto* binding = new OpBinding{};  // as long-lived as the function that holds it: for ever
    binding->op = ac4k_op_at(i);
    binding->num_outputs = ac4k_op_num_outputs(binding->op);
    for (size_t o = 0; o < binding->num_outputs; ++o) {
      binding->optional_outputs |= ac4k_op_output_is_optional(binding->op, o) != 0;
    }
    for (size_t p = 0; p < ac4k_op_num_params(binding->op); ++p) {
      binding->params.push_back(ac4k_op_param(binding->op, p));
      binding->names.push_back(PyUnicode_InternFromString(binding->params.back().name));
      auto& params_of_kind = binding->params.back().kind == AC4K_ARG_TENSOR
                                 ? binding->tensor_params
                                 : binding->scalar_params;
      params_of_kind.push_back(static_cast<uint8_t>(p));
      binding->choices.emplace_back();
      for (size_t c = 0; const char* text = ac4k_op_choice(binding->op, p, c); ++c) {
        binding->choices.back().push_back({PyUnicode_InternFromString(text), text});
      }
    }
    binding->names.push_back(PyUnicode_InternFromString("out"));
    binding->method = {ac4k_op_name(binding->op),
                       reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_op)),
                       METH_FASTCALL | METH_KEYWORDS, nullptr};
    Ref object(reinterpret_cast<PyObject*>(PyObject_New(OpObject, op_type)));
    if (!object) return false;
    reinterpret_cast<OpObject*>(object.get())->binding = binding;
    Ref function(PyCFunction_NewEx(&binding->method, object.get(), module_name.get()));
    if (!function ||
        PyModule_AddObjectRef(module, ac4k_op_name(binding->op), function.get()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace ac4k::python
