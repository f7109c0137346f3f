"""The device tests of `linear` (tests/python/test_linear_device.py) and of W4A16's accuracy on the
model."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.parametrize("fmt", ["q4_0", "iq4_nl"])
def test_the_first_product_of_a_process(fmt: str) -> None:
    """How many clusters a GPU runs at once is asked with that one's kernel, whatever it takes."""
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import torch, ac4k
from conftest import LIBRARIES, ROOT
from gpu import Gpu
gpu = Gpu(LIBRARIES, ROOT / "build/model")
w = ac4k.pack(ac4k.quantize(torch.randn(64, 256), {fmt!r}), {fmt!r})
x, out = torch.randn(1, 256).half(), torch.full((1, 64), torch.nan).half()
x, raw = (gpu.place(each, writable=False) for each in (x, w.raw))
ac4k.quant_linear(x, raw, N=64, fmt={fmt!r}, out=gpu.place(out, writable=True))
assert out.isfinite().all()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
