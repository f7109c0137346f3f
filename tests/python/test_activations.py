"""silu_and_mul, gelu_and_mul, relu2 and residual_gate against their float64 references."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers import FLOATS, OPS, TORCH, cpu_levels, poisoned, random, wide
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import ac4k
from ac4k.reference import REFERENCES, error_ratio

SPECIALS = (
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -1e-40,
    65504.0,
    -65504.0,
    3e38,
    -3e38,
    1.0,
    -90.0,
    -100.0,
)
# Name and options of the gated activations.
GATED: list[tuple[str, dict[str, str]]] = [
    ("silu_and_mul", {}),
    ("gelu_and_mul", {}),
    ("gelu_and_mul", {"approximate": "tanh"}),
]


def assert_right(name: str, dtype: str, result: torch.Tensor, *args: Any, **options: Any) -> None:
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](*(wide(a) for a in args), **options)
    assert result.dtype == TORCH[dtype]
    assert tuple(result.shape) == expected.result.shape
    assert error_ratio(dtype, OPS[name]["tolerance"], wide(result), expected) <= 1


SHAPES = [
    (1,),
    (7,),
    (8,),
    (4096,),
    (3, 1, 5),
    (2, 3, 4, 24),
    (129, 257),
    (0, 5),
    (5, 0),
    (67, 4096),
    (1027, 16),
    (3, 11008),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), GATED)
@pytest.mark.parametrize("shape", SHAPES)
def test_gated(
    device: str, dtype: str, name: str, options: dict[str, str], shape: tuple[int, ...]
) -> None:
    x = random((*shape[:-1], 2 * shape[-1]), dtype, device, 1) * 4
    out = poisoned(shape, dtype, device)
    op = getattr(ac4k, name)
    assert op(x, **options, out=out) is out
    assert_right(name, dtype, out, x, **options)
    assert torch.equal(out, op(x, **options)), "the same call gave other bits"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_relu2(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = random(shape, dtype, device, 1) * 4
    out = poisoned(shape, dtype, device)
    ac4k.relu2(x, out=out)
    # One rounding of an exact square: PyTorch has the same bits.
    assert torch.equal(out, functional.relu(x).square())
    assert_right("relu2", dtype, out, x)
    assert torch.equal(ac4k.relu2(x, out=x), out)  # in place


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("leading", "tokens", "columns"),
    [
        ((), 1, 1),
        ((), 5, 7),
        ((1,), 3, 64),
        ((2,), 33, 1536),
        ((3, 2), 4, 40),
        ((2,), 3, 4095),
        ((2,), 0, 8),
        ((0,), 3, 8),
        ((4,), 1, 5120),
        ((2,), 300, 16),
    ],
)
def test_residual_gate(
    device: str, dtype: str, leading: tuple[int, ...], tokens: int, columns: int
) -> None:
    shape = (*leading, tokens, columns)
    x, y = random(shape, dtype, device, 1), random(shape, dtype, device, 2)
    gate = random((*leading, columns), dtype, device, 3)
    out = poisoned(shape, dtype, device)
    ac4k.residual_gate(x, y, gate, out=out)
    assert_right("residual_gate", dtype, out, x, y, gate)
    # The product of two float32 is exact in float64, and so nearly is the sum.
    expected = (x.double() + gate.double()[..., None, :] * y.double()).to(TORCH[dtype])
    if dtype == "f32":
        assert torch.equal(out, expected)
    assert torch.equal(out, ac4k.residual_gate(x, y, gate))
    for target in (x.clone(), y.clone()):
        args = (target, y) if torch.equal(target, x) else (x, target)
        assert torch.equal(ac4k.residual_gate(*args, gate, out=target), out)


@pytest.mark.parametrize("dtype", FLOATS)
def test_residual_gate_of_other_shapes(device: str, dtype: str) -> None:
    """A gate [B, 1, N] as models have it, one gate for the whole batch, and slices of a table of
    modulations."""
    x, y = random((3, 10, 64), dtype, device, 1), random((3, 10, 64), dtype, device, 2)
    modulation = random((3, 6, 64), dtype, device, 3)
    for gate in (modulation[:, 2:3], modulation[:1, 5:6].expand(3, 1, 64)):
        result = ac4k.residual_gate(x, y, gate[:, 0])
        assert torch.equal(result, ac4k.element_wise_mul_add(gate.expand_as(x), y, x))


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_view_works(device: str, dtype: str) -> None:
    base = random((6, 8, 16), dtype, device, 1)
    views = [
        base.transpose(0, 2),
        base[::2, 1:, ::2],
        base[:, :1].expand(6, 8, 16),
        base[0, 0, 0].expand(3, 4),
        base[1:, :, 2:],  # rows at one stride, not aligned
        base[1:, 2:5],  # rows at two strides
        base.permute(1, 2, 0)[None, :, None],
        base.reshape(-1)[2:],  # contiguous, not aligned to 16 bytes
        base.flip(0),
    ]
    wide_rows = random((5, 96), dtype, device, 2)
    views += [wide_rows[:, :64], wide_rows[:, 16:80], wide_rows[:, 1:65], wide_rows[::2, :32]]
    for x in views:
        assert_right("relu2", dtype, ac4k.relu2(x), x)
        for name, options in GATED:
            assert_right(name, dtype, getattr(ac4k, name)(x, **options), x, **options)
        if x.dim() > 1:
            gate = x[..., 0, :]
            y = x.clone()
            assert_right("residual_gate", dtype, ac4k.residual_gate(x, y, gate), x, y, gate)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), GATED)
def test_special_values_gated(device: str, dtype: str, name: str, options: dict[str, str]) -> None:
    grid = torch.tensor(list(itertools.product(SPECIALS, repeat=2)), dtype=torch.float64)
    x = grid.t().reshape(-1).to(TORCH[dtype]).to(device)
    result = getattr(ac4k, name)(x, **options)
    if name == "silu_and_mul":
        assert_right(name, dtype, result, x)
    half = x.shape[0] // 2
    a, b, result = x[:half].cpu().double(), x[half:].cpu().double(), result.cpu().double()
    assert result[(a == -math.inf) | a.isnan() | b.isnan()].isnan().all()
    positive = (a == math.inf) & (b > 0)
    assert (result[positive] == math.inf).all()
    assert result[(a == math.inf) & (b == 0)].isnan().all()
    zero = (a == 0) & b.isfinite()
    assert (result[zero] == 0).all()
    assert torch.equal(result[zero].signbit(), (a * b)[zero].signbit())


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(device: str, dtype: str) -> None:
    x = torch.tensor(SPECIALS, dtype=TORCH[dtype], device=device)
    result = ac4k.relu2(x)
    assert torch.equal(result.nan_to_num(-1), functional.relu(x).square().nan_to_num(-1))
    grid = torch.tensor(list(itertools.product(SPECIALS, repeat=3)), dtype=torch.float64)
    a, b, c = (grid[:, i].reshape(1, -1).to(TORCH[dtype]).to(device) for i in range(3))
    assert_right("residual_gate", dtype, ac4k.residual_gate(a, b, c[0]), a, b, c[0])


def test_silu_keeps_its_relative_accuracy_in_the_tail(device: str) -> None:
    """Where 1 + exp(-x) would have overflowed; exp's argument is rounded, which costs |x| eps."""
    x = torch.linspace(-87, -1, 1001, dtype=torch.float64).float()
    result = ac4k.silu_and_mul(torch.cat([x, torch.ones(1001)]).to(device)).cpu().double()
    expected = x.double() * torch.sigmoid(x.double())
    relative = ((result - expected) / expected).abs() / (1 + x.double().abs())
    assert relative.max().item() < 8 * 2.0**-23


