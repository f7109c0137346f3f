#include "python/torch_guard.hpp"

#include <dlfcn.h>

namespace ac4k::python {
namespace {

// c10::impl::raw_local_dispatch_key_set: {included, excluded}, stored so that the default is zero.
constexpr const char* kKeySetSymbol = "_ZN3c104impl26raw_local_dispatch_key_setE";

void* libc10 = nullptr;
uint64_t inference_mode_keys = 0;
PyObject* slow_guard = nullptr;  // torch._C._len_torch_dispatch_stack, where the symbol is missing

// Two words a thread, near the thread pointer: a general dynamic access would be a function call.
struct ThreadState {
  const uint64_t* included_keys = nullptr;
  bool guard_disabled = false;
};
[[gnu::tls_model("initial-exec")]] thread_local ThreadState thread_state;

const uint64_t* included_keys() {
  ThreadState& state = thread_state;
  if (state.included_keys == nullptr && libc10 != nullptr) [[unlikely]] {
    state.included_keys = static_cast<const uint64_t*>(dlsym(libc10, kKeySetSymbol));
  }
  return state.included_keys;
}

Ref module_attribute(const char* module_name, const char* name) {
  Ref module(PyImport_ImportModule(module_name));
  return module ? Ref(PyObject_GetAttrString(module.get(), name)) : Ref();
}

}  // namespace

PyObject* calibrate_torch_guard(PyObject*, PyObject*) {
  if (libc10 == nullptr) libc10 = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  if (const uint64_t* keys = included_keys()) {
    inference_mode_keys = *keys;
  } else if (slow_guard == nullptr) {
    slow_guard = module_attribute("torch._C", "_len_torch_dispatch_stack").release();
    if (slow_guard == nullptr) return nullptr;
  }
  return PyBool_FromLong(slow_guard == nullptr);
}

PyObject* set_torch_guard(PyObject*, PyObject* enabled) {
  thread_state.guard_disabled = PyObject_IsTrue(enabled) == 0;
  Py_RETURN_NONE;
}

bool torch_is_intercepting() {
  if (const uint64_t* keys = included_keys()) [[likely]] {
    return (*keys & ~inference_mode_keys) != 0 && !thread_state.guard_disabled;
  }
  if (slow_guard == nullptr || thread_state.guard_disabled) return false;
  Ref depth(PyObject_CallNoArgs(slow_guard));
  const bool intercepting = !depth || PyLong_AsLong(depth.get()) != 0;
  PyErr_Clear();
  return intercepting;
}

bool torch_is_negated(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  Ref answer(PyObject_CallMethodObjArgs(tensor, name, nullptr));
  PyErr_Clear();
  return answer && answer.get() == Py_True;
}

TorchKind torch_kind_of(PyTypeObject* type) {
  PyObject* modules = PyImport_GetModuleDict();
  if (PyDict_GetItemString(modules, "torch") == nullptr) return TorchKind::none;
  // Makes sure the torch op is there to be sent to, and the guard calibrated.
  Ref door(PyImport_ImportModule("ac4k._torch_door"));
  Ref tensor = module_attribute("torch", "Tensor");
  Ref parameter = module_attribute("torch.nn", "Parameter");
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!door || !tensor || !parameter) {
    PyErr_Clear();
    return TorchKind::none;
  }
  if (object == tensor.get() || object == parameter.get()) return TorchKind::plain;
  const int is_subclass = PyObject_IsSubclass(object, tensor.get());
  PyErr_Clear();
  return is_subclass == 1 ? TorchKind::subclass : TorchKind::none;
}

}  // namespace ac4k::python
