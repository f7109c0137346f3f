"""The RoPE ops and their tables: against float64, PyTorch's own arithmetic and Transformers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k
from ac4k.reference import error_ratio, references_of

OPS = {op["name"]: op for op in ac4k.op_table()}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
SHORT = {dtype: name for name, dtype in TORCH.items()}
STYLES = ("neox", "interleaved")


def random(shape: tuple[int, ...], dtype: str, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(TORCH[dtype]).to(device)


def positions_of(shape: tuple[int, ...], limit: int, device: str, seed: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, limit, shape, generator=generator).to(device)


def table_of(dim: int, positions: int, device: str) -> torch.Tensor:
    return torch.from_numpy(ac4k.rope_table(dim, positions)).to(device)


def wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.double() if value.is_floating_point() else value).numpy()


def assert_right(name: str, results: Any, *args: Any, **options: Any) -> None:
    expected = references_of(
        name, *map(wide, args), **{key: wide(value) for key, value in options.items()}
    )
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert tuple(result.shape) == reference.result.shape
        ratio = error_ratio(SHORT[result.dtype], OPS[name]["tolerance"], wide(result), reference)
        assert ratio <= 1


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(
        torch.nan_to_num(a, nan=0.0), torch.nan_to_num(b, nan=0.0)
    )


def eager(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str) -> torch.Tensor:
    """PyTorch's operators in float32, rounded once. cos, sin: [tokens..., pairs]."""
    cos, sin = cos[..., None, :], sin[..., None, :]
    pairs = cos.shape[-1]
    result = x.clone()
    first, second = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if style == "neox"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    a, b = x[..., first].float(), x[..., second].float()
    result[..., first] = (a * cos - b * sin).to(x.dtype)
    result[..., second] = (b * cos + a * sin).to(x.dtype)
    return result


