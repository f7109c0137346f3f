// ac4k._C: the eager door. One function per op, settings and facts, and kernels of one's own.
#include <cstring>
#include <vector>

#include "python/gguf.hpp"
#include "python/op_call.hpp"
#include "python/tensor.hpp"
#include "python/torch_guard.hpp"
#include "python/w4a16.hpp"

namespace ac4k::python {

PyObject* text_of(const char* text) {
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "surrogateescape");
}

PyObject* raise_status(ac4k_status status) {
  PyObject* type = PyExc_RuntimeError;
  switch (status) {
    case AC4K_INVALID_VALUE:
      type = PyExc_ValueError;
      break;
    case AC4K_INVALID_TYPE:
      type = PyExc_TypeError;
      break;
    case AC4K_UNSUPPORTED:
      type = PyExc_NotImplementedError;
      break;
    case AC4K_OUT_OF_MEMORY:
      type = PyExc_MemoryError;
      break;
    default:
      break;
  }
  if (Ref text(text_of(ac4k_last_error())); text) PyErr_SetObject(type, text.get());
  return nullptr;
}

namespace {

constexpr const char* kKernelCapsule = "ac4k.kernel";

PyObject* none_or_raise(ac4k_status status) {
  if (status != AC4K_OK) return raise_status(status);
  Py_RETURN_NONE;
}

PyObject* op_table_json(PyObject*, PyObject*) { return PyUnicode_FromString(ac4k_op_table_json()); }

PyObject* info_json(PyObject*, PyObject*) { return text_of(ac4k_info_json()); }

PyObject* set(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* text = nullptr;
  if (!PyArg_ParseTuple(args, "sU", &name, &text)) return nullptr;
  Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape"));  // as text_of decodes
  char* value = nullptr;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &value, nullptr) != 0) return nullptr;
  return none_or_raise(ac4k_set(name, value));
}

PyObject* get(PyObject*, PyObject* args) {
  const char* name = nullptr;
  if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
  const char* value = ac4k_get(name);
  if (value == nullptr) {
    return PyErr_Format(PyExc_ValueError, "ac4k: there is no setting '%s'", name);
  }
  return text_of(value);
}

PyObject* wrap_kernel(ac4k_status status, ac4k_kernel* kernel) {
  if (status != AC4K_OK) return raise_status(status);
  return PyCapsule_New(kernel, kKernelCapsule, nullptr);
}

PyObject* jit_compile(PyObject*, PyObject* args) {
  const char *source = nullptr, *entry = nullptr, *options = nullptr, *arch = nullptr;
  if (!PyArg_ParseTuple(args, "sszz", &source, &entry, &options, &arch)) return nullptr;
  ac4k_kernel* kernel = nullptr;
  PyThreadState* state = PyEval_SaveThread();
  const ac4k_status status = ac4k_jit_compile(source, entry, options, arch, &kernel);
  PyEval_RestoreThread(state);
  return wrap_kernel(status, kernel);
}

PyObject* kernel_find(PyObject*, PyObject* args) {
  const char *module = nullptr, *entry = nullptr, *arch = nullptr;
  if (!PyArg_ParseTuple(args, "ssz", &module, &entry, &arch)) return nullptr;
  ac4k_kernel* kernel = nullptr;
  PyThreadState* state = PyEval_SaveThread();
  const ac4k_status status = ac4k_kernel_find(module, entry, arch, &kernel);
  PyEval_RestoreThread(state);
  return wrap_kernel(status, kernel);
}

PyObject* jit_build(PyObject*, PyObject* args) {
  const char *module = nullptr, *arch = nullptr, *report = nullptr;
  if (!PyArg_ParseTuple(args, "zz", &module, &arch)) return nullptr;
  PyThreadState* state = PyEval_SaveThread();
  const ac4k_status status = ac4k_jit_build(module, arch, &report);
  PyEval_RestoreThread(state);
  return status == AC4K_OK ? text_of(report) : raise_status(status);
}

