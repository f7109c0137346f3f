"""Every op of the table against its float64 reference: sizes, strides, special values, in place."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers import OPS, TORCH, cpu_levels, random, wide
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k
from ac4k.reference import REFERENCES, error_ratio

FLOATS = ("f32", "f64", "f16", "bf16")
SPECIALS = (
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -1e-40,
    1e-7,
    65504.0,
    -65504.0,
    3e38,
    1.0,
)


def test_every_op_has_a_reference() -> None:
    assert set(OPS) == set(REFERENCES)


def assert_right(name: str, dtype: str, result: torch.Tensor, *args: Any, **options: Any) -> None:
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](
            *(wide(a) if isinstance(a, torch.Tensor) else a for a in args), **options
        )
    assert result.dtype == TORCH[dtype]
    assert tuple(result.shape) == expected.result.shape
    assert error_ratio(dtype, OPS[name]["tolerance"], wide(result), expected) <= 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1),
        (3, 5, 7),
        (1, 64, 129),
        (17, 1, 33),
        (64, 48, 0),
        (128, 130, 257),
        (5, 3, 1),
        (65, 64, 63),
    ],
)
def test_gemm(device: str, dtype: str, shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    A, B = random((M, K), dtype, device, 1), random((K, N), dtype, device, 2)
    out = torch.full((M, N), math.nan, dtype=TORCH[dtype], device=device)
    result = ac4k.gemm(A, B, out=out)
    assert result is out
    assert_right("gemm", dtype, result, A, B)
    assert torch.equal(result, ac4k.gemm(A, B)), "the same call gave other bits"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("a_layout", ["rows", "columns", "steps", "broadcast"])
@pytest.mark.parametrize("b_layout", ["rows", "columns", "steps", "broadcast"])
def test_gemm_strides(device: str, dtype: str, a_layout: str, b_layout: str) -> None:
    def lay_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
        if layout == "columns":
            return tensor.t().contiguous().t()
        if layout == "steps":
            return tensor.repeat_interleave(3, 1)[:, ::3]
        return tensor[:1].expand(tensor.shape) if layout == "broadcast" else tensor

    A = lay_out(random((33, 70), dtype, device, 1), a_layout)
    B = lay_out(random((70, 35), dtype, device, 2), b_layout)
    assert_right("gemm", dtype, ac4k.gemm(A, B), A, B)


ELEMENTWISE_SHAPES = [
    (),
    (1,),
    (7,),
    (4096,),
    (3, 1, 5),
    (2, 3, 4, 5),
    (129, 257),
    (0, 5),
    (64, 4096),
    (5, 8191),
    (300, 4099),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", ELEMENTWISE_SHAPES)
def test_element_wise_mul_add(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    a, b, c = (random(shape, dtype, device, seed) for seed in range(3))
    out = torch.full(shape, math.nan, dtype=TORCH[dtype], device=device)
    ac4k.element_wise_mul_add(a, b, c, out=out)
    assert_right("element_wise_mul_add", dtype, out, a, b, c)
    assert torch.equal(out, ac4k.element_wise_mul_add(a, b, c))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(
    "shape",
    [(1,), (7,), (4096,), (3, 1, 5), (2, 3, 4, 8), (129, 257), (0, 5), (64, 4096), (1027, 16)],
)
def test_fused_add_gelu(device: str, dtype: str, shape: tuple[int, ...], approximate: str) -> None:
    x, bias = random(shape, dtype, device, 1) * 3, random(shape[-1:], dtype, device, 2)
    out = torch.full(shape, math.nan, dtype=TORCH[dtype], device=device)
    ac4k.fused_add_gelu(x, bias, approximate=approximate, out=out)
    assert_right("fused_add_gelu", dtype, out, x, bias, approximate=approximate)
    assert torch.equal(out, ac4k.fused_add_gelu(x, bias, approximate=approximate))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gelu_keeps_its_relative_accuracy_in_the_tail(device: str, dtype: str) -> None:
    """Where 1 + erf(x) would cancel to nothing. Float: x * x / 2 is rounded before exp, which costs
    up to 32 * eps at x = -8; double: erfc of the C library, a few eps."""
    x = torch.linspace(-8, -1, 1001, dtype=torch.float64)
    result = ac4k.fused_add_gelu(
        x.to(TORCH[dtype]).to(device), torch.zeros(1001, dtype=TORCH[dtype], device=device)
    )
    rounded = x.to(TORCH[dtype]).double()
    expected = torch.special.erfc(-rounded / math.sqrt(2)) * 0.5 * rounded
    relative = ((result.cpu().double() - expected) / expected).abs().max().item()
    assert relative < {"f32": 48 * 2.0**-23, "f64": 64 * 2.0**-52}[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
def test_any_view_works(device: str, dtype: str) -> None:
    base = random((6, 8, 10), dtype, device, 1)
    views = [
        base.transpose(0, 2),
        base[::2, 1:, ::3],
        base[:, :1].expand(6, 8, 10),
        base[0, 0, 0].expand(3, 4),
        base[1:, :, 2:],
        base.permute(1, 2, 0)[None, :, None],
        base.reshape(-1)[1:],  # contiguous, not aligned to 16 bytes
    ]
    for a, b in itertools.product(views, repeat=2):
        if a.shape != b.shape:
            continue
        assert_right("element_wise_mul_add", dtype, ac4k.element_wise_mul_add(a, b, a), a, b, a)
    for x in views:
        bias = random((x.shape[-1] * 2,), dtype, device, 3)[::2]
        assert_right("fused_add_gelu", dtype, ac4k.fused_add_gelu(x, bias), x, bias)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(device: str, dtype: str) -> None:
    grid = torch.tensor(list(itertools.product(SPECIALS, repeat=3)), dtype=torch.float64)
    a, b, c = (grid[:, i].contiguous().to(TORCH[dtype]).to(device) for i in range(3))
    result = ac4k.element_wise_mul_add(a, b, c)
    assert_right("element_wise_mul_add", dtype, result, a, b, c)
    x = torch.tensor(SPECIALS, dtype=TORCH[dtype], device=device)
    for approximate in ("none", "tanh"):
        gelu = ac4k.fused_add_gelu(x, torch.zeros_like(x), approximate=approximate).cpu().double()
        assert gelu[0] == 0
        assert gelu[2] == math.inf
        assert gelu[3].isnan()  # -inf * 0, as in PyTorch
        assert gelu[4].isnan()
        assert gelu[9].abs() == 0
        assert gelu[8] == float(x[8])


@pytest.mark.parametrize("dtype", FLOATS)
def test_in_place(device: str, dtype: str) -> None:
    a, b, c = (random((33, 40), dtype, device, seed) for seed in range(3))
    expected = ac4k.element_wise_mul_add(a, b, c)
    for index in range(3):
        args = (
            [a.clone(), b, c]
            if index == 0
            else [a, b.clone(), c]
            if index == 1
            else [a, b, c.clone()]
        )
        ac4k.element_wise_mul_add(*args, out=args[index])
        assert torch.equal(args[index], expected)
    x, bias = a.clone(), random((40,), dtype, device, 5)
    expected = ac4k.fused_add_gelu(x, bias)
    assert torch.equal(ac4k.fused_add_gelu(x, bias, out=x), expected)


@given(read=st.integers(0, 300), write=st.integers(0, 300), seed=st.integers(0, 2**30))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_stream_bytes(read: int, write: int, seed: int) -> None:
    src = np.random.default_rng(seed).integers(0, 256, read, dtype=np.uint8)
    assert np.array_equal(
        ac4k.stream_bytes(src, write), REFERENCES["stream_bytes"](src, write).result
    )


@pytest.mark.parametrize(
    ("read", "write"),
    [(3 * 65536, 65536), (65536 * 5, 65536), (10**6 + 7, 10**6), (7, 10**6), (4 * 1040, 1040)],
)
def test_stream_bytes_large(device: str, read: int, write: int) -> None:
    src = torch.randint(0, 256, (read,), dtype=torch.uint8)
    result = ac4k.stream_bytes(src.to(device), write).cpu().numpy()
    assert np.array_equal(result, REFERENCES["stream_bytes"](src.numpy(), write).result)


@given(
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    dtype=st.sampled_from(FLOATS),
    order=st.randoms(use_true_random=False),
    seed=st.integers(0, 2**30),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_permuted_views(shape: list[int], dtype: str, order: Any, seed: int) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    a = random(tuple(shape), dtype, "cpu", seed).permute(axes)
    b = random(tuple(a.shape), dtype, "cpu", seed + 1)
    assert_right("element_wise_mul_add", dtype, ac4k.element_wise_mul_add(a, b, a), a, b, a)


@pytest.mark.parametrize("level", cpu_levels())
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_cpu_level(level: str, dtype: str) -> None:
    ac4k.set_cpu_isa(level)
    try:
        assert ac4k.info()["cpu"]["isa"] == level
        A, B = random((37, 130), dtype, "cpu", 1), random((130, 67), dtype, "cpu", 2)
        assert_right("gemm", dtype, ac4k.gemm(A, B), A, B)
        x, bias = random((19, 67), dtype, "cpu", 3), random((67,), dtype, "cpu", 4)
        for approximate in ("none", "tanh"):
            result = ac4k.fused_add_gelu(x, bias, approximate=approximate)
            assert_right("fused_add_gelu", dtype, result, x, bias, approximate=approximate)
        assert_right("element_wise_mul_add", dtype, ac4k.element_wise_mul_add(x, x, x), x, x, x)
    finally:
        ac4k.set_cpu_isa("auto")


def test_results_do_not_depend_on_threads() -> None:
    A, B = random((130, 300), "f32", "cpu", 1), random((300, 140), "f32", "cpu", 2)
    x = random((300, 1000), "bf16", "cpu", 3)
    results = []
    for count in (1, 2, 3):
        ac4k.set_num_threads(count)
        assert ac4k.get_num_threads() == count
        results.append((ac4k.gemm(A, B), ac4k.fused_add_gelu(x, x[0])))
    ac4k.set_num_threads(0)
    for gemm, gelu in results[1:]:
        assert torch.equal(gemm, results[0][0])
        assert torch.equal(gelu, results[0][1])
