"""Numbers and names of GGUF's types: of metadata values, and of tensors.

src/gguf/types.cpp has the tensor types for the reader; a test compares the two.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from ac4k._ml_dtypes import added_dtype
from ac4k.quant_tensor import raw_shape

# Tensor types by name, as numbered in files.
TENSOR_TYPES: Final[dict[str, int]] = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "q8_1": 9,
    "q2_k": 10,
    "q3_k": 11,
    "q4_k": 12,
    "q5_k": 13,
    "q6_k": 14,
    "q8_k": 15,
    "iq2_xxs": 16,
    "iq2_xs": 17,
    "iq3_xxs": 18,
    "iq1_s": 19,
    "iq4_nl": 20,
    "iq3_s": 21,
    "iq2_s": 22,
    "iq4_xs": 23,
    "i8": 24,
    "i16": 25,
    "i32": 26,
    "i64": 27,
    "f64": 28,
    "iq1_m": 29,
    "bf16": 30,
    "tq1_0": 34,
    "tq2_0": 35,
    "mxfp4": 39,
    "nvfp4": 40,
    "q1_0": 41,
    "q2_0": 42,
}


class PlainType(NamedTuple):
    """A type that is not quantised: its size and its names elsewhere."""

    num_bytes: int
    numpy_name: str
    torch_name: str

    def numpy_dtype(self, tensor: str) -> Any:
        import numpy

        if self.numpy_name != "bfloat16":
            return numpy.dtype(self.numpy_name).newbyteorder("<")
        advice = "open the file with device='cpu' for torch tensors"
        return added_dtype("bfloat16", f"tensor {tensor!r}", advice)


PLAIN_TYPES: Final[dict[str, PlainType]] = {
    "f32": PlainType(4, "float32", "float32"),
    "f16": PlainType(2, "float16", "float16"),
    "bf16": PlainType(2, "bfloat16", "bfloat16"),
    "f64": PlainType(8, "float64", "float64"),
    "i8": PlainType(1, "int8", "int8"),
    "i16": PlainType(2, "int16", "int16"),
    "i32": PlainType(4, "int32", "int32"),
    "i64": PlainType(8, "int64", "int64"),
}


def byte_dims(fmt: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Dims of a tensor's bytes in a file."""
    plain = PLAIN_TYPES.get(fmt)
    return (*shape, plain.num_bytes) if plain else raw_shape(fmt, shape)


def is_addressable(fmt: str, shape: tuple[int, ...]) -> bool:
    """Whether NumPy and torch can have such an array: they count to 2^63 at most, and leave out
    dims of size zero."""
    both = (shape, byte_dims(fmt, shape))
    return all(math.prod(max(size, 1) for size in dims) < 1 << 63 for dims in both)


STRING, ARRAY = 8, 9
# Metadata types by name, as numbered in files, with the letters `struct` has for them.
VALUE_TYPES: Final[dict[str, tuple[int, str]]] = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "string": (STRING, ""),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}
_VALUE_NAMES = {number: name for name, (number, _) in VALUE_TYPES.items()}


def describe_kind(kind: Any) -> Any:
    """The reader's numbers as words: 4 is "uint32", (8,) is "[string]"; a list stays a list."""
    if isinstance(kind, list):
        return [describe_kind(each) for each in kind]
    return f"[{_VALUE_NAMES[kind[0]]}]" if isinstance(kind, tuple) else _VALUE_NAMES[kind]