def wan(x: torch.Tensor, grid_sizes: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Wan 2.1's definition: complex128, then float32, then the type of x."""
    n, c = x.size(2), x.size(3) // 2
    freqs = torch.view_as_complex(table).split([c - 2 * (c // 3), c // 3, c // 3], dim=1)
    output = []
    for i, (f, h, w) in enumerate(grid_sizes.tolist()):
        length = f * h * w
        x_i = torch.view_as_complex(x[i, :length].to(torch.float64).reshape(length, n, -1, 2))
        freqs_i = torch.cat(
            [
                freqs[0][:f].view(f, 1, 1, -1).expand(f, h, w, -1),
                freqs[1][:h].view(1, h, 1, -1).expand(f, h, w, -1),
                freqs[2][:w].view(1, 1, w, -1).expand(f, h, w, -1),
            ],
            dim=-1,
        ).reshape(length, 1, -1)
        x_i = torch.view_as_real(x_i * freqs_i).flatten(2)
        output.append(torch.cat([x_i, x[i, length:].to(torch.float64)]))
    return torch.stack(output).float().to(x.dtype)


# --- rope ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("leading", "heads", "dim", "rotary"),
    [
        ((), (1, 1), 2, 2),
        ((1,), (32, 8), 128, 128),
        ((7,), (3, 1), 64, 32),
        ((2, 5), (4, 2), 80, 80),
        ((3, 1, 4), (5, 3), 96, 64),
        ((9,), (2, 2), 128, 96),
        ((4,), (3, 5), 7, 6),
        ((4,), (3, 5), 10, 4),
        ((5,), (2, 1), 6, 0),
        ((0,), (2, 1), 16, 16),
        ((3,), (1, 2), 1100, 1100),
        ((2,), (1, 1), 4352, 4352),
        ((65,), (12, 12), 128, 128),
    ],
)
def test_rope(
    device: str,
    dtype: str,
    style: Any,
    leading: tuple[int, ...],
    heads: tuple[int, int],
    dim: int,
    rotary: int,
) -> None:
    q = random((*leading, heads[0], dim), dtype, device, 1)
    k = random((*leading, heads[1], dim), dtype, device, 2)
    positions, table = positions_of(leading, 50, device), table_of(rotary, 50, device)
    out = torch.full_like(q, math.nan), torch.full_like(k, math.nan)
    results = ac4k.rope(q, positions, table, k, style=style, out=out)
    assert results[0] is out[0]
    assert results[1] is out[1]
    assert_right("rope", results, q, positions, table, k, style=style)
    cos, sin = table[positions].chunk(2, -1)
    assert torch.equal(results[0], eager(q, cos, sin, style))
    assert torch.equal(results[1], eager(k, cos, sin, style))
    alone = ac4k.rope(q, positions.int(), table, style=style)
    assert torch.equal(alone, results[0])


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
def test_rope_takes_rows_anywhere(device: str, dtype: str, style: Any) -> None:
    """Parts of a fused projection, heads before tokens, misaligned rows, one row for all."""
    H, G, D = 4, 2, 64
    table, positions = table_of(D, 40, device), positions_of((3, 5), 40, device)
    fused = random((3, 5, (H + 2 * G) * D), dtype, device, 1)
    fused_q = fused[..., : H * D].unflatten(-1, (H, D))
    fused_k = fused[..., H * D : (H + G) * D].unflatten(-1, (G, D))
    swapped = random((3, H, 5, D), dtype, device, 2).transpose(1, 2)
    shifted = random((3, 5, H, D + 3), dtype, device, 3)[..., 1 : D + 1]
    expanded = random((1, 1, H, D), dtype, device, 4).expand(3, 5, H, D)
    backwards = random((3, 5, H, D), dtype, device, 5).flip(0)
    for q, k in itertools.product((fused_q, swapped, shifted, expanded, backwards), repeat=2):
        results = ac4k.rope(q, positions, table, k, style=style)
        assert_right("rope", results, q, positions, table, k, style=style)
        plain = ac4k.rope(q.contiguous(), positions, table, k.contiguous(), style=style)
        assert all(torch.equal(a, b) for a, b in zip(results, plain, strict=True))
    results = ac4k.rope(fused_q, positions, table, fused_k, style=style)
    assert_right("rope", results, fused_q, positions, table, fused_k, style=style)


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("rotary", [64, 32, 30])
def test_rope_in_place(device: str, dtype: str, style: Any, rotary: int) -> None:
    fused = random((9, 8, 64), dtype, device, 1)
    before = fused.clone()
    q, k, v = fused[:, :4], fused[:, 4:6], fused[:, 6:]
    positions, table = positions_of((9,), 40, device), table_of(rotary, 40, device)
    expected = ac4k.rope(q.clone(), positions, table, k.clone(), style=style)
    results = ac4k.rope(q, positions, table, k, style=style, out=(q, k))
    assert results[0] is q
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])
    assert torch.equal(v, before[:, 6:])
    # Strided outputs that are not inputs.
    apart = torch.full_like(before, math.nan)
    ac4k.rope(before[:, :4], positions, table, style=style, out=apart[:, 2:6])
    assert torch.equal(apart[:, 2:6], expected[0])
    assert bool(apart[:, :2].isnan().all())
    assert bool(apart[:, 6:].isnan().all())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("dim", [64, 10])
def test_positions_outside_the_table_give_nan(
    device: str, style: Any, kind: torch.dtype, dim: int
) -> None:
    q = random((6, 3, dim + 8), "bf16", device)
    outside = 2**31 - 1 if kind == torch.int32 else 2**62
    positions = torch.tensor([0, -1, 5, 6, outside, -outside - 1], dtype=kind, device=device)
    table = table_of(dim, 6, device)
    result = ac4k.rope(q, positions, table, style=style)
    rotated = result[..., :dim].float().isnan()
    assert rotated.flatten(1).all(1).tolist() == [False, True, False, True, True, True]
    assert torch.equal(result[..., dim:], q[..., dim:])
    inside = [0, 2]
    assert torch.equal(result[inside], ac4k.rope(q[inside], positions[inside], table, style=style))


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
def test_rope_special_values(device: str, dtype: str, style: Any) -> None:
    """NaN, infinities, zeros of both signs, denormals and the largest numbers do as in PyTorch."""
    values = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -6e-8, 65504.0, 3e38, 1.0)
    grid = torch.tensor(list(itertools.product(values, repeat=2)), dtype=torch.float64)
    x = (grid.T.reshape(1, 1, -1) if style == "neox" else grid.reshape(1, 1, -1)).to(TORCH[dtype])
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.0, -1.0]])
    table = table.repeat_interleave(len(grid), 1).to(device)
    for row in range(len(table)):
        positions = torch.tensor([row], device=device)
        result = ac4k.rope(x.to(device), positions, table, style=style)
        cos, sin = table[positions].chunk(2, -1)
        expected = eager(x.to(device), cos, sin, style)
        assert same_bits(result, expected)
        zero = expected == 0
        assert torch.equal(torch.signbit(result[zero]), torch.signbit(expected[zero]))


