"""Activations whose results are quantised."""

from __future__ import annotations

from typing import Any

from .elementwise import fused_add_gelu, gelu_and_mul, relu2, silu_and_mul
from .oracle import Dtypes, Float64, References, dtype_of
from .quantised import quantised


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
    y = gelu_and_mul(x, approximate=approximate)
    return quantised(dtype_of(dtypes, "x", x), y, granularity, dtype, scale)


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
    y = fused_add_gelu(x, bias, approximate=approximate)
    return quantised(dtype_of(dtypes, "x", x, bias), y, granularity, dtype, scale)
