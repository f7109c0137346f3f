"""Activations whose results are quantised."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import fused_add_gelu, gelu_and_mul, relu2, silu_and_mul
from .oracle import Dtypes, Float64, Reference, References, dtype_of
from .quantised import quantised

# Of exact GELU on a GPU, relative: parts of half an ulp, which may move a result next to a tie.
_GELU_ERRORS = {"f16": 3.5e-5, "bf16": 1.4e-3}


def _with_error_of_gelu(dtype: str, y: Reference, approximate: str) -> Reference:
    if approximate != "none" or dtype not in _GELU_ERRORS:
        return y
    error = _GELU_ERRORS[dtype] * np.abs(y.result)
    return y._replace(absolute=error + (0.0 if y.absolute is None else y.absolute))


def silu_and_mul_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    dtypes: Dtypes = None,
) -> References:
    return quantised(dtype_of(dtypes, "x", x), silu_and_mul(x), granularity, dtype, scale)


def gelu_and_mul_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    approximate: str = "none",
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    dtypes: Dtypes = None,
) -> References:
    of = dtype_of(dtypes, "x", x)
    y = _with_error_of_gelu(of, gelu_and_mul(x, approximate=approximate), approximate)
    return quantised(of, y, granularity, dtype, scale)


def relu2_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    dtypes: Dtypes = None,
) -> References:
    return quantised(dtype_of(dtypes, "x", x), relu2(x), granularity, dtype, scale)


def fused_add_gelu_quant(
    x: Float64,
    bias: Float64,
    scale: Float64 | None = None,
    *,
    approximate: str = "none",
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    dtypes: Dtypes = None,
) -> References:
    of = dtype_of(dtypes, "x", x, bias)
    y = _with_error_of_gelu(of, fused_add_gelu(x, bias, approximate=approximate), approximate)
    return quantised(of, y, granularity, dtype, scale)
