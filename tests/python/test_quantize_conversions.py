"""Every conversion of the quantise and dequantise ops, over every number and code, and the rule
that the ops are held to (test_quantize.py), against ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers import FLOATS, TORCH
from test_quantize import FP8, assert_exact, bits, fp8_bits

import ac4k
from ac4k import _quantize_rule as rule


def all_patterns(dtype: str) -> torch.Tensor:
    """All 65536 numbers of a 16-bit type."""
    codes = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    return codes.view(TORCH[dtype])


def float32_probes() -> Any:
    """Numbers of the small formats, their midpoints and the floats beside them; random floats."""
    numbers = [np.arange(-260, 260) / 2.0]
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn):
        codes = np.arange(16 if dtype is ml_dtypes.float4_e2m1fn else 256, dtype=np.uint8)
        values = codes.view(dtype).astype(np.float64)
        values = np.unique(values[np.isfinite(values)])
        numbers += [values, (values[1:] + values[:-1]) / 2]
    exact = np.concatenate(numbers).astype(np.float32)
    random_bits = np.random.default_rng(1).integers(0, 2**32, 300_000, dtype=np.uint32)
    infinity = np.float32(np.inf)
    return np.concatenate(
        [
            exact,
            np.nextafter(exact, infinity),
            np.nextafter(exact, -infinity),
            random_bits.view(np.float32),
            np.random.default_rng(2).standard_normal(100_000).astype(np.float32) * 100,
        ]
    )


def probes(dtype: str) -> torch.Tensor:
    return torch.from_numpy(float32_probes()) if dtype == "f32" else all_patterns(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fp8", FP8)
def test_fp8_of_every_number(device: str, dtype: str, fp8: str) -> None:
    torch_type, numpy_type, largest = FP8[fp8]
    x = probes(dtype)
    numbers = x.float().numpy()
    expected = fp8_bits(np.clip(numbers, -largest, largest), numpy_type)
    one = torch.ones(1, device=device)
    q, scale = ac4k.quantize_fp8(x.to(device), "per_tensor", fp8, one)
    assert q.dtype == torch_type
    assert scale.item() == 1
    assert np.array_equal(bits(q), expected)
    nan = np.isnan(numbers)
    assert (q.cpu().view(torch.uint8).numpy()[nan] == 0x7F).all(), "NaN has one code"


@pytest.mark.parametrize("dtype", FLOATS)
def test_int8_of_every_number(device: str, dtype: str) -> None:
    x = probes(dtype)
    q, _ = ac4k.quantize_int8(x.to(device), "per_tensor", scale=torch.ones(1, device=device))
    expected = np.clip(np.rint(np.nan_to_num(x.float().numpy(), nan=0.0)), -128, 127)
    assert np.array_equal(q.cpu().numpy(), expected.astype(np.int8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_e2m1_of_every_number(device: str, dtype: str) -> None:
    """Blocks that begin with 6 have the scale 1: of NVFP4 with the global scale 1, and of MXFP4."""
    numbers = probes(dtype)
    numbers = numbers[(numbers.abs() < 8) | numbers.isnan()]
    numbers = numbers[: len(numbers) // 465 * 465]

    def expected(rows: torch.Tensor) -> Any:
        values = np.clip(rows.float().numpy(), -6, 6)
        values = np.where(np.isnan(values), 0, values)
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
        return codes[:, ::2] | codes[:, 1::2] << 4

    def blocks(size: int) -> torch.Tensor:
        rows = numbers.reshape(-1, size - 1)
        return torch.cat([torch.full((len(rows), 1), 6.0, dtype=rows.dtype), rows], dim=1)

    x = blocks(32)
    q, scale = ac4k.quantize_mxfp4(x.to(device))
    assert (scale == 127).all()
    assert np.array_equal(q.cpu().numpy(), expected(x))
    # Past 6 the block's scale would not be 1.
    x = blocks(16)
    x = x[~(x.float().abs() > 6).any(dim=1)]
    q, scale, g = ac4k.quantize_nvfp4(x.to(device), torch.ones(1, device=device))
    assert (scale.float() == 1).all()
    assert g.item() == 1
    assert np.array_equal(q.cpu().numpy(), expected(x))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_mxfp4_of_every_number_with_every_scale(device: str, dtype: str) -> None:
    """Blocks that begin with a power of two: its exponent is that of the scale, whatever follows
    below twice that. NaN may follow, too."""
    patterns = all_patterns(dtype)
    magnitudes = patterns.double().abs().numpy()
    exponents = np.arange(-24, 16) if dtype == "f16" else np.arange(-133, 128)
    for exponent in exponents:
        numbers = patterns[torch.from_numpy(~(magnitudes >= 2.0 ** (exponent + 1)))]
        rows = torch.full((len(numbers) // 31 + 1, 32), 2.0**exponent, dtype=numbers.dtype)
        rest = rows[:, 1:].clone().reshape(-1)
        rest[: len(numbers)] = numbers
        rows[:, 1:] = rest.reshape(-1, 31)
        q, scale = ac4k.quantize_mxfp4(rows.to(device))
        code = max(int(exponent) + 127 - 2, 0)
        assert (scale == code).all(), exponent
        values = np.clip(rows.double().numpy() * 2.0 ** (127 - code), -6, 6)
        values = np.where(np.isnan(values), 0, values)
        codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
        assert np.array_equal(q.cpu().numpy(), codes[:, ::2] | codes[:, 1::2] << 4), exponent


GLOBAL_SCALES = [1.0, 2688 / 3.7, 1e-44, 3e-38, 2.0**-100, 0.1, 2.0**100, 3e38, -2.5, float("nan")]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("g", GLOBAL_SCALES)
def test_nvfp4_with_any_global_scale(device: str, dtype: str, g: float) -> None:
    """Numbers and midpoints of the format and what lies beside them, in blocks of every magnitude;
    some have NaN or infinity among them."""
    generator = np.random.default_rng(3)
    values = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7])
    x = generator.choice(values, (2048, 16)) * generator.choice([-1, 1], (2048, 16))
    x *= 1 + generator.choice([-1, 0, 0, 1], x.shape) * 2.0**-8
    x *= 2.0 ** generator.integers(-26, 14, (2048, 1))
    x[generator.random(x.shape) < 0.003] = np.nan
    x[generator.random(x.shape) < 0.001] = -np.inf
    if dtype != "f16":
        x[1024:] *= 2.0 ** generator.integers(-110, 110, (1024, 1))
    numbers = torch.from_numpy(x).to(TORCH[dtype]).to(device)
    scale = torch.tensor([g], dtype=torch.float32, device=device)
    assert_exact("quantize_nvfp4", ac4k.quantize_nvfp4(numbers, scale), numbers, scale)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("fp8", FP8)
def test_numbers_of_every_fp8_code(device: str, dtype: str, fp8: str) -> None:
    torch_type, numpy_type, _ = FP8[fp8]
    codes = np.arange(256, dtype=np.uint8)
    numbers = codes.view(numpy_type).astype(np.float32)
    q = torch.from_numpy(codes).view(torch_type).to(device)
    expected = torch.from_numpy(numbers).to(TORCH[dtype])
    one = torch.ones(1, device=device)
    for result in (
        ac4k.dequantize_fp8(q, one, "per_tensor", TORCH[dtype]),
        ac4k.dequantize_mxfp8(
            q, torch.full((8,), 127, dtype=torch.uint8, device=device), TORCH[dtype]
        ),
    ):
        assert result.dtype == TORCH[dtype]
        nan = np.isnan(numbers)
        assert np.array_equal(torch.isnan(result).cpu().numpy(), nan)
        assert np.array_equal(bits(result)[~nan], bits(expected)[~nan])


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_of_every_other_code(device: str, dtype: str) -> None:
    bytes_ = torch.arange(256, dtype=torch.uint8, device=device)
    one = torch.ones(1, device=device)
    q = bytes_.view(torch.int8)
    result = ac4k.dequantize_int8(q, one, None, "per_tensor", TORCH[dtype])
    assert np.array_equal(result.float().cpu().numpy(), q.cpu().numpy().astype(np.float32))
    # e2m1: both halves of every byte.
    nibbles = np.stack([np.arange(256) & 15, np.arange(256) >> 4], axis=-1).astype(np.uint8)
    numbers = nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float32).reshape(-1)
    expected = bits(torch.from_numpy(numbers).to(TORCH[dtype]))
    scale = torch.ones(32, device=device).to(torch.float8_e4m3fn)
    result = ac4k.dequantize_nvfp4(bytes_, scale, one, dtype=TORCH[dtype])
    assert np.array_equal(bits(result), expected)
    mx_scale = torch.full((16,), 127, dtype=torch.uint8, device=device)
    assert np.array_equal(bits(ac4k.dequantize_mxfp4(bytes_, mx_scale, TORCH[dtype])), expected)
    # e8m0: the scale of every code.
    q = torch.ones((256, 32), device=device).to(torch.float8_e4m3fn)
    result = ac4k.dequantize_mxfp8(q, bytes_[:, None].contiguous())[:, 0].cpu().numpy()
    expected = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert np.isnan(result[255])
    assert np.array_equal(result[:255], expected[:255])


def test_the_rule_itself() -> None:
    """The reference rounds as ml_dtypes does."""
    x = float32_probes()
    with np.errstate(all="ignore"):
        for _, numpy_type, largest in FP8.values():
            form = rule.fp8_format(numpy_type)
            assert form.largest == largest
            expected = fp8_bits(np.clip(x, -largest, largest), numpy_type)
            assert np.array_equal(fp8_bits(rule.round_to(form, x), numpy_type), expected)
        small = np.clip(np.nan_to_num(x), -6, 6)
        expected = small.astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
        assert np.array_equal(rule.round_to(rule.E2M1, small), expected)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_cpu_level(dtype: str) -> None:
    for fp8 in FP8:
        test_fp8_of_every_number("cpu", dtype, fp8)
        test_numbers_of_every_fp8_code("cpu", dtype, fp8)
    test_int8_of_every_number("cpu", dtype)
    test_e2m1_of_every_number("cpu", dtype)
    test_numbers_of_every_other_code("cpu", dtype)
