"""Is the result right? Asked before anything is timed: a fast wrong kernel is worth nothing.

Errors are in units of eps of the output's type times the magnitude that rounding is relative to
(|result|, or for a sum the sum of absolute values), which is how the op table states tolerances.
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
    error: float  # in the unit above; for integers 0 or infinity
    tolerance: float
    reference: str  # what it was compared with

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance


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
        error = _torch_error(case, arguments, kind)
        if error is not None:
            return Check(error, tolerance, "PyTorch float64")
    return Check(_numpy_error(op["name"], arguments, arrays, kind), tolerance, "NumPy float64")


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


def _torch_error(case: Case, arguments: Arguments, kind: DType) -> float | None:
    import torch

    def wide(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.double() if is_float else value

    assert case.torch_fn is not None
    args = [wide(value) for value in arguments.args]
    expected = case.torch_fn(*args, **arguments.options)
    if expected is None:  # PyTorch has nothing that computes this at this size
        return None
    if kind.eps == 0:
        return 0.0 if torch.equal(arguments.outs[0], expected) else math.inf
    difference = (arguments.outs[0].double() - expected).abs()
    size = expected.abs() if case.magnitude is None else case.magnitude(*args)
    unit = size.mul(kind.eps).add_(kind.smallest)
    error = float((difference / unit).max()) if difference.numel() else 0.0
    return math.inf if math.isnan(error) else error


def _numpy_error(name: str, arguments: Arguments, arrays: Arrays, kind: DType) -> float:
    from ..reference import REFERENCES, error_ratio

    args = [
        arrays.to_float64(value) if i in arguments.tensors else value
        for i, value in enumerate(arguments.args)
    ]
    expected = REFERENCES[name](*args, **arguments.options)
    return error_ratio(kind.name, 1.0, arrays.to_float64(arguments.outs[0]), expected)
