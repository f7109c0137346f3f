"""Norms against float64, PyTorch and the layers of Transformers: sizes, views, special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import OPS, TORCH, cpu_levels, poisoned, random, wide

import ac4k
from ac4k.reference import error_ratio, references_of

TYPES = ("f32", "f16", "bf16")
# Rows of less than a vector, of every variant of the GPU kernels, and past the last of them.
SHAPES = [
    (1,),
    (7,),
    (3, 1, 5),
    (2, 3, 4, 8),
    (129, 257),
    (0, 5),
    (5, 96),
    (33, 128),
    (9, 512),
    (7, 1000),
    (6, 1024),
    (3, 2560),
    (64, 4096),
    (5, 8191),
    (2, 16384),
    (2, 40000),
    (3, 16387),
]


def assert_right(name: str, dtype: str, result: Any, *args: Any, **options: Any) -> None:
    expected = references_of(name, *map(wide, args), **options)
    results = result if isinstance(result, tuple) else (result,)
    assert len(results) == len(expected)
    for got, want in zip(results, expected, strict=True):
        assert got.dtype == TORCH[dtype]
        assert tuple(got.shape) == want.result.shape
        assert error_ratio(dtype, OPS[name]["tolerance"], wide(got), want) <= 1


def row_views(base: torch.Tensor) -> list[torch.Tensor]:
    """Views of a [6, 8, 40] tensor whose rows are contiguous."""
    return [
        base[:, :, :24],
        base[:, :, 1:25],  # not aligned
        base[::2, 1:],
        base.transpose(0, 1),
        base[:, :1].expand(6, 8, 40),
        base.flip(0)[2:],
        base.reshape(2, 3, 2, 4, 40)[:, :2, :, 1:, :16],
        base.reshape(2, 3, 2, 4, 40).permute(2, 0, 3, 1, 4),
        base[3, 4],
        base.reshape(-1)[1:1001].view(25, 40),
    ]


def out_views(like: torch.Tensor) -> list[torch.Tensor]:
    """Poisoned outputs whose rows do not follow each other."""
    *leading, columns = like.shape
    memory = like.new_full((*leading, columns + 16), math.nan)
    return [memory[..., :columns], memory[..., 3 : columns + 3]]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, weight = random(shape, dtype, device, 1), random(shape[-1:], dtype, device, 2)
    for w in (weight, None):
        for cast_first in (False, True):
            out = poisoned(shape, dtype, device)
            assert ac4k.rms_norm(x, w, 1e-5, cast_first=cast_first, out=out) is out
            assert_right("rms_norm", dtype, out, x, w, 1e-5, cast_first=cast_first)
            again = ac4k.rms_norm(x, w, 1e-5, cast_first=cast_first)
            assert torch.equal(out, again), "the same call gave other bits"


def assert_same_sums(device: str, got: Any, expected: Any) -> None:
    """Bit for bit on the CPU; a GPU adds up rows that are not aligned in another order."""
    for one, other in zip(got, expected, strict=True):
        if device == "cpu":
            assert torch.equal(one, other)
        else:
            eps = torch.finfo(one.dtype).eps
            torch.testing.assert_close(one, other, rtol=4 * eps, atol=4 * eps)


@pytest.mark.parametrize("dtype", TYPES)
def test_rms_norm_views(device: str, dtype: str) -> None:
    for x in row_views(random((6, 8, 40), dtype, device, 1)):
        weight = random((x.shape[-1],), dtype, device, 2)
        result = ac4k.rms_norm(x, weight)
        assert_right("rms_norm", dtype, result, x, weight)
        assert_same_sums(device, [ac4k.rms_norm(x.contiguous(), weight)], [result])
        for out in out_views(x):
            ac4k.rms_norm(x, weight, out=out)
            assert_same_sums(device, [out], [result])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(64, 4096), (200, 128), (17, 2560)])
def test_rms_norm_is_that_of_pytorch(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, weight = random(shape, dtype, device, 1), random(shape[-1:], dtype, device, 2)
    expected = torch.nn.functional.rms_norm(x.double(), shape[-1:], weight.double(), 1e-6)
    result = ac4k.rms_norm(x, weight).double()
    eps = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    # Half an eps of rounding; the arithmetic as in reference.py.
    allowed = expected.abs() * (eps / 2 + (4 + shape[-1] / 64) * 2.0**-23) + 2.0**-24
    assert bool(((result - expected).abs() <= allowed).all())


def qwen3_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Qwen3RMSNorm.forward of transformers."""
    dtype = x.dtype
    x = x.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + eps)
    return weight * x.to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_cast_first_rounds_as_transformers_does(device: str, dtype: str) -> None:
    """Sums of squares of small integers are exact, whatever the order: every bit must agree."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(-8, 9, (37, 512), generator=generator).to(TORCH[dtype]).to(device)
    weight = random((512,), dtype, device, 2)
    result = ac4k.rms_norm(x, weight, 1e-6, cast_first=True)
    assert torch.equal(result, qwen3_rms_norm(x, weight, 1e-6))
    if dtype != "f32":
        assert not torch.equal(result, ac4k.rms_norm(x, weight, 1e-6))


@pytest.mark.parametrize("dtype", TYPES)
def test_rms_norm_special_values(device: str, dtype: str) -> None:
    x = random((8, 64), dtype, device, 1)
    x[0, 3] = math.nan
    x[1, 5] = math.inf
    x[2, 7] = -math.inf
    x[3] = 0.0
    x[4] = -0.0
    x[5] = 1e-40
    x[6, 0] = 60000.0
    x[7, :2] = torch.tensor([-0.0, 0.0])
    result = ac4k.rms_norm(x, eps=1e-6)
    assert_right("rms_norm", dtype, result, x, None, 1e-6)
    assert result[0].isnan().all()
    assert result[1, 5].isnan()
    assert result[2, 7].isnan()
    assert bool((result[1].nan_to_num() == 0).all())
    assert bool((result[3] == 0).all())
    assert not result[3].signbit().any()
    assert bool(result[4].signbit().all())
    assert result[7, :2].signbit().tolist() == [True, False]
    assert ac4k.rms_norm(x[3], eps=0.0).isnan().all()  # 0 / 0
    if dtype == "f32":
        x[6, 0] = 3e38
        result = ac4k.rms_norm(x[6])
        assert bool((result == 0).all()), "squares past float32's range, as in PyTorch"


IN_PLACE_SHAPES = [(33, 40), (3, 4096), (2, 8191), (2, 70000)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", IN_PLACE_SHAPES)
def test_in_place(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, weight = random(shape, dtype, device, 1), random(shape[-1:], dtype, device, 2)
    calls: list[Callable[..., torch.Tensor]] = [
        lambda x, **out: ac4k.rms_norm(x, weight, **out),
        lambda x, **out: ac4k.layer_norm(x, weight, weight, **out),
    ]
    for call in calls:
        expected, y = call(x), x.clone()
        assert call(y, out=y) is y
        assert torch.equal(y, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", IN_PLACE_SHAPES)
def test_fused_add_rms_norm_in_place(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, residual = random(shape, dtype, device, 1), random(shape, dtype, device, 2)
    weight = random(shape[-1:], dtype, device, 3)
    y, total = ac4k.fused_add_rms_norm(x, residual, weight)
    a, b = x.clone(), residual.clone()
    ac4k.fused_add_rms_norm(a, b, weight, out=(a, b))
    assert torch.equal(a, y)
    assert torch.equal(b, total)
    a, b = x.clone(), residual.clone()
    ac4k.fused_add_rms_norm(a, b, weight, out=(b, a))
    assert torch.equal(b, y)
    assert torch.equal(a, total)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_add_rms_norm(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, residual = random(shape, dtype, device, 1), random(shape, dtype, device, 2)
    weight = random(shape[-1:], dtype, device, 3)
    for w, cast_first in ((weight, False), (weight, True), (None, False)):
        out = (poisoned(shape, dtype, device), poisoned(shape, dtype, device))
        ac4k.fused_add_rms_norm(x, residual, w, 1e-5, cast_first=cast_first, out=out)
        assert_right("fused_add_rms_norm", dtype, out, x, residual, w, 1e-5, cast_first=cast_first)
        # The same as one op after the other.
        assert torch.equal(out[1], x + residual)
        assert torch.equal(out[0], ac4k.rms_norm(x + residual, w, 1e-5, cast_first=cast_first))


@pytest.mark.parametrize("dtype", TYPES)
def test_fused_add_rms_norm_views(device: str, dtype: str) -> None:
    views = row_views(random((6, 8, 40), dtype, device, 1))
    others = row_views(random((6, 8, 40), dtype, device, 2))
    for x, residual in zip(views, others, strict=True):
        expected = ac4k.fused_add_rms_norm(x.contiguous(), residual.contiguous())
        for a, b in ((x, residual), (x.contiguous(), residual), (x, residual.contiguous())):
            assert_same_sums(device, ac4k.fused_add_rms_norm(a, b), expected)
        outs = (out_views(x)[1], out_views(x)[0])
        ac4k.fused_add_rms_norm(x, residual, out=outs)
        assert_same_sums(device, outs, expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = random(shape, dtype, device, 1) + 2
    weight, bias = (random(shape[-1:], dtype, device, seed) for seed in (2, 3))
    for w, b in ((weight, bias), (weight, None), (None, bias), (None, None)):
        out = poisoned(shape, dtype, device)
        assert ac4k.layer_norm(x, w, b, 1e-4, out=out) is out
        assert_right("layer_norm", dtype, out, x, w, b, 1e-4)
        assert torch.equal(out, ac4k.layer_norm(x, w, b, 1e-4)), "the same call gave other bits"


@pytest.mark.parametrize("dtype", TYPES)
def test_layer_norm_views(device: str, dtype: str) -> None:
    for x in row_views(random((6, 8, 40), dtype, device, 1)):
        weight, bias = (random((x.shape[-1],), dtype, device, seed) for seed in (2, 3))
        result = ac4k.layer_norm(x, weight, bias)
        assert_same_sums(device, [ac4k.layer_norm(x.contiguous(), weight, bias)], [result])
        assert_right("layer_norm", dtype, result, x, weight, bias)
        for out in out_views(x):
            ac4k.layer_norm(x, weight, bias, out=out)
            assert_same_sums(device, [out], [result])


@pytest.mark.parametrize("shape", [(64, 4096), (200, 128), (17, 2560)])
def test_layer_norm_is_that_of_pytorch(device: str, shape: tuple[int, ...]) -> None:
    x = random(shape, "f32", device, 1)
    weight, bias = (random(shape[-1:], "f32", device, seed) for seed in (2, 3))
    expected = torch.nn.functional.layer_norm(
        x.double(), shape[-1:], weight.double(), bias.double()
    )
    # |x - mean| / std is below 6 here; sums cost N/64 and N/32 eps, as reference.py derives.
    allowed = 2.0**-23 * (8 + shape[-1] / 16) * (6 * weight.double().abs() + bias.double().abs())
    assert bool(((ac4k.layer_norm(x, weight, bias) - expected).abs() <= allowed).all())


@pytest.mark.parametrize("mean", [1e3, 1e6, -3e7])
def test_layer_norm_with_a_large_mean(device: str, mean: float) -> None:
    """The spread is a few steps of float32 around the mean: all of it must survive."""
    for columns in (129, 4096, 70001):
        x = (random((3, columns), "f32", device, 1) * abs(mean) * 1e-6 + mean).contiguous()
        expected = torch.nn.functional.layer_norm(x.double(), (columns,), eps=0.0)
        error = (ac4k.layer_norm(x, eps=0.0) - expected).abs().max().item()
        assert error < 2.0**-23 * (16 + columns / 8)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [64, 1000, 4096, 8192, 20000])
def test_layer_norm_of_rows_with_any_mean(device: str, dtype: str, columns: int) -> None:
    """Small and large beside the spread, in one tensor: rows that share a warp differ."""
    means = torch.tensor([0, 0.5, 1.6, 1.8, 10, -100, 0, 3, 0]).to(device, TORCH[dtype])
    x = random((9, columns), dtype, device, 1) + means[:, None]
    weight, bias = (random((columns,), dtype, device, seed) for seed in (2, 3))
    assert_right("layer_norm", dtype, ac4k.layer_norm(x, weight, bias), x, weight, bias)
    assert_right("layer_norm", dtype, ac4k.layer_norm(x), x)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_layer_norm_of_large_constants(device: str, dtype: str) -> None:
    """Their squares are infinite, their differences zero."""
    bias = random((512,), dtype, device, 1)
    x = torch.full((3, 512), -1e30, dtype=TORCH[dtype], device=device)
    assert torch.equal(ac4k.layer_norm(x, None, bias), bias.expand(3, 512))


def test_layer_norm_of_constants_is_exact(level: str) -> None:
    """Whatever the constant, whose multiples are rounded as they add up."""
    for n in (1, 7, 154, 464, 652, 4099):
        for constant in (0.1, 4.540737569332123e26, -1.9594e37, 3e38):
            x = torch.full((2, n), constant)
            assert not ac4k.layer_norm(x, eps=1e-30).any(), (n, constant)


@pytest.mark.parametrize("dtype", TYPES)
def test_layer_norm_special_values(device: str, dtype: str) -> None:
    x = random((6, 64), dtype, device, 1)
    x[0, 3] = math.nan
    x[1, 5] = math.inf
    x[2, 7] = -math.inf
    x[3] = 0.0
    x[4] = 12345.0
    x[5, 0] = 60000.0
    bias = random((64,), dtype, device, 2)
    result = ac4k.layer_norm(x, None, bias)
    assert_right("layer_norm", dtype, result, x, None, bias)
    assert result[:3].isnan().all()
    assert torch.equal(result[3], bias)
    assert torch.equal(result[4], bias), "a constant row"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "shape", [(3, 4, 2, 8), (5, 32, 8, 128), (2, 7, 3, 96), (1, 2, 1, 5), (4, 12, 12, 128)]
)
@pytest.mark.parametrize("over", ["head_dim", "heads"])
def test_qk_norm(device: str, dtype: str, shape: tuple[int, ...], over: str) -> None:
    tokens, heads, groups, dim = shape
    q = random((tokens, heads, dim), dtype, device, 1)
    k = random((tokens, groups, dim), dtype, device, 2)
    sizes = (dim, dim) if over == "head_dim" else (heads * dim, groups * dim)
    weights = [random((size,), dtype, device, 3) for size in sizes]
    for w, cast_first in ((weights, False), (weights, True), ([None, None], False)):
        out = (poisoned(tuple(q.shape), dtype, device), poisoned(tuple(k.shape), dtype, device))
        ac4k.qk_norm(q, k, *w, over=over, cast_first=cast_first, out=out)
        assert_right("qk_norm", dtype, out, q, k, *w, over=over, cast_first=cast_first)
        for x, weight, y in zip((q, k), w, out, strict=True):
            rows = x if over == "head_dim" else x.flatten(-2)
            alone = ac4k.rms_norm(rows, weight, cast_first=cast_first)
            # A GPU spreads k over as many threads as q needs.
            if device == "cpu" or over == "head_dim":
                assert torch.equal(y, alone.view_as(y)), "not what rms_norm gives"


@pytest.mark.parametrize("dtype", TYPES)
def test_qk_norm_views(device: str, dtype: str) -> None:
    """Slices of one projection, batches transposed, and in place."""
    qkv = random((2, 5, 8 + 2 + 2, 16), dtype, device, 1)
    q, k = qkv[:, :, :8], qkv[:, :, 8:10]
    expected = ac4k.qk_norm(q.contiguous(), k.contiguous())
    got = ac4k.qk_norm(q, k)
    swapped = ac4k.qk_norm(q.transpose(0, 1), k.transpose(0, 1))
    across = ac4k.qk_norm(q, k, over="heads")
    for i in range(2):
        assert torch.equal(got[i], expected[i])
        assert torch.equal(swapped[i].transpose(0, 1), expected[i])
    assert torch.equal(across[0], ac4k.rms_norm(q.flatten(-2)).view_as(q))
    ac4k.qk_norm(q, k, out=(q, k))
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])
    with pytest.raises(ValueError, match=r"'q': expected contiguous heads with over='heads'"):
        ac4k.qk_norm(q[:, :, ::2], k, over="heads")
    out = (torch.empty_like(qkv)[:, :, :8], qkv.new_empty(2, 5, 3, 16)[:, :, ::2])
    with pytest.raises(ValueError, match=r"'out': expected contiguous heads with over='heads'"):
        ac4k.qk_norm(q, k, over="heads", out=out)


def test_qk_norm_with_nothing_on_one_side(device: str) -> None:
    q = random((3, 4, 8), "f32", device)
    for over in ("head_dim", "heads"):
        a, b = ac4k.qk_norm(q, q[:, :0], over=over)
        assert torch.equal(a, ac4k.qk_norm(q, q, over=over)[1])
        assert b.shape == (3, 0, 8)
        assert torch.equal(ac4k.qk_norm(q[:, :0], q, over=over)[1], a)


def test_errors(device: str) -> None:
    x = torch.ones(4, 8, device=device)
    with pytest.raises(ValueError, match=r"rms_norm: argument 'eps': expected at least 0, got -1"):
        ac4k.rms_norm(x, eps=-1.0)
    with pytest.raises(ValueError, match=r"layer_norm: argument 'eps': .* 0, got nan"):
        ac4k.layer_norm(x, eps=math.nan)
    with pytest.raises(ValueError, match=r"rms_norm: argument 'x': expected .*contiguous last dim"):
        ac4k.rms_norm(x.t())
    with pytest.raises(ValueError, match=r"argument 'weight': expected shape \[N\] with N = 8"):
        ac4k.rms_norm(x, torch.ones(9, device=device))
    with pytest.raises(ValueError, match=r"argument 'residual'"):
        ac4k.fused_add_rms_norm(x, x[:2])
    q = torch.ones(2, 4, 8, device=device)
    with pytest.raises(ValueError, match=r"'q_weight': expected shape \[H\*D\] = \[32\]"):
        ac4k.qk_norm(q, q, q[0, 0], q[0, 0], over="heads")
    with pytest.raises(ValueError, match=r"'k_weight'"):
        ac4k.qk_norm(q, q, None, q[0].flatten())


QUANT_CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rms_norm_quant": (
        lambda x, w, **o: ac4k.rms_norm_quant(x, w, **o),
        lambda x, w: (ac4k.rms_norm(x, w),),
    ),
    "rms_norm_quant cast_first": (
        lambda x, w, **o: ac4k.rms_norm_quant(x, w, cast_first=True, **o),
        lambda x, w: (ac4k.rms_norm(x, w, cast_first=True),),
    ),
    "fused_add_rms_norm_quant": (
        lambda x, w, **o: ac4k.fused_add_rms_norm_quant(x, x.flip(-1), w, 1e-4, **o),
        lambda x, w: ac4k.fused_add_rms_norm(x, x.flip(-1), w, 1e-4),
    ),
    "layer_norm_quant": (
        lambda x, w, **o: ac4k.layer_norm_quant(x, w, w, **o),
        lambda x, w: (ac4k.layer_norm(x, w, w),),
    ),
}
CODES = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "int8": torch.int8,
}


def quantised(
    y: torch.Tensor, granularity: str, code: str, scale: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    if code == "int8":
        return ac4k.quantize_int8(y, granularity, scale=scale)
    return ac4k.quantize_fp8(y, granularity, CODES[code], scale)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.element_size() == 1:
        return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    return torch.equal(a, b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", QUANT_CALLS)
@pytest.mark.parametrize("code", CODES)
def test_quantised_results_are_those_of_two_ops(
    device: str, dtype: str, name: str, code: str
) -> None:
    fused, norm = QUANT_CALLS[name]
    for shape in [
        (1,),
        (3, 1, 40),
        (5, 96),
        (33, 128),
        (6, 1000),
        (3, 1024),
        (4, 4096),
        (2, 40000),
    ]:
        x, weight = random(shape, dtype, device, 1), random(shape[-1:], dtype, device, 2)
        y, *rest = norm(x, weight)
        groups = -(-shape[-1] // 128)
        given = {
            "per_token": torch.rand(*shape[:-1], 1, device=device) / 50 + 0.01,
            "per_tensor": torch.tensor([0.03], device=device),
            "group128": torch.rand(*shape[:-1], groups, device=device) / 50 + 0.01,
        }
        for granularity, scale in given.items():
            for s in (scale, None):
                if granularity == "per_tensor" and s is None:
                    continue
                options = {"granularity": granularity, "dtype": CODES[code], "scale": s}
                result = fused(x, weight, **options)
                expected = (*quantised(y, granularity, code, s), *rest)
                assert len(result) == len(expected)
                for got, want in zip(result, expected, strict=True):
                    assert got.dtype == want.dtype
                    assert got.shape == want.shape
                    assert same_bits(got, want)
                again = fused(x, weight, **options)
                assert all(same_bits(*pair) for pair in zip(again, result, strict=True))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", QUANT_CALLS)
def test_quantised_odd_rows(device: str, dtype: str, name: str) -> None:
    """Where a GPU takes other kernels than the norm alone might: against the reference."""
    op = name.split()[0]
    cast_first = {"cast_first": True} if "cast_first" in name else {}
    for shape in [(7,), (129, 257), (5, 8191), (2, 70001), (0, 5), (3, 0)]:
        x = random((*shape[:-1], shape[-1] + 3), dtype, device, 1)[..., 3:]
        weight = random(shape[-1:], dtype, device, 2)
        args = {
            "rms_norm_quant": (x, weight),
            "fused_add_rms_norm_quant": (x, random(shape, dtype, device, 3), weight),
            "layer_norm_quant": (x, weight, weight),
        }[op]
        for granularity in ("per_token", "group128"):
            for code in ("float8_e4m3fn", "int8"):
                options = {"granularity": granularity, "dtype": code, **cast_first}
                results = getattr(ac4k, op)(*args, **options)
                expected = references_of(op, *map(wide, args), **options)
                kinds = ("i8" if code == "int8" else "f8e4m3", "f32", dtype)
                for got, want, kind in zip(results, expected, kinds, strict=False):
                    assert tuple(got.shape) == want.result.shape
                    assert error_ratio(kind, OPS[op]["tolerance"], wide(got), want) <= 1


@pytest.mark.parametrize("dtype", TYPES)
def test_quantised_special_values(device: str, dtype: str) -> None:
    x = random((5, 256), dtype, device, 1)
    x[0, 3] = math.nan
    x[1, 5] = math.inf
    x[2] = 0.0
    x[3, 7] = 60000.0
    for code in CODES.values():
        for granularity in ("per_token", "group128"):
            q, scale = ac4k.rms_norm_quant(x, granularity=granularity, dtype=code)
            y = ac4k.rms_norm(x)
            name = next(key for key, value in CODES.items() if value == code)
            expected = quantised(y, granularity, name, None)
            assert same_bits(q, expected[0])
            assert torch.equal(scale, expected[1])
            assert bool((scale[2] == 2.0**-120).all()), "an all-zero row"
            assert bool(scale.isfinite().all())


def test_quantised_in_place_residual(device: str) -> None:
    x, residual = random((9, 512), "bf16", device, 1), random((9, 512), "bf16", device, 2)
    q, scale, total = ac4k.fused_add_rms_norm_quant(x, residual)
    outs = torch.empty_like(q), torch.empty_like(scale), residual
    ac4k.fused_add_rms_norm_quant(x, residual, out=outs)
    assert torch.equal(residual, total)
    assert same_bits(outs[0], q)
    assert torch.equal(outs[1], scale)


def test_quantised_errors(device: str) -> None:
    x = torch.ones(4, 8, device=device)
    for op in (ac4k.rms_norm_quant, ac4k.layer_norm_quant):
        with pytest.raises(
            ValueError, match=r"'scale': expected a tensor of shape \[1\] with gran"
        ):
            op(x, granularity="per_tensor")
    with pytest.raises(ValueError, match=r"argument 'scale'"):
        ac4k.rms_norm_quant(x, scale=torch.ones(4, device=device))
    with pytest.raises(TypeError, match=r"dtype"):
        ac4k.rms_norm_quant(x, dtype=torch.float32)


@pytest.fixture(params=cpu_levels())
def level(request: Any) -> Iterator[str]:
    ac4k.set_cpu_isa(request.param)
    yield request.param
    ac4k.set_cpu_isa("auto")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_cpu_level(level: str, dtype: str) -> None:
    for columns in (1, 5, 31, 67, 128, 1027):
        x, residual = (random((3, columns), dtype, "cpu", seed) for seed in (1, 2))
        weight = random((columns,), dtype, "cpu", 4)
        for cast_first in (False, True):
            result = ac4k.rms_norm(x, weight, cast_first=cast_first)
            assert_right("rms_norm", dtype, result, x, weight, cast_first=cast_first)
        fused = ac4k.fused_add_rms_norm(x, residual, weight)
        assert_right("fused_add_rms_norm", dtype, fused, x, residual, weight)
        assert_right("layer_norm", dtype, ac4k.layer_norm(x, weight, x[1]), x, weight, x[1])
        for fused, norm in QUANT_CALLS.values():
            y, *rest = norm(x, weight)
            expected = (*quantised(y, "group128", "e4m3", None), *rest)
            got = fused(x, weight, granularity="group128")
            assert all(same_bits(*pair) for pair in zip(got, expected, strict=True))


CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rms_norm": lambda x: ac4k.rms_norm(x, x[0]),
    "fused_add_rms_norm": lambda x: ac4k.fused_add_rms_norm(x, x, x[0]),
    "layer_norm": lambda x: ac4k.layer_norm(x, x[0], x[1]),
    "rms_norm_quant": lambda x: ac4k.rms_norm_quant(x, x[0], dtype="int8"),
    "qk_norm": lambda x: ac4k.qk_norm(x.view(300, 10, 100), x.view(300, 10, 100)[:, :3]),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_do_not_depend_on_threads(name: str) -> None:
    x = random((300, 1000), "bf16", "cpu", 3)
    results = []
    try:
        for count in (1, 2, 3):
            ac4k.set_num_threads(count)
            result = CALLS[name](x)
            results.append(result if isinstance(result, tuple) else (result,))
    finally:
        ac4k.set_num_threads(0)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))
