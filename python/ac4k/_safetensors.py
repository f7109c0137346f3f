"""Reads safetensors files: eight bytes of length, a JSON header, then the tensors.

Tensors are mapped, not read, and a header is checked as a whole before anything is taken from it:
whatever a damaged or hostile file says, the answer is an error that names the file and the entry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ._ml_dtypes import added_dtype

_MAX_HEADER = 100 << 20  # bytes; what the format's own reader allows
_MAX_DIMS = 16
_BITS = {
    "F64": 64,
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "I64": 64,
    "I32": 32,
    "I16": 16,
    "I8": 8,
    "U64": 64,
    "U32": 32,
    "U16": 16,
    "U8": 8,
    "BOOL": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    # Not read, but other tensors of a file that has them are.
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E8M0": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
    "C64": 64,
}
_NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int  # in the file
    end: int


class _Stamp(NamedTuple):
    """Changes when a file does."""

    inode: int
    modified: int
    size: int


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return _Stamp(status.st_ino, status.st_mtime_ns, status.st_size)


class SafetensorsFile(Mapping[str, Any]):
    """Tensors by name, as NumPy arrays over the mapped file (bfloat16 by ml_dtypes)."""

    def __init__(self, path: str | Path) -> None:
        import numpy

        self.path = Path(path)
        self.stamp = _stamp(self.path)
        size = self.stamp.size
        if size < 8:
            raise self._error("at least 8 bytes", f"{size}")
        data = numpy.memmap(self.path, numpy.uint8, "r")
        length = int.from_bytes(data[:8].tobytes(), "little")
        if length > min(_MAX_HEADER, size - 8):
            raise self._error(
                f"a header of at most {min(_MAX_HEADER, size - 8)} bytes", f"one of {length}"
            )
        header = self._parse(data[8 : 8 + length].tobytes())
        self.metadata: dict[str, str] = {}
        self._entries: dict[str, _Entry] = {}
        for name, value in header.items():
            if name == "__metadata__":
                self.metadata = self._checked_metadata(value)
            else:
                self._entries[name] = self._checked(name, value, 8 + length, size)
        self._check_overlap()

    def __getitem__(self, name: str) -> Any:
        import numpy

        entry = self._entries[name]
        if entry.dtype == "BF16":
            dtype = added_dtype("bfloat16", f"safetensors file {self.path}: tensor {name!r}")
        elif entry.dtype in _NUMPY:
            dtype = numpy.dtype(_NUMPY[entry.dtype])
        else:
            raise self._error("a tensor that NumPy has", entry.dtype, name)
        # Mapped anew for each, so that a file whose header is kept is not itself held.
        data = numpy.memmap(self.path, numpy.uint8, "r")[entry.begin : entry.end]
        return data.view(dtype).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:  # without making an array
        return name in self._entries

    def _error(self, expected: str, got: str, name: str | None = None) -> ValueError:
        where = f" tensor {name!r}:" if name is not None else ""
        return ValueError(f"safetensors file {self.path}:{where} expected {expected}, got {got}")

    def _parse(self, text: bytes) -> dict[str, Any]:
        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) != len(pairs):
                raise ValueError("a name twice")
            return found

        try:
            header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise self._error("a header in JSON", f"{type(error).__name__}: {error}") from None
        if not isinstance(header, dict):
            raise self._error("a JSON object as header", type(header).__name__)
        return header

    def _checked_metadata(self, value: Any) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise self._error("texts by name", f"{value!r:.80}", "__metadata__")
        return value

    def _checked(self, name: str, value: Any, data: int, size: int) -> _Entry:
        if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
            raise self._error("dtype, shape and data_offsets", f"{value!r:.80}", name)
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _BITS:
            raise self._error(f"a dtype of {', '.join(_BITS)}", f"{dtype!r:.80}", name)
        if not _are_sizes(shape) or len(shape) > _MAX_DIMS:
            raise self._error("a shape of sizes", f"{shape!r:.80}", name)
        if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise self._error("data_offsets of begin and end", f"{offsets!r:.80}", name)
        begin, end = offsets
        if end > size - data:
            raise self._error(f"data that ends within {size - data} bytes", f"at {end}", name)
        bits = math.prod(shape) * _BITS[dtype]
        if 8 * (end - begin) != bits:
            raise self._error(
                f"{bits / 8:g} bytes for {dtype} {shape!r:.80}", f"{end - begin}", name
            )
        return _Entry(dtype, tuple(shape), data + begin, data + end)

    def _check_overlap(self) -> None:
        at = 0
        for name, entry in sorted(self._entries.items(), key=lambda item: item[1][2:]):
            if entry.begin < at and entry.end > entry.begin:
                raise self._error("data of its own", "bytes of another tensor", name)
            at = max(at, entry.end)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**63 for each in value
    )


class Checkpoint(Mapping[str, Any]):
    """The tensors of one file, or of the files that an index (`*.index.json`) lists."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._files: dict[str, SafetensorsFile] = {}
        self._where: dict[str, str] = {}
        if self.path.suffix == ".json":
            self._where = self._read_index()
        else:
            file = SafetensorsFile(self.path)
            self._files[self.path.name] = file
            self._where = dict.fromkeys(file, self.path.name)

    def __contains__(self, name: object) -> bool:  # without opening its file
        return name in self._where

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __getitem__(self, name: str) -> Any:
        file_name = self._where[name]
        path = self.path.parent / file_name
        file = self._files.get(file_name)
        if file is None or file.stamp != _stamp(path):
            file = self._files[file_name] = SafetensorsFile(path)
        if name not in file:
            raise ValueError(
                f"safetensors index {self.path}: expected tensor {name!r} in {file_name}, got none"
            )
        return file[name]

    def _read_index(self) -> dict[str, str]:
        try:
            index = json.loads(self.path.read_text("utf-8"))
            where = index["weight_map"]
            # Names of files beside the index, nothing that leads elsewhere.
            fine = isinstance(where, dict) and all(
                isinstance(file, str) and Path(file).name == file and file not in ("", "..")
                for file in where.values()
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            fine = False
        if not fine:
            raise ValueError(
                f"safetensors index {self.path}: expected a 'weight_map' of tensors to files "
                "beside it"
            )
        return dict(where)


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint that was asked for last is kept until it changes, as its headers are: a
    mixture of experts has tens of thousands of layers, and headers of as many entries."""
    return _opened(path, _stamp(path))


@lru_cache(maxsize=1)
def _opened(path: Path, stamp: _Stamp) -> Checkpoint:
    return Checkpoint(path)
