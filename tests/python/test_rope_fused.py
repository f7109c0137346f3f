"""RoPE fused with a norm before it or a KV cache behind it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers import FLOATS, TORCH, random
from rope_helpers import STYLES, assert_right, positions_of, same_bits, table_of

import ac4k


def weights_of(count: int, dtype: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return random((count,), dtype, device, 11) + 1, random((count,), dtype, device, 12)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("cast_first", [False, True])
@pytest.mark.parametrize(
    ("leading", "heads", "dim", "rotary"),
    [
        ((5,), (4, 2), 128, 128),
        ((2, 3), (5, 1), 64, 32),
        ((7,), (1, 3), 80, 80),
        ((3,), (3, 3), 10, 6),
        ((), (1, 2), 7, 4),
        ((2,), (2, 1), 1024, 1024),
        ((1030,), (5, 1), 32, 32),  # several heads a thread
        ((0,), (2, 1), 16, 16),
    ],
)
def test_qk_norm_rope(
    device: str,
    dtype: str,
    style: Any,
    cast_first: bool,
    leading: tuple[int, ...],
    heads: tuple[int, int],
    dim: int,
    rotary: int,
) -> None:
    q = random((*leading, heads[0], dim), dtype, device, 1)
    k = random((*leading, heads[1], dim + 8), dtype, device, 2)[..., 8:]
    weights = weights_of(dim, dtype, device)
    positions, table = positions_of(leading, 50, device), table_of(rotary, 50, device)
    options = {"eps": 1e-5, "style": style, "cast_first": cast_first}
    out = torch.full_like(q, math.nan), torch.full(k.shape, math.nan, dtype=k.dtype, device=device)
    results = ac4k.qk_norm_rope(q, k, *weights, positions, table, **options, out=out)
    assert_right("qk_norm_rope", results, q, k, *weights, positions, table, **options)
    if (
        device == "cpu"
    ):  # the very same row kernels; elsewhere sums may be added up in another order
        norms = [
            ac4k.rms_norm(x, w, 1e-5, cast_first=cast_first)
            for x, w in zip((q, k), weights, strict=True)
        ]
        apart = ac4k.rope(norms[0], positions, table, norms[1], style=style)
        assert all(torch.equal(a, b) for a, b in zip(results, apart, strict=True))
    again = q.clone(), k.clone()
    ac4k.qk_norm_rope(*again, *weights, positions, table, **options, out=again)
    assert all(torch.equal(a, b) for a, b in zip(results, again, strict=True))


@pytest.mark.parametrize("style", STYLES)
def test_qk_norm_rope_of_many_heads(device: str, style: Any) -> None:
    """So many that a thread has the most of them, and not all threads the same number."""
    tokens, heads, dim = 23832, (9, 2), 16
    q = random((tokens, heads[0], dim), "bf16", device, 1)
    k = random((tokens, heads[1], dim), "bf16", device, 2)
    weights = weights_of(dim, "bf16", device)
    positions, table = positions_of((tokens,), 50, device), table_of(dim, 50, device)
    results = ac4k.qk_norm_rope(q, k, *weights, positions, table, style=style)
    assert_right("qk_norm_rope", results, q, k, *weights, positions, table, style=style)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cast_first", [False, True])
@pytest.mark.parametrize("style", STYLES)
def test_qk_norm_rope_of_many_usual_heads(
    device: str, style: Any, cast_first: bool, dtype: str
) -> None:
    """Heads of 128 have a kernel of their own; here the last groups of q and k are not full, nor
    is the last block, and rows do not follow each other."""
    tokens, heads, dim = 701, (7, 2), 128
    both = random((tokens, sum(heads), dim), dtype, device, 1)
    q, k = both[:, : heads[0]], both[:, heads[0] :]
    weights = weights_of(dim, dtype, device)
    positions, table = positions_of((tokens,), 50, device), table_of(dim, 50, device)
    options = {"style": style, "cast_first": cast_first}
    results = ac4k.qk_norm_rope(q, k, *weights, positions, table, **options)
    assert_right("qk_norm_rope", results, q, k, *weights, positions, table, **options)
    ac4k.qk_norm_rope(q, k, *weights, positions, table, **options, out=(q, k))
    assert all(torch.equal(a, b) for a, b in zip(results, (q, k), strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cast_first", [False, True])
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize(
    ("heads", "dim"), [((12, 12), 128), ((3, 2), 32), ((2, 5), 10), ((40, 40), 128), ((1, 1), 2)]
)
def test_qk_norm_rope_3d(
    device: str, dtype: str, cast_first: bool, precision: Any, heads: tuple[int, int], dim: int
) -> None:
    q = random((2, 14, heads[0], dim), dtype, device, 1)
    wide_k = random((2, 14, heads[1] * dim + 8), dtype, device, 2)
    k = wide_k[..., 8:].unflatten(-1, (heads[1], dim))
    weights = (
        weights_of(heads[0] * dim, dtype, device)[0],
        weights_of(heads[1] * dim, dtype, device)[1],
    )
    sizes = torch.tensor([[2, 3, 2], [3, 2, 2]], device=device)
    table = torch.from_numpy(ac4k.rope_3d_table(dim)).to(device)
    options = {"precision": precision, "cast_first": cast_first}
    results = ac4k.qk_norm_rope_3d(q, k, *weights, sizes, table, **options)
    assert_right("qk_norm_rope_3d", results, q, k, *weights, sizes, table, **options)
    if device == "cpu":
        norms = [
            ac4k.rms_norm(x.flatten(2), w, cast_first=cast_first).view(x.shape)
            for x, w in zip((q, k), weights, strict=True)
        ]
        apart = ac4k.rope_3d(norms[0], sizes, table, norms[1], precision=precision)
        assert all(torch.equal(a, b) for a, b in zip(results, apart, strict=True))
    again = q.clone(), k
    ac4k.qk_norm_rope_3d(*again, *weights, sizes, table, **options, out=again)
    assert all(torch.equal(a, b) for a, b in zip(results, again, strict=True))


def test_qk_norm_special_rows(device: str) -> None:
    """All-zero heads stay zero; NaN stays in its head; one huge number rules its head."""
    q = torch.zeros(4, 3, 64, dtype=torch.bfloat16, device=device)
    q[1, 1, 5], q[2, 0, 7] = math.nan, 3e38
    q[3, 2] = 1e-30
    weights, positions = weights_of(64, "bf16", device), torch.arange(4, device=device)
    table = table_of(64, 4, device)
    result, _ = ac4k.qk_norm_rope(q, q, *weights, positions, table)
    assert bool((result[0] == 0).all())
    assert bool(result[1, 1].isnan().all())
    assert bool((result[1, [0, 2]] == 0).all())
    assert bool((result[2, 0].float().abs().nan_to_num(0) < 30).all())
    assert_right("qk_norm_rope", (result[:2], result[:2]), q[:2], q[:2], weights[0], weights[0],
                 positions[:2], table)  # fmt: skip


def test_qk_norm_refuses(device: str) -> None:
    q, table = random((1, 4, 2, 8), "f32", device), torch.zeros(4, 4, 2).double().to(device)
    sizes, ones = torch.tensor([[1, 2, 2]], device=device), torch.ones(16, device=device)
    with pytest.raises(ValueError, match=r"'k_weight': expected shape \(16\)"):
        ac4k.qk_norm_rope_3d(q, q, ones, ones[:8], sizes, table)
    swapped = random((1, 2, 4, 8), "f32", device).transpose(1, 2)
    with pytest.raises(ValueError, match="'q': expected the heads of a token in a row"):
        ac4k.qk_norm_rope_3d(swapped, q, ones, ones, sizes, table)
    with pytest.raises(ValueError, match="'out': expected the heads of a token in a row"):
        ac4k.qk_norm_rope_3d(q, q, ones, ones, sizes, table, out=(swapped, torch.empty_like(q)))
    with pytest.raises(ValueError, match="'eps': expected at least 0"):
        ac4k.qk_norm_rope(q[0], q[0], ones[:8], ones[:8], sizes.new_zeros(4), ones.view(2, 8), -1.0)


CACHES = {"same": None, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("tokens", "heads", "dim", "rotary"),
    [
        (19, (4, 2), 128, 128),
        (5, (3, 3), 96, 64),
        (7, (1, 5), 10, 6),
        (3, (2, 1), 7, 2),
        (1400, (2, 1), 32, 32),
    ],
)
def test_rope_store_kvcache(
    device: str,
    dtype: str,
    style: Any,
    layout: Any,
    cache: str,
    tokens: int,
    heads: tuple[int, int],
    dim: int,
    rotary: int,
) -> None:
    """The same bits as rope and store_kvcache one after the other."""
    H, G = heads
    fused = random((tokens, H + 2 * G, dim), dtype, device, 1) * 4
    q, k, v = fused[:, :H], fused[:, H : H + G], fused[:, H + G :]
    before = fused.clone()
    positions, table = positions_of((tokens,), 40, device), table_of(rotary, 40, device)
    positions[1] = 40
    slots = torch.randperm(24, generator=torch.Generator().manual_seed(3))[: tokens - 1].to(device)
    slots[0], slots[1 % len(slots)] = -1, 24
    kind = CACHES[cache] or TORCH[dtype]
    shape = (6, 4, G, dim) if layout == "NHD" else (6, G, 4, dim)
    empty = random((2, *shape), "f32", device, 5).to(kind)
    scales = (None, None)
    if cache != "same":
        scales = (
            torch.tensor([0.5], device=device),
            torch.linspace(0.25, 2, G, device=device),
        )
    expected, got = empty.clone(), empty.clone()
    rotated = ac4k.rope(q, positions, table, k.contiguous(), style=style)
    ac4k.store_kvcache(rotated[1], v, expected[0], expected[1], slots, *scales, layout=layout)
    result = ac4k.rope_store_kvcache(
        q, k, v, positions.int(), table, got[0], got[1], slots, *scales, style=style, layout=layout
    )
    assert same_bits(result, rotated[0])
    assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))
    assert torch.equal(fused, before)
    again = empty.clone()
    ac4k.rope_store_kvcache(
        q, k, v, positions, table, again[0], again[1], slots.int(), *scales, style=style,
        layout=layout, out=q,
    )  # fmt: skip
    assert same_bits(q, result)
    assert torch.equal(again.view(torch.uint8), expected.view(torch.uint8))


def test_rope_store_kvcache_refuses(device: str) -> None:
    q, table = random((3, 2, 8), "bf16", device), table_of(8, 4, device)
    positions, slots = positions_of((3,), 4, device), torch.arange(3, device=device)
    cache = torch.zeros(2, 2, 4, 2, 8, dtype=torch.bfloat16, device=device)
    with pytest.raises(TypeError, match="'k_cache': expected dtype bfloat16"):
        ac4k.rope_store_kvcache(q, q, q, positions, table, *cache.float(), slots)
    with pytest.raises(ValueError, match="'slot_mapping': expected at most 3 slots"):
        ac4k.rope_store_kvcache(q, q, q, positions, table, *cache, torch.arange(4, device=device))
    with pytest.raises(ValueError, match="'k_scale': expected None"):
        ac4k.rope_store_kvcache(
            q, q, q, positions, table, *cache, slots, torch.ones(1, device=device)
        )