PyObject* jit_list(PyObject*, PyObject*) { return text_of(ac4k_jit_list_json()); }

PyObject* jit_clear(PyObject*, PyObject* args) {
  const char *module = nullptr, *arch = nullptr;
  if (!PyArg_ParseTuple(args, "zz", &module, &arch)) return nullptr;
  int64_t num_removed = 0;
  const ac4k_status status = ac4k_jit_clear(module, arch, &num_removed);
  return status == AC4K_OK ? PyLong_FromLongLong(num_removed) : raise_status(status);
}

PyObject* quant_linear_configs(PyObject*, PyObject* args) {
  const char *fmt = nullptr, *names = nullptr;
  int device_type = 0, device_id = 0;
  long long tokens = 0, N = 0, K = 0;
  if (!PyArg_ParseTuple(args, "siiLLL", &fmt, &device_type, &device_id, &tokens, &N, &K)) {
    return nullptr;
  }
  const ac4k_status status = ac4k_quant_linear_configs(
      fmt, {static_cast<DLDeviceType>(device_type), device_id}, tokens, N, K, &names);
  return status == AC4K_OK ? PyUnicode_FromString(names) : raise_status(status);
}

PyObject* synchronize(PyObject*, PyObject* args) {
  int device = 0;
  if (!PyArg_ParseTuple(args, "i", &device)) return nullptr;
  PyThreadState* state = PyEval_SaveThread();
  const ac4k_status status = ac4k_synchronize(device);
  PyEval_RestoreThread(state);
  return none_or_raise(status);
}

// device_of(pointer) -> the GPU's number, or -1
PyObject* device_of(PyObject*, PyObject* pointer) {
  const void* address = PyLong_AsVoidPtr(pointer);
  return PyErr_Occurred() ? nullptr : PyLong_FromLong(ac4k_device_of(address));
}

ac4k_kernel* kernel_of(PyObject* capsule) {
  return static_cast<ac4k_kernel*>(PyCapsule_GetPointer(capsule, kKernelCapsule));
}

PyObject* kernel_json(PyObject*, PyObject* capsule) {
  const ac4k_kernel* kernel = kernel_of(capsule);
  return kernel ? text_of(ac4k_kernel_json(kernel)) : nullptr;
}

// A "O&" converter: the formats for unsigned numbers take any, modulo their size.
int read_uint32(PyObject* object, void* out) {
  Ref number(PyNumber_Index(object));
  if (!number) return 0;
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.get());
  if (PyErr_Occurred() || value > UINT32_MAX) {
    PyErr_Format(PyExc_ValueError, "expected a size below 2^32, got %R", number.get());
    return 0;
  }
  *static_cast<uint32_t*>(out) = static_cast<uint32_t>(value);
  return 1;
}

bool read_three(PyObject* sizes, uint32_t (&out)[3]) {
  return PyArg_ParseTuple(sizes, "O&O&O&", read_uint32, &out[0], read_uint32, &out[1], read_uint32,
                          &out[2]) != 0;
}

// kernel_launch(kernel, grid, block, cluster, shared bytes, dependent, device, stream, params):
// `params` is a tuple of bytes objects, one per kernel argument.
PyObject* kernel_launch(PyObject*, PyObject* args) {
  PyObject *capsule = nullptr, *params = nullptr;
  unsigned long long stream = 0;
  ac4k_launch launch{};
  PyObject *grid = nullptr, *block = nullptr, *cluster = nullptr;
  if (!PyArg_ParseTuple(args, "OO!O!O!O&piKO!", &capsule, &PyTuple_Type, &grid, &PyTuple_Type,
                        &block, &PyTuple_Type, &cluster, read_uint32, &launch.shared_bytes,
                        &launch.dependent, &launch.device_id, &stream, &PyTuple_Type, &params) ||
      !read_three(grid, launch.grid) || !read_three(block, launch.block) ||
      !read_three(cluster, launch.cluster)) {
    return nullptr;
  }
  const ac4k_kernel* kernel = kernel_of(capsule);
  if (kernel == nullptr) return nullptr;
  launch.stream = reinterpret_cast<void*>(stream);
  std::vector<void*> pointers;
  for (Py_ssize_t i = 0; i < PyTuple_Size(params); ++i) {
    char* bytes = PyBytes_AsString(PyTuple_GetItem(params, i));
    if (bytes == nullptr) return nullptr;
    pointers.push_back(bytes);
  }
  return none_or_raise(ac4k_kernel_launch(kernel, &launch, pointers.data()));
}

