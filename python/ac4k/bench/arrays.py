"""Arrays to measure with: torch tensors where torch is installed, NumPy arrays otherwise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .._ml_dtypes import added_dtype
from .._onednn import import_torch
from ..environment import has_torch


@dataclass(frozen=True)
class DType:
    name: str  # as in the op table
    torch: str
    numpy: str
    bytes: int
    is_float: bool = False


DTYPES = {
    dtype.name: dtype
    for dtype in (
        DType("f64", "float64", "float64", 8, is_float=True),
        DType("f32", "float32", "float32", 4, is_float=True),
        DType("f16", "float16", "float16", 2, is_float=True),
        DType("bf16", "bfloat16", "bfloat16", 2, is_float=True),
        DType("f8e4m3", "float8_e4m3fn", "float8_e4m3fn", 1, is_float=True),
        DType("f8e5m2", "float8_e5m2", "float8_e5m2", 1, is_float=True),
        DType("i64", "int64", "int64", 8),
        DType("i32", "int32", "int32", 4),
        DType("i16", "int16", "int16", 2),
        DType("i8", "int8", "int8", 1),
        DType("u8", "uint8", "uint8", 1),
        DType("bool", "bool", "bool", 1),
    )
}


def dtype_named(text: str) -> DType:
    """'bf16', 'bfloat16' and 'torch.bfloat16' are the same."""
    wanted = text.removeprefix("torch.").lower()
    for dtype in DTYPES.values():
        if wanted in (dtype.name, dtype.torch):
            return dtype
    raise ValueError(f"unknown dtype '{text}'; known: {', '.join(DTYPES)}")


# At most so many numbers are drawn; larger arrays repeat them. It is a prime, so that rows and
# tiles of any size begin at another place of the sequence each: reading a wrong one shows.
_MOST_DRAWN = 4_194_301


class Arrays(ABC):
    """Makes arrays on one device, always random ones: zeros run faster than real data."""

    framework: str
    device: str

    @abstractmethod
    def random(self, shape: tuple[int, ...], dtype: DType, seed: int) -> Any: ...

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any: ...

    @abstractmethod
    def copy(self, array: Any) -> Any: ...

    @abstractmethod
    def same_bits(self, one: Any, other: Any) -> bool:
        """Of two arrays of one shape and type."""

    @abstractmethod
    def on_cpu(self) -> Arrays:
        """Those of the same framework that make arrays on the CPU."""

    @abstractmethod
    def placed(self, array: Any) -> Any:
        """An array of on_cpu() on this device."""

    @abstractmethod
    def to_float64(self, array: Any) -> Any:
        """A NumPy array; integers stay integers."""

    @abstractmethod
    def why_not(self, dtype: DType) -> str | None:
        """Why arrays of this type cannot be made here; None when they can."""


class TorchArrays(Arrays):
    framework = "torch"

    def __init__(self, device: str) -> None:
        torch = import_torch()
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(f"--device cuda: torch {torch.__version__} sees no CUDA device here")
        self.device = device
        self._torch = torch

    def random(self, shape: tuple[int, ...], dtype: DType, seed: int) -> Any:
        count = math.prod(shape)
        drawn = self._drawn(min(count, _MOST_DRAWN), dtype, seed)
        if count > _MOST_DRAWN:
            drawn = drawn.repeat(-(-count // _MOST_DRAWN))[:count]
        return drawn.view(shape)

    def _drawn(self, count: int, dtype: DType, seed: int) -> Any:
        torch = self._torch
        generator = torch.Generator(device=self.device).manual_seed(seed)
        kind = getattr(torch, dtype.torch)
        if dtype.is_float:
            source = torch.float64 if dtype.name == "f64" else torch.float32
            array = torch.randn(count, generator=generator, device=self.device, dtype=source)
            return array.to(kind)
        low, high = (0, 2) if dtype.name == "bool" else _integer_range(dtype)
        where = {"generator": generator, "device": self.device, "dtype": kind}
        return torch.randint(low, high, (count,), **where)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        torch = self._torch
        return torch.empty(shape, device=self.device, dtype=getattr(torch, dtype.torch))

    def copy(self, array: Any) -> Any:
        return array.clone()

    def same_bits(self, one: Any, other: Any) -> bool:
        bytes_ = self._torch.uint8
        return bool(self._torch.equal(one.view(-1).view(bytes_), other.view(-1).view(bytes_)))

    def on_cpu(self) -> Arrays:
        return TorchArrays("cpu")

    def placed(self, array: Any) -> Any:
        return array.to(self.device)

    def to_float64(self, array: Any) -> Any:
        return (array.double() if array.is_floating_point() else array).cpu().numpy()

    def why_not(self, dtype: DType) -> str | None:
        return None if hasattr(self._torch, dtype.torch) else f"torch has no {dtype.torch}"


class NumpyArrays(Arrays):
    framework = "numpy"
    device = "cpu"

    def __init__(self) -> None:
        import numpy as np

        self._numpy = np

    def _kind(self, dtype: DType) -> Any:
        if dtype.name not in ("bf16", "f8e4m3", "f8e5m2"):
            return self._numpy.dtype(dtype.numpy)
        return added_dtype(dtype.numpy)

    def random(self, shape: tuple[int, ...], dtype: DType, seed: int) -> Any:
        count = math.prod(shape)
        generator = self._numpy.random.default_rng(seed)
        drawn = min(count, _MOST_DRAWN)
        if dtype.is_float:
            values = generator.standard_normal(drawn).astype(self._kind(dtype))
        else:
            low, high = (0, 2) if dtype.name == "bool" else _integer_range(dtype)
            values = generator.integers(low, high, drawn).astype(self._kind(dtype))
        if count > drawn:
            values = self._numpy.resize(values, count)
        return values.reshape(shape)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return self._numpy.empty(shape, dtype=self._kind(dtype))

    def copy(self, array: Any) -> Any:
        return array.copy()

    def same_bits(self, one: Any, other: Any) -> bool:
        bytes_ = self._numpy.uint8
        equal = self._numpy.array_equal
        return bool(equal(one.reshape(-1).view(bytes_), other.reshape(-1).view(bytes_)))

    def on_cpu(self) -> Arrays:
        return self

    def placed(self, array: Any) -> Any:
        return array

    def to_float64(self, array: Any) -> Any:
        return array if array.dtype.kind in "iub" else array.astype(self._numpy.float64)

    def why_not(self, dtype: DType) -> str | None:
        try:
            self._kind(dtype)
        except ImportError as error:
            return str(error)
        return None


def _integer_range(dtype: DType) -> tuple[int, int]:
    """All values of a byte type; moderate ones of wider types, so that products do not overflow."""
    if dtype.bytes > 1:
        return -1000, 1000
    return (0, 256) if dtype.name == "u8" else (-128, 128)


def arrays_on(device: str) -> Arrays:
    if has_torch():
        return TorchArrays(device)
    if device == "cuda":
        raise RuntimeError("--device cuda needs torch to allocate and time; pip install torch")
    try:
        return NumpyArrays()
    except ImportError:
        raise RuntimeError("needs torch or NumPy for its arrays; pip install numpy") from None


def devices() -> list[str]:
    """What can be measured here: 'cuda' first when there is a GPU that torch can use."""
    if has_torch() and import_torch().cuda.is_available():
        return ["cuda", "cpu"]
    return ["cpu"]
