"""Writes GGUF files, version 3: whole, or one tensor after the other, never half a file."""

from __future__ import annotations

import math
import operator
import os
import reprlib
import secrets
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple

import ac4k
from ac4k._gguf_types import (
    ARRAY,
    PLAIN_TYPES,
    TENSOR_TYPES,
    VALUE_TYPES,
    byte_dims,
    is_addressable,
)
from ac4k.quant_tensor import QuantTensor, block_format

_VERSION = 3
_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_SMALLEST_ALIGNMENT = 8
_MAX_DIMS = 4
_LONGEST_NAME = 65535
_MAX_NESTING = 4


class TensorSpec(NamedTuple):
    """What is written of a tensor before its bytes."""

    name: str
    format: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(byte_dims(self.format, self.shape))


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    metadata_types: Mapping[str, Any] | None = None,
) -> None:
    """Writes a GGUF file; `path` is replaced at once when everything is written, or not at all.

    path: of a regular file, whose mode it keeps, or of none; a link is followed, not replaced.
    tensors: by name, `QuantTensor`s (packed ones are unpacked), NumPy arrays or torch tensors.
    metadata: str, bool, int, float, NumPy scalars, and lists or arrays of them. A plain int is
        written as uint32, or int32, uint64, int64 where it does not fit, a plain float as float32.
    metadata_types: other types, by key: "uint64", "[float64]"; `File.metadata_types` has this form.
    """
    specs = [TensorSpec(name, *_format_and_shape(name, tensor)) for name, tensor in tensors.items()]
    with Writer(path, specs, metadata, metadata_types=metadata_types) as writer:
        for tensor in tensors.values():
            writer.write(tensor)


