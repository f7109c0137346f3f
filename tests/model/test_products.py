"""The device tests of `linear` (tests/python/test_linear_device.py) and of W4A16's accuracy on the
model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import test_linear_device
import test_w4a16_accuracy
import torch
from gpu import Gpu
from test_linear_device import (  # collected here once more
    seed,  # noqa: F401
    test_accuracy,  # noqa: F401
    test_scales_of_neighbours_may_be_anything,  # noqa: F401
    test_tokens_do_not_meet,  # noqa: F401
    test_weights_of_few_bits_are_exact,  # noqa: F401
)
from test_w4a16_accuracy import (
    test_not_worse_than_16_bit_weights,  # noqa: F401
    test_zero_points_that_codes_are_lost_beside,  # noqa: F401
)

import ac4k
from ac4k.w4a16 import split_packed, w4_of


@pytest.fixture
def device() -> str:
    return "cpu"  # where the tensors are


@pytest.fixture(autouse=True)
def linear_on_the_model(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def linear(
        x: torch.Tensor, w: ac4k.QuantTensor, bias: Any = None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        if out is None:
            out = torch.full((x.shape[0], w.shape[0]), torch.nan, dtype=x.dtype)
        tensors = (x.contiguous(), w.raw, bias, out)
        try:
            placed = [
                None if each is None else gpu.place(each, writable=each is out) for each in tensors
            ]
            ac4k.quant_linear(*placed[:3], N=w.shape[0], fmt=w.format, out=placed[3])
        finally:
            gpu.forget()
        return out

    monkeypatch.setattr(test_linear_device, "ac4k", SimpleNamespace(linear=linear, pack=ac4k.pack))


@pytest.fixture(autouse=True)
def w4a16_on_the_model(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def multiply(device: str, x: torch.Tensor, packed: ac4k.QuantTensor) -> torch.Tensor:
        fmt = w4_of("", packed)
        rows, _ = packed.shape
        tensors = (x, split_packed(packed, fmt)[0], torch.full((len(x), rows), torch.nan).to(x))
        try:
            placed = [gpu.place(each, writable=each is tensors[2]) for each in tensors]
            ac4k.w4a16_gemm(*placed[:2], N=rows, layout=fmt.layout, out=placed[2])
        finally:
            gpu.forget()
        return tensors[2]

    monkeypatch.setattr(test_w4a16_accuracy, "multiply", multiply)
