"""Kernels from CUDA C++ text on the model, without the library: for tests of the model itself."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from gpu import Gpu, find_nvrtc


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("num_attributes", ctypes.c_uint),
    )


def compiled(text: str) -> bytes:
    """PTX."""
    path, include = find_nvrtc()
    nvrtc = ctypes.CDLL(str(path))
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    options = ["--gpu-architecture=compute_90a", "-std=c++20", f"-I{include}"]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value


class Kernel:
    """One kernel of a text; tensors are passed as pointers, numbers as ints and floats of C."""

    def __init__(self, gpu: Gpu, text: str, name: str) -> None:
        self._gpu = gpu
        self._driver = gpu.driver
        self._image = compiled(text)
        library = ctypes.c_void_p()
        self._kernel = ctypes.c_void_p()
        no = (None, None, 0)
        self._check(self._driver.cuLibraryLoadData(ctypes.byref(library), self._image, *no, *no))
        self._check(
            self._driver.cuLibraryGetKernel(ctypes.byref(self._kernel), library, name.encode())
        )

    def __call__(self, grid: int, block: int, *args: Any, writes: Any = ()) -> None:
        """Reads tensors among `args`, and may write those of `writes`."""
        values: list[Any] = []
        for each in args:
            if isinstance(each, torch.Tensor):
                self._gpu.place(each, writable=any(each is other for other in writes))
                values.append(ctypes.c_void_p(each.data_ptr()))
            else:
                values.append(ctypes.c_int(each) if isinstance(each, int) else ctypes.c_float(each))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        config = LaunchConfig((grid, 1, 1), (block, 1, 1), 0, None, None, 0)
        try:
            self._check(
                self._driver.cuLaunchKernelEx(ctypes.byref(config), self._kernel, pointers, None)
            )
        finally:
            self._gpu.forget()

    def _check(self, result: int) -> None:
        if result == 0:
            return
        text = ctypes.c_char_p()
        self._driver.cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError((text.value or b"").decode())
