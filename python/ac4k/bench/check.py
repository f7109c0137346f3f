"""Is the result right? Asked before anything is timed: a fast wrong kernel is worth nothing.

Errors are given as a share of what is allowed (see ac4k.reference): up to 1 is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._signature import dtype_of, is_present
from .arrays import DTYPES, Arrays, DType
from .case import ROWS, Case
from .inputs import Arguments, bound_types
from .sample import sample

_LARGE_BYTES = 4 << 20  # of inputs: NumPy takes seconds to multiply many more weights
_PRODUCT_EPS = 2.0**-12


class WrongResultError(Exception):
    """An op is further from its reference than its tolerance."""


@dataclass(frozen=True)
class Check:
    error: float  # the largest, as a share of the allowed one; for integers 0 or infinity
    reference: str  # what it was compared with
    compared: str = "everything"  # or which part

    @property
    def ok(self) -> bool:
        return self.error <= 1


def check(
    op: Mapping[str, Any], case: Case | None, arguments: Arguments, arrays: Arrays, dtype: DType
) -> Check:
    """Runs the op once into poisoned outputs and compares with a float64 reference.

    PyTorch in float64 on the same device when the case has it (fast at any size, and not written
    here); else the NumPy reference of the package, of large calls at some rows: the first, the last
    and random ones, the others having to be written and to be the same in a second call.
    """
    import ac4k

    for out in arguments.outs:
        poison(out)
    # References take the arguments as they were before the call.
    before = arguments.clone(arrays) if arguments.mutable else arguments
    arguments.call(getattr(ac4k, op["name"]))
    results = [*arguments.outs, *arguments.mutable]
    kinds = _result_dtypes(op, arguments, dtype)
    tolerance = float(op["tolerance"])
    if arrays.framework == "torch":
        if case is not None and case.torch_fn is not None and case.torch_is_reference:
            error = _torch_error(case, before, results, kinds, tolerance)
            if error is not None:
                return Check(error, "PyTorch float64")
        if arrays.device == "cuda" and before.bytes_read > _LARGE_BYTES:
            product = case is not None and case.flops is not None
            error = _cpu_error(op, before, results, kinds, tolerance, dtype, product=product)
            return Check(error, "ac4k on the CPU")
    independent = case.independent if case is not None else ROWS
    large = before.bytes_read > _LARGE_BYTES
    part = sample(op, before, results, independent) if large else None
    if part is None:
        error = _numpy_error(op, before, results, kinds, arrays, dtype, tolerance)
        return Check(error, "NumPy float64")
    error = _numpy_error(op, part.arguments, part.results, kinds, arrays, dtype, tolerance)
    if error <= 1 and not _writes_the_same_again(op, arguments, arrays):
        error = math.inf
    compared = f"{part.text} (first, last, random); all written, the same twice"
    return Check(error, "NumPy float64", compared)


def _writes_the_same_again(op: Mapping[str, Any], arguments: Arguments, arrays: Arrays) -> bool:
    """A second call over other poison gives the same bits: nothing was left out."""
    import ac4k

    first = [arrays.copy(out) for out in arguments.outs]
    for out in arguments.outs:
        poison(out, again=True)
    arguments.call(getattr(ac4k, op["name"]))
    pairs = zip(first, arguments.outs, strict=True)
    return all(arrays.same_bits(one, other) for one, other in pairs)


def poison(out: Any, *, again: bool = False) -> None:
    """Fills an output with what no kernel writes, so that elements left out are noticed; `again`:
    with something else."""
    is_torch = hasattr(out, "is_floating_point")
    is_float = out.is_floating_point() if is_torch else out.dtype.kind not in "iub"
    value: float = math.nan if is_float else 0x5A
    if again:
        value = 1.0 if is_float else 0x25
    if is_torch:
        out.fill_(value)
    else:
        out[...] = value


def _result_dtypes(op: Mapping[str, Any], arguments: Arguments, dtype: DType) -> list[DType]:
    """Of the outputs that are there, then of the tensors written into."""
    types = bound_types(op, dtype)
    names = [param["name"] for param in op["params"]]
    values = {**dict(zip(names, arguments.args, strict=False)), **arguments.options}
    tensors = [out for out in op["outputs"] if is_present(op, out, values)]
    tensors += [param for param in op["params"] if param.get("mutable")]
    return [DTYPES[dtype_of(op, tensor, types, values)] for tensor in tensors]


def _torch_error(
    case: Case, arguments: Arguments, results: list[Any], kinds: list[DType], tolerance: float
) -> float | None:
    """None where PyTorch has nothing to compare with: other roundings than those of quantised
    results, or no way to compute it at this size."""
    import torch

    from ..reference import allowed_error

    quantised = any(not kind.is_float or kind.bytes == 1 for kind in kinds)
    if quantised and (len(kinds) > 1 or kinds[0].is_float):
        return None

    def wide(value: Any) -> Any:
        return value.double() if value.is_floating_point() else value

    widened = arguments.replaced(wide)
    assert case.torch_fn is not None
    expected = case.torch_fn(*widened.args, **widened.options)
    if expected is None:
        return None
    expected = expected if isinstance(expected, tuple) else (expected,)
    if case.magnitude is None:
        magnitudes = tuple(each.abs() for each in expected)
    else:
        found = case.magnitude(*widened.args, **widened.options)
        magnitudes = found if isinstance(found, tuple) else (found,) * len(expected)
    worst = 0.0
    for got, want, magnitude, kind in zip(results, expected, magnitudes, kinds, strict=True):
        if not kind.is_float:
            return 0.0 if torch.equal(got, want) else math.inf
        difference = (got.double() - want).abs()
        allowed = allowed_error(kind.name, tolerance, want, magnitude)
        error = float((difference / allowed).max()) if difference.numel() else 0.0
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def _cpu_error(
    op: Mapping[str, Any],
    arguments: Arguments,
    results: list[Any],
    kinds: list[DType],
    tolerance: float,
    dtype: DType,
    *,
    product: bool,
) -> float:
    """Where NumPy would take minutes: the CPU's results, which tests hold against it.

    Bit by bit where the op is exact. Otherwise the two may be off to either side: floats by twice
    what one may be off, codes by the step that this can make. What is quantised is rounded to
    `dtype` before, and the scale of a row is no more exact than its largest number.
    """
    import torch

    import ac4k

    on_cpu = arguments.replaced(lambda tensor: tensor.cpu())
    on_cpu.call(getattr(ac4k, op["name"]))
    quantised = any(kind.bytes == 1 for kind in kinds)
    worst = 0.0
    for got, want, kind in zip(results, [*on_cpu.outs, *on_cpu.mutable], kinds, strict=True):
        same = want.to(got.device)
        if tolerance == 0:
            exact = torch.equal(got.view(torch.uint8), same.view(torch.uint8))
            worst = max(worst, 0.0 if exact else math.inf)
        else:
            rounded = dtype if kind.is_float and kind.bytes > dtype.bytes and quantised else kind
            worst = max(worst, largest_ratio(got, same, rounded, tolerance, product=product))
    return worst


def largest_ratio(got: Any, want: Any, kind: DType, tolerance: float, *, product: bool) -> float:
    """The largest difference of two results, as a share of the allowed one, slice by slice: float64
    takes room.

    Sums of a product may cancel, and the error of each is relative to what was summed: that has
    the size of the results' root mean square. On both sides weights and their scales are rounded
    to the type of the tokens, each with a relative error of 0.21 eps (root mean square), or tokens
    are split in parts, which 2^-12 covers. Together that is 0.42 eps, and of millions of sums the
    largest error is six times as much: 2.5 eps.
    """
    import torch

    from ..reference import allowed_error
    from ..reference.oracle import EPS

    worst = 0.0
    floor = 0.0
    if product and kind.name in EPS:
        rms = torch.linalg.vector_norm(want, dtype=torch.float64) / max(want.numel(), 1) ** 0.5
        floor = 3 * max(EPS[kind.name], _PRODUCT_EPS) * float(rms)
    for a, b in zip(got.reshape(-1).split(1 << 26), want.reshape(-1).split(1 << 26), strict=True):
        if kind.bytes == 1:
            ratio = (_ordered(a, kind) - _ordered(b, kind)).abs().double()
        elif not kind.is_float:
            ratio = (a.double() - b.double()).abs()
        else:
            allowed = 2 * allowed_error(kind.name, tolerance, b.double(), b.double().abs()) + floor
            ratio = (a.double() - b.double()).abs() / allowed
        error = float(ratio.max()) if ratio.numel() else 0.0
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst


def _ordered(codes: Any, kind: DType) -> Any:
    """Integers in the order of the numbers; both zeros of a float are one."""
    import torch

    bits = codes.view(torch.int8).int()
    return torch.where(bits < 0, -(bits & 0x7F), bits) if kind.is_float else bits


def _numpy_error(
    op: Mapping[str, Any],
    arguments: Arguments,
    results: list[Any],
    kinds: list[DType],
    arrays: Arrays,
    dtype: DType,
    tolerance: float,
) -> float:
    from ..reference import error_ratio, references_of

    widened = arguments.replaced(arrays.to_float64)
    names = [param["name"] for param in op["params"]]
    values = {**dict(zip(names, arguments.args, strict=False)), **arguments.options}
    types = bound_types(op, dtype)
    dtypes = {
        param["name"]: dtype_of(op, param, types, values)
        for param in op["params"]
        if param["kind"] == "tensor"
    }
    expected = references_of(op["name"], *widened.args, dtypes=dtypes, **widened.options)
    pairs = zip(results, expected, kinds, strict=True)
    return max(
        error_ratio(kind.name, tolerance, arrays.to_float64(result), reference)
        for result, reference, kind in pairs
    )
