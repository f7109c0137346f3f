"""Rotary embeddings, with or without a norm first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._rope_reference import Angles, grid_angles, rotate, section_angles, table_angles
from .norms import rms_norm
from .oracle import EPS, SMALLEST, Dtypes, Float64, Reference, References, dtype_of


def rotated(
    q: Float64, k: Float64 | None, angles: Angles, style: str, inside: Any = None
) -> tuple[Reference | None, ...]:
    # Two products and a sum, all relative to |a cos| + |b sin|.
    return tuple(
        None if x is None else Reference(*rotate(x, angles, style, inside)) for x in (q, k)
    )


def rope(
    q: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k: Float64 | None = None,
    *,
    style: str = "neox",
) -> References:
    return rotated(q, k, table_angles(positions, cos_sin), style)


def mrope(
    q: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k: Float64 | None = None,
    *,
    section_t: int,
    section_h: int,
    section_w: int,
    interleaved_sections: bool = False,
    style: str = "neox",
) -> References:
    sections = (section_t, section_h, section_w)
    cos, sin = section_angles(positions, cos_sin, sections, interleaved_sections)
    shape = (*q.shape[:-2], cos.shape[-1])
    return rotated(q, k, (cos.reshape(shape), sin.reshape(shape)), style)


def rope_3d(
    q: Float64,
    grid_sizes: NDArray[Any],
    table: Float64,
    k: Float64 | None = None,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: str = "exact",
) -> References:
    angles, inside = grid_angles(grid_sizes, table, q.shape[1], height_pairs, width_pairs)
    return rotated(q, k, angles, "interleaved", inside)


def _rotated_norm(
    x: Float64,
    weight: Float64,
    eps: float,
    cast_first: bool,
    all_heads: bool,
    angles: Angles,
    style: str,
    dtype: str,
    inside: Any = None,
) -> Reference:
    rows = x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1]) if all_heads else x
    norm = rms_norm(rows, weight, eps, cast_first=cast_first)
    y = norm.result.reshape(x.shape)
    result, magnitude = rotate(y, angles, style, inside)
    # Rounded once or twice in between.
    relative, absolute = EPS[dtype], SMALLEST[dtype]
    roundings = 2 if cast_first else 1
    between = 0.5 * relative * magnitude * roundings
    wide = 1 + np.max(np.abs(weight), initial=0, where=np.isfinite(weight))
    turns = max((np.max(np.abs(a), initial=0, where=np.isfinite(a)) for a in angles), default=0)
    between = between + absolute * wide * (1 + 2 * turns)
    return Reference(result, magnitude * (1 + rows.shape[-1] / 256), between)


def qk_norm_rope(
    q: Float64,
    k: Float64,
    q_weight: Float64,
    k_weight: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    eps: float = 1e-6,
    *,
    style: str = "neox",
    cast_first: bool = False,
    dtypes: Dtypes = None,
) -> References:
    angles = table_angles(positions, cos_sin)
    dtype = dtype_of(dtypes, "q", q, k, q_weight, k_weight)
    return tuple(
        _rotated_norm(x, weight, eps, cast_first, False, angles, style, dtype)
        for x, weight in ((q, q_weight), (k, k_weight))
    )


def qk_norm_rope_3d(
    q: Float64,
    k: Float64,
    q_weight: Float64,
    k_weight: Float64,
    grid_sizes: NDArray[Any],
    table: Float64,
    eps: float = 1e-6,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: str = "exact",
    cast_first: bool = False,
    dtypes: Dtypes = None,
) -> References:
    angles, inside = grid_angles(grid_sizes, table, q.shape[1], height_pairs, width_pairs)
    dtype = dtype_of(dtypes, "q", q, k, q_weight, k_weight)
    return tuple(
        _rotated_norm(x, weight, eps, cast_first, True, angles, "interleaved", dtype, inside)
        for x, weight in ((q, q_weight), (k, k_weight))
    )
