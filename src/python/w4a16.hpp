// The W4A16 runner for Python: a capsule, and functions that take it.
#pragma once

#include "python/python.hpp"

namespace ac4k::python {

// w4a16_runner(dtype, quant, device type, device id) -> a runner
PyObject* w4a16_runner(PyObject*, PyObject* args);
// w4a16_configs(runner, M, N, K) -> names, by number
PyObject* w4a16_configs(PyObject*, PyObject* args);
// w4a16_best_config(runner, M, N, K, group size) -> number
PyObject* w4a16_best_config(PyObject*, PyObject* args);
// w4a16_workspace_size(runner, M, N, K) -> bytes
PyObject* w4a16_workspace_size(PyObject*, PyObject* args);
// w4a16_tune(runner, (A, B, bytes of B, C, M, N, K, group size), stream, seconds)
//     -> (best, microseconds of each config)
PyObject* w4a16_tune(PyObject*, PyObject* args);

}  // namespace ac4k::python
