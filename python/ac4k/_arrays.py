"""Arrays the extension cannot read by itself: CuPy, JAX, ml_dtypes on NumPy, anything with DLPack.

The extension calls `describe` for inputs and `allocate` for outputs. torch and plain NumPy never
come here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ac4k._ml_dtypes import added_dtype
from ac4k._native import C
from ac4k.quant_tensor import QuantTensor

# DLPack's codes.
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8 = {"float8_e4m3fn": 10, "float8_e5m2": 12}
_CPU, _CUDA = 1, 2
_KINDS = {"i": _INT, "u": _UINT, "f": _FLOAT, "c": _COMPLEX, "b": _BOOL}

Description = tuple[int, tuple[int, ...], tuple[int, ...], int, int, int, int, int, bool, object]


def describe(array: Any) -> Description:
    """(pointer, shape, strides in elements, type code, bits, device type, device id, stream,
    readonly, object to keep alive)"""
    module = type(array).__module__.partition(".")[0]
    if module == "numpy":
        return _describe_numpy(array)
    if module in ("jax", "jaxlib"):
        return _describe_jax(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _describe_cuda_array(array)
    if hasattr(array, "__dlpack__"):
        return _describe_dlpack(array)
    hint = ", whose bytes are `.raw`" if isinstance(array, QuantTensor) else ""
    raise TypeError(
        "expected a tensor (torch, NumPy, CuPy, JAX or anything with DLPack), "
        f"got {type(array).__name__}{hint}"
    )


def allocate(
    prototype: Any, shape: tuple[int, ...], code: int, bits: int
) -> tuple[Any, Callable[[Any], Any] | None]:
    """An uninitialised array like `prototype`, and what turns it into the result when filled."""
    module = type(prototype).__module__.partition(".")[0]
    if module in ("jax", "jaxlib"):
        return _allocate_jax(prototype, shape, code, bits)
    if module == "cupy":
        import cupy

        return cupy.empty(shape, dtype=_numpy_dtype(code, bits)), None
    if hasattr(prototype, "__cuda_array_interface__"):
        raise TypeError(f"give out=: no output can be made for a {type(prototype).__name__}")
    import numpy

    return numpy.empty(shape, dtype=_numpy_dtype(code, bits)), None


def _numpy_dtype(code: int, bits: int) -> Any:
    import numpy

    names = {value: name for name, value in _FLOAT8.items()}
    if code == _BFLOAT or code in names:
        return added_dtype(names.get(code, "bfloat16"))
    kinds = {value: kind for kind, value in _KINDS.items()}
    return numpy.dtype(f"{kinds[code]}{bits // 8}")


def _type_code(dtype: Any) -> tuple[int, int]:
    """DLPack's code and bits of a NumPy dtype, ml_dtypes included."""
    bits = dtype.itemsize * 8
    if dtype.name == "bfloat16":
        return _BFLOAT, bits
    if dtype.name in _FLOAT8:
        return _FLOAT8[dtype.name], bits
    if dtype.kind not in _KINDS or not dtype.isnative:
        raise TypeError(f"expected a native numeric dtype, got {dtype}")
    return _KINDS[dtype.kind], bits


def _in_elements(strides: tuple[int, ...], item_size: int) -> tuple[int, ...]:
    if any(stride % item_size for stride in strides):
        raise ValueError("expected strides that are whole elements, got a view between them")
    return tuple(stride // item_size for stride in strides)


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _describe_numpy(array: Any) -> Description:
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"expected an array, got numpy.{type(array).__name__}")
    code, bits = _type_code(array.dtype)
    strides = _in_elements(array.strides, array.itemsize)
    readonly = not array.flags.writeable
    return array.ctypes.data, array.shape, strides, code, bits, _CPU, 0, 0, readonly, array


def _describe_cuda_array(array: Any) -> Description:
    import numpy

    interface = array.__cuda_array_interface__
    pointer, readonly = interface["data"]
    shape = tuple(interface["shape"])
    dtype = array.dtype if hasattr(array, "dtype") else numpy.dtype(interface["typestr"])
    code, bits = _type_code(dtype)
    strides = interface.get("strides")
    strides = _in_elements(tuple(strides), bits // 8) if strides else _contiguous_strides(shape)
    device = getattr(getattr(array, "device", None), "id", None)
    if device is None:  # Numba, RMM, PyCUDA: only the driver knows
        device = max(C.device_of(pointer), 0)
    # 1 is the legacy default stream by that protocol; the driver's word for it is 0.
    stream = interface.get("stream") or 0
    if type(array).__module__.startswith("cupy"):
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
    return pointer, shape, strides, code, bits, _CUDA, device, stream, bool(readonly), array


def _describe_jax(array: Any) -> Description:
    """JAX has no streams to ask for: its arrays are waited for, and results too."""
    import numpy

    array.block_until_ready()
    devices = list(array.devices())
    if len(devices) != 1:
        raise ValueError(f"expected an array on one device, got one on {len(devices)}")
    device = devices[0]
    code, bits = _type_code(numpy.dtype(array.dtype))
    device_type = _jax_device_type(device)
    shape = tuple(array.shape)
    strides = _contiguous_strides(shape)
    pointer = array.unsafe_buffer_pointer() if array.size else 0
    index = 0 if device_type == _CPU else device.local_hardware_id
    return pointer, shape, strides, code, bits, device_type, index, 0, True, array


def _jax_device_type(device: Any) -> int:
    """JAX calls every vendor's GPU "gpu"; its client's version tells them apart."""
    platform = device.platform
    if platform == "gpu" and "rocm" in device.client.platform_version.lower():
        platform = "rocm"
    types = {"cpu": _CPU, "gpu": _CUDA, "cuda": _CUDA}
    if platform not in types:
        raise NotImplementedError(f"expected an array on cpu or cuda, got one on {platform}")
    return types[platform]


def _allocate_jax(
    prototype: Any, shape: tuple[int, ...], code: int, bits: int
) -> tuple[Any, Callable[[Any], Any]]:
    import jax
    import numpy

    device = next(iter(prototype.devices()))
    if device.platform == "cpu":
        host = numpy.empty(shape, dtype=_numpy_dtype(code, bits))
        return host, lambda filled: jax.device_put(filled, device)
    # A fresh buffer that nobody else has seen yet may be written.
    fresh = jax.device_put(numpy.zeros(shape, _numpy_dtype(code, bits)), device)

    def wait(filled: _WritableJax) -> Any:
        from ac4k import jit

        jit.synchronize(device.local_hardware_id)
        return filled.array

    return _WritableJax(fresh), wait


class _WritableJax:
    """A JAX array that is still ours to write."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        raise NotImplementedError

    def describe(self) -> Description:
        description = list(_describe_jax(self.array))
        description[8] = False
        return tuple(description)  # type: ignore[return-value]


def _describe_dlpack(array: Any) -> Description:
    if isinstance(array, _WritableJax):
        return array.describe()
    import numpy

    device_type, _ = array.__dlpack_device__()
    if device_type != _CPU:
        raise TypeError(
            f"expected a torch, CuPy or JAX array for a device, got {type(array).__name__}"
        )
    return _describe_numpy(numpy.from_dlpack(array))