def torch_gated(name: str, options: dict[str, str]) -> Callable[[torch.Tensor], torch.Tensor]:
    def silu(x: torch.Tensor) -> torch.Tensor:
        a, b = x.double().chunk(2, -1)
        return functional.silu(a) * b

    def gelu(x: torch.Tensor) -> torch.Tensor:
        a, b = x.double().chunk(2, -1)
        return functional.gelu(a, **options) * b

    return silu if name == "silu_and_mul" else gelu


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "options"), GATED)
def test_agrees_with_pytorch(device: str, dtype: str, name: str, options: dict[str, str]) -> None:
    """PyTorch's own functions in float64; one eps of the dtype covers rounding and arithmetic.
    PyTorch's 1 + tanh cancels at 1e-16, our float32 arithmetic is off by a few eps of |a b|."""
    x = random((33, 512), dtype, device, 7) * 2
    expected = torch_gated(name, options)(x)
    error = (getattr(ac4k, name)(x, **options).double() - expected).abs()
    eps = torch.finfo(TORCH[dtype]).eps
    smallest = torch.finfo(TORCH[dtype]).smallest_normal
    # On the CPU 16-bit results hide the arithmetic's error; a GPU's tail of tanh-GELU does not.
    slack = (1e-6 if dtype == "f32" or device == "cuda" else 1e-14) * (
        1 + x.double().abs().max() ** 2
    )
    assert bool((error <= eps * expected.abs() + eps * smallest + slack).all())


