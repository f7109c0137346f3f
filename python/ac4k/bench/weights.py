"""Quantised weights to measure with: what quantising random numbers gives.

Codes take all their values and scales are of one size, as in a real model: sums neither vanish nor
are ruled by a few blocks, and a GPU draws the power that it draws with real weights.

A pool of blocks is quantised by the CPU, and a matrix is drawn from it where it is needed: the
largest take less than a second. Which blocks is random, so a kernel that reads a wrong one gives a
wrong result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ac4k

from .._formats import FORMATS
from ..w4a16 import cast
from .arrays import DTYPES, Arrays, DType

_TILE_ROWS = 64  # of a packed block
_POOL_BLOCKS, _POOL_TILES = 4096, 64  # powers of two
_F32, _I64, _I32, _U8 = DTYPES["f32"], DTYPES["i64"], DTYPES["i32"], DTYPES["u8"]


def gguf_blocks(fmt: Any, shape: tuple[int, ...], arrays: Arrays, seed: int = 1) -> Any:
    """[..., blocks of a row, bytes of a block] as GGUF files hold them."""
    drawn = arrays.random(shape[:-1], _I64, seed) & _POOL_BLOCKS - 1
    return _block_pool(fmt, arrays, seed)[drawn]


def packed_gguf(fmt: Any, rows: int, columns: int, arrays: Arrays) -> Any:
    """A matrix as `pack_weight` orders it: [row tiles, packed blocks, bytes]."""
    depth = max(FORMATS[fmt].block_values, 64)
    return _drawn_tiles(lambda size: _packed_pool(fmt, size, arrays), rows, columns, depth, arrays)


def packed_w4(layout: Any, dtype: DType, rows: int, columns: int, arrays: Arrays) -> Any:
    """A matrix as `w4a16_pack_weight` orders it, with scales of `dtype`."""
    depth = max(w4_group(layout), 64)

    def pool(size: int) -> Any:
        return _w4_pool(layout, dtype, size, arrays)

    return _drawn_tiles(pool, rows, columns, depth, arrays)


def w4_group(layout: str) -> int:
    """Columns that share a scale."""
    return int(layout.removeprefix("g").removesuffix("z"))


def _drawn_tiles(pool: Any, rows: int, columns: int, depth: int, arrays: Arrays) -> Any:
    """`pool(n)` holds tiles of n columns; the last of a row are fewer where K is not a multiple."""
    shape = (-(-rows // _TILE_ROWS), -(-columns // depth))
    drawn = arrays.random(shape, _I64, 2) & _POOL_TILES - 1
    result = pool(min(depth, columns))[drawn]
    if columns > depth and columns % depth:
        result[:, -1] = pool(columns % depth)[drawn[:, -1]]
    return result


@lru_cache(maxsize=2)
def _block_pool(fmt: Any, arrays: Arrays, seed: int) -> Any:
    """[blocks, bytes]"""
    numbers = arrays.on_cpu().random((_POOL_BLOCKS, FORMATS[fmt].block_values), _F32, seed)
    return arrays.placed(ac4k.quantize(numbers, fmt)[:, 0])


@lru_cache(maxsize=2)
def _packed_pool(fmt: Any, columns: int, arrays: Arrays) -> Any:
    """[tiles, bytes]"""
    rows = _POOL_TILES * _TILE_ROWS
    blocks = ac4k.quantize(arrays.on_cpu().random((rows, columns), _F32, 1), fmt)
    return arrays.placed(ac4k.pack_weight(blocks, rows, columns, fmt=fmt)[:, 0])


@lru_cache(maxsize=2)
def _w4_pool(layout: Any, dtype: DType, columns: int, arrays: Arrays) -> Any:
    """[tiles, bytes]; the largest scale is twice the smallest."""
    cpu = arrays.on_cpu()
    rows = _POOL_TILES * _TILE_ROWS
    groups = (rows, -(-columns // w4_group(layout)))
    codes = cpu.random((rows, columns), _U8, 1) & 15
    scales = cast((cpu.random(groups, _I32, 2) + 3000) * 2.0**-18, dtype.torch)
    zeros = cast(cpu.random(groups, _U8, 3) & 15, dtype.torch) if layout.endswith("z") else None
    return arrays.placed(ac4k.w4a16_pack_weight(codes, scales, zeros, layout=layout)[:, 0])
