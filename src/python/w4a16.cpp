#include "python/w4a16.hpp"

#include <vector>

#include "ac4k/w4a16.h"

namespace ac4k::python {
namespace {

constexpr const char* kCapsule = "ac4k.w4a16_runner";

const ac4k_w4a16_runner* runner_of(PyObject* capsule) {
  return static_cast<const ac4k_w4a16_runner*>(PyCapsule_GetPointer(capsule, kCapsule));
}

void destroy(PyObject* capsule) {
  ac4k_w4a16_runner_destroy(
      static_cast<ac4k_w4a16_runner*>(PyCapsule_GetPointer(capsule, kCapsule)));
}

}  // namespace

PyObject* w4a16_runner(PyObject*, PyObject* args) {
  int is_bf16 = 0, quant = 0, device_type = 0, device_id = 0;
  if (!PyArg_ParseTuple(args, "piii", &is_bf16, &quant, &device_type, &device_id)) return nullptr;
  const auto code = static_cast<uint8_t>(is_bf16 ? kDLBfloat : kDLFloat);
  ac4k_w4a16_runner* runner = nullptr;
  const ac4k_status status = ac4k_w4a16_runner_create(
      {code, 16, 1}, quant, {static_cast<DLDeviceType>(device_type), device_id}, &runner);
  if (status != AC4K_OK) return raise_status(status);
  PyObject* capsule = PyCapsule_New(runner, kCapsule, destroy);
  if (capsule == nullptr) ac4k_w4a16_runner_destroy(runner);
  return capsule;
}

PyObject* w4a16_configs(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  long long M = 0, N = 0, K = 0;
  if (!PyArg_ParseTuple(args, "OLLL", &capsule, &M, &N, &K)) return nullptr;
  const ac4k_w4a16_runner* runner = runner_of(capsule);
  if (runner == nullptr) return nullptr;
  int64_t count = 0;
  ac4k_status status = ac4k_w4a16_runner_num_configs(runner, M, N, K, &count);
  if (status != AC4K_OK) return raise_status(status);
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  for (int64_t i = 0; list && i < count; ++i) {
    const char* name = nullptr;
    status = ac4k_w4a16_runner_config_name(runner, M, N, K, i, &name);
    if (status != AC4K_OK) return raise_status(status);
    PyObject* text = PyUnicode_FromString(name);
    if (text == nullptr) return nullptr;
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), text);
  }
  return list.release();
}

PyObject* w4a16_best_config(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  long long M = 0, N = 0, K = 0, group_size = 0;
  if (!PyArg_ParseTuple(args, "OLLLL", &capsule, &M, &N, &K, &group_size)) return nullptr;
  const ac4k_w4a16_runner* runner = runner_of(capsule);
  if (runner == nullptr) return nullptr;
  int64_t config = 0;
  const ac4k_status status = ac4k_w4a16_runner_best_config(runner, M, N, K, group_size, &config);
  return status == AC4K_OK ? PyLong_FromLongLong(config) : raise_status(status);
}

PyObject* w4a16_workspace_size(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  long long M = 0, N = 0, K = 0;
  if (!PyArg_ParseTuple(args, "OLLL", &capsule, &M, &N, &K)) return nullptr;
  const ac4k_w4a16_runner* runner = runner_of(capsule);
  if (runner == nullptr) return nullptr;
  int64_t bytes = 0;
  const ac4k_status status = ac4k_w4a16_runner_workspace_size(runner, M, N, K, &bytes);
  return status == AC4K_OK ? PyLong_FromLongLong(bytes) : raise_status(status);
}

PyObject* w4a16_tune(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned long long a = 0, b = 0, c = 0, stream = 0;
  long long b_bytes = 0, M = 0, N = 0, K = 0, group_size = 0;
  double seconds = 0;
  if (!PyArg_ParseTuple(args, "O(KKLKLLLL)Kd", &capsule, &a, &b, &b_bytes, &c, &M, &N, &K,
                        &group_size, &stream, &seconds)) {
    return nullptr;
  }
  const ac4k_w4a16_runner* runner = runner_of(capsule);
  if (runner == nullptr) return nullptr;
  ac4k_w4a16_product product{};
  product.a = reinterpret_cast<const void*>(a);
  product.b = reinterpret_cast<const void*>(b);
  product.b_bytes = b_bytes;
  product.c = reinterpret_cast<void*>(c);
  product.alpha = 1;
  product.M = M, product.N = N, product.K = K, product.group_size = group_size;
  product.stream = reinterpret_cast<void*>(stream);
  int64_t best = 0, count = 0;
  std::vector<double> microseconds;
  PyThreadState* state = PyEval_SaveThread();
  ac4k_status status = ac4k_w4a16_runner_num_configs(runner, M, N, K, &count);
  if (status == AC4K_OK) {
    microseconds.resize(static_cast<size_t>(count));
    status = ac4k_w4a16_runner_tune(runner, &product, seconds, &best, microseconds.data());
  }
  PyEval_RestoreThread(state);
  if (status != AC4K_OK) return raise_status(status);
  Ref times(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; times && i < microseconds.size(); ++i) {
    PyObject* time = PyFloat_FromDouble(microseconds[i]);
    if (time == nullptr) return nullptr;
    PyList_SetItem(times.get(), static_cast<Py_ssize_t>(i), time);
  }
  return times ? Py_BuildValue("LO", static_cast<long long>(best), times.get()) : nullptr;
}

}  // namespace ac4k::python
