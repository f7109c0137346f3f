// Python objects as DLPack views: torch through the DLPack C exchange API, NumPy through the buffer
// protocol, everything else through the Python adapter in ac4k/_arrays.py.
#pragma once

#include "python/python.hpp"

namespace ac4k::python {

// What a view needs when the object is not one whose framework fills a DLTensor by itself.
struct BorrowedBuffer;

// A view of one tensor argument. Lives on the stack of a call, small, since a call has several;
// releases what it holds.
class TensorView {
 public:
  TensorView() = default;
  TensorView(const TensorView&) = delete;
  TensorView& operator=(const TensorView&) = delete;
  ~TensorView() {
    if (borrowed_ != nullptr) [[unlikely]]
      release();
  }

  // What became of a read.
  enum class Result { ok, error, use_torch_op };
  // `torch_seen` is shared by the reads of one call: the guard is asked once.
  Result read(PyObject* object, bool* torch_seen);

  const DLTensor& tensor() const { return tensor_; }
  // Null unless the object's type has the exchange API.
  const DLPackExchangeAPI* api() const { return api_; }
  bool readonly() const;
  // The stream that work on the tensor belongs on, null where it is on the CPU. False with a Python
  // exception set when the framework does not tell.
  bool stream(void** out) const;

 private:
  Result read_buffer(PyObject* object);
  Result read_adapter(PyObject* object);
  void release();

  DLTensor tensor_;  // set by read
  const DLPackExchangeAPI* api_ = nullptr;
  BorrowedBuffer* borrowed_ = nullptr;
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
