"""Is the result right? Asked before anything is timed: a fast wrong kernel is worth nothing.

Errors are given as a share of what is allowed (see ac4k/reference.py): up to 1 is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .arrays import DTYPES, Arrays, DType
from .case import Case
from .inputs import Arguments


class WrongResultError(Exception):
    """An op is further from its reference than its tolerance."""


@dataclass(frozen=True)
class Check:
    error: float  # the largest, as a share of the allowed one; for integers 0 or infinity
    reference: str  # what it was compared with

    @property
    def ok(self) -> bool:
        return self.error <= 1


def check(
    op: Mapping[str, Any], case: Case | None, arguments: Arguments, arrays: Arrays, dtype: DType
) -> Check:
    """Runs the op once into poisoned outputs and compares with a float64 reference.

    PyTorch in float64 on the same device when the case has it (fast at any size, and not written
    here); else the NumPy reference of the package.
    """
    import ac4k

    for out in arguments.outs:
        poison(out)
    getattr(ac4k, op["name"])(*arguments.args, out=arguments.out, **arguments.options)
    kind = _output_dtype(op, dtype)
    tolerance = float(op["tolerance"])
    if arrays.framework == "torch" and case is not None and case.torch_fn is not None:
        error = _torch_error(case, arguments, kind, tolerance)
        if error is not None:
            return Check(error, "PyTorch float64")
    return Check(_numpy_error(op["name"], arguments, arrays, kind, tolerance), "NumPy float64")


def poison(out: Any) -> None:
    """Fills an output with what no kernel writes, so that elements left out are noticed."""
    is_torch = hasattr(out, "is_floating_point")
    is_float = out.is_floating_point() if is_torch else out.dtype.kind not in "iub"
    value = math.nan if is_float else 0x5A
    if is_torch:
        out.fill_(value)
    else:
        out[...] = value


def _output_dtype(op: Mapping[str, Any], dtype: DType) -> DType:
    text = op["outputs"][0]["dtype"]
    if text in op["types"]:
        first = next(iter(op["types"]))
        return dtype if text == first else DTYPES[op["types"][text][0]]
    return DTYPES[text]


def _torch_error(case: Case, arguments: Arguments, kind: DType, tolerance: float) -> float | None:
    import torch

    from ..reference import allowed_error

    def wide(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_float else value

    assert case.torch_fn is not None
    args = [wide(value) for value in arguments.args]
    expected = case.torch_fn(*args, **arguments.options)
    if expected is None:  # PyTorch has nothing that computes this at this size
        return None
    if not kind.is_float:
        return 0.0 if torch.equal(arguments.outs[0], expected) else math.inf
    difference = (arguments.outs[0].double() - expected).abs()
    magnitude = expected.abs() if case.magnitude is None else case.magnitude(*args)
    allowed = allowed_error(kind.name, tolerance, expected, magnitude)
    error = float((difference / allowed).max()) if difference.numel() else 0.0
    return math.inf if math.isnan(error) else error


def _numpy_error(
    name: str, arguments: Arguments, arrays: Arrays, kind: DType, tolerance: float
) -> float:
    from ..reference import REFERENCES, error_ratio

    args = [
        arrays.to_float64(value) if i in arguments.tensors else value
        for i, value in enumerate(arguments.args)
    ]
    expected = REFERENCES[name](*args, **arguments.options)
    return error_ratio(kind.name, tolerance, arrays.to_float64(arguments.outs[0]), expected)
