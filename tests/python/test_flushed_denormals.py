"""Threads that flush denormal numbers (torch.set_flush_denormal): halves are none of float32's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import ac4k
from ac4k._formats import FORMATS

Results = Callable[[], list[torch.Tensor]]


@pytest.fixture(autouse=True)
def one_thread(level: str) -> Iterator[None]:
    """Others would not flush."""
    torch.manual_seed(0)
    ac4k.set_num_threads(1)
    yield
    ac4k.set_num_threads(0)


def check_same(results: Results) -> None:
    expected = results()
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU does not flush")
    try:
        flushed = results()
    finally:
        torch.set_flush_denormal(False)
    for ours, theirs in zip(flushed, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("fmt", FORMATS)
def test_blocks(fmt: str) -> None:
    """Scales of common weights are denormal halves in some formats."""
    w = torch.randn(64, 512) * 0.02
    q = ac4k.quantize(w, fmt)

    def results() -> list[torch.Tensor]:
        return [
            ac4k.quantize(w, fmt),
            *(ac4k.dequantize(q, fmt, dtype=t) for t in ("float32", "float16")),
        ]

    check_same(results)


@pytest.mark.parametrize("fmt", ["q4_0", "q5_k", "q6_k", "iq4_xs", "nvfp4"])
def test_products(fmt: str) -> None:
    w = ac4k.pack(ac4k.quantize(torch.randn(64, 512) * 0.02, fmt), fmt)
    x = torch.randn(33, 512)
    check_same(lambda: [ac4k.linear(x[:n].half(), w) for n in (1, 5, 33)])


def test_rows_of_denormal_halves() -> None:
    x = (torch.randn(8, 65) * 1e-5).half()
    b = torch.randn(65, 40).half()
    check_same(lambda: [ac4k.gemm(x, b), ac4k.layer_norm(x[:, :37], eps=1e-12)])
