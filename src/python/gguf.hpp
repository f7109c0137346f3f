// GGUF files for Python: the type of what `_C.gguf_open` gives.
#pragma once

#include "python/python.hpp"

namespace ac4k::python {

// gguf_open(path: bytes) -> a file: header(), metadata(), kinds(), tensors(), and the buffer
// protocol over its bytes. The mapping lives until the last buffer is gone.
PyObject* gguf_open(PyObject*, PyObject* path);

}  // namespace ac4k::python
