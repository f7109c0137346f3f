"""rope and mrope: against float64 and PyTorch's own arithmetic."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers import FLOATS, TORCH, cpu_levels, random
from hypothesis import given, settings
from hypothesis import strategies as st
from rope_helpers import STYLES, assert_right, eager, positions_of, same_bits, table_of

import ac4k


@pytest.mark.parametrize("dtype", FLOATS)
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
        ((1100,), (3, 1), 64, 32),
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


@pytest.mark.parametrize("dtype", FLOATS)
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


@pytest.mark.parametrize("dtype", FLOATS)
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


@pytest.mark.parametrize("dtype", FLOATS)
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
    dtype=st.sampled_from(FLOATS),
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


@pytest.mark.parametrize("dtype", FLOATS)
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


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("sections", [(16, 24, 24, False), (20, 21, 23, False), (24, 20, 20, True)])
def test_mrope_of_many_heads(device: str, style: Any, sections: tuple[int, int, int, bool]) -> None:
    """Other kernels than those of few, which all the others here are."""
    q, k = random((600, 5, 128), "bf16", device, 1), random((600, 3, 128), "bf16", device, 2)
    positions, table = positions_of((3, 600), 30, device), table_of(128, 30, device)
    positions[1, 3], positions[2, 5] = 30, -1
    names = ("section_t", "section_h", "section_w", "interleaved_sections")
    options = {**dict(zip(names, sections, strict=True)), "style": style}
    results = ac4k.mrope(q, positions, table, k, **options)
    assert_right("mrope", results, q, positions, table, k, **options)


def test_mrope_refuses(device: str) -> None:
    q, positions = random((3, 2, 8), "f32", device), positions_of((3, 3), 4, device)
    table = table_of(8, 4, device)
    with pytest.raises(ValueError, match=r"expected 4 pairs together, half the columns.*got 3"):
        ac4k.mrope(q, positions, table, section_t=1, section_h=1, section_w=1)
    with pytest.raises(ValueError, match="'section_h': expected 0 to 4 pairs, got -1"):
        ac4k.mrope(q, positions, table, section_t=4, section_h=-1, section_w=1)


@pytest.mark.parametrize("dtype", FLOATS)
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
