// When a torch tensor must not be used directly but sent through torch.ops: subclasses, and calls
// under a dispatch mode, functorch transform or tracer.
#pragma once

#include <cstdint>

#include "python/python.hpp"

namespace ac4k::python {

enum class TorchKind : uint8_t { none, plain, subclass };

// plain: exactly torch.Tensor or torch.nn.Parameter.
TorchKind torch_kind_of(PyTypeObject* type);

// True when torch's dispatcher would do more than call the kernel: one thread-local word, read
// directly. torch keeps the dispatch keys that modes, functorch and tracers add there.
bool torch_is_intercepting();

// A real tensor whose sign is flipped when it is read: the imaginary part of a conjugate. DLPack
// does not show it. Such a view of complex memory has no dim of stride one and more than one
// element, so only those need asking.
bool torch_is_negated(PyObject* tensor);

// Called once by ac4k/_torch_door.py, on a thread where nothing intercepts but inference mode, so
// that what inference mode changes can be ignored.
PyObject* calibrate_torch_guard(PyObject*, PyObject*);

// set_torch_guard(False) makes this thread take tensors as they are: for kernels that torch itself
// has called.
PyObject* set_torch_guard(PyObject*, PyObject* enabled);

}  // namespace ac4k::python