// describe(tensor) -> (pointer, shape, device type, device id, stream)
PyObject* describe(PyObject*, PyObject* object) {
  TensorView view;
  bool torch_seen = false;
  switch (view.read(object, &torch_seen)) {
    case TensorView::Result::error:
      return nullptr;
    case TensorView::Result::use_torch_op:
      PyErr_SetString(PyExc_TypeError, "expected a tensor with plain memory");
      return nullptr;
    case TensorView::Result::ok:
      break;
  }
  const DLTensor& tensor = view.tensor();
  void* stream = nullptr;
  if (!view.stream(&stream)) return nullptr;
  Ref shape(PyTuple_New(tensor.ndim));
  for (int i = 0; shape && i < tensor.ndim; ++i) {
    PyTuple_SetItem(shape.get(), i, PyLong_FromLongLong(tensor.shape[i]));
  }
  if (!shape) return nullptr;
  return Py_BuildValue(
      "KOiiK", reinterpret_cast<unsigned long long>(tensor.data) + tensor.byte_offset, shape.get(),
      static_cast<int>(tensor.device.device_type), static_cast<int>(tensor.device.device_id),
      reinterpret_cast<unsigned long long>(stream));
}

PyMethodDef methods[] = {
    {"op_table_json", op_table_json, METH_NOARGS, nullptr},
    {"info_json", info_json, METH_NOARGS, nullptr},
    {"set", set, METH_VARARGS, nullptr},
    {"get", get, METH_VARARGS, nullptr},
    {"jit_compile", jit_compile, METH_VARARGS, nullptr},
    {"jit_build", jit_build, METH_VARARGS, nullptr},
    {"jit_list", jit_list, METH_NOARGS, nullptr},
    {"jit_clear", jit_clear, METH_VARARGS, nullptr},
    {"synchronize", synchronize, METH_VARARGS, nullptr},
    {"device_of", device_of, METH_O, nullptr},
    {"kernel_find", kernel_find, METH_VARARGS, nullptr},
    {"kernel_json", kernel_json, METH_O, nullptr},
    {"kernel_launch", kernel_launch, METH_VARARGS, nullptr},
    {"describe", describe, METH_O, nullptr},
    {"gguf_open", gguf_open, METH_O, nullptr},
    {"quant_linear_configs", quant_linear_configs, METH_VARARGS, nullptr},
    {"w4a16_runner", w4a16_runner, METH_VARARGS, nullptr},
    {"w4a16_configs", w4a16_configs, METH_VARARGS, nullptr},
    {"w4a16_best_config", w4a16_best_config, METH_VARARGS, nullptr},
    {"w4a16_workspace_size", w4a16_workspace_size, METH_VARARGS, nullptr},
    {"w4a16_tune", w4a16_tune, METH_VARARGS, nullptr},
    {"calibrate_torch_guard", calibrate_torch_guard, METH_NOARGS, nullptr},
    {"set_torch_guard", set_torch_guard, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace ac4k::python

PyMODINIT_FUNC PyInit__C() {
  PyObject* module = PyModule_Create(&ac4k::python::module_definition);
  if (module == nullptr) return nullptr;
  if (!ac4k::python::add_ops(module) ||
      PyModule_AddStringConstant(module, "__version__", ac4k_version()) != 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
