"""Norms against float64, PyTorch and the layers of Transformers: sizes, views, special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import ac4k
from ac4k.bench.arrays import DTYPES
from ac4k.reference import REFERENCES, error_ratio

OPS = {op["name"]: op for op in ac4k.op_table()}
TYPES = ("f32", "f16", "bf16")
TORCH = {name: getattr(torch, dtype.torch) for name, dtype in DTYPES.items()}
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


def random(shape: tuple[int, ...], dtype: str, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(TORCH[dtype]).to(device)


def poisoned(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    return torch.full(shape, math.nan, dtype=TORCH[dtype], device=device)


def wide(value: Any) -> Any:
    return value.detach().double().cpu().numpy() if isinstance(value, torch.Tensor) else value


def assert_right(name: str, dtype: str, result: torch.Tensor, *args: Any, **options: Any) -> None:
    with np.errstate(all="ignore"):
        expected = REFERENCES[name](*map(wide, args), **options)
    assert result.dtype == TORCH[dtype]
    assert tuple(result.shape) == expected.result.shape
    assert error_ratio(dtype, OPS[name]["tolerance"], wide(result), expected) <= 1


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


@pytest.mark.parametrize("dtype", TYPES)
def test_rms_norm_views(device: str, dtype: str) -> None:
    for x in row_views(random((6, 8, 40), dtype, device, 1)):
        weight = random((x.shape[-1],), dtype, device, 2)
        result = ac4k.rms_norm(x, weight)
        assert torch.equal(result, ac4k.rms_norm(x.contiguous(), weight))
        assert_right("rms_norm", dtype, result, x, weight)
        for out in out_views(x):
            ac4k.rms_norm(x, weight, out=out)
            assert torch.equal(out, result)


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


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(33, 40), (3, 4096), (2, 8191), (2, 70000)])
def test_rms_norm_in_place(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    x, weight = random(shape, dtype, device, 1), random(shape[-1:], dtype, device, 2)
    expected = ac4k.rms_norm(x, weight)
    assert torch.equal(ac4k.rms_norm(x, weight, out=x), expected)


def test_errors(device: str) -> None:
    x = torch.ones(4, 8, device=device)
    with pytest.raises(ValueError, match=r"rms_norm: argument 'eps': expected at least 0, got -1"):
        ac4k.rms_norm(x, eps=-1.0)
    with pytest.raises(ValueError, match=r"expected at least 0, got nan"):
        ac4k.rms_norm(x, eps=math.nan)
    with pytest.raises(ValueError, match=r"rms_norm: argument 'x': expected .*contiguous"):
        ac4k.rms_norm(x.t())
    with pytest.raises(ValueError, match=r"argument 'weight': expected shape \[N\] with N = 8"):
        ac4k.rms_norm(x, torch.ones(9, device=device))


def cpu_levels() -> list[str]:
    levels = ["generic", "avx2", "avx512", "amx"]
    return levels[: levels.index(ac4k.info()["cpu"]["best_isa"]) + 1]


@pytest.fixture(params=cpu_levels())
def level(request: Any) -> Iterator[str]:
    ac4k.set_cpu_isa(request.param)
    yield request.param
    ac4k.set_cpu_isa("auto")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_cpu_level(level: str, dtype: str) -> None:
    for columns in (1, 5, 31, 67, 128, 1027):
        x, weight = random((3, columns), dtype, "cpu", 3), random((columns,), dtype, "cpu", 4)
        for cast_first in (False, True):
            result = ac4k.rms_norm(x, weight, cast_first=cast_first)
            assert_right("rms_norm", dtype, result, x, weight, cast_first=cast_first)


CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rms_norm": lambda x: ac4k.rms_norm(x, x[0]),
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
