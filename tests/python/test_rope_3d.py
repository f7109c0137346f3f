"""rope_3d: bit-equal to Wan's definition in exact mode, float64 within tolerance in both."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers import FLOATS, TORCH, random
from rope_helpers import assert_right, same_bits, wan

import ac4k


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [128, 112, 64, 10, 6, 2])
def test_rope_3d_exact_is_bit_equal_to_wan(device: str, dtype: str, dim: int) -> None:
    """Complex multiplication in float64, on the same device. (PyTorch's scalar loop on the CPU, the
    last pair where their number is odd, uses FMA: a bit of float64 that float32 does not see.)"""
    grid_sizes = torch.tensor([[3, 4, 5], [2, 6, 3]], device=device)
    q, k = random((2, 70, 5, dim), dtype, device, 1), random((2, 70, 3, dim), dtype, device, 2)
    table = torch.from_numpy(ac4k.rope_3d_table(dim)).to(device)
    out = torch.full_like(q, math.nan), torch.full_like(k, math.nan)
    results = ac4k.rope_3d(q, grid_sizes, table, k, out=out)
    assert torch.equal(results[0], wan(q, grid_sizes, table))
    assert torch.equal(results[1], wan(k, grid_sizes, table))
    assert_right("rope_3d", results, q, grid_sizes, table, k)
    assert torch.equal(ac4k.rope_3d(q, grid_sizes.int(), table), results[0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("split", [(-1, -1), (0, 0), (3, 8), (16, 0)])
@pytest.mark.parametrize("scalar", ["f64", "f32"])
def test_rope_3d(
    device: str, dtype: str, precision: Any, split: tuple[int, int], scalar: str
) -> None:
    height, width = split
    grid_sizes = torch.tensor([[3, 4, 5], [1, 1, 60], [0, 4, 9], [7, 7, 7]], device=device)
    q, k = random((4, 60, 3, 32), dtype, device, 1), random((4, 60, 2, 32), dtype, device, 2)
    table = ac4k.rope_3d_table(32, 64, height_pairs=height, width_pairs=width)
    table = torch.from_numpy(table).to(device)
    table = table if scalar == "f64" else table.float()
    options = {"height_pairs": height, "width_pairs": width, "precision": precision}
    if precision == "exact" and scalar == "f32":
        with pytest.raises(TypeError, match="'table': expected float64 with precision='exact'"):
            ac4k.rope_3d(q, grid_sizes, table, k, **options)
        return
    results = ac4k.rope_3d(q, grid_sizes, table, k, **options)
    assert_right("rope_3d", results, q, grid_sizes, table, k, **options)
    assert torch.equal(results[0][2], q[2])
    inplace = q.clone(), k.clone()
    ac4k.rope_3d(*inplace[:1], grid_sizes, table, inplace[1], **options, out=inplace)
    assert all(torch.equal(a, b) for a, b in zip(inplace, results, strict=True))
    wide_rows = torch.zeros(4, 3, 60, 40, dtype=q.dtype, device=device)
    strided = wide_rows[..., 5:37].transpose(1, 2)
    strided.copy_(q)
    assert torch.equal(ac4k.rope_3d(strided, grid_sizes, table, **options), results[0])
    if precision == "fast":
        turned = ac4k.rope_3d(q[:1], grid_sizes[:1], table.double(), **options)
        assert_right("rope_3d", turned, q[:1], grid_sizes[:1], table.double(), **options)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_rope_3d_odd_grids(device: str, kind: torch.dtype) -> None:
    """Sizes that are negative, zero, larger than the sample, larger than the table, enormous."""
    huge = 2**31 - 1 if kind == torch.int32 else 2**62
    sizes = [[-1, 2, 3], [2, 0, 3], [5, 5, 5], [9, 1, 1], [1, 9, 2], [1, 1, 9], [huge, huge, huge]]
    sizes += [[huge, 1, 1], [1, huge, 2], [2, 2, huge], [-huge, huge, huge]]
    grid_sizes = torch.tensor(sizes, dtype=kind, device=device)
    table = torch.from_numpy(ac4k.rope_3d_table(12, 8)).to(device)
    for dtype in FLOATS:
        q = random((len(sizes), 11, 2, 12), dtype, device)
        for precision in ("exact", "fast"):
            result = ac4k.rope_3d(q, grid_sizes, table, precision=precision)
            assert_right("rope_3d", result, q, grid_sizes, table, precision=precision)
            assert torch.equal(result[:2], q[:2])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rope_3d_special_values(device: str, dtype: str) -> None:
    values = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -6e-8, 65504.0, 3e38, 1.0)
    grid = torch.tensor(list(itertools.product(values, repeat=2)), dtype=torch.float64)
    x = grid.reshape(1, 1, 1, -1).to(TORCH[dtype]).to(device).expand(1, 2, 1, -1)
    turns = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(len(grid), 2).contiguous()
    turns = torch.stack([turns, turns.flip(1) * 0.6 + turns * 0.8]).to(device)
    sizes = torch.tensor([[2, 1, 1]], device=device)
    options = {"height_pairs": 0, "width_pairs": 0}
    result = ac4k.rope_3d(x, sizes, turns, **options)
    a, b = x[..., ::2].double(), x[..., 1::2].double()
    cos, sin = (turns[None, :, None, :, i] for i in range(2))
    expected = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    assert same_bits(result, expected.float().to(x.dtype))


def test_rope_3d_refuses(device: str) -> None:
    q, sizes = random((1, 4, 2, 8), "f32", device), torch.tensor([[1, 2, 2]], device=device)
    table = torch.from_numpy(ac4k.rope_3d_table(8)).to(device)
    with pytest.raises(ValueError, match=r"'height_pairs': expected -1 .* 0 to 4 pairs, got 5"):
        ac4k.rope_3d(q, sizes, table, height_pairs=5)
    with pytest.raises(ValueError, match="at most 4 pairs together, got 6"):
        ac4k.rope_3d(q, sizes, table, height_pairs=3, width_pairs=3)
    with pytest.raises(ValueError, match="table"):
        ac4k.rope_3d(random((1, 4, 2, 10), "f32", device), sizes, table)
