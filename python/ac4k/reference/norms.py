"""Norms, with or without a quantised result."""

from __future__ import annotations

from typing import Any

import numpy as np

from .oracle import Dtypes, Float64, Reference, dtype_of, round_to
from .quantised import quantised


def _in_range(values: Float64) -> Float64:
    """Squares and sums leave float32's range where float64 does not notice; no other rounding."""
    single = values.astype(np.float32)
    denormal = np.abs(values) < 2.0**-126
    return np.where(np.isinf(single) | denormal, single, values)


def rms_norm(
    x: Float64, weight: Float64 | None = None, eps: float = 1e-6, *, cast_first: bool = False
) -> Reference:
    N = x.shape[-1]
    w = np.ones(1) if weight is None else weight
    mean = _in_range(np.sum(_in_range(x * x), axis=-1, keepdims=True)) / max(N, 1)
    result = x / np.sqrt(mean + eps) * w
    # A rounding to the dtype before the weight comes in fits into what the last rounding leaves of
    # eps, but for float16's denormals.
    absolute = 2.0**-25 * np.abs(w) if cast_first else None
    # At least 16 partial sums, so N/16 additions of positive numbers, each off by half of eps; the
    # root halves what comes of it: N/64 eps.
    return Reference(result, np.abs(result) * (1 + N / 256), absolute)


def fused_add_rms_norm(
    x: Float64,
    residual: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    cast_first: bool = False,
    dtypes: Dtypes = None,
) -> tuple[Reference, Reference]:
    total = round_to(
        dtype_of(dtypes, "x", x, residual), x.astype(np.float32) + residual.astype(np.float32)
    )
    return rms_norm(total, weight, eps, cast_first=cast_first), Reference(total)


def layer_norm(
    x: Float64, weight: Float64 | None = None, bias: Float64 | None = None, eps: float = 1e-5
) -> Reference:
    N = max(x.shape[-1], 1)
    w = np.ones(1) if weight is None else np.abs(weight)
    mean = _in_range(np.sum(x, axis=-1, keepdims=True)) / N
    centred = _in_range(x - mean)
    variance = _in_range(np.sum(_in_range(centred * centred), axis=-1, keepdims=True)) / N
    result = centred / np.sqrt(variance + eps) * (1 if weight is None else weight)
    if bias is not None:
        result = result + bias
    # Sums of N/16 additions as in rms_norm and 8 of partial sums. The first one gives a pivot that
    # is off from the mean, the second one takes that off again and is itself off by half as many
    # eps of the mean |x - pivot|.
    additions = N / 16 + 8
    off = additions / 2 * 2.0**-23 * np.sum(np.abs(x), axis=-1, keepdims=True) / N
    spread = np.sum(np.abs(centred), axis=-1, keepdims=True) / N + off
    size = np.abs(centred) * (1 + additions / 16) + off + spread * (additions / 8)
    return Reference(
        result, size / np.sqrt(variance + eps) * w + (0 if bias is None else np.abs(bias))
    )


def qk_norm(
    q: Float64,
    k: Float64,
    q_weight: Float64 | None = None,
    k_weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    over: str = "head_dim",
    cast_first: bool = False,
) -> tuple[Reference, Reference]:
    def norm(x: Float64, weight: Float64 | None) -> Reference:
        rows = x.reshape(*x.shape[:-2], -1) if over == "heads" else x
        found = rms_norm(rows, weight, eps, cast_first=cast_first)
        magnitude = np.reshape(found.magnitude, x.shape)
        absolute = found.absolute
        if absolute is not None:
            absolute = np.broadcast_to(absolute, rows.shape).reshape(x.shape)
        return Reference(found.result.reshape(x.shape), magnitude, absolute)

    return norm(q, q_weight), norm(k, k_weight)


def rms_norm_quant(
    x: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    dtypes: Dtypes = None,
) -> tuple[Reference, ...]:
    y = rms_norm(x, weight, eps, cast_first=cast_first)
    kind = dtype_of(dtypes, "x", x)
    return quantised(kind, y, granularity, dtype, scale, cast_first=cast_first)


def fused_add_rms_norm_quant(
    x: Float64,
    residual: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    dtypes: Dtypes = None,
) -> tuple[Reference, ...]:
    y, total = fused_add_rms_norm(x, residual, weight, eps, cast_first=cast_first, dtypes=dtypes)
    kind = dtype_of(dtypes, "x", x, residual)
    return (*quantised(kind, y, granularity, dtype, scale, cast_first=cast_first), total)


def layer_norm_quant(
    x: Float64,
    weight: Float64 | None = None,
    bias: Float64 | None = None,
    eps: float = 1e-5,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    dtypes: Dtypes = None,
) -> tuple[Reference, ...]:
    y = layer_norm(x, weight, bias, eps)
    return quantised(dtype_of(dtypes, "x", x), y, granularity, dtype, scale)
