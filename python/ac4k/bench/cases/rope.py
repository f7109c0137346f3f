"""Rotary position embeddings of q and k."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..arrays import DTYPES
from ..case import Case, Shape
from ..inputs import Sizes, nbytes

if TYPE_CHECKING:
    from torch import Tensor

    from ..arrays import Arrays, DType
    from ..inputs import Arguments

# Tokens, heads of q, heads of k, head_dim: decoding, then prefill of an 8B model.
_SHAPES = (
    (1, 32, 8, 128),
    (64, 32, 8, 128),
    (2048, 32, 8, 128),
    (8192, 32, 8, 128),
    (16384, 32, 8, 128),
)
_CPU_SHAPES = ((64, 32, 8, 128), (2048, 32, 8, 128))
_QUICK_SHAPES = ((24, 4, 2, 32),)
_POSITIONS = 32768
# Samples, tokens, heads, head_dim: Wan 2.1 1.3B at 480p, 14B at 720p.
_VIDEO_SHAPES = ((1, 32760, 12, 128), (1, 75600, 40, 128))
_VIDEO_CPU_SHAPES = ((1, 1560, 12, 128),)
_VIDEO_QUICK_SHAPES = ((2, 30, 3, 32),)
_GRIDS = {32760: (21, 30, 52), 75600: (21, 45, 80), 1560: (1, 30, 52), 30: (2, 3, 4)}


def _sizes(shape: Shape) -> Sizes:
    tokens, heads, k_heads, dim = shape
    return {"...": (tokens,), "H": heads, "G": k_heads, "D": dim, "P": _POSITIONS, "R": dim}


def _video_sizes(shape: Shape) -> Sizes:
    samples, tokens, heads, dim = shape
    return {"B": samples, "L": tokens, "H": heads, "G": heads, "D": dim, "P": 1024}


def _on_device(arrays: Arrays, array: Any) -> Any:
    if arrays.framework != "torch":
        return array
    import torch

    return torch.from_numpy(array).to(arrays.device)


def _positions(arrays: Arrays, shape: tuple[int, ...], dtype: DType, call: int = 0) -> Any:
    """In order, as in prefill; of few tokens anywhere, as in decoding. Calls one after the other
    have other positions until all had their turn."""
    import numpy as np

    tokens = shape[-1]
    if _in_order(tokens):
        found = np.broadcast_to((call * tokens + np.arange(tokens)) % _POSITIONS, shape)
    else:
        count = math.prod(shape)
        found = _shuffled()[(call * count + np.arange(count)) % _POSITIONS].reshape(shape)
    return _on_device(arrays, np.ascontiguousarray(found, dtype.numpy))


def _in_order(tokens: int) -> bool:
    return tokens > 64


@lru_cache(maxsize=1)
def _shuffled() -> Any:
    import numpy as np

    return np.random.default_rng(3).permutation(_POSITIONS)


def _sets(positions_at: int) -> Callable[[Arguments, int, Arrays], list[Arguments]]:
    """Each call has rows of the table of its own: then the table is not needed once a call, which
    would be 137 GB for 8192 calls of one token."""

    def sets(first: Arguments, count: int, arrays: Arrays) -> list[Arguments]:
        positions, table = first.inputs[positions_at : positions_at + 2]
        shape, kind = tuple(positions.shape), DTYPES[f"i{8 * positions.itemsize}"]
        rows = shape[-1] if _in_order(shape[-1]) else math.prod(shape)
        tables, made = [table], [first]

        def other_call(call: int, its_table: Any) -> Arguments:
            def replace(tensor: Any) -> Any:
                if tensor is positions:
                    return _positions(arrays, shape, kind, call)
                return its_table if tensor is table else arrays.copy(tensor)

            return first.replaced(replace)

        for call in range(1, count):
            if call * rows // _POSITIONS == len(tables):
                tables.append(arrays.copy(table))
            made.append(other_call(call, tables[-1]))
        return made

    return sets


def _given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    from ...rope_tables import rope_table

    table = rope_table(_int(sizes["R"]), _POSITIONS)
    return {
        "positions": lambda shape, dtype: _positions(arrays, shape, dtype),
        "cos_sin": _on_device(arrays, table),
        "k": lambda shape, dtype: arrays.random(shape, dtype, 5),
    }


def _norm_sizes(shape: Shape) -> Sizes:
    _, _, heads, dim = shape
    return {**_video_sizes(shape), "M": heads * dim, "N": heads * dim}


def _video_given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    import numpy as np

    from ...rope_tables import rope_3d_table

    tokens = _int(sizes["L"])
    grid = _GRIDS.get(tokens, (1, 1, tokens))
    return {
        "grid_sizes": lambda shape, dtype: _on_device(
            arrays, np.ascontiguousarray(np.broadcast_to(grid, shape), dtype.numpy)
        ),
        "table": _on_device(arrays, rope_3d_table(_int(sizes["D"]))),
        "k": lambda shape, dtype: arrays.random(shape, dtype, 5),
    }


def _int(size: int | tuple[int, ...]) -> int:
    assert isinstance(size, int)
    return size


def _count(array: Any) -> int:
    return int(array.nbytes) // int(array.itemsize)


def _traffic(arguments: Arguments) -> tuple[int, int]:
    """Of the table only the rows that tokens ask for."""
    positions, table = arguments.inputs[1:3]
    rows = min(table.shape[0], _count(positions))
    read = arguments.bytes_read - nbytes(table) + rows * nbytes(table) // table.shape[0]
    return read, arguments.bytes_written


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, style: str) -> Tensor:
    """In the precision of the angles; cos and sin [tokens..., 1, pairs]."""
    import torch

    pairs = cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    if style == "neox":
        a, b = turned.chunk(2, -1)
        result = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        a, b = turned.unflatten(-1, (-1, 2)).unbind(-1)
        result = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((result.to(x.dtype), rest), -1) if rest.shape[-1] else result.to(x.dtype)


def _rope(
    q: Tensor, positions: Tensor, cos_sin: Tensor, k: Tensor | None = None, *, style: str = "neox"
) -> Any:
    cos, sin = cos_sin[positions].unsqueeze(-2).chunk(2, -1)
    rotated = tuple(_rotated(x, cos, sin, style) for x in (q, k) if x is not None)
    return rotated if k is not None else rotated[0]


def _mrope(
    q: Tensor,
    positions: Tensor,
    cos_sin: Tensor,
    k: Tensor | None = None,
    *,
    section_t: int,
    section_h: int,
    section_w: int,
    interleaved_sections: bool = False,
    style: str = "neox",
) -> Any:
    import torch

    rows = cos_sin[positions]  # [3, tokens, R]
    halves = []
    for half in rows.chunk(2, -1):
        if interleaved_sections:
            mixed = half[0].clone()
            for axis, section in ((1, section_h), (2, section_w)):
                mixed[..., axis : 3 * section : 3] = half[axis, ..., axis : 3 * section : 3]
        else:
            parts = half.split((section_t, section_h, section_w), -1)
            mixed = torch.cat([part[axis] for axis, part in enumerate(parts)], -1)
        halves.append(mixed.reshape(*q.shape[:-2], 1, -1))
    cos, sin = halves
    rotated = tuple(_rotated(x, cos, sin, style) for x in (q, k) if x is not None)
    return rotated if k is not None else rotated[0]


def _rope_3d(
    q: Tensor,
    grid_sizes: Tensor,
    table: Tensor,
    k: Tensor | None = None,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: str = "exact",
) -> Any:
    import torch

    pairs = q.shape[-1] // 2
    height = pairs // 3 if height_pairs == -1 else height_pairs
    width = pairs // 3 if width_pairs == -1 else width_pairs
    token = torch.arange(q.shape[1], device=q.device)
    frames, rows, columns = (grid_sizes[:, axis, None] for axis in range(3))
    inside = (token < frames * rows * columns)[..., None, None]
    places = (token // (rows * columns), token // columns % rows, token % columns)
    parts = table.split((pairs - height - width, height, width), 1)
    turns = torch.cat([part[place] for part, place in zip(parts, places, strict=True)], 2)
    turns = turns if precision == "exact" or q.dtype == torch.float64 else turns.float()
    cos, sin = turns[..., None, :, :].unbind(-1)

    def turn(x: Tensor) -> Tensor:
        rounded = torch.promote_types(x.dtype, torch.float32)
        wide = x.to(torch.promote_types(rounded, cos.dtype))
        turned = _rotated(wide, cos, sin, "interleaved").to(rounded)
        return torch.where(inside, turned.to(x.dtype), x)

    rotated = tuple(turn(x) for x in (q, k) if x is not None)
    return rotated if k is not None else rotated[0]


def _normalised(x: Tensor, weight: Tensor, eps: float, cast_first: bool) -> Tensor:
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return scaled.to(x.dtype) * weight if cast_first else (scaled * weight).to(x.dtype)


def _qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    positions: Tensor,
    cos_sin: Tensor,
    eps: float = 1e-6,
    *,
    style: str = "neox",
    cast_first: bool = False,
) -> Any:
    q, k = _normalised(q, q_weight, eps, cast_first), _normalised(k, k_weight, eps, cast_first)
    return _rope(q, positions, cos_sin, k, style=style)


def _qk_norm_rope_3d(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    grid_sizes: Tensor,
    table: Tensor,
    eps: float = 1e-6,
    *,
    cast_first: bool = False,
    **options: Any,
) -> Any:
    q, k = (
        _normalised(x.flatten(2), weight, eps, cast_first).view(x.shape)
        for x, weight in ((q, q_weight), (k, k_weight))
    )
    return _rope_3d(q, grid_sizes, table, k, **options)


def _norm_magnitude(q: Any, k: Any, q_weight: Any, k_weight: Any, *_: Any, **__: Any) -> Any:
    """The norm is rounded to bfloat16, half of 2^-7, before a pair is turned, and |a cos| + |b sin|
    is at most twice the largest of the head: 2^13 of the ops' 5 float32 steps cover that and the
    arithmetic."""
    magnitudes = []
    for x, weight in ((q, q_weight), (k, k_weight)):
        rows = x if len(weight) == x.shape[-1] else x.flatten(-2)
        largest = _normalised(rows, weight, 1e-6, False).view(x.shape).abs().amax(-1, keepdim=True)
        magnitudes.append((largest * 2**14).expand(x.shape))
    return tuple(magnitudes)


def _norm_traffic(arguments: Arguments) -> tuple[int, int]:
    positions, table = arguments.inputs[4:6]
    rows = min(table.shape[0], _count(positions))
    read = arguments.bytes_read - nbytes(table) + rows * nbytes(table) // table.shape[0]
    return read, arguments.bytes_written


def _store_sizes(shape: Shape) -> Sizes:
    tokens, heads, k_heads, dim = shape
    sizes = {
        "N": tokens,
        "n": tokens,
        "H": heads,
        "G": k_heads,
        "D": dim,
        "P": _POSITIONS,
        "R": dim,
    }
    return {**sizes, "B": -(-tokens // 16) + 1, "S": 16}


def _store_given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    import numpy as np

    given = _given(sizes, arrays)
    slots = np.random.default_rng(0).permutation(_int(sizes["B"]))[:, None] * 16 + np.arange(16)
    slots = slots.reshape(-1)[: _int(sizes["n"])].astype(np.int64)
    return {
        "positions": given["positions"],
        "cos_sin": given["cos_sin"],
        "slot_mapping": _on_device(arrays, slots),
    }


def _rope_store(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    cos_sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    *,
    style: str = "neox",
) -> Any:
    import torch

    q, k = _rope(q, positions, cos_sin, k, style=style)
    for tokens, cache in ((k, k_cache), (v, v_cache)):
        flat, new = cache.view(-1, *cache.shape[2:]), tokens.to(cache.dtype)
        if cache.element_size() == 1:
            flat, new = flat.view(torch.uint8), new.view(torch.uint8)
        flat.index_copy_(0, slot_mapping, new)
    return q, k_cache, v_cache


def _store_magnitude(q: Any, k: Any, *args: Any, **_: Any) -> Any:
    """The caches hold numbers of another order."""
    k_cache, v_cache = args[3:5]
    return q.abs().amax(-1, keepdim=True).expand(q.shape), k_cache.abs() + 8, v_cache.abs() + 8


def _store_traffic(arguments: Arguments) -> tuple[int, int]:
    q, k, v, positions, table, k_cache, _, slots = arguments.inputs
    rows = min(table.shape[0], _count(positions))
    read = sum(map(nbytes, (q, k, v, positions, slots))) + rows * nbytes(table) // table.shape[0]
    return read, nbytes(q) + (nbytes(k) + nbytes(v)) * k_cache.itemsize // k.itemsize


def _magnitude(*args: Any, **options: Any) -> Any:
    """|a cos| + |b sin| of a pair, or somewhat more: the largest of its head."""
    tensors = [args[0], *(x for x in args[3:4] if x is not None)]
    if (k := options.get("k")) is not None:
        tensors.append(k)
    return tuple(x.abs().amax(-1, keepdim=True).expand(x.shape) for x in tensors)


CASES = (
    Case(
        op="rope",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16", "f32"),
        sizes=_sizes,
        shape_text="TOKENSxHxGxD",
        variants=({"style": "neox"}, {"style": "interleaved"}),
        torch_fn=_rope,
        magnitude=_magnitude,
        given=_given,
        traffic=_traffic,
        sets=_sets(1),
    ),
    Case(
        op="mrope",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=((24, 4, 2, 128),),
        dtypes=("bf16",),
        sizes=_sizes,
        shape_text="TOKENSxHxGxD",
        variants=(
            {"section_t": 16, "section_h": 24, "section_w": 24},
            {"section_t": 24, "section_h": 20, "section_w": 20, "interleaved_sections": True},
        ),
        torch_fn=_mrope,
        magnitude=_magnitude,
        given=_given,
        traffic=_traffic,
        sets=_sets(1),
    ),
    Case(
        op="rope_3d",
        shapes=_VIDEO_SHAPES,
        cpu_shapes=_VIDEO_CPU_SHAPES,
        quick_shapes=_VIDEO_QUICK_SHAPES,
        dtypes=("bf16",),
        sizes=_video_sizes,
        shape_text="BxLxHxD",
        variants=({"precision": "exact"}, {"precision": "fast"}),
        torch_fn=_rope_3d,
        magnitude=_magnitude,
        given=_video_given,
    ),
    Case(
        op="qk_norm_rope",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16",),
        sizes=_sizes,
        shape_text="TOKENSxHxGxD",
        variants=({"style": "neox"}, {"style": "interleaved"}),
        torch_fn=_qk_norm_rope,
        magnitude=_norm_magnitude,
        given=_given,
        traffic=_norm_traffic,
        sets=_sets(4),
    ),
    Case(
        op="qk_norm_rope_3d",
        shapes=_VIDEO_SHAPES,
        cpu_shapes=_VIDEO_CPU_SHAPES,
        quick_shapes=_VIDEO_QUICK_SHAPES,
        dtypes=("bf16",),
        sizes=_norm_sizes,
        shape_text="BxLxHxD",
        variants=({"precision": "exact"}, {"precision": "fast"}),
        torch_fn=_qk_norm_rope_3d,
        magnitude=_norm_magnitude,
        given=_video_given,
    ),
    Case(
        op="rope_store_kvcache",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16", "f8e4m3"),
        sizes=_store_sizes,
        shape_text="TOKENSxHxGxD",
        torch_fn=_rope_store,
        magnitude=_store_magnitude,
        given=_store_given,
        traffic=_store_traffic,
        sets=_sets(3),
    ),
)
