"""Calls of ops on the model of a GPU: no driver, no GPU, the host's memory.

The library opens the model's libcuda.so.1 in place of the driver, and compiles kernels to PTX,
which the model runs. Only in a process of its own: what is loaded stays.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

CAPABILITIES = {"sm89": 89, "sm90a": 90, "sm100a": 100, "sm120a": 120}


class Gpu:
    """The model, as this process's only CUDA device."""

    def __init__(self, libraries: Path, cache: Path, arch: str = "sm90a", seed: int = 1) -> None:
        import ac4k

        self.driver = ctypes.CDLL(str(libraries / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
        self.driver.model_set_capability(CAPABILITIES[arch])
        self.set_seed(seed)
        nvrtc, include = find_nvrtc()
        os.environ["MODEL_NVRTC"] = str(nvrtc)
        ac4k._C.set("nvrtc_path", str(libraries / "libnvrtc.so"))
        ac4k._C.set("cuda_include", str(include))
        ac4k.set_cache_dir(str(cache))
        ac4k.set_jit("force")

    def call(self, fn: Any, made: Any) -> None:
        """`made` (ac4k.bench.inputs.Arguments, of CPU tensors) with its tensors placed."""
        written = {id(tensor) for tensor in (*made.outs, *made.mutable)}

        def placed(tensor: torch.Tensor) -> OnGpu:
            return self.place(tensor, writable=id(tensor) in written)

        try:
            made.replaced(placed).call(fn)
        finally:
            self.forget()

    def set_seed(self, seed: int) -> None:
        """Of the order in which threads and copies go on."""
        self.driver.model_set_seed(ctypes.c_uint64(seed))

    def place(self, tensor: torch.Tensor, *, writable: bool) -> OnGpu:
        """The tensor as the GPU's; kernels may touch what was placed, and nothing else."""
        begin, size = _span(tensor)
        self.driver.model_allow(ctypes.c_void_p(begin), ctypes.c_size_t(size), int(writable))
        return OnGpu(tensor)

    def forget(self) -> None:
        """Nothing is placed any more, and kernels may touch everything."""
        self.driver.model_forget()


class OnGpu:
    """A CPU tensor whose memory is said to be the GPU's."""

    def __init__(self, tensor: torch.Tensor) -> None:
        name = str(tensor.dtype).removeprefix("torch.")
        kind = "f" if tensor.is_floating_point() else "u" if name.startswith("u") else "i"
        self.dtype = SimpleNamespace(name=name, itemsize=tensor.itemsize, kind=kind, isnative=True)
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": "|V1",
            "data": (tensor.data_ptr(), False),
            "strides": tuple(stride * tensor.itemsize for stride in tensor.stride()),
            "version": 3,
        }


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and number of bytes."""
    low = high = 0
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 0:
            return tensor.data_ptr(), 0
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    begin = tensor.data_ptr() + low * tensor.itemsize
    return begin, (high - low + 1) * tensor.itemsize


def find_nvrtc() -> tuple[Path, Path]:
    """The library and CUDA's headers, from the packages of this Python."""
    spec = importlib.util.find_spec("nvidia")
    for entry in spec.submodule_search_locations or () if spec else ():
        for folder in sorted(Path(entry).glob("cu*"), reverse=True):
            library = folder / "lib/libnvrtc.so.13"
            if library.exists() and (folder / "include/cuda_fp16.h").exists():
                for builtins in library.parent.glob("libnvrtc-builtins.so*"):  # found by name only
                    ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
                return library, folder / "include"
    raise RuntimeError("no NVRTC: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime")
