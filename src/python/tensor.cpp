#include "python/tensor.hpp"

#include <cstring>

#include "python/torch_guard.hpp"

namespace ac4k::python {
namespace {

constexpr int kDLPackMajor = 1;

enum class Route : uint8_t { exchange, torch_op, buffer, adapter };

struct TypeEntry {
  PyTypeObject* type = nullptr;  // owned: a cached type must not be freed and its address reused
  Route route = Route::adapter;
  bool is_torch = false;
  const DLPackExchangeAPI* api = nullptr;
};

// Few types ever come; the common one stands first.
constexpr size_t kCachedTypes = 16;
TypeEntry cached_types[kCachedTypes];
size_t num_cached_types = 0;

const DLPackExchangeAPI* exchange_api_of(PyTypeObject* type) {
  Ref capsule(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) {
    PyErr_Clear();
    return nullptr;
  }
  auto* api = static_cast<const DLPackExchangeAPI*>(
      PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (api != nullptr && api->header.version.major != kDLPackMajor) {
    api = reinterpret_cast<const DLPackExchangeAPI*>(api->header.prev_api);
  }
  return api != nullptr && api->dltensor_from_py_object_no_sync != nullptr ? api : nullptr;
}

TypeEntry classify(PyTypeObject* type) {
  TypeEntry entry;
  entry.type = type;
  entry.api = exchange_api_of(type);
  if (entry.api != nullptr) {
    switch (torch_kind_of(type)) {
      case TorchKind::plain:
        entry.route = Route::exchange;
        entry.is_torch = true;
        break;
      case TorchKind::subclass:
        entry.route = Route::torch_op;
        break;
      case TorchKind::none:
        entry.route = Route::exchange;
        break;
    }
    return entry;
  }
  // The type's own buffer slot; cheaper than asking an instance.
  entry.route = PyType_GetSlot(type, Py_bf_getbuffer) ? Route::buffer : Route::adapter;
  return entry;
}

const TypeEntry& entry_of(PyTypeObject* type) {
  for (size_t i = 0; i < num_cached_types; ++i) {
    if (cached_types[i].type == type) return cached_types[i];
  }
  static TypeEntry uncached;
  TypeEntry entry = classify(type);
  if (num_cached_types == kCachedTypes) return uncached = entry;
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  cached_types[num_cached_types] = entry;
  return cached_types[num_cached_types++];
}

// The stride of a dim of size one says nothing: `unsqueeze` makes it 1 wherever the elements lie.
bool has_unit_stride(const DLTensor& tensor) {
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.strides == nullptr || (tensor.strides[i] == 1 && tensor.shape[i] != 1)) return true;
  }
  return false;
}

// The element type of a buffer format; false when DLPack has no word for it.
bool dtype_of_format(const char* format, Py_ssize_t item_size, DLDataType* dtype) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const auto bits = static_cast<uint8_t>(item_size * 8);
  if (format[0] == 'Z' && format[1] != '\0' && format[2] == '\0') {
    *dtype = {kDLComplex, bits, 1};
    return true;
  }
  if (format[0] == '\0' || format[1] != '\0') return false;
  if (std::strchr("efd", *format)) {
    *dtype = {kDLFloat, bits, 1};
  } else if (std::strchr("bhilqn", *format)) {
    *dtype = {kDLInt, bits, 1};
  } else if (std::strchr("BHILQN", *format)) {
    *dtype = {kDLUInt, bits, 1};
  } else if (*format == '?') {
    *dtype = {kDLBool, bits, 1};
  } else {
    return false;
  }
  return true;
}

}  // namespace

PyObject* adapter_function(const char* name) {
  static PyObject* module = nullptr;
  if (module == nullptr) module = PyImport_ImportModule("ac4k._arrays");
  return module ? PyObject_GetAttrString(module, name) : nullptr;
}

struct BorrowedBuffer {
  BorrowedBuffer() = default;
  BorrowedBuffer(const BorrowedBuffer&) = delete;
  BorrowedBuffer& operator=(const BorrowedBuffer&) = delete;
  ~BorrowedBuffer() {
    if (has_buffer) PyBuffer_Release(&buffer);
  }