@given(
    leading=st.lists(st.integers(0, 4), max_size=3),
    heads=st.tuples(st.integers(0, 5), st.integers(0, 3)),
    dim=st.integers(0, 40),
    rotary=st.integers(0, 20),
    style=st.sampled_from(STYLES),
    dtype=st.sampled_from(tuple(TORCH)),
    with_k=st.booleans(),
    transposed=st.booleans(),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_shape(
    leading: list[int],
    heads: tuple[int, int],
    dim: int,
    rotary: int,
    style: Any,
    dtype: str,
    with_k: bool,
    transposed: bool,
) -> None:
    rotary = min(2 * rotary, dim // 2 * 2)
    q = random((*leading, heads[0], dim), dtype, "cpu", 1)
    k = random((*leading, heads[1], dim), dtype, "cpu", 2) if with_k else None
    if transposed and leading:
        q = q.transpose(0, -2).contiguous().transpose(0, -2)
    positions, table = positions_of(tuple(leading), 9, "cpu"), table_of(rotary, 9, "cpu")
    results = ac4k.rope(q, positions, table, k, style=style)
    assert_right("rope", results, q, positions, table, k, style=style)


def test_rope_refuses(device: str) -> None:
    q, positions = random((3, 2, 8), "f32", device), positions_of((3,), 4, device)
    for columns in (10, 7):
        with pytest.raises(
            ValueError, match=f"'cos_sin'.*at most the head_dim of 8, got {columns}"
        ):
            ac4k.rope(q, positions, torch.ones(4, columns, device=device))
    with pytest.raises(ValueError, match="positions"):
        ac4k.rope(q, positions[:2], torch.ones(4, 8, device=device))
    with pytest.raises(ValueError, match="q"):
        ac4k.rope(q.transpose(1, 2), positions, torch.ones(4, 2, device=device))
    with pytest.raises(TypeError, match="positions"):
        ac4k.rope(q, positions.float(), torch.ones(4, 8, device=device))


# --- mrope --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("sections", "dim"),
    [((16, 24, 24), 128), ((24, 20, 20), 128), ((3, 1, 2), 16), ((0, 4, 1), 10), ((5, 0, 0), 12)],
)
def test_mrope(
    device: str,
    dtype: str,
    style: Any,
    interleaved: bool,
    sections: tuple[int, int, int],
    dim: int,
) -> None:
    t, h, w = sections
    q, k = random((2, 7, 5, dim), dtype, device, 1), random((2, 7, 3, dim), dtype, device, 2)
    positions, table = positions_of((3, 14), 30, device), table_of(2 * (t + h + w), 30, device)
    options = {
        "section_t": t,
        "section_h": h,
        "section_w": w,
        "interleaved_sections": interleaved,
        "style": style,
    }
    results = ac4k.mrope(q, positions, table, k, **options)
    assert_right("mrope", results, q, positions, table, k, **options)
    same = positions[:1].expand(3, 14).contiguous()
    plain = ac4k.rope(q, same[0].view(2, 7), table, k, style=style)
    assert torch.equal(ac4k.mrope(q, same, table, **options), plain[0])
    positions[1, 3], positions[2, 5] = 30, -1
    results = ac4k.mrope(q, positions, table, k, **options)
    assert_right("mrope", results, q, positions, table, k, **options)


def test_mrope_refuses(device: str) -> None:
    q, positions = random((3, 2, 8), "f32", device), positions_of((3, 3), 4, device)
    table = table_of(8, 4, device)
    with pytest.raises(ValueError, match=r"expected 4 pairs together, half the columns.*got 3"):
        ac4k.mrope(q, positions, table, section_t=1, section_h=1, section_w=1)
    with pytest.raises(ValueError, match="'section_h': expected 0 to 4 pairs, got -1"):
        ac4k.mrope(q, positions, table, section_t=4, section_h=-1, section_w=1)


# --- rope_3d ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TORCH)
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


@pytest.mark.parametrize("dtype", TORCH)
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
    for dtype in TORCH:
        q = random((len(sizes), 11, 2, 12), dtype, device)
        for precision in ("exact", "fast"):
            result = ac4k.rope_3d(q, grid_sizes, table, precision=precision)
            assert_right("rope_3d", result, q, grid_sizes, table, precision=precision)
            assert torch.equal(result[:2], q[:2])


@pytest.mark.parametrize("dtype", TORCH)
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


# --- Norm and rotation --------------------------------------------------------------------------


def weights_of(count: int, dtype: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return random((count,), dtype, device, 11) + 1, random((count,), dtype, device, 12)


@pytest.mark.parametrize("dtype", TORCH)
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


@pytest.mark.parametrize("dtype", TORCH)
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


# --- RoPE and the KV cache ----------------------------------------------------------------------

CACHES = {"same": None, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("tokens", "heads", "dim", "rotary"),
    [(19, (4, 2), 128, 128), (5, (3, 3), 96, 64), (7, (1, 5), 10, 6), (3, (2, 1), 7, 2)],
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


# --- CPU levels and threads ---------------------------------------------------------------------


def cpu_levels() -> list[str]:
    levels = ["generic", "avx2", "avx512", "amx"]
    return levels[: levels.index(ac4k.info()["cpu"]["best_isa"]) + 1]


@pytest.mark.parametrize("dtype", TORCH)
def test_every_cpu_level_gives_the_same_bits(dtype: str) -> None:
    q, k = random((2, 31, 3, 70), dtype, "cpu", 1), random((2, 31, 2, 70), dtype, "cpu", 2)
    positions, table = positions_of((2, 31), 40, "cpu"), table_of(66, 40, "cpu")
    sizes = torch.tensor([[3, 2, 5], [2, 2, 7]])
    grid_table = torch.from_numpy(ac4k.rope_3d_table(70))
    sections = {"section_t": 11, "section_h": 12, "section_w": 10}
    results = []
    try:
        for level in cpu_levels():
            ac4k.set_cpu_isa(level)
            results.append(
                [
                    *(ac4k.rope(q, positions, table, k, style=style) for style in STYLES),
                    ac4k.mrope(
                        q, positions.view(1, -1).expand(3, -1).contiguous(), table, k, **sections
                    ),
                    *(
                        ac4k.rope_3d(q, sizes, grid_table, k, precision=m)
                        for m in ("exact", "fast")
                    ),
                ]
            )
    finally:
        ac4k.set_cpu_isa("auto")
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a[0], b[0])
            assert torch.equal(a[1], b[1])


def test_results_do_not_depend_on_threads() -> None:
    q = random((200, 8, 128), "bf16", "cpu", 1)
    positions, table = positions_of((200,), 300, "cpu"), table_of(128, 300, "cpu")
    results = []
    for count in (1, 2, 3):
        ac4k.set_num_threads(count)
        results.append(ac4k.rope(q, positions, table))
    ac4k.set_num_threads(0)
    assert all(torch.equal(results[0], other) for other in results[1:])


# --- Tables -------------------------------------------------------------------------------------

_SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": 256},
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512},
    "yarn with mscale": {
        "rope_type": "yarn",
        "factor": 40.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
        "beta_fast": 16,
        "beta_slow": 2,
        "truncate": False,
        "original_max_position_embeddings": 512,
    },
    "yarn with attention_factor": {
        "rope_type": "yarn",
        "factor": 8.0,
        "attention_factor": 1.25,
        "original_max_position_embeddings": 512,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "partial": {"rope_type": "default", "partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("name", _SCALINGS)
def test_rope_table_agrees_with_transformers(name: str) -> None:
    """Theirs computes frequencies and angles in float32, which costs up to position * eps of an
    angle; ours are the same numbers from float64."""
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = dict(_SCALINGS[name])
    positions, base, dim = 600, 50000.0, 64
    table = ac4k.rope_table(dim, positions, base=base, scaling=scaling, dtype="float64")
    kind = scaling.get("rope_type", "default")
    if kind == "default":
        dim = int(dim * scaling.get("partial_rotary_factor", 1.0))
        frequencies = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        factor = 1.0
    else:
        config = LlamaConfig(
            hidden_size=128,
            num_attention_heads=2,
            max_position_embeddings=scaling.get("original_max_position_embeddings", positions),
            rope_parameters={"rope_theta": base, **scaling},
        )
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, seq_len=positions)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies.double()
    expected = torch.cat([angles.cos(), angles.sin()], -1) * factor
    assert table.shape == expected.shape
    # Frequencies of float32: some operations of relative error 2^-24, of pow up to a few.
    allowed = np.concatenate([angles.numpy()] * 2, 1) * 16 * 2.0**-24 * factor + 1e-6
    assert np.all(np.abs(table - expected.numpy()) <= allowed)


def test_rope_agrees_with_transformers(device: str) -> None:
    """In float32 bit for bit: both multiply, negate and add."""
    pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = random((2, 9, 4, 64), "f32", device, 1), random((2, 9, 2, 64), "f32", device, 2)
    positions, table = positions_of((2, 9), 100, device), table_of(64, 100, device)
    cos, sin = table[positions].chunk(2, -1)
    expected = apply_rotary_pos_emb(
        q, k, torch.cat([cos, cos], -1), torch.cat([sin, sin], -1), unsqueeze_dim=2
    )
    results = ac4k.rope(q, positions, table, k)
    assert torch.equal(results[0], expected[0])
    assert torch.equal(results[1], expected[1])


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_mrope_agrees_with_transformers(device: str, model: str) -> None:
    pytest.importorskip("transformers")
    import importlib

    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    rotary: Any = (
        module.Qwen2VLRotaryEmbedding if model == "qwen2_vl" else module.Qwen3VLTextRotaryEmbedding
    )
    sections = [16, 24, 24] if model == "qwen2_vl" else [24, 20, 20]
    table, positions = table_of(128, 100, device), positions_of((3, 14), 100, device)
    q = random((2, 7, 4, 128), "f32", device)
    halves = []
    for half in table[positions.view(3, 2, 7)].chunk(2, -1):  # [3, 2, 7, 64]
        self = type("Rotary", (), {"mrope_section": sections})()
        halves.append(rotary.recomposition_frequencies(self, half.clone()))
    expected, _ = module.apply_rotary_pos_emb(q, q, *halves, unsqueeze_dim=2)
    result = ac4k.mrope(
        q,
        positions,
        table,
        section_t=sections[0],
        section_h=sections[1],
        section_w=sections[2],
        interleaved_sections=model == "qwen3_vl",
    )
    assert torch.equal(result, expected)


def test_rope_3d_table_is_wans() -> None:
    """Their rope_params in float64; pow, cos and sin of two libraries differ in their last bits,
    and a last bit of a frequency counts position times."""

    def rope_params(length: int, dim: int) -> torch.Tensor:
        exponents = torch.arange(0, dim, 2).to(torch.float64).div(dim)
        freqs = torch.outer(torch.arange(length), 1.0 / torch.pow(10000, exponents))
        return torch.polar(torch.ones_like(freqs), freqs)

    expected = torch.cat([rope_params(1024, dim) for dim in (44, 42, 42)], dim=1)
    table = ac4k.rope_3d_table(128)
    assert table.dtype == np.float64
    assert np.abs(table - torch.view_as_real(expected).numpy()).max() < 1024 * 2.0**-52


def test_tables_come_as_asked(device: str) -> None:
    assert isinstance(ac4k.rope_table(8, 4), np.ndarray)
    table = ac4k.rope_table(8, 4, device=device)
    assert isinstance(table, torch.Tensor)
    assert table.device.type == torch.device(device).type
    like = ac4k.rope_3d_table(8, 4, like=table)
    assert like.device == table.device
    assert like.dtype == torch.float64
    assert ac4k.rope_table(8, 4, rotary_dim=4).shape == (4, 4)
    assert isinstance(ac4k.rope_table(8, 4, like=np.zeros(1)), np.ndarray)


def test_tables_refuse() -> None:
    with pytest.raises(ValueError, match="even rotary_dim up to head_dim = 8, got 10"):
        ac4k.rope_table(8, 4, rotary_dim=10)
    with pytest.raises(ValueError, match=r"expected rope_type default, linear.*got 'none'"):
        ac4k.rope_table(8, 4, scaling={"rope_type": "none"})
    with pytest.raises(ValueError, match="rope_type 'yarn' needs 'original_max_position_embedd"):
        ac4k.rope_table(8, 4, scaling={"rope_type": "yarn", "factor": 2.0})
    with pytest.raises(ValueError, match="at most 4 height_pairs and width_pairs"):
        ac4k.rope_3d_table(8, height_pairs=3, width_pairs=3)
