"""Activations with a quantised result: bit by bit what activation and quantiser give one after the
other, by ml_dtypes and NumPy float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import ac4k

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FORMATS = {
    torch.float8_e4m3fn: (ml_dtypes.float8_e4m3fn, 448.0),
    torch.float8_e5m2: (ml_dtypes.float8_e5m2, 57344.0),
    torch.int8: (np.int8, 127.0),
}
# The op, what makes y, and how many columns x has for one of y.
Activation = tuple[Callable[..., Any], Callable[..., Any], int]
ACTIVATIONS: dict[str, Activation] = {
    "silu": (ac4k.silu_and_mul_quant, ac4k.silu_and_mul, 2),
    "gelu": (ac4k.gelu_and_mul_quant, ac4k.gelu_and_mul, 2),
    "gelu_tanh": (
        lambda x, *a, **k: ac4k.gelu_and_mul_quant(x, *a, approximate="tanh", **k),
        lambda x: ac4k.gelu_and_mul(x, approximate="tanh"),
        2,
    ),
    "relu2": (ac4k.relu2_quant, ac4k.relu2, 1),
    "add_gelu": (
        lambda x, *a, **k: ac4k.fused_add_gelu_quant(x, bias_of(x), *a, **k),
        lambda x: ac4k.fused_add_gelu(x, bias_of(x)),
        1,
    ),
    "add_gelu_tanh": (
        lambda x, *a, **k: ac4k.fused_add_gelu_quant(x, bias_of(x), *a, approximate="tanh", **k),
        lambda x: ac4k.fused_add_gelu(x, bias_of(x), approximate="tanh"),
        1,
    ),
}
GRANULARITIES = ("per_token", "per_tensor", "group128")


def bias_of(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1, 1, x.shape[-1], dtype=torch.float64).to(x.dtype).to(x.device)


def random(shape: tuple[int, ...], dtype: torch.dtype, device: str, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 3).to(dtype).to(device)


def quantised(
    y: torch.Tensor, granularity: str, kind: torch.dtype, scale: torch.Tensor | None = None
) -> tuple[Any, Any]:
    """Codes as bytes and scales, by the rule: float32, each step rounded."""
    rows = y.float().cpu().numpy()
    number, largest = FORMATS[kind]
    N = rows.shape[-1]
    width = 128 if granularity == "group128" else max(N, 1)
    groups = -(-N // 128) if granularity == "group128" else 1
    with np.errstate(all="ignore"):
        if scale is None:
            magnitude = np.minimum(np.abs(rows), np.finfo(np.float32).max)
            parts = [magnitude[..., i * width : (i + 1) * width] for i in range(groups)]
            amax = [np.fmax.reduce(part, axis=-1, initial=np.float32(0)) for part in parts]
            found = np.stack(amax, -1) if groups else np.zeros((*rows.shape[:-1], 0), np.float32)
            scales = np.maximum(found / np.float32(largest), np.float32(2.0**-120))
        else:
            scales = scale.cpu().numpy()
        inverse = np.float32(1) / np.broadcast_to(scales, (*rows.shape[:-1], groups))
        v = rows * np.repeat(inverse, width, axis=-1)[..., :N]
        if kind == torch.int8:
            codes = np.clip(np.rint(np.nan_to_num(v, nan=0)), -128, 127).astype(np.int8)
            return codes.view(np.uint8), scales
        codes = np.clip(v, -largest, largest).astype(number).view(np.uint8)
        return np.where(np.isnan(v), 0x7F, codes).astype(np.uint8), scales


def check(
    name: str,
    x: torch.Tensor,
    granularity: str,
    kind: torch.dtype,
    scale: torch.Tensor | None = None,
) -> None:
    op, activation, _ = ACTIVATIONS[name]
    y = activation(x)
    expected, scales = quantised(y, granularity, kind, scale)
    out = (
        torch.full(y.shape, 85, dtype=torch.uint8, device=x.device).view(kind),
        torch.full(scales.shape, math.nan, device=x.device),
    )
    args = () if scale is None else (scale,)
    got = op(x, *args, granularity=granularity, dtype=kind, out=out)
    assert got[0] is out[0]
    assert np.array_equal(out[1].cpu().numpy(), scales)
    assert np.array_equal(out[0].view(torch.uint8).cpu().numpy(), expected)
    if kind == torch.int8:
        one_by_one = ac4k.quantize_int8(y, granularity, scale=scale)
    else:
        one_by_one = ac4k.quantize_fp8(y, granularity, kind, scale)
    assert torch.equal(one_by_one[0].view(torch.uint8), out[0].view(torch.uint8))
    assert torch.equal(one_by_one[1], out[1])
    again = op(x, *args, granularity=granularity, dtype=kind)
    assert torch.equal(again[0].view(torch.uint8), out[0].view(torch.uint8))
    assert torch.equal(again[1], out[1])


def scale_for(granularity: str, shape: tuple[int, ...], device: str) -> torch.Tensor:
    groups = {"per_token": 1, "group128": -(-shape[-1] // 128)}
    wanted = (1,) if granularity == "per_tensor" else (*shape[:-1], groups[granularity])
    generator = torch.Generator().manual_seed(9)
    return (torch.rand(wanted, generator=generator) * 0.1 + 0.001).to(device)


SHAPES = [
    (1, 8),
    (3, 5, 7),
    (2, 128),
    (5, 136),
    (33, 256),
    (7, 257),
    (4, 1000),
    (1100, 200),
    (300, 4096),
    (3, 4096),
    (2, 11008),
    (260, 11008),
    (2, 40000),
    (17,),
    (0, 16),
    (3, 0),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(device: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = random((*shape[:-1], 2 * shape[-1]), dtype, device)
    for granularity in GRANULARITIES:
        scale = scale_for(granularity, shape, device)
        if granularity != "per_tensor":
            check("silu", x, granularity, torch.float8_e4m3fn)
        check("silu", x, granularity, torch.int8, scale)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("rows", "columns"), [(6, 264), (6, 259), (1100, 136)])
def test_every_activation(
    device: str, name: str, dtype: torch.dtype, kind: torch.dtype, rows: int, columns: int
) -> None:
    x = random((rows, columns * ACTIVATIONS[name][2]), dtype, device, 2)
    for granularity in GRANULARITIES:
        if granularity != "per_tensor":
            check(name, x, granularity, kind)
        check(name, x, granularity, kind, scale_for(granularity, (rows, columns), device))


@pytest.mark.parametrize("dtype", FLOATS)
def test_strided_rows(device: str, dtype: torch.dtype) -> None:
    wide = random((5, 6, 4, 544), dtype, device, 3)
    for x in (wide[..., :512], wide[..., 1:513], wide[:, 2:4, :, 16:528], wide.transpose(0, 2)):
        for name in ("silu", "relu2", "add_gelu"):
            for granularity in ("per_token", "group128"):
                check(name, x, granularity, torch.float8_e4m3fn)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(device: str, dtype: torch.dtype, kind: torch.dtype) -> None:
    """NaN does not count for the scale, an infinity counts as the largest float32; rows of zeros
    have the smallest scale; one huge number leaves the others small."""
    special = (math.nan, math.inf, -math.inf, 6e4, 0.0, -0.0, 1e-30)
    for columns in (128, 131):
        x = random((len(special) + 2, columns), dtype, device, 4)
        for row, value in enumerate(special):
            x[row, 5] = value
        x[-1] = 0
        x[-2] = math.nan
        for granularity in ("per_token", "group128"):
            check("relu2", x, granularity, kind)
            check("silu", torch.cat([x, x], -1), granularity, kind)
        _, scale = ac4k.relu2_quant(x, dtype=kind)
        assert scale[-1] == 2.0**-120
        assert scale[-2] == 2.0**-120
        assert scale.isfinite().all()


@pytest.fixture
def restore_settings() -> Iterator[None]:
    yield
    ac4k.set_cpu_isa("auto")
    ac4k.set_num_threads(0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_cpu_level_and_thread_count(dtype: torch.dtype, restore_settings: None) -> None:
    levels = ["generic", "avx2", "avx512", "amx"]
    levels = levels[: levels.index(ac4k.info()["cpu"]["best_isa"]) + 1]
    x = random((40, 2 * 523), dtype, "cpu", 5)
    for level in levels:
        ac4k.set_cpu_isa(level)
        for count in (1, 2, 3):
            ac4k.set_num_threads(count)
            for name in ACTIVATIONS:
                check(name, x, "per_token", torch.float8_e5m2)
                check(name, x, "group128", torch.int8)


def test_what_is_refused(device: str) -> None:
    x = torch.ones(4, 256, device=device)
    with pytest.raises(ValueError, match="'scale': expected a tensor for granularity per_tensor"):
        ac4k.silu_and_mul_quant(x, granularity="per_tensor")
    with pytest.raises(ValueError, match="argument 'scale'"):
        ac4k.silu_and_mul_quant(x, torch.ones(3, 1, device=device))
    with pytest.raises((TypeError, ValueError), match="argument 'dtype'"):
        ac4k.relu2_quant(x, dtype="float16")
    with pytest.raises(ValueError, match="argument 'bias'"):
        ac4k.fused_add_gelu_quant(x, x[0, :3])
    with pytest.raises(ValueError, match="argument 'x'"):
        ac4k.relu2_quant(x.t())
