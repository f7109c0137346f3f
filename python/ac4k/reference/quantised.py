"""Quantised results of ops that compute in float32, round to their dtype and then quantise."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _quantize_rule
from .oracle import EPS, Float64, Reference, distance, rounded_ends

# Of the float32 arithmetic, in eps of its magnitude: the largest in the op table.
_TOLERANCE = 8.0


def quantised(
    dtype: str,
    y: Reference,
    granularity: str,
    code_dtype: Any,
    scale: Float64 | None,
    *,
    cast_first: bool = False,
) -> tuple[Reference, Reference]:
    """Codes and scales of y, which is rounded to `dtype` before.

    The rule is exact, so all that can differ is where a float32 result next to a tie rounds to.
    Every step (rounding, the largest of a region, dividing, encoding) is monotone: results lie
    between those of the two ends of what y may be, and where these agree, as nearly everywhere,
    the code must be the one. Elsewhere they are a step of the format apart (several of INT8 where
    a step of bfloat16 is).
    """
    if cast_first:  # the product with the weight has a rounding of its own before it
        between = 0.5 * EPS[dtype] * np.abs(y.result)
        y = y._replace(absolute=between + (0.0 if y.absolute is None else y.absolute))
    middle, *ends = rounded_ends(dtype, y, _TOLERANCE)

    def codes(numbers: Float64, scales: NDArray[Any] | None) -> tuple[NDArray[Any], ...]:
        if "int8" in getattr(code_dtype, "__name__", str(code_dtype)):
            return _quantize_rule.quantize_int8(numbers, granularity, True, scales)
        return _quantize_rule.quantize_fp8(numbers, granularity, code_dtype, scales)

    expected, scales = codes(middle, scale)
    if scale is not None:
        others = [codes(end, scale)[0] for end in ends]
        return Reference(expected, absolute=distance(expected, *others)), Reference(scales)
    magnitudes = (
        np.minimum(*np.abs(ends)) * (np.sign(ends[0]) == np.sign(ends[1])),
        np.maximum(*np.abs(ends)),
    )
    found = [codes(magnitude, None)[1] for magnitude in magnitudes]
    found = found[:1] if np.array_equal(found[0], found[1]) else found
    others = [codes(end, each)[0] for end, each in product(ends, found)]
    return (
        Reference(expected, absolute=distance(expected, *others)),
        Reference(scales, absolute=distance(scales, *found)),
    )
