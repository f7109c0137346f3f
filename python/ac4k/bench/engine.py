"""Times candidates side by side: CUDA graphs on the GPU, loops on the CPU.

A candidate is a list of calls that do the same to different buffers. Cold candidates go through
enough buffers that each has left the last cache before its turn comes again; hot ones have one.
All candidates of a row are timed in turn, round after round, each round in another order: what
drifts (clocks, temperature, power that those before have drawn) then meets them alike and their
ratios stay true.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Protocol

from .._onednn import import_torch
from ..timing import Timing, calls_per_sample, capture
from .settings import Settings

_MIN_ROUNDS = 5
_MAX_SETS = 8192
_MAX_GRAPH_NODES = 8192
_LONG_SAMPLES = 4
# A GPU's sample that lasts so long is a mean of many calls, or of such that take long themselves:
# what is between two samples does not show in it, and a few of them are enough.
_LONG_US = 20_000.0
_LONG_ROUNDS = 3
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Candidate:
    calls: list[Callable[[], Any]]
    dependent: bool = False  # programmatic dependent launch between the calls


class _Sampler(Protocol):
    def start(self) -> None:
        """Takes a sample, or queues the work of one."""

    def microseconds(self) -> float:
        """The time per call of the sample started last."""

    @property
    def is_long(self) -> bool:
        """Whether that sample was so long that few are enough."""


def set_count(bytes_per_call: int, rotation_bytes: int) -> int:
    """Buffers needed so that `rotation_bytes` pass between two uses of the same one."""
    return min(_MAX_SETS, math.ceil(rotation_bytes / max(bytes_per_call, 1)) + 1)


def measure(candidates: Mapping[str, Candidate], settings: Settings) -> dict[str, Timing]:
    """The timing of each candidate, by its name."""
    on_gpu = settings.device == "cuda"
    build = _graph_sampler if on_gpu else _loop_sampler
    samplers = {name: build(candidate, settings) for name, candidate in candidates.items()}
    names = list(samplers)
    samples: dict[str, list[float]] = {name: [] for name in names}
    deadline = time.perf_counter() + settings.budget_s
    for number in range(settings.rounds):
        if number >= _MIN_ROUNDS and time.perf_counter() > deadline:
            break
        order = [names[i] for i in turns(number, len(names))]
        if number >= _LONG_ROUNDS:
            order = [name for name in order if not samplers[name].is_long]
        for name in order:
            samplers[name].start()
        for name in order:
            samples[name].append(samplers[name].microseconds())
    method = "CUDA graph" if on_gpu else "perf_counter"
    device = _device_name(settings)
    return {name: Timing.from_samples(values, device, method) for name, values in samples.items()}


def turns(number: int, count: int) -> list[int]:
    """The order of `count` candidates in a round: over the rounds each has every place, and another
    one before it each time.

    A GPU that has just run a heavy kernel clocks lower than one that has copied memory, so a fixed
    order would time the same kernel differently by where it stands. From 0, 1, -1, 2, -2, ...
    (modulo an even size) each distance between neighbours occurs once, so shifted rounds never
    repeat a pair; shifts by the golden section spread the places evenly over few rounds, too.
    """
    size = count + count % 2  # the odd one out is a place that nobody takes
    step = round(size * _GOLDEN_SECTION)
    while math.gcd(step, max(size, 1)) > 1:
        step += 1
    zigzag = ((place + 1) // 2 * (1 if place % 2 else -1) for place in range(size))
    order = [(place + number * step) % size for place in zigzag]
    return [candidate for candidate in order if candidate < count]


def _device_name(settings: Settings) -> str:
    if settings.device != "cuda":
        return "cpu"
    torch = import_torch()
    return str(torch.cuda.get_device_name())


class _Loop:
    """Calls in a row on the CPU, going on where the sample before ended."""

    def __init__(self, calls: list[Callable[[], Any]], count: int) -> None:
        self._calls = cycle(calls)
        self._count = count
        self._us = 0.0

    def start(self) -> None:
        calls = list(islice(self._calls, self._count))
        begin = time.perf_counter()
        for call in calls:
            call()
        self._us = (time.perf_counter() - begin) * 1e6 / self._count

    def microseconds(self) -> float:
        return self._us

    @property
    def is_long(self) -> bool:
        return False


def _loop_sampler(candidate: Candidate, settings: Settings) -> _Sampler:
    once: list[float] = []
    for call in candidate.calls[:3] + candidate.calls[:1]:
        begin = time.perf_counter()
        call()
        once.append((time.perf_counter() - begin) * 1e6)
        if len(once) > 1 and min(once) > _LONG_SAMPLES * settings.sample_us:
            break  # a call is a sample whatever else is tried, and warm
    return _Loop(candidate.calls, calls_per_sample(min(once), settings.sample_us))


class _Graph:
    """A CUDA graph of many calls and the events around one replay.

    An untimed replay goes ahead: it brings the caches into the state that the calls leave them in,
    and the GPU is busy with it while the timed one is being launched.
    """

    def __init__(self, graph: Any, count: int) -> None:
        torch = import_torch()
        self._graph = graph
        self._count = count
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._us = 0.0

    def start(self) -> None:
        self._graph.replay()
        self._begin.record()
        self._graph.replay()
        self._end.record()

    def microseconds(self) -> float:
        self._end.synchronize()
        self._us = float(self._begin.elapsed_time(self._end)) * 1e3
        return self._us / self._count

    @property
    def is_long(self) -> bool:
        return self._us > _LONG_US


def _graph_sampler(candidate: Candidate, settings: Settings) -> _Sampler:
    """A graph of whole rounds over the buffers that lasts about one sample."""
    torch = import_torch()
    sets = len(candidate.calls)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # lazy set-up must not happen under capture
        for call in candidate.calls[:3]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    trial = _Graph(_capture(candidate, sets), sets)
    trial.start()
    wanted = calls_per_sample(trial.microseconds(), settings.sample_us, _MAX_GRAPH_NODES)
    count = math.ceil(wanted / sets) * sets
    return trial if count == sets else _Graph(_capture(candidate, count), count)


def _capture(candidate: Candidate, count: int) -> Any:
    import ac4k

    with ac4k.dependent_launch(candidate.dependent):
        return capture(candidate.calls, count)
