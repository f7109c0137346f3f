"""Kernels compiled at first use: your own from CUDA C++ text, and the library's.

>>> kernel = ac4k.jit.compile(SOURCE, "scale", arch="sm90a")      # doctest: +SKIP
>>> kernel((n // 256,), (256,), x, 2.0, n)                        # doctest: +SKIP
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from ac4k._native import C

_CUDA = 2  # DLPack's device type

# What a scalar argument is packed as, by its C++ type.
_SCALARS = {
    "bool": "?",
    "char": "b",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned": "I",
    "unsigned int": "I",
    "long": "q",
    "unsigned long": "Q",
    "long long": "q",
    "unsigned long long": "Q",
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int32_t": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
    "size_t": "Q",
    "float": "f",
    "double": "d",
}
_POINTER, _POINTER_CODE = "pointer", "P"


class Kernel:
    """A compiled kernel. Call it as `kernel(grid, block, *args)`.

    Tensors are passed as pointers, numbers by the types of the kernel's signature, bytes as they
    are. It runs on the tensors' device and their framework's current stream.
    """

    def __init__(self, handle: object, name: str, types: Sequence[str] | None) -> None:
        self._handle = handle
        self.name = name
        self._codes = None if types is None else [_code(each) for each in types]
        # As the cubin tells them: the driver reads that many bytes, whatever is there.
        self._sizes: list[int] | None = self.attributes["param_bytes"]
        if self._codes is None:
            return
        sizes = [struct.calcsize(code) for code in self._codes]
        if self._sizes not in (None, sizes):
            raise TypeError(
                f"{name}: expected argtypes of {self._sizes} bytes, got {', '.join(types or ())}"
            )
        self._sizes = sizes

    @property
    def attributes(self) -> dict[str, Any]:
        """Registers, spills, shared memory, bytes of parameters, cache key and compile time."""
        return cast("dict[str, Any]", json.loads(C.kernel_json(self._handle)))

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *args: Any,
        shared_bytes: int = 0,
        cluster: int | Sequence[int] | None = None,
        dependent: bool = False,
        device: int | None = None,
        stream: int | None = None,
    ) -> None:
        if self._sizes is not None and len(args) != len(self._sizes):
            raise TypeError(f"{self.name}: expected {len(self._sizes)} arguments, got {len(args)}")
        found_device, found_stream = device, None
        params = []
        for index, arg in enumerate(args):
            if isinstance(arg, int | float | bytes):
                params.append(self._pack(index, arg))
                continue
            pointer, _, device_type, device_id, its_stream = C.describe(arg)
            if device_type != _CUDA:
                raise ValueError(f"{self.name}: argument {index}: expected a CUDA tensor")
            if found_device not in (None, device_id):
                raise ValueError(
                    f"{self.name}: argument {index}: expected device {found_device}, "
                    f"got device {device_id}"
                )
            if self._codes is not None and self._codes[index] != _POINTER_CODE:
                raise TypeError(f"{self.name}: argument {index}: expected a number, got a tensor")
            found_device, found_stream = device_id, its_stream
            params.append(self._checked(index, struct.pack(_POINTER_CODE, pointer)))
        C.kernel_launch(
            self._handle,
            _three(grid, 1),
            _three(block, 1),
            (0, 0, 0) if cluster is None else _three(cluster, 1),
            shared_bytes,
            dependent,
            found_device or 0,
            stream if stream is not None else found_stream or 0,
            tuple(params),
        )

    def _pack(self, index: int, arg: float | bytes) -> bytes:
        if isinstance(arg, bytes):
            return self._checked(index, arg)
        if self._codes is None:
            raise TypeError(
                f"{self.name}: argument {index}: the kernel's signature is not plain: give "
                "argtypes=, or this argument as bytes"
            )
        try:
            return struct.pack(self._codes[index], arg)
        except struct.error as error:
            raise TypeError(f"{self.name}: argument {index}: {error}, got {arg!r}") from None

    def _checked(self, index: int, packed: bytes) -> bytes:
        if self._sizes is not None and len(packed) != self._sizes[index]:
            raise TypeError(
                f"{self.name}: argument {index}: expected {self._sizes[index]} bytes, "
                f"got {len(packed)}"
            )
        return packed

    def __repr__(self) -> str:
        return f"<ac4k kernel {self.name}>"


def compile(  # noqa: A001
    source: str | Path,
    name: str,
    *,
    options: Sequence[str] = (),
    arch: str | None = None,
    argtypes: Sequence[str] | None = None,
) -> Kernel:
    """Compiles CUDA C++ (text, or the path of a file) and gives the kernel `name`.

    `name` may be a name expression such as "scale<float>"; `arch` is the current GPU's by default.
    `argtypes` ("pointer", "int", "float", "int64_t" ...) is read off the source where it can be.
    """
    path = _as_path(source)
    text = path.read_text() if path else str(source)
    handle = C.jit_compile(text, name, "\n".join(options) or None, arch)
    return Kernel(handle, name, argtypes if argtypes is not None else _argument_types(text, name))


def load(
    module: str, name: str, *, arch: str | None = None, argtypes: Sequence[str] | None = None
) -> Kernel:
    """A kernel of the library itself, e.g. `load("common/mul_add", "mul_add_f32")`."""
    return Kernel(C.kernel_find(module, name, arch), name, argtypes)


def build(module: str | None = None, arch: str | None = None) -> list[dict[str, Any]]:
    """Compiles the library's modules for `arch` into the cache and reports on their kernels."""
    return cast("list[dict[str, Any]]", json.loads(C.jit_build(module, arch)))


