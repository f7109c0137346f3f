"""Tokens to a paged KV cache and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..arrays import Arrays
from ..case import Case, Shape
from ..inputs import Arguments, Sizes, nbytes

if TYPE_CHECKING:
    from torch import Tensor

# Tokens x heads x head_dim: decoding, a prefill, and 200 MB and more of traffic.
_SHAPES = ((1, 8, 128), (64, 8, 128), (8192, 8, 128), (65536, 8, 128))
_CPU_SHAPES = ((64, 8, 128), (8192, 8, 128))
_QUICK_SHAPES = ((37, 4, 64),)
_BLOCK_SIZE = 16


def _sizes(shape: Shape) -> Sizes:
    tokens, heads, head_dim = shape
    blocks = -(-tokens // _BLOCK_SIZE) + 1
    return {"K": tokens, "n": tokens, "H": heads, "D": head_dim, "B": blocks, "S": _BLOCK_SIZE}


def _slots(sizes: Sizes, arrays: Arrays) -> Any:
    """Tokens in random blocks, neighbours within a block."""
    import numpy as np

    tokens, blocks, block_size = (sizes[name] for name in ("n", "B", "S"))
    assert isinstance(tokens, int)
    assert isinstance(blocks, int)
    assert isinstance(block_size, int)
    order = np.random.default_rng(0).permutation(blocks)[:, None] * block_size
    slots = (order + np.arange(block_size)).reshape(-1)[:tokens].astype(np.int64)
    if arrays.framework == "numpy":
        return slots
    import torch

    return torch.from_numpy(slots).to(arrays.device)


def _store_given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    return {"slot_mapping": _slots(sizes, arrays)}


def _gather_given(sizes: Sizes, arrays: Arrays) -> Mapping[str, Any]:
    return {"slots": _slots(sizes, arrays)}


def _store_traffic(arguments: Arguments) -> tuple[int, int]:
    key, value, k_cache, _, slots = arguments.inputs
    tokens = nbytes(key) + nbytes(value)
    return tokens + nbytes(slots), tokens * k_cache.itemsize // key.itemsize


def _gather_traffic(arguments: Arguments) -> tuple[int, int]:
    k_cache, _, slots = arguments.inputs
    tokens = sum(map(nbytes, arguments.outs))
    return tokens * k_cache.itemsize // arguments.outs[0].itemsize + nbytes(slots), tokens


def _store(
    key: Tensor, value: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor
) -> tuple[Tensor, Tensor]:
    import torch

    for tokens, cache in ((key, k_cache), (value, v_cache)):
        flat, new = cache.view(-1, *cache.shape[2:]), tokens.to(cache.dtype)
        if cache.element_size() == 1:
            flat, new = flat.view(torch.uint8), new.view(torch.uint8)
        flat.index_copy_(0, slot_mapping, new)
    return k_cache, v_cache


def _gather(k_cache: Tensor, v_cache: Tensor, slots: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    import torch

    def rows(cache: Tensor) -> Tensor:
        flat = cache.view(-1, *cache.shape[2:])
        if cache.element_size() > 1:
            return flat[slots]
        return flat.view(torch.uint8)[slots].view(cache.dtype).to(torch.bfloat16)

    return rows(k_cache), rows(v_cache)


CASES = (
    Case(
        op="store_kvcache",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16", "f8e4m3"),
        sizes=_sizes,
        shape_text="TOKENSxHEADSxDIM",
        torch_fn=_store,
        given=_store_given,
        traffic=_store_traffic,
    ),
    Case(
        op="gather_kvcache",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16", "f8e4m3"),
        sizes=_sizes,
        shape_text="TOKENSxHEADSxDIM",
        torch_fn=_gather,
        given=_gather_given,
        traffic=_gather_traffic,
    ),
)
