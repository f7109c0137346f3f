"""Caches of keys and values: stored as they are or as FP8, read back, and stored after RoPE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _quantize_rule
from .._rope_reference import table_angles
from .oracle import Dtypes, Float64, Reference, References, distance, dtype_of, rounded_ends
from .rope import rotated


def _slot_places(cache: Float64, slots: Any, layout: str) -> tuple[Any, Any, Any]:
    """Which tokens have a slot in the cache, and the block and place of each of those."""
    size = cache.shape[1 if layout == "NHD" else 2]
    there = np.flatnonzero((slots >= 0) & (slots < cache.shape[0] * size))
    block, place = np.divmod(np.asarray(slots)[there].astype(np.int64), max(size, 1))
    return there, block, place


def _encoded(tokens: Float64, scale: Float64 | None, dtype: str | None) -> Float64:
    """What a cache of the dtype holds of the tokens: FP8 codes by the rule of quantize_fp8, all
    else as it is."""
    if dtype is None or not dtype.startswith("f8"):
        return tokens
    single = tokens.astype(np.float32)
    if scale is not None:
        single = single * (np.float32(1) / scale.astype(np.float32))[:, None]
    return _quantize_rule.round_to(_quantize_rule.fp8_format(dtype), single)


def _stored(
    ends: tuple[Float64, ...],
    cache: Float64,
    slots: Any,
    scale: Float64 | None,
    layout: str,
    dtype: str | None,
) -> Reference:
    """The cache with the first of `ends` in it; tokens may be as far off as the others. Without
    the cache's dtype: half a step of e5m2 is an eighth, e4m3 has the larger denormals and saturates
    first."""
    there, block, place = _slot_places(cache, slots, layout)
    at = (block, place) if layout == "NHD" else (block, slice(None), place)
    result, allowed = cache.copy(), np.zeros(cache.shape)
    if dtype is None:
        inverse = np.ones(1) if scale is None else 1 / scale
        tokens, *others = (end[there] * inverse[:, None] for end in ends)
        magnitude = np.abs(tokens)
        allowed[at] = magnitude / 8 + 2.0**-10 + np.maximum(magnitude - 448, 0)
    else:
        tokens, *others = (_encoded(end[there], scale, dtype) for end in ends)
    result[at] = tokens
    if others:
        allowed[at] += distance(tokens, *others)
    return Reference(result, absolute=allowed)


def store_kvcache(
    key: Float64,
    value: Float64,
    k_cache: Float64,
    v_cache: Float64,
    slot_mapping: Any,
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    layout: str = "NHD",
    dtypes: Dtypes = None,
) -> tuple[Reference, ...]:
    kinds = (None, None) if dtypes is None else (dtypes["k_cache"], dtypes["v_cache"])
    return (
        _stored((key,), k_cache, slot_mapping, k_scale, layout, kinds[0]),
        _stored((value,), v_cache, slot_mapping, v_scale, layout, kinds[1]),
    )


def gather_kvcache(
    k_cache: Float64,
    v_cache: Float64,
    slots: Any,
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    layout: str = "NHD",
    dtype: str = "bfloat16",
) -> tuple[Reference, ...]:
    results = []
    for cache, scale in ((k_cache, k_scale), (v_cache, v_scale)):
        there, block, place = _slot_places(cache, slots, layout)
        heads = cache.shape[2 if layout == "NHD" else 1]
        result = np.zeros((len(slots), heads, cache.shape[3]))
        rows = cache[block, place] if layout == "NHD" else cache[block, :, place]
        result[there] = rows if scale is None else rows * scale[:, None]
        results.append(Reference(result, np.abs(result)))
    return tuple(results)


def rope_store_kvcache(
    q: Float64,
    k: Float64,
    v: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k_cache: Float64,
    v_cache: Float64,
    slot_mapping: NDArray[Any],
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    style: str = "neox",
    layout: str = "NHD",
    dtypes: Dtypes = None,
) -> References:
    query, key = rotated(q, k, table_angles(positions, cos_sin), style)
    assert key is not None
    kinds = (None, None) if dtypes is None else (dtypes["k_cache"], dtypes["v_cache"])
    # Rotated in float32 to the tolerance of the op, and rounded before it is encoded.
    ends = rounded_ends(dtype_of(dtypes, "k", k), key, tolerance=1.0)
    return (
        query,
        _stored(ends, k_cache, slot_mapping, k_scale, layout, kinds[0]),
        _stored((v,), v_cache, slot_mapping, v_scale, layout, kinds[1]),
    )
