// ac4k._C.<op>: a fast call from Python arguments to ac4k_call.
#pragma once

#include "python/python.hpp"

namespace ac4k::python {

// Adds one function per op of the table to `module`.
bool add_ops(PyObject* module);

}  // namespace ac4k::python
