#include "python/gguf.hpp"

#include <cstring>

namespace ac4k::python {
namespace {

struct FileObject {
  PyObject_HEAD ac4k_gguf* file;
};

const ac4k_gguf* file_of(PyObject* self) { return reinterpret_cast<FileObject*>(self)->file; }

PyObject* string_of(const ac4k_gguf_string& text) {
  return PyUnicode_DecodeUTF8(text.data, static_cast<Py_ssize_t>(text.num_bytes), "strict");
}

template <typename T>
T load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// A list of an array's elements, each made by `convert`.
PyObject* list_of(const ac4k_gguf_value& array, PyObject* (*convert)(const ac4k_gguf_value&)) {
  const auto count = static_cast<Py_ssize_t>(array.count);
  Ref list(PyList_New(count));
  if (!list) return nullptr;
  ac4k_gguf_value element{};
  Py_ssize_t i = 0;
  for (; i < count && ac4k_gguf_next_element(&array, &element); ++i) {
    PyObject* object = convert(element);
    if (object == nullptr) return nullptr;
    PyList_SetItem(list.get(), i, object);
  }
  if (i == count) return list.release();
  // The buffer is writable, and what it was checked for may be gone.
  PyErr_SetString(PyExc_RuntimeError, "gguf: an array's elements have been overwritten");
  return nullptr;
}

PyObject* object_of(const ac4k_gguf_value& value) {
  switch (value.kind) {
    case AC4K_GGUF_UINT8:
      return PyLong_FromUnsignedLong(load<uint8_t>(value.data));
    case AC4K_GGUF_INT8:
      return PyLong_FromLong(load<int8_t>(value.data));
    case AC4K_GGUF_UINT16:
      return PyLong_FromUnsignedLong(load<uint16_t>(value.data));
    case AC4K_GGUF_INT16:
      return PyLong_FromLong(load<int16_t>(value.data));
    case AC4K_GGUF_UINT32:
      return PyLong_FromUnsignedLong(load<uint32_t>(value.data));
    case AC4K_GGUF_INT32:
      return PyLong_FromLong(load<int32_t>(value.data));
    case AC4K_GGUF_UINT64:
      return PyLong_FromUnsignedLongLong(load<uint64_t>(value.data));
    case AC4K_GGUF_INT64:
      return PyLong_FromLongLong(load<int64_t>(value.data));
    case AC4K_GGUF_FLOAT32:
      return PyFloat_FromDouble(load<float>(value.data));
    case AC4K_GGUF_FLOAT64:
      return PyFloat_FromDouble(load<double>(value.data));
    case AC4K_GGUF_BOOL:
      return PyBool_FromLong(load<uint8_t>(value.data));
    case AC4K_GGUF_STRING:
      return string_of({static_cast<const char*>(value.data), value.count});
    default:
      return list_of(value, object_of);
  }
}

PyObject* kind_of(const ac4k_gguf_value& value) {
  if (value.element_kind == AC4K_GGUF_ARRAY) return list_of(value, kind_of);
  if (value.kind == AC4K_GGUF_ARRAY) return Py_BuildValue("(i)", value.element_kind);
  return PyLong_FromLong(value.kind);
}

// header() -> (version, alignment, data offset, bytes)
PyObject* header(PyObject* self, PyObject*) {
  const ac4k_gguf_header facts = ac4k_gguf_get_header(file_of(self));
  return Py_BuildValue("IIKK", facts.version, facts.alignment,
                       static_cast<unsigned long long>(facts.data_offset),
                       static_cast<unsigned long long>(facts.num_bytes));
}

// A dict of all metadata, in the order of the file; `convert` makes the values.
template <typename Convert>
PyObject* metadata_dict(const ac4k_gguf* file, const Convert& convert) {
  Ref result(PyDict_New());
  const uint64_t count = ac4k_gguf_get_header(file).num_values;
  for (size_t i = 0; result && i < count; ++i) {
    ac4k_gguf_string key;
    ac4k_gguf_value value;
    if (const auto status = ac4k_gguf_get_value(file, i, &key, &value); status != AC4K_OK) {
      return raise_status(status);
    }
    Ref name(string_of(key));
    Ref object(convert(value));
    if (!name || !object || PyDict_SetItem(result.get(), name.get(), object.get()) != 0) {
      return nullptr;
    }
  }
  return result.release();
}

// metadata() -> {key: int, float, bool, str or list}
PyObject* metadata(PyObject* self, PyObject*) { return metadata_dict(file_of(self), object_of); }

// kinds() -> {key: kind}, which Python's values do not tell: a number, (number,) for an array, a
// list of kinds for an array of arrays
PyObject* kinds(PyObject* self, PyObject*) { return metadata_dict(file_of(self), kind_of); }

// tensors() -> [(name, format, shape, offset, bytes)]
PyObject* tensors(PyObject* self, PyObject*) {
  const ac4k_gguf* file = file_of(self);
  const uint64_t count = ac4k_gguf_get_header(file).num_tensors;
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; list && i < count; ++i) {
    ac4k_gguf_tensor tensor;
    if (const auto status = ac4k_gguf_get_tensor(file, i, &tensor); status != AC4K_OK) {
      return raise_status(status);
    }
    Ref name(string_of(tensor.name));
    Ref shape(PyTuple_New(tensor.ndim));
    if (!name || !shape) return nullptr;
    for (int dim = 0; dim < tensor.ndim; ++dim) {
      PyTuple_SetItem(shape.get(), dim, PyLong_FromLongLong(tensor.shape[dim]));
    }
    PyObject* row = Py_BuildValue("OsOKK", name.get(), tensor.format, shape.get(),
                                  static_cast<unsigned long long>(tensor.offset),
                                  static_cast<unsigned long long>(tensor.num_bytes));
    if (row == nullptr) return nullptr;
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), row);
  }
  return list.release();
}

// Writable: the mapping is private, and torch warns about memory that is not.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const ac4k_gguf_header facts = ac4k_gguf_get_header(file_of(self));
  return PyBuffer_FillInfo(view, self, const_cast<void*>(facts.bytes),
                           static_cast<Py_ssize_t>(facts.num_bytes), 0, flags);
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ac4k_gguf_close(reinterpret_cast<FileObject*>(self)->file);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"header", header, METH_NOARGS, nullptr}, {"metadata", metadata, METH_NOARGS, nullptr},
    {"kinds", kinds, METH_NOARGS, nullptr},   {"tensors", tensors, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_methods, methods},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};

PyType_Spec spec = {"ac4k._C.GGUFFile", sizeof(FileObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* gguf_open(PyObject*, PyObject* path) {
  static PyObject* const type = PyType_FromSpec(&spec);
  char* name = nullptr;
  Py_ssize_t length = 0;
  if (type == nullptr || PyBytes_AsStringAndSize(path, &name, &length) != 0) return nullptr;
  if (std::strlen(name) != static_cast<size_t>(length)) {
    PyErr_SetString(PyExc_ValueError, "gguf: argument 'path': expected no zero bytes");
    return nullptr;
  }
  ac4k_gguf* file = nullptr;
  PyThreadState* state = PyEval_SaveThread();
  const ac4k_status status = ac4k_gguf_open(name, &file);
  PyEval_RestoreThread(state);
  if (status != AC4K_OK) return raise_status(status);
  auto* object = PyObject_New(FileObject, reinterpret_cast<PyTypeObject*>(type));
  if (object == nullptr) {
    ac4k_gguf_close(file);
    return nullptr;
  }
  object->file = file;
  return reinterpret_cast<PyObject*>(object);
}

}  // namespace ac4k::python
