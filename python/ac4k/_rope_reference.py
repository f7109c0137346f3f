"""RoPE in plain NumPy and float64: what ac4k.reference makes its RoPE from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Angles = tuple[Float64, Float64]  # cosines and sines, [tokens..., pairs]


def table_angles(positions: NDArray[Any], cos_sin: Float64) -> Angles:
    """Of each token; NaN where the table has no such position."""
    half = cos_sin.shape[1] // 2
    known = (positions >= 0) & (positions < cos_sin.shape[0])
    padded = np.concatenate([cos_sin, np.full((1, 2 * half), np.nan)])
    rows = padded[np.where(known, positions, -1)]
    return rows[..., :half], rows[..., half:]


def section_angles(
    positions: NDArray[Any], cos_sin: Float64, sections: tuple[int, int, int], interleaved: bool
) -> Angles:
    """Pairs take turns, or lie in three sections; positions [3, tokens...]."""
    cos, sin = table_angles(positions, cos_sin)
    pairs = np.arange(cos.shape[-1])
    if interleaved:
        axes = pairs % 3
        axes = np.where(pairs < 3 * np.array([len(pairs), *sections[1:]])[axes], axes, 0)
    else:
        axes = np.repeat(np.arange(3), sections)
    return cos[axes, ..., pairs].T, sin[axes, ..., pairs].T


def grid_angles(
    grid_sizes: NDArray[Any], table: Float64, tokens: int, height_pairs: int, width_pairs: int
) -> tuple[Angles, NDArray[np.bool_]]:
    """Of each token of each sample, [samples, tokens, pairs], and which tokens are in the grid."""
    num_positions, pairs, _ = table.shape
    height = pairs // 3 if height_pairs == -1 else height_pairs
    width = pairs // 3 if width_pairs == -1 else width_pairs
    axes = np.repeat(np.arange(3), (pairs - height - width, height, width))
    padded = np.concatenate([table, np.full((1, pairs, 2), np.nan)])
    result = np.zeros((len(grid_sizes), tokens, pairs, 2))
    inside = np.zeros((len(grid_sizes), tokens), bool)
    for i, sizes in enumerate(grid_sizes):
        frames, rows, columns = (min(max(int(size), 0), tokens) for size in sizes)
        count = min(frames * rows * columns, tokens)
        token = np.arange(count)
        area = max(rows * columns, 1)
        places = np.stack([token // area, token % area // max(columns, 1), token % max(columns, 1)])
        places = np.where(places < num_positions, places, num_positions)
        result[i, :count] = padded[places[axes], np.arange(pairs)[:, None]].swapaxes(0, 1)
        inside[i, :count] = True
    return (result[..., 0], result[..., 1]), inside


def rotate(
    x: Float64, angles: Angles, style: str, inside: NDArray[np.bool_] | None = None
) -> tuple[Float64, Float64]:
    """x [tokens..., heads, dim], as it is where not `inside`; the magnitude of what is added."""
    cos, sin = (part[..., None, :] for part in angles)
    pairs = cos.shape[-1]
    if style == "neox":
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    else:
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    a, b = x[..., first], x[..., second]
    result, magnitude = x.copy(), np.abs(x)
    result[..., first] = a * cos - b * sin
    result[..., second] = b * cos + a * sin
    magnitude[..., first] = np.abs(a * cos) + np.abs(b * sin)
    magnitude[..., second] = np.abs(b * cos) + np.abs(a * sin)
    if inside is not None:
        result[~inside], magnitude[~inside] = x[~inside], np.abs(x[~inside])
    return result, magnitude
