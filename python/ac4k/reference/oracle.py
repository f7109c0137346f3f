"""What a reference is, and how far from it a result may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
# Of a call's tensors, by the names of its parameters, as the op table writes them ("bf16"): what
# references that round on the way ask for, since they get everything as float64.
Dtypes = Mapping[str, str] | None


class Reference(NamedTuple):
    """What an op should give, the magnitude its arithmetic's error is proportional to, and an error
    allowed on top (a step of a quantised code). Integer and FP8 results are exact without one."""

    result: NDArray[Any]
    magnitude: NDArray[Any] | float = 0.0
    absolute: NDArray[Any] | float | None = None


# One reference, or one for each output (None where it is not there) and then one for each tensor
# that is written into.
References = Reference | tuple[Reference | None, ...]


EPS = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}


# Below this the spacing of a format no longer shrinks.
SMALLEST = {"f32": 2.0**-149, "f64": 2.0**-1074, "f16": 2.0**-24, "bf16": 2.0**-133}


def round_to(dtype: str, values: NDArray[Any]) -> Float64:
    """Float32 numbers to the nearest of a narrower format, ties to even."""
    single = np.asarray(values).astype(np.float32)
    if dtype == "f16":
        single = single.astype(np.float16)
    elif dtype == "bf16":
        bits = single.view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        single = np.where(np.isnan(single), single, rounded.view(np.float32))
    return single.astype(np.float64)


def dtype_holding(*arrays: Float64) -> str:
    """The narrowest dtype whose numbers these are, for callers that do not say: random float32
    numbers are never all of a 16-bit format."""
    for dtype in ("bf16", "f16"):
        if all(np.array_equal(round_to(dtype, a), a, equal_nan=True) for a in arrays):
            return dtype
    return "f32"


def dtype_of(dtypes: Dtypes, name: str, *arrays: Float64) -> str:
    """The dtype of that parameter, or the narrowest that holds the numbers."""
    return dtype_holding(*arrays) if dtypes is None else dtypes[name]


def rounded_ends(dtype: str, y: Reference, tolerance: float) -> tuple[Float64, ...]:
    """A float64 result rounded to the dtype as it is, and the two numbers that a float32 result
    within the tolerance can round to at most."""
    off = tolerance * EPS["f32"] * np.abs(y.magnitude)
    off = off + (0.0 if y.absolute is None else y.absolute)
    off = np.where(np.isfinite(off), off, 0.0)
    return tuple(round_to(dtype, y.result + shift) for shift in (0.0, -off, off))


def distance(middle: NDArray[Any], *others: NDArray[Any]) -> Float64:
    """How far the farthest is; NaN and infinities are compared by where they stand."""
    wide = middle.astype(np.float64)
    far = np.max([np.abs(other.astype(np.float64) - wide) for other in others], axis=0)
    return np.asarray(np.nan_to_num(far, nan=0.0, posinf=0.0))


def allowed_error(dtype: str, tolerance: float, expected: Any, magnitude: Any) -> Any:
    """The largest error each element may have; `expected` and `magnitude` are NumPy or torch."""
    arithmetic = EPS["f64" if dtype == "f64" else "f32"]
    return EPS[dtype] * abs(expected) + tolerance * arithmetic * magnitude + SMALLEST[dtype]


def error_ratio(dtype: str, tolerance: float, result: NDArray[Any], reference: Reference) -> float:
    """The largest error as a share of the allowed one: at most 1 is right. NaN and infinities must
    stand where the reference has them (a float64 value past the format's range counts as one)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        expected = reference.result
        got = result.astype(expected.dtype)
        finite = np.isfinite(expected) & np.isfinite(got)
        special = ~finite
        if special.any() and not _specials_agree(dtype, expected[special], got[special]):
            return math.inf
        error = np.abs(got[finite].astype(np.float64) - expected[finite].astype(np.float64))
        if reference.absolute is None and dtype not in EPS:
            return 0.0 if not error.any() else math.inf
        absolute = np.broadcast_to(
            0.0 if reference.absolute is None else reference.absolute, expected.shape
        )[finite]
        if dtype not in EPS:
            return float(np.max((error / absolute)[error > 0], initial=0.0))
        magnitude = np.broadcast_to(reference.magnitude, expected.shape)[finite]
        allowed = allowed_error(dtype, tolerance, expected[finite], magnitude) + absolute
    # An infinite magnitude allows anything; an infinite input that leaves no trace is no error.
    return float(np.max(error / allowed)) if error.size else 0.0


_LARGEST = {
    "f32": 3.4028235e38,
    "f64": 1.7976931348623157e308,
    "f16": 65504.0,
    "bf16": 3.3895314e38,
    "f8e4m3": 448.0,
    "f8e5m2": 57344.0,
}


def _specials_agree(dtype: str, expected: NDArray[Any], got: NDArray[Any]) -> bool:
    """Infinities and NaN agree, or a finite number has rounded to infinity at the edge."""
    edge = _LARGEST.get(dtype, math.inf) * 0.99
    same = (np.isnan(expected) & np.isnan(got)) | (expected == got)
    overflow = np.isinf(got) & (np.sign(got) == np.sign(expected)) & (np.abs(expected) > edge)
    rounded_down = np.isinf(expected) & (np.abs(got) > edge) & (np.sign(got) == np.sign(expected))
    return bool(np.all(same | overflow | rounded_down))