def list_cache(module: str | None = None, arch: str | None = None) -> list[dict[str, Any]]:
    """The entries of the cache; those of a module, of an architecture where one is given."""
    entries = cast("list[dict[str, Any]]", json.loads(C.jit_list()))
    return [
        entry
        for entry in entries
        if module in (None, entry["name"]) and arch in (None, entry["arch"])
    ]


def clear_cache(module: str | None = None, arch: str | None = None) -> int:
    """Removes the entries that `list_cache` gives, but for read-only ones, and tells how many there
    were."""
    return C.jit_clear(module, arch)


def synchronize(device: int = 0) -> None:
    """Waits for all work on a device."""
    C.synchronize(device)


def _as_path(source: str | Path) -> Path | None:
    if isinstance(source, Path):
        return source
    if "\n" in source or "{" in source or not source.endswith((".cu", ".cuh")):
        return None
    return Path(source)


def _argument_types(text: str, name: str) -> list[str] | None:
    """The C++ types of the kernel's parameters, or None where the text does not show them."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    entry = re.escape(name.partition("<")[0].rpartition("::")[2])
    match = re.search(rf"__global__[^;{{]*?\b{entry}\s*\(([^)]*)\)", plain)
    if match is None:
        return None
    types = []
    for parameter in filter(str.strip, match[1].split(",")):
        words = re.sub(r"\b(const|__grid_constant__|volatile|__restrict__|std::)\b", " ", parameter)
        if "*" in words:
            types.append(_POINTER)
            continue
        cpp_type = " ".join(words.split()[:-1]).removeprefix("std::")
        if cpp_type not in _SCALARS:
            return None  # a template parameter or a struct: bytes or argtypes= say what it is
        types.append(cpp_type)
    return types


def _code(cpp_type: str) -> str:
    """What struct.pack calls it."""
    if cpp_type == _POINTER:
        return _POINTER_CODE
    if cpp_type not in _SCALARS:
        raise TypeError(f"expected pointer or one of {', '.join(_SCALARS)}, got {cpp_type!r}")
    return _SCALARS[cpp_type]


def _three(sizes: int | Sequence[int], fill: int) -> tuple[int, int, int]:
    values = [sizes] if isinstance(sizes, int) else list(sizes)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"expected one to three sizes, got {len(values)}")
    x, y, z = (*values, *([fill] * (3 - len(values))))
    return x, y, z
