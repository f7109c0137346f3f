"""quantize and dequantize, GGUF blocks of every format: bit by bit against the `gguf` package for
what it implements, and against the NumPy rules of ac4k/_gguf_reference.py for everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ac4k
from ac4k import _gguf_reference as rule
from ac4k._formats import FORMATS

TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NAMED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1")
PACKAGE_QUANTIZES = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4")
COUNT = 256 * 6


def numbers(seed: int = 0) -> dict[str, Any]:
    """Many kinds of float32 numbers."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(COUNT)
    groups = np.exp2(rng.integers(-30, 10, (COUNT // 16, 1)))
    sparse = np.where(rng.random(COUNT) < 0.05, normal, 0.0)
    kinds = {
        "normal": normal,
        "uniform": rng.uniform(-1, 1, COUNT),
        "positive": rng.uniform(0, 1, COUNT),
        "negative": -rng.uniform(1, 2, COUNT),
        "heavy tails": rng.standard_t(1.5, COUNT),
        "an outlier": np.where(np.arange(COUNT) % 256 == 17, -3e4, normal),
        "sparse": sparse,
        "sparse, signed zeros": sparse * rng.choice([-1, 1], COUNT),
        "integers, ties": rng.integers(-8, 9, COUNT) / 2,
        "groups of all sizes": (normal.reshape(-1, 16) * groups).reshape(-1),
        "constant": np.repeat(rng.standard_normal(COUNT // 32), 32),
        "zeros": np.zeros(COUNT),
        "small": normal * 1e-7,
        "below the smallest scale": normal * 1e-16,
        "near denormal": normal * 1e-37,
        "denormal": normal * 1e-39,
        "large": normal * 1e5,
        "huge": normal * 1e30,
        "largest": rng.choice([-1, 0.5, 1], COUNT) * np.finfo(np.float32).max,
        "just below a power of 2": np.exp2(rng.integers(-40, 40, COUNT // 32)).repeat(32)
        * (1 - rng.integers(0, 60, COUNT) * 2.0**-24),
    }
    return {name: values.astype(np.float32) for name, values in kinds.items()}


def quantized(x: torch.Tensor, fmt: str) -> Any:
    return ac4k.quantize(x, fmt).cpu().numpy()


def wide(x: torch.Tensor) -> Any:
    return x.float().cpu().numpy()


def random_blocks(fmt: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Any bytes at all: every code, and scales that are NaN, infinite, denormal."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*shape, FORMATS[fmt].block_bytes), dtype=np.uint8)


def same_numbers(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit by bit, but for NaN, of which there are many."""
    a, b = a.cpu(), b.cpu()
    nan = torch.isnan(b)
    integer = torch.int32 if a.dtype == torch.float32 else torch.int16
    different = a.view(integer) != b.view(integer)
    return bool(torch.equal(torch.isnan(a), nan) and not (different & ~nan).any())


@pytest.fixture
def levels() -> Iterator[list[str]]:
    """The CPU's levels from the lowest; the one in use comes back afterwards."""
    detected = ac4k.info()["cpu"]["best_isa"]
    names = ["generic", "avx2", "avx512", "amx"]
    yield names[: names.index(detected) + 1]
    ac4k.set_cpu_isa("auto")


# --- against the rules


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("fmt", FORMATS)
def test_quantize_follows_the_rule(fmt: str, dtype: str, device: str) -> None:
    for name, values in numbers(seed=len(fmt)).items():
        x = torch.from_numpy(values).to(TORCH[dtype]).reshape(3, -1).to(device)
        assert np.array_equal(quantized(x, fmt), rule.quantize(wide(x), fmt)), name


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("fmt", FORMATS)
def test_dequantize_follows_the_rule(fmt: str, dtype: str, device: str) -> None:
    blocks = random_blocks(fmt, (3, 37), seed=len(fmt))
    result = ac4k.dequantize(torch.from_numpy(blocks).to(device), fmt, dtype=TORCH[dtype])
    assert result.dtype == TORCH[dtype]
    expected = torch.from_numpy(rule.dequantize(blocks, fmt)).to(TORCH[dtype])
    assert same_numbers(result, expected)


@settings(max_examples=25, deadline=None)
@given(
    fmt=st.sampled_from(sorted(FORMATS)),
    rows=st.integers(1, 5),
    blocks=st.integers(1, 5),
    exponent=st.integers(-45, 37),
    seed=st.integers(0, 2**31),
)
def test_any_numbers_follow_the_rule(
    fmt: str, rows: int, blocks: int, exponent: int, seed: int, device: str
) -> None:
    rng = np.random.default_rng(seed)
    shape = (rows, blocks * FORMATS[fmt].block_values)
    values = rng.standard_normal(shape) * rng.choice([0.0, 1.0, 1e-3], shape) * 10.0**exponent
    x = values.astype(np.float32)
    assert np.array_equal(quantized(torch.from_numpy(x).to(device), fmt), rule.quantize(x, fmt))


# --- against the package that reads and writes GGUF files


@pytest.mark.parametrize("fmt", PACKAGE_QUANTIZES)
def test_quantize_is_that_of_gguf(fmt: str, device: str) -> None:
    gguf = pytest.importorskip("gguf")
    for name, values in numbers(seed=1).items():
        # Scales whose inverse is no float32, zeros of both signs under a minimum, and logarithms
        # that depend on the library: not defined there.
        if "denormal" in name or "largest" in name or "signed" in name or "power" in name:
            continue
        x = values.reshape(3, -1)
        with np.errstate(all="ignore"):
            expected = gguf.quantize(x, gguf.GGMLQuantizationType[fmt.upper()])
        result = quantized(torch.from_numpy(x).to(device), fmt)
        assert np.array_equal(result.reshape(expected.shape), expected), name


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt != "q8_1"])
def test_dequantize_is_that_of_gguf(fmt: str, device: str) -> None:
    gguf = pytest.importorskip("gguf")
    blocks = random_blocks(fmt, (3, 41), seed=2)
    with np.errstate(all="ignore"):
        kind = gguf.GGMLQuantizationType[fmt.upper()]
        expected = gguf.dequantize(blocks.reshape(3, -1), kind).astype(np.float32)
    result = ac4k.dequantize(torch.from_numpy(blocks).to(device), fmt)
    assert same_numbers(result, torch.from_numpy(expected))


# --- the same bytes however they are made


@pytest.mark.parametrize("fmt", FORMATS)
def test_levels_and_threads_agree(fmt: str, levels: list[str]) -> None:
    x = np.concatenate([values[:512] for values in numbers(seed=3).values()])
    x = np.tile(x, 2).reshape(5, -1)
    blocks = random_blocks(fmt, (5, 301))
    ac4k.set_cpu_isa(levels[0])
    expected, back = ac4k.quantize(x, fmt), ac4k.dequantize(blocks, fmt)
    threads = ac4k.get_num_threads()
    try:
        for level in levels:
            ac4k.set_cpu_isa(level)
            for count in (1, 3):
                ac4k.set_num_threads(count)
                assert np.array_equal(ac4k.quantize(x, fmt), expected), (level, count)
                result = torch.from_numpy(ac4k.dequantize(blocks, fmt))
                assert same_numbers(result, torch.from_numpy(back)), (level, count)
    finally:
        ac4k.set_num_threads(threads)


@pytest.mark.parametrize("fmt", NAMED)
def test_ops_of_one_format(fmt: str, device: str) -> None:
    x = torch.from_numpy(numbers(seed=4)["normal"]).reshape(4, -1).to(device)
    q = getattr(ac4k, f"quantize_{fmt}")(x)
    assert torch.equal(q, ac4k.quantize(x, fmt))
    back = getattr(ac4k, f"dequantize_{fmt}")
    assert same_numbers(back(q), ac4k.dequantize(q, fmt))
    assert same_numbers(
        back(q, dtype=torch.bfloat16), ac4k.dequantize(q, fmt, dtype=torch.bfloat16)
    )


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("dtype", TORCH)
def test_layouts(fmt: str, dtype: str, device: str) -> None:
    """Leading dims, rows apart from each other or in another order, addresses of any kind."""
    K = 2 * FORMATS[fmt].block_values
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(3, 5, K, generator=generator).to(TORCH[dtype]).to(device)
    expected = ac4k.quantize(x, fmt)
    assert expected.shape == (3, 5, 2, FORMATS[fmt].block_bytes)
    assert torch.equal(ac4k.quantize(x[1, 2], fmt), expected[1, 2])
    assert torch.equal(ac4k.quantize(x.transpose(0, 1), fmt), expected.transpose(0, 1).contiguous())
    apart = torch.zeros(3, 5, K + 3, dtype=x.dtype, device=device)
    apart[..., 3:] = x
    assert torch.equal(ac4k.quantize(apart[..., 3:], fmt), expected)
    memory = torch.zeros(expected.numel() + 1, dtype=torch.uint8, device=device)
    out = memory[1:].view(expected.shape)
    assert torch.equal(ac4k.quantize(x, fmt, out=out), expected)
    numbers_back = ac4k.dequantize(expected, fmt, dtype=TORCH[dtype])
    assert same_numbers(ac4k.dequantize(out, fmt, dtype=TORCH[dtype]), numbers_back)
    shifted = torch.zeros(x.numel() + 1, dtype=x.dtype, device=device)[1:].view(x.shape)
    assert same_numbers(
        ac4k.dequantize(expected, fmt, dtype=TORCH[dtype], out=shifted), numbers_back
    )


@pytest.mark.parametrize("fmt", FORMATS)
def test_empty(fmt: str, device: str) -> None:
    values, size = FORMATS[fmt]
    for shape in ((0, values), (2, 0)):
        q = ac4k.quantize(torch.zeros(shape, device=device), fmt)
        assert q.shape == (shape[0], shape[1] // values, size)
        assert ac4k.dequantize(q, fmt).shape == shape


# --- special values


@pytest.mark.parametrize("fmt", FORMATS)
def test_nan_counts_as_zero_and_infinity_as_the_largest_number(fmt: str, device: str) -> None:
    x = torch.from_numpy(numbers(seed=6)["normal"]).reshape(6, -1)
    plain = x.clone()
    largest = float(np.finfo(np.float32).max)
    for row, (special, instead) in enumerate(
        [
            (float("nan"), 0.0),
            (float("inf"), largest),
            (-float("inf"), -largest),
        ]
    ):
        x[row, 3::50], plain[row, 3::50] = special, instead
    x[3], plain[3] = float("nan"), 0.0
    x[4], plain[4] = float("inf"), largest
    x[5, ::2], plain[5, ::2] = -float("inf"), -largest
    result = quantized(x.to(device), fmt)
    assert np.array_equal(result, quantized(plain.to(device), fmt))
    assert np.array_equal(result, rule.quantize(plain.numpy(), fmt))


# How far back numbers are from standard normal ones, as a share of their size: a regression bound.
LARGEST_ERROR = {
    "q4_0": 0.1, "q4_1": 0.09, "q5_0": 0.05, "q5_1": 0.045, "q8_0": 0.007, "q8_1": 0.007,
    "q2_k": 0.32, "q3_k": 0.17, "q4_k": 0.08, "q5_k": 0.04, "q6_k": 0.02,
    "iq4_nl": 0.09, "iq4_xs": 0.09, "mxfp4": 0.13, "nvfp4": 0.11,
}  # fmt: skip


@pytest.mark.parametrize("fmt", FORMATS)
def test_round_trip(fmt: str, device: str) -> None:
    x = torch.randn(8, 2048, generator=torch.Generator().manual_seed(7)).to(device)
    back = ac4k.dequantize(ac4k.quantize(x, fmt), fmt)
    error = float((back - x).norm() / x.norm())
    assert 0 < error < LARGEST_ERROR[fmt]


# --- refusals


def test_refusals() -> None:
    x = np.zeros((2, 48), np.float32)
    with pytest.raises(ValueError, match=r"quantize_q4_0: .*K/32.*48"):
        ac4k.quantize_q4_0(x)
    with pytest.raises(ValueError, match=r"quantize: .*K/256.*32"):
        ac4k.quantize(np.zeros((2, 32), np.float32), "q4_k")
    with pytest.raises(ValueError, match=r"quantize: .*'fmt'.*q9_9"):
        ac4k.quantize(np.zeros((2, 32), np.float32), "q9_9")
    with pytest.raises((TypeError, ValueError), match=r"quantize: .*'x'.*float64"):
        ac4k.quantize(np.zeros((2, 32)), "q4_0")
    with pytest.raises(ValueError, match=r"dequantize: .*'q'"):
        ac4k.dequantize(np.zeros((2, 1, 18), np.uint8), "q4_1")
    with pytest.raises(ValueError, match=r"dequantize_q8_0: .*'q'"):
        ac4k.dequantize_q8_0(np.zeros((2, 1, 18), np.uint8))
