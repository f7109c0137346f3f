"""`ac4k.profile()`: what ran, for how long, with how much memory.

Writes `profile_trace.json` (opens in https://ui.perfetto.dev and chrome://tracing) and
`profile_report.txt`. With torch the trace is torch.profiler's, GPU kernels included, and AC4K's ops
stand in it by name; without torch it holds the calls of AC4K's ops alone.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ._memory import cuda, peaks, reset_peaks, synchronize
from .environment import environment, has_torch
from .timing import format_us

TRACE_FILE = "profile_trace.json"
REPORT_FILE = "profile_report.txt"


@dataclass(frozen=True)
class OpCall:
    name: str
    start_us: float
    duration_us: float
    thread: int
    shapes: str


def profile(
    fn: Callable[..., Any] | None = None, *args: Any, out_dir: str | Path = ".", **kwargs: Any
) -> Profile:
    """Profiles `fn(*args, **kwargs)`, or what a `with` block does when no function is given.

    Results go to `out_dir`; the returned object has `result`, `wall_s`, `calls`, `peak_memory`.
    Calls are found by their name in the package: `ac4k.gemm(...)`, not an earlier reference to it.

    >>> import ac4k, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, ac4k.profile(out_dir=folder) as run:
    ...     pass
    >>> run.report_path.name
    'profile_report.txt'
    """
    run = Profile(Path(out_dir))
    if fn is not None:
        with run:
            run.result = fn(*args, **kwargs)
    return run


class Profile:
    """One profiled region."""

    def __init__(self, out_dir: Path) -> None:
        self.trace_path = out_dir / TRACE_FILE
        self.report_path = out_dir / REPORT_FILE
        self.result: Any = None
        self.wall_s = 0.0
        self.calls: list[OpCall] = []
        self.peak_memory: dict[str, int] = {}
        self._profiler: Any = None
        self._originals: dict[str, Callable[..., Any]] = {}
        self._start_ns = 0

    def __enter__(self) -> Profile:
        self.trace_path.parent.mkdir(parents=True, exist_ok=True)
        self._profiler = _torch_profiler()
        reset_peaks()
        self._wrap_ops()
        if self._profiler is not None:
            self._profiler.__enter__()
        self._start_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        synchronize()
        self.wall_s = (time.perf_counter_ns() - self._start_ns) * 1e-9
        self._unwrap_ops()
        if self._profiler is not None:
            self._profiler.__exit__(kind, error, traceback)
        self.peak_memory = peaks()
        self._write_trace()
        self.report_path.write_text(self.report())

    def _wrap_ops(self) -> None:
        import ac4k

        for op in ac4k.op_table():
            name = op["name"]
            self._originals[name] = getattr(ac4k, name)
            setattr(ac4k, name, self._recorded(name, self._originals[name]))

    def _unwrap_ops(self) -> None:
        import ac4k

        for name, original in self._originals.items():
            setattr(ac4k, name, original)
        self._originals.clear()

    def _recorded(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        label = _labels(f"ac4k::{name}") if self._profiler is not None else contextlib.nullcontext

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter_ns()
            with label():
                result = original(*args, **kwargs)
            end = time.perf_counter_ns()
            shapes = ", ".join("x".join(map(str, a.shape)) for a in args if hasattr(a, "shape"))
            self.calls.append(
                OpCall(
                    name,
                    (start - self._start_ns) * 1e-3,
                    (end - start) * 1e-3,
                    threading.get_native_id(),
                    shapes,
                )
            )
            return result

        return call

    def _write_trace(self) -> None:
        if self._profiler is not None:
            self._profiler.export_chrome_trace(str(self.trace_path))
            return
        events: list[dict[str, Any]] = [
            {
                "name": f"ac4k::{call.name}",
                "cat": "op",
                "ph": "X",
                "ts": call.start_us,
                "dur": call.duration_us,
                "pid": os.getpid(),
                "tid": call.thread,
                "args": {"shapes": call.shapes},
            }
            for call in self.calls
        ]
        process = {"name": "process_name", "ph": "M", "pid": os.getpid(), "args": {"name": "ac4k"}}
        trace = {"traceEvents": [process, *events], "displayTimeUnit": "ns"}
        self.trace_path.write_text(json.dumps(trace))

    def summary(self) -> list[dict[str, Any]]:
        """Calls of AC4K's ops by op and shapes, the most expensive first (host time)."""
        groups: dict[tuple[str, str], list[float]] = {}
        for call in self.calls:
            groups.setdefault((call.name, call.shapes), []).append(call.duration_us)
        rows = [
            {
                "op": op,
                "shapes": shapes,
                "calls": len(times),
                "total_us": sum(times),
                "mean_us": sum(times) / len(times),
                "max_us": max(times),
            }
            for (op, shapes), times in groups.items()
        ]
        return sorted(rows, key=lambda row: -row["total_us"])

    def report(self) -> str:
        lines = ["AC4K profile", "============", "", f"wall time     {self.wall_s:.6f} s"]
        for name, size in self.peak_memory.items():
            lines.append(f"{name:<13} {size / (1 << 20):.1f} MiB (peak)")
        lines += ["", "AC4K ops (host time of the call)", ""]
        lines.append(f"{'op':<28}{'calls':>7}{'total':>10}{'mean':>10}{'max':>10}  shapes")
        for row in self.summary():
            times = "".join(f"{format_us(row[k]):>10}" for k in ("total_us", "mean_us", "max_us"))
            lines.append(f"{row['op']:<28}{row['calls']:>7}{times}  {row['shapes']}")
        if not self.calls:
            lines.append("(none was called)")
        if self._profiler is not None:
            key = "self_device_time_total" if cuda() else "self_cpu_time_total"
            table = self._profiler.key_averages().table(sort_by=key, row_limit=25)
            lines += ["", "torch.profiler", "", table.strip()]
        lines += ["", "Environment", ""]
        lines += [f"{name:<18}{value}" for name, value in environment().items()]
        return "\n".join(lines) + "\n"


def _torch_profiler() -> Any | None:
    if not has_torch():
        return None
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    activities = [ProfilerActivity.CPU]
    if cuda():
        activities.append(ProfilerActivity.CUDA)
    return torch_profile(activities=activities, record_shapes=True, profile_memory=True)


def _labels(text: str) -> Callable[[], Any]:
    from torch.profiler import record_function

    return lambda: record_function(text)
