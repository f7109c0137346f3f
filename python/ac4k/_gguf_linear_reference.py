"""Packed weights and products with them, in plain NumPy: what the ops must give.

Written from docs/packed_weights.md and the element order of GGUF's blocks, bit by bit and for all
rows at once; slow and easy to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _gguf_reference
from ._formats import FORMATS

Bytes = NDArray[Any]  # of uint8
Float64 = NDArray[np.float64]

_ROWS = 64  # of a tile

# ---- codes of GGUF blocks [..., bytes] to [..., values] and back ----


def _fields(part: Bytes, width: int) -> Bytes:
    """All fields of `width` bits, lowest first: [..., bytes * 8 / width] by field, then byte."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    return (part[..., None, :] >> shifts[:, None]) & np.uint8((1 << width) - 1)


def _split(part: Bytes, width: int, run: int) -> Bytes:
    """Codes of `run` bytes at a time: a run's first field, then its second, and so on."""
    size = part.shape[-1]
    runs = part.reshape(*part.shape[:-1], size // run, run)
    return _fields(runs, width).reshape(*part.shape[:-1], size * 8 // width)


def _join(codes: Bytes, width: int, run: int) -> Bytes:
    per_byte, size = 8 // width, codes.shape[-1] * width // 8
    fields = codes.reshape(*codes.shape[:-1], size // run, per_byte, run).astype(np.uint32)
    shifts = np.arange(0, 8, width, dtype=np.uint32)[:, None]
    joined = np.bitwise_or.reduce(fields << shifts, axis=-2)
    result: Bytes = joined.astype(np.uint8)
    return result.reshape(*codes.shape[:-1], size)


class _Part:
    """Bytes of a block that hold `width` bits of each code."""

    def __init__(self, start: int, size: int, width: int, run: int) -> None:
        self.where, self.width, self.run = slice(start, start + size), width, run


# The low bits of codes, then the high ones.
_PARTS = {
    "q4_0": (_Part(2, 16, 4, 16),),
    "q4_1": (_Part(4, 16, 4, 16),),
    "q5_0": (_Part(6, 16, 4, 16), _Part(2, 4, 1, 1)),
    "q5_1": (_Part(8, 16, 4, 16), _Part(4, 4, 1, 1)),
    "q8_0": (_Part(2, 32, 8, 32),),
    "q2_k": (_Part(16, 64, 2, 32),),
    "q3_k": (_Part(32, 64, 2, 32), _Part(0, 32, 1, 32)),
    "q4_k": (_Part(16, 128, 4, 32),),
    "q5_k": (_Part(48, 128, 4, 32), _Part(16, 32, 1, 32)),
    "q6_k": (_Part(0, 128, 4, 64), _Part(128, 64, 2, 32)),
    "iq4_nl": (_Part(2, 16, 4, 16),),
    "iq4_xs": (_Part(8, 128, 4, 16),),
    "mxfp4": (_Part(1, 16, 4, 16),),
    "nvfp4": (_Part(4, 32, 4, 8),),
}


def codes_of(blocks: Bytes, fmt: str) -> Bytes:
    """Unsigned codes [..., values]; those of q8_0 are biased by 128."""
    codes = np.zeros((*blocks.shape[:-1], FORMATS[fmt].block_values), np.uint8)
    shift = 0
    for part in _PARTS[fmt]:
        codes |= _split(blocks[..., part.where], part.width, part.run) << np.uint8(shift)
        shift += part.width
    return codes ^ np.uint8(128 if fmt == "q8_0" else 0)


def _put_codes(codes: Bytes, fmt: str, blocks: Bytes) -> None:
    codes = codes ^ np.uint8(128 if fmt == "q8_0" else 0)
    shift = 0
    for part in _PARTS[fmt]:
        field = (codes >> np.uint8(shift)) & np.uint8((1 << part.width) - 1)
        blocks[..., part.where] = _join(field, part.width, part.run)
        shift += part.width


# ---- numbers of 6 bits, as GGUF keeps them and in groups of 24 bits ----


def _six_bits_k4(b: Bytes) -> Bytes:
    """q4_k, q5_k: scale 0, minimum 0, scale 1, ... [..., 16]."""
    low, high, tail = b[..., 0:4], b[..., 4:8], b[..., 8:12]
    scales = np.concatenate([low & 63, (tail & 15) | (low >> 6 << 4)], axis=-1)
    minimums = np.concatenate([high & 63, (tail >> 4) | (high >> 6 << 4)], axis=-1)
    return np.stack([scales, minimums], axis=-1).reshape(*b.shape[:-1], 16)


def _from_six_bits_k4(values: Bytes) -> Bytes:
    scales, minimums = values[..., 0::2], values[..., 1::2]
    low = scales[..., :4] | (scales[..., 4:] >> 4 << 6)
    high = minimums[..., :4] | (minimums[..., 4:] >> 4 << 6)
    tail = (scales[..., 4:] & 15) | (minimums[..., 4:] << 4)
    return np.concatenate([low, high, tail], axis=-1)


def _six_bits_q3(b: Bytes) -> Bytes:
    low = np.concatenate([b[..., :8] & 15, b[..., :8] >> 4], axis=-1)
    values: Bytes = low | (_split(b[..., 8:12], 2, 4) << np.uint8(4))
    return values


def _from_six_bits_q3(values: Bytes) -> Bytes:
    low = (values[..., :8] & 15) | (values[..., 8:] << 4)
    return np.concatenate([low, _join(values >> 4, 2, 4)], axis=-1)


def _six_bits_iq4_xs(b: Bytes) -> Bytes:
    """Two bytes of high pairs, four of low nibbles."""
    values: Bytes = _split(b[..., 2:6], 4, 1) | (_split(b[..., 0:2], 2, 1) << np.uint8(4))
    return values


def _from_six_bits_iq4_xs(values: Bytes) -> Bytes:
    high = _join(values >> 4, 2, 1)
    return np.concatenate([high, _join(values & 15, 4, 1)], axis=-1)


def _grouped(values: Bytes) -> Bytes:
    count = values.shape[-1]
    four = values.reshape(*values.shape[:-1], count // 4, 4).astype(np.uint32)
    words = four[..., 0] | four[..., 1] << 6 | four[..., 2] << 12 | four[..., 3] << 18
    out = np.stack([words & 255, words >> 8 & 255, words >> 16], axis=-1).astype(np.uint8)
    return out.reshape(*values.shape[:-1], count * 3 // 4)


def _ungrouped(b: Bytes) -> Bytes:
    size = b.shape[-1]
    three = b.reshape(*b.shape[:-1], size // 3, 3).astype(np.uint32)
    words = three[..., 0] | three[..., 1] << 8 | three[..., 2] << 16
    out = np.stack([words >> shift & 63 for shift in (0, 6, 12, 18)], axis=-1)
    return out.astype(np.uint8).reshape(*b.shape[:-1], size * 4 // 3)


class _Scales:
    """Scale bytes of a block in GGUF order, and how a packed record keeps them."""

    def __init__(
        self,
        scales: tuple[int, int],
        d: tuple[int, int] = (0, 0),
        record: str = "plain",
        regroup: tuple[Callable[[Bytes], Bytes], Callable[[Bytes], Bytes]] | None = None,
    ) -> None:
        self.scales, self.d = slice(*scales), slice(*d)
        self.record = record  # plain; d_first; d_last: the two d of a quad behind all scales
        self.regroup = regroup


_K4 = (_six_bits_k4, _from_six_bits_k4)
_SCALES = {
    "q4_0": _Scales((0, 2)),
    "q4_1": _Scales((0, 4)),
    "q5_0": _Scales((0, 2)),
    "q5_1": _Scales((0, 4)),
    "q8_0": _Scales((0, 2)),
    "q2_k": _Scales((0, 16), (80, 84), "d_last"),
    "q3_k": _Scales((96, 108), (108, 110), "d_last", (_six_bits_q3, _from_six_bits_q3)),
    "q4_k": _Scales((4, 16), (0, 4), "d_first", _K4),
    "q5_k": _Scales((4, 16), (0, 4), "d_first", _K4),
    "q6_k": _Scales((192, 208), (208, 210), "d_last"),
    "iq4_nl": _Scales((0, 2)),
    "iq4_xs": _Scales((2, 8), (0, 2), "d_first", (_six_bits_iq4_xs, _from_six_bits_iq4_xs)),
    "mxfp4": _Scales((0, 1)),
    "nvfp4": _Scales((0, 4)),
}


# ---- planes ----


def _plane_widths(fmt: str) -> list[int]:
    """Bits of a code in each plane, lowest first."""
    return [part.width for part in _PARTS[fmt]]


def fragment_order(width: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each code of a 64 x 64 sub-block in fragment order: row, column, byte and bit in a plane
    of `width` bits."""
    t, s, i, e = np.meshgrid(*map(np.arange, (128, 4, 4, 2)), indexing="ij")
    lane = t % 32
    row = 16 * (t // 32) + lane // 4 + 8 * (i % 2)
    column = 16 * s + 8 * (i // 2) + 2 * (lane % 4) + e
    if width == 4:
        bit = t * 128 + s * 32 + 4 * i + 16 * e
    elif width == 2:
        bit = t * 64 + s // 2 * 32 + 2 * (s % 2 * 4 + i) + 16 * e
    elif width == 1:
        bit = t * 32 + 4 * s + i + 16 * e
    else:
        bit = 8 * (s // 2 * 2048 + t * 16 + 4 * (2 * (s % 2) + i % 2) + i // 2 * 2 + e)
    return row.ravel(), column.ravel(), (bit // 8).ravel(), (bit % 8).ravel()


def _packed_columns(fmt: str) -> int:
    return max(FORMATS[fmt].block_values, 64)


def _record_bytes(fmt: str) -> int:
    """Scale bytes of two rows in a packed block."""
    per_code = sum(_plane_widths(fmt)) * _packed_columns(fmt) // 8
    blocks = _packed_columns(fmt) // FORMATS[fmt].block_values
    return 2 * (blocks * FORMATS[fmt].block_bytes - per_code)


def pack_weight(q: Bytes, N: int, K: int, *, fmt: str) -> Bytes:
    N, K = int(N), int(K)
    values, size = FORMATS[fmt]
    columns = _packed_columns(fmt)
    tiles, depth, per = -(-N // _ROWS), -(-K // columns), columns // values
    blocks = np.zeros((tiles * _ROWS, depth * per, size), np.uint8)
    blocks[:N, : K // values] = q
    codes = codes_of(blocks, fmt)
    codes[N:] = 0
    codes[:, K // values :] = 0
    # [tile, packed block, sub-block, row, column]
    shape = (tiles, _ROWS, depth, columns // 64, 64)
    codes = codes.reshape(shape).transpose(0, 2, 3, 1, 4)
    parts = []
    shift = 0
    for width in _plane_widths(fmt):
        row, column, byte, bit = fragment_order(width)
        field = (codes[..., row, column] >> np.uint8(shift)) & np.uint8((1 << width) - 1)
        plane = np.zeros((*codes.shape[:3], 512 * width), np.uint8)
        for offset in range(0, 8, width):
            at = bit == offset
            plane[..., byte[at]] |= field[..., at] << np.uint8(offset)
        parts.append(plane.reshape(tiles, depth, 512 * width * (columns // 64)))
        shift += width
    # Rows r and r + 8 of a quad next to each other: [tile, warp, half, r, packed block, GGUF block]
    quads = blocks.reshape(tiles, 4, 2, 8, depth, per, size).transpose(0, 4, 1, 3, 2, 5, 6)
    how = _SCALES[fmt]
    scales, d = quads[..., how.scales], quads[..., how.d]
    if how.regroup is not None:
        scales = _grouped(how.regroup[0](scales))
    if how.record == "d_first":
        record = np.concatenate([d, scales], axis=-1)
    else:
        both = (each.reshape(tiles, depth, 32, 2 * per * each.shape[-1]) for each in (scales, d))
        record = np.concatenate([*both], axis=-1)
    record = record.reshape(tiles, depth, 32 * _record_bytes(fmt))
    return np.concatenate([*parts, record], axis=-1)


def unpack_weight(packed: Bytes, N: int, K: int, *, fmt: str) -> Bytes:
    N, K = int(N), int(K)
    values, size = FORMATS[fmt]
    columns = _packed_columns(fmt)
    tiles, depth, per = -(-N // _ROWS), -(-K // columns), columns // values
    codes = np.zeros((tiles, depth, columns // 64, _ROWS, 64), np.uint8)
    at = shift = 0
    for width in _plane_widths(fmt):
        plane_bytes = 512 * width * (columns // 64)
        plane = packed[..., at : at + plane_bytes].reshape(*codes.shape[:3], 512 * width)
        row, column, byte, bit = fragment_order(width)
        mask = np.uint8((1 << width) - 1)
        field = (plane[..., byte] >> bit.astype(np.uint8)) & mask
        codes[..., row, column] |= field << np.uint8(shift)
        at, shift = at + plane_bytes, shift + width
    blocks = np.zeros((tiles * _ROWS, depth * per, size), np.uint8)
    _put_codes(
        codes.transpose(0, 3, 1, 2, 4).reshape(tiles * _ROWS, depth * per, values), fmt, blocks
    )
    how = _SCALES[fmt]
    d_bytes = how.d.stop - how.d.start
    record = packed[..., at:].reshape(tiles, depth, 4, 8, _record_bytes(fmt))
    half = (tiles, depth, 4, 8, 2, per)
    if how.record == "d_last":
        scales = record[..., : -2 * d_bytes].reshape(*half, _record_bytes(fmt) // 2 - d_bytes)
        d = record[..., -2 * d_bytes :].reshape(*half, d_bytes)
    else:
        both = record.reshape(*half, _record_bytes(fmt) // (2 * per))
        d, scales = both[..., :d_bytes], both[..., d_bytes:]
    if how.regroup is not None:
        scales = how.regroup[1](_ungrouped(scales))
    ordered = blocks.reshape(tiles, 4, 2, 8, depth, per, size)
    ordered[..., how.scales] = scales.transpose(0, 2, 4, 3, 1, 5, 6)
    ordered[..., how.d] = d.transpose(0, 2, 4, 3, 1, 5, 6)
    return blocks[:N, : K // values].copy()


# ---- values ----


def _halves(blocks: Bytes, at: int) -> Float64:
    return blocks[..., at : at + 2].copy().view(np.float16).astype(np.float64)  # [..., 1]


def dequantize(blocks: Bytes, fmt: str) -> Float64:
    """GGUF blocks [..., K / values, bytes] to numbers [..., K], as float32 has them."""
    return _gguf_reference.dequantize(blocks, fmt).astype(np.float64)


def quant_linear(
    x: Float64,
    weight: Bytes,
    bias: Float64 | None = None,
    *,
    N: int,
    fmt: str,
    config: int = 0,
) -> tuple[Float64, Float64, Float64]:
    """The product, what its sums round relative to, and what else it may be off by."""
    K = x.shape[-1]
    w = dequantize(unpack_weight(weight, N, K, fmt=fmt), fmt)
    result = x @ w.T
    magnitude = np.abs(x) @ np.abs(w.T)
    # Few tokens: 16 bits of fixed point for 256 columns. Many: 2^-14 of a number that is split into
    # two bf16, or 2^-9 of a weight that is rounded to bf16 (for bf16 tokens).
    padded = np.zeros((*x.shape[:-1], -(-K // 256), 256))
    padded.reshape(*x.shape[:-1], padded.shape[-2] * 256)[..., :K] = np.abs(x)
    largest = np.repeat(padded.max(axis=-1, initial=0.0), 256, axis=-1)[..., :K]
    rounded = np.array_equal(x, _bf16(x), equal_nan=True)
    absolute = (largest * 2.0**-15 + 2.0**-115) @ np.abs(w.T)
    absolute = absolute + magnitude * (2.0**-8 if rounded else 2.0**-12)
    if bias is not None:
        result, magnitude = result + bias, magnitude + np.abs(bias)
    return result, magnitude * max(1.0, K / 64), absolute


def _bf16(x: Float64) -> Float64:
    bits = x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def gemm_q8_1(
    fmt: str, weight_q: Bytes, activation_q: Bytes, M: int, N: int, K: int
) -> tuple[Float64, Float64]:
    """The product of raw blocks, and the magnitude that its sums round relative to."""
    M, N, K = int(M), int(N), int(K)  # whatever can stand for an integer
    w = dequantize(weight_q, fmt)
    codes = activation_q[..., 4:].copy().view(np.int8).astype(np.float64)
    a = (_halves(activation_q, 0) * codes).reshape(N, K)
    # Offsets and minimums are summed apart from the codes: both count.
    raw = codes_of(weight_q, fmt).astype(np.float64)
    d = np.abs(_halves(weight_q, 0))
    apart = 2 * (d * (raw + {"q4_0": 8, "q5_0": 16, "q8_0": 128}.get(fmt, 0))).reshape(M, K)
    magnitude = (np.abs(w) + apart) @ np.abs(a.T)
    return w @ a.T, magnitude * max(1.0, K / 64)