@pytest.fixture
def every_level() -> Iterator[list[str]]:
    yield cpu_levels()
    ac4k.set_cpu_isa("auto")


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_cpu_level(dtype: str, every_level: list[str]) -> None:
    special = torch.tensor([*SPECIALS] * 4, dtype=TORCH[dtype])
    x = random((19, 134), dtype, "cpu", 3) * 5
    for level in every_level:
        ac4k.set_cpu_isa(level)
        for name, options in GATED:
            op = getattr(ac4k, name)
            assert_right(name, dtype, op(x, **options), x, **options)
        assert_right("silu_and_mul", dtype, ac4k.silu_and_mul(special), special)
        assert_right("relu2", dtype, ac4k.relu2(x), x)
        assert_right("relu2", dtype, ac4k.relu2(special), special)
        result = ac4k.residual_gate(x, x * 2, x[3])
        assert_right("residual_gate", dtype, result, x, x * 2, x[3])


def test_results_do_not_depend_on_threads() -> None:
    x = random((257, 1000), "bf16", "cpu", 3)
    results = []
    try:
        for count in (1, 2, 3):
            ac4k.set_num_threads(count)
            results.append(
                [
                    ac4k.silu_and_mul(x),
                    ac4k.gelu_and_mul(x),
                    ac4k.relu2(x),
                    ac4k.residual_gate(x, x, x[0]),
                ]
            )
    finally:
        ac4k.set_num_threads(0)
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            assert torch.equal(got, expected)


@given(
    shape=st.lists(st.integers(0, 9), min_size=2, max_size=4),
    dtype=st.sampled_from(FLOATS),
    order=st.randoms(use_true_random=False),
    seed=st.integers(0, 2**30),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_permuted_views(shape: list[int], dtype: str, order: Any, seed: int) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    x = random(tuple(shape), dtype, "cpu", seed).permute(axes)
    assert_right("relu2", dtype, ac4k.relu2(x), x)
    gate = random((*x.shape[:-2], x.shape[-1]), dtype, "cpu", seed + 1)
    assert_right("residual_gate", dtype, ac4k.residual_gate(x, x, gate), x, x, gate)
    doubled = torch.cat([x, x], 1) if x.shape[-1] % 2 else x
    if doubled.shape[-1] % 2 == 0:
        assert_right("silu_and_mul", dtype, ac4k.silu_and_mul(doubled), doubled)


def test_what_is_refused(device: str) -> None:
    x = torch.ones(4, 6, device=device)
    with pytest.raises(ValueError, match=r"silu_and_mul: argument 'x': expected shape \[\.\.\., D"):
        ac4k.silu_and_mul(x[:, :5])
    with pytest.raises(TypeError, match="silu_and_mul: argument 'x': expected dtype float32"):
        ac4k.silu_and_mul(x.double())
    with pytest.raises(ValueError, match="'approximate': expected one of none, tanh, got 'erf'"):
        ac4k.gelu_and_mul(x, approximate="erf")
    with pytest.raises(ValueError, match="expected memory apart from 'x'"):
        ac4k.silu_and_mul(x.view(-1), out=x.view(-1)[:12])
    with pytest.raises(ValueError, match="argument 'gate'"):
        ac4k.residual_gate(x, x, x)
    with pytest.raises(ValueError, match="argument 'y'"):
        ac4k.residual_gate(x, x[:3], x[0])
