"""How long a callable takes: `ac4k.benchmark_kernel`, and the statistics every tool prints.

CUDA work is captured into a CUDA graph where it can be, so that the time is the device's and not
Python's; otherwise CUDA events surround each call. CPU work is timed with `perf_counter`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._onednn import import_torch

# One sample should be long against the clock's resolution (CPU) and the launch gap (GPU).
_CPU_SAMPLE_US = 50.0
_GPU_SAMPLE_US = 500.0
_MAX_CALLS_PER_SAMPLE = 1000


@dataclass(frozen=True, repr=False)
class Timing:
    """Times of one call in microseconds."""

    median: float
    p20: float
    p80: float
    mean: float
    min: float
    samples: tuple[float, ...] = field(repr=False)
    device: str
    method: str = "perf_counter"

    @classmethod
    def from_samples(
        cls, samples: Iterable[float], device: str, method: str = "perf_counter"
    ) -> Timing:
        ordered = sorted(samples)
        if not ordered:
            raise ValueError("Timing needs at least one sample")
        return cls(
            median=quantile(ordered, 0.5),
            p20=quantile(ordered, 0.2),
            p80=quantile(ordered, 0.8),
            mean=math.fsum(ordered) / len(ordered),
            min=ordered[0],
            samples=tuple(ordered),
            device=device,
            method=method,
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON: picoseconds are enough, and the samples are only counted."""
        names = ("median", "p20", "p80", "mean", "min")
        values: dict[str, Any] = {name: round(getattr(self, name), 6) for name in names}
        return {**values, "samples": len(self.samples)}

    def __repr__(self) -> str:
        return (
            f"Timing({format_us(self.median)} median, p20 {format_us(self.p20)}, "
            f"p80 {format_us(self.p80)}, min {format_us(self.min)}; {len(self.samples)} samples, "
            f"{self.device}, {self.method})"
        )


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of sorted values, with linear interpolation."""
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def format_us(microseconds: float) -> str:
    """A time with three digits and a readable unit: '812 ns', '18.2 µs', '1.40 ms'."""
    for limit, scale, unit in ((0.9995, 1e3, "ns"), (999.5, 1.0, "µs"), (999.5e3, 1e-3, "ms")):
        if microseconds < limit:
            return f"{_three_digits(microseconds * scale)} {unit}"
    return f"{_three_digits(microseconds * 1e-6)} s"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def benchmark_kernel(
    fn: Callable[..., Any],
    *args: Any,
    warmup: int = 20,
    iters: int = 100,
    **kwargs: Any,
) -> Timing:
    """Times `fn(*args, **kwargs)`: `warmup` calls, then `iters` samples.

    The buffers stay the same, so they are hot in the cache; `ac4k bench` also measures cold ones.
    A sample is several calls when one is too short to time.

    >>> import ac4k
    >>> ac4k.benchmark_kernel(sum, range(1000), iters=10).median > 0
    True
    """
    if iters < 1 or warmup < 0:
        raise ValueError(f"benchmark_kernel: iters >= 1 and warmup >= 0, got {iters}, {warmup}")

    def call() -> Any:
        return fn(*args, **kwargs)

    device = cuda_device_of((args, kwargs))
    if device is None:
        return _time_on_cpu(call, warmup, iters)
    return _time_on_cuda(call, warmup, iters, device)


def cuda_device_of(value: Any) -> Any | None:
    """The device of the first CUDA torch tensor in nested arguments; None when there is none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.device if value.is_cuda else None
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return next((d for d in map(cuda_device_of, value) if d is not None), None)
    if getattr(value, "__cuda_array_interface__", None) is not None:
        raise NotImplementedError(
            f"benchmark_kernel: {type(value).__name__} is on the GPU; only torch tensors can be "
            "timed there (wrap it with torch.from_dlpack)"
        )
    return None


def _time_on_cpu(call: Callable[[], Any], warmup: int, iters: int) -> Timing:
    for _ in range(warmup):
        call()
    start = time.perf_counter()
    call()
    once = (time.perf_counter() - start) * 1e6
    calls = calls_per_sample(once, _CPU_SAMPLE_US)
    samples = []
    for _ in range(iters):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - start) * 1e6 / calls)
    return Timing.from_samples(samples, "cpu")


def calls_per_sample(once_us: float, target_us: float, most: int = _MAX_CALLS_PER_SAMPLE) -> int:
    return max(1, min(most, math.ceil(target_us / max(once_us, 1e-3))))


def _time_on_cuda(call: Callable[[], Any], warmup: int, iters: int, device: Any) -> Timing:
    torch = import_torch()
    name = torch.cuda.get_device_name(device)
    with torch.cuda.device(device):
        for _ in range(max(warmup, 1)):
            call()
        once = min(_event_samples(call, 3))
        try:
            calls = calls_per_sample(once, _GPU_SAMPLE_US)
            graph = capture([call], calls)
        except RuntimeError:
            torch.cuda.synchronize()
            return Timing.from_samples(_event_samples(call, iters), name, "CUDA events")
        graph.replay()
        samples = [sample / calls for sample in _event_samples(graph.replay, iters)]
    return Timing.from_samples(samples, name, "CUDA graph")


def capture(calls: Sequence[Callable[[], Any]], count: int) -> Any:
    """A CUDA graph of `count` calls taken in turn from `calls`.

    Results are kept alive for one round of `calls`, so that tensors a call allocates rotate
    through as many buffers as there are calls, exactly like those given with `out=`.
    """
    torch = import_torch()
    graph = torch.cuda.CUDAGraph()
    results: list[Any] = [None] * len(calls)
    with torch.cuda.graph(graph):
        for number in range(count):
            slot = number % len(calls)
            results[slot] = calls[slot]()
    return graph


def _event_samples(call: Callable[[], Any], count: int) -> list[float]:
    """Times between events around each call, in µs; queued together so that the GPU never idles."""
    torch = import_torch()
    torch.cuda.synchronize()
    call()  # keeps the device busy while the first timed call is being launched
    pairs = []
    for _ in range(count):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]