class Writer:
    """A file whose tensors are announced first and then written one by one, in that order.

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.gguf")
    >>> with Writer(path, [TensorSpec("a", "f32", (2,)), TensorSpec("b", "i8", (3,))]) as writer:
    ...     writer.write(np.zeros(2, np.float32))
    ...     writer.write(np.arange(3, dtype=np.int8))

    Nothing is at `path` before the `with` block ends well; an exception leaves what was there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tensors: Iterable[TensorSpec],
        metadata: Mapping[str, Any] | None = None,
        *,
        metadata_types: Mapping[str, Any] | None = None,
    ) -> None:
        mode = _mode_of(path)
        self.path = os.path.realpath(os.fsdecode(path))  # a link is followed, not replaced
        self._specs = [_normalized(TensorSpec(*spec)) for spec in tensors]
        metadata = metadata or {}
        self._alignment = _alignment_of(metadata)
        header = _header(self._specs, metadata, metadata_types or {}, self._alignment)
        self._next = 0
        folder, name = os.path.split(self.path)
        # Only the beginning of the name, since a name may be as long as the file system allows.
        self._temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(6)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            created = 0o666 if mode is None else mode & 0o777
            self._file = os.fdopen(os.open(self._temporary, flags, created), "wb")
        except OSError as error:
            error.filename = self.path  # nobody knows the temporary one
            raise
        try:
            if mode is not None:
                # Some mounts let files be written whose mode they let nobody set.
                with suppress(PermissionError):
                    os.fchmod(self._file.fileno(), mode)
            self._file.write(header)
            self._pad()
        except BaseException:
            self.discard()
            raise

    def write(self, tensor: Any) -> None:
        """Writes the next tensor."""
        spec = self._next_spec()
        fmt, shape = _format_and_shape(spec.name, tensor)
        if (fmt, shape) != (spec.format, spec.shape):
            raise ValueError(
                f"gguf: tensor {spec.name!r}: expected {spec.format} {list(spec.shape)}, "
                f"got {fmt} {list(shape)}"
            )
        self.write_bytes(_bytes_of(tensor))

    def write_bytes(self, data: Any) -> None:
        """Writes the next tensor from its bytes: a contiguous array, or `bytes` and the like."""
        spec = self._next_spec()
        try:
            view = memoryview(data)
            view = view.cast("B") if view.nbytes else memoryview(b"")
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"gguf: tensor {spec.name!r}: expected its contiguous bytes, "
                f"got {type(data).__name__}: {error}"
            ) from error
        if view.nbytes != spec.nbytes:
            raise ValueError(
                f"gguf: tensor {spec.name!r}: expected {spec.nbytes} bytes, got {view.nbytes}"
            )
        self._file.write(view)
        self._pad()
        self._next += 1

    def close(self) -> None:
        """Puts the finished file in its place; a second call does nothing."""
        if self._file.closed:
            return
        if self._next != len(self._specs):
            left = self._specs[self._next].name
            self.discard()
            raise ValueError(f"gguf: tensor {left!r}: expected its data, got the end of the file")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self.path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Gives up: nothing of the new file is left."""
        with suppress(OSError):  # a full disk takes no more bytes, and has to take none
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary)

    def _next_spec(self) -> TensorSpec:
        if self._next == len(self._specs):
            raise ValueError(f"gguf: {self.path}: expected {self._next} tensors, got one more")
        return self._specs[self._next]

    def _pad(self) -> None:
        self._file.write(bytes(-self._file.tell() % self._alignment))

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _mode_of(path: str | os.PathLike[str]) -> int | None:
    """The permissions of the file that will be replaced, None where there is none."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ValueError(f"gguf: {os.fspath(path)}: expected a regular file, or none")
    return stat.S_IMODE(mode)


# ---- Tensors ---------------------------------------------------------------------------------


def _format_and_shape(name: str, tensor: Any) -> tuple[str, tuple[int, ...]]:
    shape = tuple(tensor.shape) if hasattr(tensor, "shape") else ()
    if isinstance(tensor, QuantTensor):
        return tensor.format, shape
    dtype = str(getattr(tensor, "dtype", type(tensor).__name__)).removeprefix("torch.")
    for fmt, plain in PLAIN_TYPES.items():
        if plain.numpy_name == dtype:
            return fmt, shape
    expected = ", ".join(plain.numpy_name for plain in PLAIN_TYPES.values())
    raise TypeError(f"gguf: tensor {name!r}: expected a QuantTensor or {expected}, got {dtype}")


def _bytes_of(tensor: Any) -> Any:
    """A tensor's bytes, without a copy where they are contiguous and in this machine's memory."""
    import numpy

    data = ac4k.unpack(tensor).raw if isinstance(tensor, QuantTensor) else tensor
    if hasattr(data, "detach"):
        import torch

        data = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return numpy.ascontiguousarray(data).reshape(-1).view(numpy.uint8)


def _tensor_info(spec: TensorSpec, offset: int) -> bytes:
    if spec.format not in TENSOR_TYPES:
        raise ValueError(
            f"gguf: tensor {spec.name!r}: expected a format of {', '.join(TENSOR_TYPES)}, "
            f"got {spec.format!r}"
        )
    expected = _what_shape_lacks(spec)
    if expected is not None:
        raise ValueError(
            f"gguf: tensor {spec.name!r}: shape: expected {expected}, got {spec.shape}"
        )
    return b"".join(
        (
            _encode_name("tensor name", spec.name),
            struct.pack("<I", len(spec.shape)),
            *(struct.pack("<Q", size) for size in reversed(spec.shape)),
            struct.pack("<IQ", TENSOR_TYPES[spec.format], offset),
        )
    )


def _normalized(spec: TensorSpec) -> TensorSpec:
    try:
        return spec._replace(shape=tuple(map(operator.index, spec.shape)))
    except TypeError as error:
        raise TypeError(
            f"gguf: tensor {spec.name!r}: shape: expected integers, got {spec.shape!r}"
        ) from error


def _what_shape_lacks(spec: TensorSpec) -> str | None:
    if len(spec.shape) > _MAX_DIMS:
        return f"at most {_MAX_DIMS} dims"
    if any(size < 0 for size in spec.shape):
        return "sizes >= 0"
    values = 1 if spec.format in PLAIN_TYPES else block_format(spec.format).block_values
    if (spec.shape[-1] if spec.shape else 1) % values != 0:
        return f"a last dim that is a multiple of {values} for {spec.format}"
    if not is_addressable(spec.format, spec.shape):
        return "fewer than 2^63 bytes, dims of size zero aside"
    return None


# ---- Metadata --------------------------------------------------------------------------------


def _header(
    specs: Sequence[TensorSpec],
    metadata: Mapping[str, Any],
    types: Mapping[str, Any],
    alignment: int,
) -> bytes:
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"gguf: tensor {twice!r}: expected names that differ, got it twice")
    parts = [b"GGUF", struct.pack("<IQQ", _VERSION, len(specs), len(metadata))]
    for key, value in metadata.items():
        parts.append(_encode_name("metadata key", key))
        try:
            kind = "uint32" if key == _ALIGNMENT else types.get(key)
            parts.append(_encode_value(value, kind))
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            raised = TypeError if isinstance(error, TypeError) else ValueError
            raise raised(f"gguf: metadata {key!r}: {error}") from error
    offset = 0
    for spec in specs:
        parts.append(_tensor_info(spec, offset))
        offset += -(-spec.nbytes // alignment) * alignment
        if offset >= 1 << 63:
            raise ValueError(
                f"gguf: tensor {spec.name!r}: expected fewer than 2^63 bytes up to its end, "
                f"got {offset}"
            )
    return b"".join(parts)


def _alignment_of(metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
    number = int(alignment) if hasattr(alignment, "__index__") else 0
    if number < _SMALLEST_ALIGNMENT or number & (number - 1) or number >= 1 << 32:
        raise ValueError(
            f"gguf: metadata {_ALIGNMENT!r}: expected a power of two from "
            f"{_SMALLEST_ALIGNMENT}, got {alignment!r}"
        )
    return number


def _encode_name(what: str, name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"gguf: {what}: expected str, got {type(name).__name__}")
    try:
        data = _utf8(name)
    except ValueError as error:
        raise ValueError(f"gguf: {what}: {error}") from error
    if len(data) > _LONGEST_NAME:
        raise ValueError(
            f"gguf: {what}: expected at most {_LONGEST_NAME} bytes, got {len(data)}: {name[:40]!r}"
        )
    return struct.pack("<Q", len(data)) + data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        part = text[max(error.start - 20, 0) :][:40]  # a chat template may be long
        raise ValueError(f"expected text without surrogates, got {part!r}") from error


def _encode_string(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected str, got {type(text).__name__}")
    data = _utf8(text)
    return struct.pack("<Q", len(data)) + data


def _encode_value(value: Any, kind: Any, depth: int = 0) -> bytes:
    """A value behind its type; `kind` is the type's name, None to find one."""
    kind = _kind_of(value) if kind is None else kind
    if isinstance(kind, list) or (isinstance(kind, str) and kind.startswith("[")):
        return struct.pack("<I", ARRAY) + _encode_array(value, kind, depth + 1)
    return struct.pack("<I", _value_type(kind)[0]) + _encode_all([value], kind)


