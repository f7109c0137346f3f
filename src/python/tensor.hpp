// Python objects as DLPack views: torch through the DLPack C exchange API, NumPy through the buffer
// protocol, everything else through the Python adapter in ac4k/_arrays.py.
#pragma once

#include "python/python.hpp"

namespace ac4k::python {

// A view of one tensor argument. Lives on the stack of a call; releases what it holds.
class TensorView {
 public:
  TensorView() = default;
  TensorView(const TensorView&) = delete;
  TensorView& operator=(const TensorView&) = delete;
  ~TensorView();

  // What became of a read.
  enum class Result { ok, error, use_torch_op };
  Result read(PyObject* object);

  const DLTensor& tensor() const { return tensor_; }
  bool readonly() const { return readonly_; }
  // Null unless the object's type has the exchange API.
  const DLPackExchangeAPI* api() const { return api_; }
  void* adapter_stream() const { return adapter_stream_; }

 private:
  Result read_buffer(PyObject* object);
  Result read_adapter(PyObject* object);

  DLTensor tensor_{};
  const DLPackExchangeAPI* api_ = nullptr;
  bool readonly_ = false;
  bool has_buffer_ = false;
  Py_buffer buffer_;  // valid when has_buffer_
  PyObject* keep_alive_ = nullptr;
  void* adapter_stream_ = nullptr;
  int64_t shape_[AC4K_MAX_DIMS];
  int64_t strides_[AC4K_MAX_DIMS];
};

// An output made by the framework of `prototype`, filled by the op, then turned into an object.
class Output {
 public:
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  // False with a Python exception set when memory cannot be had.
  bool allocate(const ac4k_tensor_spec& spec, PyObject* prototype, const TensorView& view);
  const DLTensor& tensor() const { return managed_ ? managed_->dl_tensor : view_.tensor(); }
  PyObject* finish();

 private:
  const DLPackExchangeAPI* api_ = nullptr;
  DLManagedTensorVersioned* managed_ = nullptr;
  Ref buffer_;  // what the adapter allocated
  Ref finish_;  // how it becomes the result
  TensorView view_;
};

// The Python side of the slow paths, looked up once: ac4k._arrays and ac4k._torch_door.
PyObject* adapter_function(const char* name);

}  // namespace ac4k::python
