"""The device tests of `linear` (tests/python/test_linear_device.py) on the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import test_linear_device
import torch
from gpu import Gpu
from test_linear_device import (  # collected here once more
    seed,  # noqa: F401
    test_accuracy,  # noqa: F401
    test_scales_of_neighbours_may_be_anything,  # noqa: F401
    test_tokens_do_not_meet,  # noqa: F401
    test_weights_of_few_bits_are_exact,  # noqa: F401
)

import ac4k


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
