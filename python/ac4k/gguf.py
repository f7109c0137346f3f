"""GGUF files: `open` reads them without copying, `write` makes them.

>>> import numpy as np, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "tiny.gguf")
>>> weight = ac4k.QuantTensor(np.zeros((4, 2, 18), np.uint8), "q4_0", (4, 64))
>>> write(path, {"w": weight, "b": np.ones(4, np.float32)}, {"general.architecture": "none"})
>>> with open(path) as file:
...     print(file.metadata, file.tensors["w"], file.tensors["b"])
{'general.architecture': 'none'} QuantTensor(q4_0, shape=(4, 64)) [1. 1. 1. 1.]
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple

from ac4k._gguf_types import PLAIN_TYPES, describe_kind, is_addressable
from ac4k._gguf_writer import TensorSpec, Writer, write
from ac4k._native import C
from ac4k.quant_tensor import QuantTensor, raw_shape

__all__ = ["File", "TensorInfo", "TensorSpec", "Writer", "open", "write"]


class TensorInfo(NamedTuple):
    """What the file says about a tensor; `offset` counts from the file's beginning."""

    name: str
    format: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


def open(path: str | os.PathLike[str], *, device: Any = None) -> File:  # noqa: A001
    """Opens a GGUF file, version 2 or 3, little-endian.

    The file is mapped into memory and checked as a whole; what is wrong with it is a ValueError
    that names the field. Tensors are NumPy arrays and `QuantTensor`s over them, views of the file:
    nothing is read before it is used. With `device` they are torch tensors, on "cpu" views too.
    """
    return File(path, device=device)


class File:
    """An open GGUF file; made by `open`.

    Leaving the `with` block ends its use, not that of the tensors: they keep the mapping alive.
    Writing into them changes this process's memory only. A file that is shortened by others while
    tensors of it are in use kills the process (SIGBUS), as with every mapped file: replace files by
    renaming, as `write` does.
    """

    def __init__(self, path: str | os.PathLike[str], *, device: Any = None) -> None:
        self.path = os.fspath(path)
        os.stat(self.path)  # a missing file is a FileNotFoundError
        self._file: Any = C.gguf_open(os.fsencode(self.path))
        self._device = device
        self.version, self.alignment, self.data_offset, self.nbytes = self._file.header()
        infos = (TensorInfo(*row) for row in self._file.tensors())
        self.infos: Mapping[str, TensorInfo] = MappingProxyType(
            {info.name: self._checked(info) for info in infos}
        )
        self.tensors: Mapping[str, Any] = _Tensors(self)

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """Values as int, float, bool, str and lists of them, in the order of the file."""
        return MappingProxyType(self._open_file().metadata())

    @cached_property
    def metadata_types(self) -> Mapping[str, Any]:
        """The types that values have in the file, as `write` takes them: "uint32", "[string]"."""
        kinds = self._open_file().kinds().items()
        return MappingProxyType({key: describe_kind(kind) for key, kind in kinds})

    def raw(self, name: str) -> Any:
        """A tensor's bytes, a NumPy view: uint8 [nbytes]."""
        info = self.infos[name]
        import numpy

        return numpy.frombuffer(self._open_file(), numpy.uint8, info.nbytes, info.offset)

    def tensor(self, name: str) -> Any:
        """What `tensors[name]` gives."""
        info = self.infos[name]
        data = self.raw(name)
        plain = PLAIN_TYPES.get(info.format)
        if plain is None:
            data = data.reshape(raw_shape(info.format, info.shape))
        if self._device is not None:
            return self._torch_tensor(data, info)
        if plain is None:
            return QuantTensor(data, info.format, info.shape)
        return data.view(plain.numpy_dtype(info.name)).reshape(info.shape)

    def _torch_tensor(self, data: Any, info: TensorInfo) -> Any:
        import torch

        tensor: Any = torch.from_numpy(data)
        plain = PLAIN_TYPES.get(info.format)
        if plain is None:
            tensor = QuantTensor(tensor, info.format, info.shape)
        else:
            tensor = tensor.view(getattr(torch, plain.torch_name)).reshape(info.shape)
        return tensor.to(self._device)

    def _checked(self, info: TensorInfo) -> TensorInfo:
        """Other dims of an empty tensor may have any size in a file, but not in an array."""
        if info.nbytes == 0 and not is_addressable(info.format, info.shape):
            raise ValueError(
                f"gguf: {self.path}: tensor {info.name!r}: dims: expected fewer than 2^63 bytes, "
                f"dims of size zero aside, got {info.format} {list(info.shape)}"
            )
        return info

    def _open_file(self) -> Any:
        if self._file is None:
            raise ValueError(f"gguf: {self.path}: the file was closed")
        return self._file

    def close(self) -> None:
        """Ends the use of the file. Tensors that were taken from it stay valid."""
        self._file = None

    def __enter__(self) -> File:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"gguf.File({self.path!r}, version={self.version}, {len(self.infos)} tensors)"


class _Tensors(Mapping[str, Any]):
    """Tensors by name, in the order of the file, made when asked for."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __getitem__(self, name: str) -> Any:
        return self._file.tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.infos)

    def __contains__(self, name: object) -> bool:
        return name in self._file.infos

    def __len__(self) -> int:
        return len(self._file.infos)

    def __repr__(self) -> str:
        return f"<{len(self)} tensors of {self._file.path!r}>"
