"""W4A16: packed weights and products with them, written from docs/packed_weights.md."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._gguf_linear_reference import fragment_order
from .elementwise import fused_add_gelu, silu_and_mul
from .oracle import Dtypes, Float64, Reference, dtype_of

Bytes = NDArray[Any]  # of uint8
_ROWS = 64  # of a tile


def _sizes(layout: str) -> tuple[int, int, bool]:
    """Columns that share a scale, columns of a block, whether there are zero points."""
    group = int(layout.removeprefix("g").removesuffix("z"))
    return group, max(group, 64), layout.endswith("z")


def _bits(dtype: str, values: Float64) -> NDArray[Any]:
    """The 16 bits of numbers."""
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _numbers(dtype: str, bits: NDArray[Any]) -> Float64:
    if dtype == "f16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def w4a16_pack_weight(
    q: Bytes,
    scales: Float64,
    zeros: Float64 | None = None,
    *,
    layout: str = "g128",
    dtypes: Dtypes = None,
) -> Reference:
    group, columns, _ = _sizes(layout)
    N, K = q.shape
    tiles, depth = -(-N // _ROWS), -(-K // columns)
    codes = np.zeros((tiles * _ROWS, depth * columns), np.uint8)
    codes[:N, :K] = q & 15
    codes = codes.reshape(tiles, _ROWS, depth, columns // 64, 64).transpose(0, 2, 3, 1, 4)
    row, column, byte, bit = fragment_order(4)
    plane = np.zeros((tiles, depth, columns // 64, 2048), np.uint8)
    for shift in (0, 4):
        at = bit == shift
        plane[..., byte[at]] |= codes[..., row[at], column[at]] << np.uint8(shift)
    # The scale of each 32, 64 or 128 columns; none behind K.
    firsts = np.arange(0, depth * columns, group)
    which = np.minimum(firsts, max(K - 1, 0)) // (K // max(scales.shape[1], 1) or 1)
    kind = dtype_of(dtypes, "scales", scales)
    parts = [_bits(kind, part) for part in (scales, zeros) if part is not None]
    entries = np.zeros((tiles * _ROWS, len(firsts), len(parts)), np.uint16)
    for i, part in enumerate(parts):
        if K:
            entries[:N, :, i] = np.where(firsts < K, part[:, which], 0)
    per = columns // group
    # Rows r and r + 8 next to each other: [tile, block, warp, r, half, entry of a row, number]
    quads = entries.reshape(tiles, 4, 2, 8, depth, per, len(parts)).transpose(0, 4, 1, 3, 2, 5, 6)
    record = np.ascontiguousarray(quads).reshape(tiles, depth, 64 * per * len(parts))
    planes = plane.reshape(tiles, depth, 32 * columns)
    return Reference(np.concatenate([planes, record.view(np.uint8)], axis=-1))


def _unpacked(
    packed: Bytes, N: int, K: int, groups: int, layout: str, dtype: str
) -> tuple[Bytes, Float64, Float64]:
    group, columns, has_zeros = _sizes(layout)
    tiles, depth = -(-N // _ROWS), -(-K // columns)
    plane = packed[..., : 32 * columns].reshape(tiles, depth, columns // 64, 2048)
    row, column, byte, bit = fragment_order(4)
    codes = np.zeros((*plane.shape[:3], _ROWS, 64), np.uint8)
    codes[..., row, column] = (plane[..., byte] >> bit.astype(np.uint8)) & np.uint8(15)
    q = codes.transpose(0, 3, 1, 2, 4).reshape(tiles * _ROWS, depth * columns)[:N, :K]
    per, count = columns // group, 2 if has_zeros else 1
    record = np.ascontiguousarray(packed[..., 32 * columns :]).view(np.uint16)
    quads = record.reshape(tiles, depth, 4, 8, 2, per, count).transpose(0, 2, 4, 3, 1, 5, 6)
    entries = quads.reshape(tiles * _ROWS, depth * per, count)[:N]
    at = np.arange(groups) * (K // max(groups, 1)) // group
    scales = _numbers(dtype, np.ascontiguousarray(entries[:, at, 0]))
    zeros = np.full_like(scales, 8.0)
    if has_zeros:
        zeros = _numbers(dtype, np.ascontiguousarray(entries[:, at, 1]))
    return q.copy(), scales, zeros


def w4a16_unpack_weight(
    packed: Bytes, N: int, K: int, G: int, *, layout: str = "g128", dtype: Any = "float16"
) -> tuple[Reference, ...]:
    kind = "bf16" if "bf" in str(dtype) else "f16"
    return tuple(map(Reference, _unpacked(packed, int(N), int(K), int(G), layout, kind)))


def w4a16_gemm(
    x: Float64,
    packed: Bytes,
    bias: Float64 | None = None,
    alpha: float = 1.0,
    residual: Float64 | None = None,
    *,
    N: int,
    layout: str = "g128",
    activation: str = "none",
    config: int = 0,
    dtypes: Dtypes = None,
) -> Reference:
    N, K = int(N), int(x.shape[-1])
    group = _sizes(layout)[0]
    dtype = dtype_of(dtypes, "x", x)
    q, scales, zeros = _unpacked(packed, N, K + -K % group, -(-K // group), layout, dtype)
    spread = np.repeat(np.stack([scales, zeros]), group, axis=-1)[..., :K]
    q = q[:, :K].astype(np.float64)
    w = spread[0] * (q - spread[1])
    # Codes and zero points are summed apart from each other: both count.
    apart = np.abs(spread[0]) * (q + np.abs(spread[1]))
    magnitude = np.abs(x) @ apart.T
    # Few tokens: 16 bits of fixed point for 256 columns. Many: 2^-14 of a number that is split into
    # two bf16, or 2^-9 of a weight that is rounded to 16 bits.
    padded = np.zeros((*x.shape[:-1], -(-K // 256), 256))
    padded.reshape(*x.shape[:-1], padded.shape[-2] * 256)[..., :K] = np.abs(x)
    largest = np.repeat(padded.max(axis=-1, initial=0.0), 256, axis=-1)[..., :K]
    weights = 2.0**-8 if dtype == "bf16" else 2.0**-11
    absolute = (largest * 2.0**-15 + 2.0**-115) @ apart.T + np.abs(x) @ np.abs(w.T) * weights
    y = alpha * (x @ w.T) + (0.0 if bias is None else bias)
    magnitude = abs(alpha) * magnitude * max(1.0, K / 64) + (0.0 if bias is None else np.abs(bias))
    absolute = abs(alpha) * absolute
    # Slopes of the activations are at most 1.13.
    if activation == "silu":
        tail = silu_and_mul(np.concatenate([y, np.ones_like(y)], axis=-1))
        y, magnitude, absolute = tail.result, 1.13 * magnitude + tail.magnitude, 1.13 * absolute
    elif activation != "none":
        kind = "tanh" if activation == "gelu_tanh" else "none"
        tail = fused_add_gelu(y, np.zeros_like(y), approximate=kind)
        y, magnitude, absolute = tail.result, 1.13 * magnitude + tail.magnitude, 1.13 * absolute
    if residual is not None:
        y, magnitude = y + residual, magnitude + np.abs(residual)
    return Reference(y, magnitude, absolute)
