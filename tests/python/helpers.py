"""What several test files share: random tensors, NumPy views of them, the levels of this CPU."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import torch

import ac4k

OPS = {op["name"]: op for op in ac4k.op_table()}
TORCH = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
FLOATS = ("f32", "f16", "bf16")  # of most ops
SHORT = {dtype: name for name, dtype in TORCH.items()}


def random(shape: tuple[int, ...], dtype: str, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(TORCH[dtype]).to(device)


def poisoned(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    return torch.full(shape, math.nan, dtype=TORCH[dtype], device=device)


def wide(value: Any) -> Any:
    """A tensor as references take it: float64, or integers as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return (value.double() if value.is_floating_point() else value).numpy()


def wakes_beside(call: Callable[[], Any]) -> int:
    """How often another thread wakes while `call` runs: once or twice when it keeps the GIL."""
    woken, done = 0, threading.Event()

    def wake() -> None:
        nonlocal woken
        while not done.wait(0.001):
            woken += 1

    other = threading.Thread(target=wake)
    other.start()
    before = woken
    try:
        call()
        return woken - before
    finally:
        done.set()
        other.join()


def cpu_levels() -> list[str]:
    levels = ["generic", "avx2", "avx512", "amx"]
    return levels[: levels.index(ac4k.info()["cpu"]["best_isa"]) + 1]