  Py_buffer buffer;  // valid when has_buffer
  bool has_buffer = false;
  bool readonly = false;
  void* stream = nullptr;
  Ref keep_alive;
  int64_t shape[AC4K_MAX_DIMS];
  int64_t strides[AC4K_MAX_DIMS];
};

void TensorView::release() { delete borrowed_; }

bool TensorView::readonly() const { return borrowed_ != nullptr && borrowed_->readonly; }

bool TensorView::stream(void** out) const {
  *out = borrowed_ != nullptr ? borrowed_->stream : nullptr;
  const auto [type, id] = tensor_.device;
  if (api_ == nullptr || type != kDLCUDA) return true;
  if (api_->current_work_stream(type, id, out) == 0) [[likely]]
    return true;
  if (!PyErr_Occurred()) {
    PyErr_SetString(PyExc_RuntimeError, "ac4k: the framework does not tell its current stream");
  }
  return false;
}

TensorView::Result TensorView::read(PyObject* object, bool* torch_seen) {
  const TypeEntry& entry = entry_of(Py_TYPE(object));
  if (entry.route != Route::exchange) [[unlikely]] {
    return entry.route == Route::torch_op ? Result::use_torch_op
           : entry.route == Route::buffer ? read_buffer(object)
                                          : read_adapter(object);
  }
  if (entry.is_torch && !*torch_seen) {
    if (torch_is_intercepting()) return Result::use_torch_op;
    *torch_seen = true;
  }
  if (entry.api->dltensor_from_py_object_no_sync(object, &tensor_) == 0) [[likely]] {
    api_ = entry.api;
    const bool lazy = entry.is_torch && !has_unit_stride(tensor_) && torch_is_negated(object);
    return lazy ? Result::use_torch_op : Result::ok;
  }
  // No plain memory behind it: a functorch wrapper, a sparse or a meta tensor.
  if (!entry.is_torch) return Result::error;
  PyErr_Clear();
  return Result::use_torch_op;
}

TensorView::Result TensorView::read_buffer(PyObject* object) {
  borrowed_ = new BorrowedBuffer;
  Py_buffer& buffer = borrowed_->buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // e.g. a bfloat16 array of ml_dtypes: no buffer format exists for it
    return read_adapter(object);
  }
  borrowed_->has_buffer = true;
  if (buffer.ndim > AC4K_MAX_DIMS ||
      !dtype_of_format(buffer.format, buffer.itemsize, &tensor_.dtype)) {
    return read_adapter(object);
  }
  for (int i = 0; i < buffer.ndim; ++i) {
    borrowed_->shape[i] = buffer.shape[i];
    if (buffer.strides[i] % buffer.itemsize != 0) {  // a field of a structured array
      PyErr_SetString(PyExc_ValueError,
                      "expected strides that are whole elements, got a view between them");
      return Result::error;
    }
    borrowed_->strides[i] = buffer.strides[i] / buffer.itemsize;
  }
  borrowed_->readonly = buffer.readonly != 0;
  tensor_.data = buffer.buf;
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = buffer.ndim;
  tensor_.shape = borrowed_->shape;
  tensor_.strides = borrowed_->strides;
  tensor_.byte_offset = 0;
  return Result::ok;
}

