// CPython through the limited API of 3.11, and the little RAII it needs.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ac4k/ac4k.h"

namespace ac4k::python {

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    Py_XDECREF(object_);
    object_ = other.release();
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// `text` of the library as a str. Not all of it is UTF-8: bytes of paths, and of files that are
// damaged, become what os.fsdecode makes of them.
PyObject* text_of(const char* text);

// Sets the Python exception that belongs to `status`, with the library's text; gives null.
PyObject* raise_status(ac4k_status status);

}  // namespace ac4k::python
