"""What the user asked `ac4k bench` for, and the amounts of work that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ..environment import available_memory_bytes, last_level_cache_bytes
from .arrays import DType
from .case import Case, Shape

PEERS = ("eager", "inductor")
_MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"
    dtypes: tuple[DType, ...] = ()  # empty: those of the case
    shapes: tuple[Shape, ...] = ()  # empty: those of the case
    # Of products with weights; empty: those of the case.
    formats: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()
    matrices: tuple[Shape, ...] = ()
    peers: tuple[str, ...] = PEERS
    all_configs: bool = False
    quick: bool = False
    seconds: float | None = None  # for one row of the table

    @property
    def rounds(self) -> int:
        """Samples of each candidate; candidates take turns, so drifting clocks meet all alike."""
        return 15 if self.quick else 31

    @property
    def budget_s(self) -> float:
        """Time for one row of the table after which rounds end early."""
        if self.seconds is not None:
            return self.seconds
        return 0.3 if self.quick else 6.0

    @property
    def sample_us(self) -> float:
        """One sample lasts at least this long: what surrounds the calls must not matter."""
        if self.device == "cuda":
            return 500.0 if self.quick else 2000.0
        return 200.0 if self.quick else 1000.0

    @property
    def rotation_bytes(self) -> int:
        """How much memory cold calls go through before they see a buffer again."""
        if self.device == "cuda":
            import torch

            return 5 * int(torch.cuda.get_device_properties(0).L2_cache_size)
        if self.quick:
            return 64 * _MIB
        # A server's L3 can be hundreds of megabytes: past it once, not five times.
        return min(2 * last_level_cache_bytes(), available_memory_bytes() // 8)

    def shapes_of(self, case: Case) -> tuple[Shape, ...]:
        if self.shapes:
            return self.shapes
        if self.quick:
            shapes = case.quick_shapes
        else:
            shapes = case.shapes if self.device == "cuda" else case.cpu_shapes
        at = case.tokens_at
        if at is None or not (self.tokens or self.matrices):
            return shapes
        matrices = self.matrices or tuple(dict.fromkeys(s[:at] + s[at + 1 :] for s in shapes))
        tokens = self.tokens or tuple(dict.fromkeys(s[at] for s in shapes))
        return tuple((*m[:at], count, *m[at:]) for m, count in product(matrices, tokens))