// The adapter answers (pointer, shape, strides in elements, type code, bits, device type, device
// id, stream, readonly, object to keep alive).
TensorView::Result TensorView::read_adapter(PyObject* object) {
  if (borrowed_ == nullptr) borrowed_ = new BorrowedBuffer;
  Ref function(adapter_function("describe"));
  if (!function) return Result::error;
  Ref answer(PyObject_CallFunctionObjArgs(function.get(), object, nullptr));
  if (!answer) return Result::error;
  unsigned long long pointer = 0, stream = 0;
  PyObject *shape = nullptr, *strides = nullptr, *keep_alive = nullptr;
  int code = 0, bits = 0, device_type = 0, device_id = 0, readonly = 0;
  if (!PyArg_ParseTuple(answer.get(), "KO!O!iiiiKpO", &pointer, &PyTuple_Type, &shape,
                        &PyTuple_Type, &strides, &code, &bits, &device_type, &device_id, &stream,
                        &readonly, &keep_alive)) {
    return Result::error;
  }
  const Py_ssize_t ndim = PyTuple_Size(shape);
  if (ndim > AC4K_MAX_DIMS || PyTuple_Size(strides) != ndim) {
    PyErr_Format(PyExc_ValueError, "expected at most %d dimensions, got %zd", AC4K_MAX_DIMS, ndim);
    return Result::error;
  }
  for (Py_ssize_t i = 0; i < ndim; ++i) {
    borrowed_->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    borrowed_->strides[i] = PyLong_AsLongLong(PyTuple_GetItem(strides, i));
  }
  if (PyErr_Occurred()) return Result::error;
  Py_INCREF(keep_alive);
  borrowed_->keep_alive = Ref(keep_alive);
  borrowed_->readonly = readonly != 0;
  borrowed_->stream = reinterpret_cast<void*>(stream);
  tensor_.data = reinterpret_cast<void*>(pointer);
  tensor_.device = {static_cast<DLDeviceType>(device_type), device_id};
  tensor_.ndim = static_cast<int32_t>(ndim);
  tensor_.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  tensor_.shape = borrowed_->shape;
  tensor_.strides = borrowed_->strides;
  tensor_.byte_offset = 0;
  return Result::ok;
}

Output::~Output() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

bool Output::allocate(const ac4k_tensor_spec& spec, PyObject* prototype, const TensorView& view) {
  if (view.api() != nullptr) {
    api_ = view.api();
    DLTensor wanted{};
    wanted.device =
        view.tensor().device.device_type == kDLCUDAHost ? DLDevice{kDLCPU, 0} : spec.device;
    wanted.dtype = spec.dtype;
    wanted.ndim = spec.ndim;
    wanted.shape = const_cast<int64_t*>(spec.shape);
    const auto set_error = [](void*, const char* kind, const char* message) {
      const bool memory = std::strstr(message, "memory") != nullptr;
      PyErr_Format(memory ? PyExc_MemoryError : PyExc_RuntimeError,
                   "ac4k: cannot allocate the output: %s: %s", kind, message);
    };
    if (api_->managed_tensor_allocator(&wanted, &managed_, nullptr, set_error) == 0) return true;
    managed_ = nullptr;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_MemoryError, "ac4k: cannot allocate the output");
    return false;
  }
  Ref function(adapter_function("allocate"));
  Ref shape(PyTuple_New(spec.ndim));
  if (!function || !shape) return false;
  for (int i = 0; i < spec.ndim; ++i) {
    PyTuple_SetItem(shape.get(), i, PyLong_FromLongLong(spec.shape[i]));
  }
  Ref answer(PyObject_CallFunction(function.get(), "OOii", prototype, shape.get(),
                                   static_cast<int>(spec.dtype.code),
                                   static_cast<int>(spec.dtype.bits)));
  if (!answer) return false;
  PyObject *buffer = nullptr, *finish = nullptr;
  if (!PyArg_ParseTuple(answer.get(), "OO", &buffer, &finish)) return false;
  Py_INCREF(buffer);
  Py_INCREF(finish);
  buffer_ = Ref(buffer);
  finish_ = Ref(finish);
  bool torch_seen = false;
  return view_.read(buffer, &torch_seen) == TensorView::Result::ok;
}

PyObject* Output::finish() {
  if (managed_ != nullptr) {
    void* object = nullptr;
    // Takes the tensor over, also when it fails.
    DLManagedTensorVersioned* managed = managed_;
    managed_ = nullptr;
    if (api_->managed_tensor_to_py_object_no_sync(managed, &object) != 0) return nullptr;
    return static_cast<PyObject*>(object);
  }
  if (finish_.get() == Py_None) {
    Py_INCREF(buffer_.get());
    return buffer_.get();
  }
  return PyObject_CallFunctionObjArgs(finish_.get(), buffer_.get(), nullptr);
}

}  // namespace ac4k::python