def _encode_array(values: Any, kind: Any, depth: int) -> bytes:
    """An array behind the type of its elements and their number."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"expected a list for the type {kind}, got {type(values).__name__}")
    values = list(values)
    if depth > _MAX_NESTING:
        raise ValueError(f"expected at most {_MAX_NESTING} levels of lists, got more")
    if isinstance(kind, list):
        if len(kind) != len(values):
            raise ValueError(
                f"expected {len(kind)} elements, as there are types, got {len(values)}"
            )
        inner = b"".join(
            _encode_array(value, each, depth + 1) for value, each in zip(values, kind, strict=True)
        )
        return struct.pack("<IQ", ARRAY, len(values)) + inner
    if not (isinstance(kind, str) and kind.startswith("[") and kind.endswith("]")):
        raise ValueError(f"expected a type such as '[uint32]' for a list, got {kind!r}")
    number, _ = _value_type(kind[1:-1])
    return struct.pack("<IQ", number, len(values)) + _encode_all(values, kind[1:-1])


def _encode_all(values: Sequence[Any], name: str) -> bytes:
    """Values of one type: strings, or what `struct` has a letter for."""
    letter = VALUE_TYPES[name][1]
    if name == "string":
        return b"".join(map(_encode_string, values))
    if name == "bool":  # for which `struct` takes anything at all
        for value in values:
            if not isinstance(value, bool) and _dtype_name(value) != "bool":
                raise TypeError(f"expected bool, got {value!r}")
    try:
        return struct.pack(f"<{len(values)}{letter}", *values)
    except (struct.error, TypeError, OverflowError):
        for value in values:
            _check_number(value, name, letter)
        raise


def _check_number(value: Any, name: str, letter: str) -> None:
    """Says what `struct` does not: which value is wrong, and what was expected."""
    read: Any = math.isfinite if name.startswith("float") else operator.index
    try:
        read(value)
    except (TypeError, ValueError, RuntimeError) as error:  # torch's, of several numbers
        raise TypeError(f"expected {name}, got {reprlib.repr(value)}") from error
    except OverflowError:
        pass  # an int beyond every float
    try:
        struct.pack(f"<{letter}", value)
    except (struct.error, OverflowError) as error:
        raise ValueError(
            f"expected a number that {name} can hold, got {reprlib.repr(value)}"
        ) from error


def _value_type(name: Any) -> tuple[int, str]:
    if not isinstance(name, str) or name not in VALUE_TYPES:
        raise ValueError(f"expected a type of {', '.join(VALUE_TYPES)}, got {name!r}")
    return VALUE_TYPES[name]


def _dtype_name(value: Any) -> str | None:
    """Of what NumPy and torch make; None of anything else."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return None
    if getattr(dtype, "kind", "") == "U":
        return "string"
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _kind_of(value: Any) -> Any:
    """The type a value is written as when nobody says which."""
    name = _dtype_name(value)
    if name is not None:
        if value.ndim == 0:
            return name
        return f"[{name}]" if value.ndim == 1 else [_kind_of(each) for each in value]
    if not isinstance(value, list | tuple):
        return _kind_of_all([value])
    if any(isinstance(each, list | tuple) or getattr(each, "ndim", 0) > 0 for each in value):
        return [_kind_of(each) for each in value]
    return f"[{_kind_of_all(value)}]"


def _kind_of_all(values: Sequence[Any]) -> str:
    """One type for all of a list's elements; an empty one is of int32, like gguf's own."""
    if not values:
        return "int32"
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return "string"
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        low, high = min(values), max(values)
        fitting = (
            ("uint32", 0, 1 << 32),
            ("int32", -(1 << 31), 1 << 31),
            ("uint64", 0, 1 << 64),
            ("int64", -(1 << 63), 1 << 63),
        )
        for name, least, end in fitting:
            if least <= low and high < end:
                return name
        raise ValueError(f"expected integers of 64 bits, got {low} to {high}")
    if kinds <= {int, float}:
        return "float32"
    dtype, *others = {_dtype_name(value) for value in values}
    if dtype is not None and not others:
        return dtype
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"expected str, bool, int, float or a list of one of them, got {names}")
