"""Peak memory of a region: resident on the CPU, allocated and reserved on the GPU."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Any

from ._onednn import import_torch
from .environment import has_torch


def cuda() -> Any | None:
    """torch.cuda when a GPU is there."""
    if not has_torch():
        return None
    torch = import_torch()
    return torch.cuda if torch.cuda.is_available() else None


def synchronize() -> None:
    gpu = cuda()
    if gpu is not None:
        gpu.synchronize()


def reset_peaks() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # starts the peak of the process anew
    gpu = cuda()
    if gpu is not None:
        gpu.reset_peak_memory_stats()


def peaks() -> dict[str, int]:
    peaks = {"CPU resident": _peak_rss()}
    gpu = cuda()
    if gpu is not None:
        peaks["GPU allocated"] = int(gpu.max_memory_allocated())
        peaks["GPU reserved"] = int(gpu.max_memory_reserved())
    return peaks


def _peak_rss() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
