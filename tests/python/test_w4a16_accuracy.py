"""W4A16 on the device under test, against products of weights rounded to 16 bits."""

from __future__ import annotations

import pytest
import torch

import ac4k

GROUPS = (32, 64, 128)
ROWS = 192


def multiply(device: str, x: torch.Tensor, packed: ac4k.QuantTensor) -> torch.Tensor:
    return ac4k.w4a16_linear(x.to(device), packed.to(device)).cpu()


def squares(error: torch.Tensor) -> float:
    return float(error.double().square().sum())


@pytest.mark.parametrize(
    "zeros", ["none", "integer", "fractions", "small", "half", "negative", "large"]
)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_not_worse_than_16_bit_weights(
    device: str, dtype: torch.dtype, group: int, zeros: str
) -> None:
    """At most 1.1 times their error, whatever zero points are."""
    torch.manual_seed(0)
    columns = 1024
    shape = (ROWS, columns // group)
    q = torch.randint(0, 16, (ROWS, columns), dtype=torch.uint8)
    scales = torch.rand(shape) / 100 + 0.01
    scales = (scales / 8 if zeros == "large" else scales).to(dtype)
    points = {
        "none": None,
        "integer": torch.randint(0, 16, shape),
        "fractions": torch.rand(shape) * 15,
        "small": torch.full(shape, 0.03),
        "half": torch.full(shape, 7.5),
        "negative": -torch.rand(shape) * 40,
        "large": torch.full(shape, -200.0),
    }[zeros]
    points = None if points is None else points.to(dtype)
    packed = ac4k.w4a16_pack(q, scales, points)
    offset = torch.tensor(8.0) if points is None else points.double().repeat_interleave(group, 1)
    w = scales.double().repeat_interleave(group, 1) * (q - offset)
    for tokens in (1, 8, 9, 40, 130, 300):
        for x in (torch.randn(tokens, columns), torch.rand(tokens, columns)):
            x = (x / 4).to(dtype)
            expected = x.double() @ w.T
            plain = (x.double() @ w.to(dtype).double().T).to(dtype)
            error = squares(multiply(device, x, packed) - expected)
            assert error <= 1.1**2 * squares(plain - expected), tokens


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_zero_points_that_codes_are_lost_beside(
    device: str, dtype: torch.dtype, group: int
) -> None:
    q = torch.randint(0, 16, (ROWS, 256), dtype=torch.uint8)
    shape = (ROWS, 256 // group)
    packed = ac4k.w4a16_pack(
        q, torch.full(shape, 0.5, dtype=dtype), torch.full(shape, 65000.0).to(dtype)
    )
    for tokens in (1, 9, 40, 130):
        x = torch.zeros(tokens, 256, dtype=dtype)
        x[:, 100] = 1
        expected = torch.full((tokens, ROWS), -0.5 * 65000.0)
        assert torch.allclose(multiply(device, x, packed).float(), expected, rtol=2**-7)
