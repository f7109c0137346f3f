"""What a measurement ran on: GPU, driver, clocks, CUDA, torch, Python, CPU, ISA, threads, git hash.

Reads /proc, /sys, package metadata and nvidia-smi, never torch itself, so that `ac4k info` is fast.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_GPU_FIELDS = {
    "name": "name",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "sm_clock_mhz": "clocks.sm",
    "memory_clock_mhz": "clocks.mem",
    "max_sm_clock_mhz": "clocks.max.sm",
    "temperature_c": "temperature.gpu",
    "power_w": "power.draw",
    "throttle_reasons": "clocks_event_reasons.active",
}


def environment() -> dict[str, Any]:
    """Everything needed to compare two measurements, ready for JSON."""
    import ac4k

    info = ac4k.info()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "ac4k": ac4k.__version__,
        "git": source_commit() or info["build"].get("git"),
        "backend": ac4k.get_backend(),
        "arch": ac4k.get_arch(),
        "gpus": gpus(),
        "cpu": cpu_model(),
        "cpu_isa": info["cpu"]["isa"],
        "cpus": os.cpu_count(),
        "threads": info["cpu"]["threads"],
        "last_level_cache": last_level_cache_bytes(),
        "memory_available": available_memory_bytes(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "omp_proc_bind": os.environ.get("OMP_PROC_BIND"),
        "onednn_max_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
        "packages": {name: package_version(name) for name in ("torch", "triton", "numpy")},
    }


def environment_lines(block: dict[str, Any]) -> list[tuple[str, str]]:
    """The block in the few lines that people read below a table."""
    lines = [
        (
            "GPU",
            f"{gpu['name']}, driver {gpu['driver']}, SM {gpu['sm_clock_mhz']} of "
            f"{gpu['max_sm_clock_mhz']} MHz, memory {gpu['memory_clock_mhz']} MHz",
        )
        for gpu in block["gpus"]
    ]
    cache = block["last_level_cache"] >> 20
    lines.append(
        (
            "CPU",
            f"{block['cpu']}, {block['cpus']} cores, {block['threads']} threads, "
            f"{block['cpu_isa']}, last cache {cache} MiB",
        )
    )
    packages = [f"{name} {version}" for name, version in block["packages"].items() if version]
    commit = block["git"] or "no commit"
    software = [f"ac4k {block['ac4k']} ({commit})", f"Python {block['python']}", *packages]
    lines.append(("software", ", ".join([*software, block["system"]])))
    if block["onednn_max_isa"]:
        lines.append(("note", f"PyTorch's oneDNN is limited to {block['onednn_max_isa']} here"))
    lines.append(("date", block["date"]))
    return lines


def package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def has_torch() -> bool:
    return package_version("torch") is not None


def _output_of(command: list[str], timeout: float = 10.0) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def gpus() -> list[dict[str, str]]:
    """One dictionary a GPU with its state right now; empty where nvidia-smi is missing."""
    command = ["nvidia-smi", "--format=csv,noheader,nounits"]
    text = _output_of([*command, f"--query-gpu={','.join(_GPU_FIELDS.values())}"])
    found = []
    for line in (text or "").splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(_GPU_FIELDS):
            found.append(dict(zip(_GPU_FIELDS, values, strict=True)))
    return found


def source_commit() -> str | None:
    """The commit of the source tree this package runs from, '-dirty' when it was changed. A tree
    that an installed package happens to lie in says nothing about it."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    commit = _output_of([*git, "rev-parse", "--short=12", "HEAD"])
    if commit is None:
        return None
    changed = _output_of([*git, "status", "--porcelain", "--untracked-files=no"])
    return f"{commit}-dirty" if changed else commit


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def last_level_cache_bytes() -> int:
    """The largest cache of the first CPU; 32 MiB when sysfs does not say."""
    sizes = []
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = entry.read_text().strip()
        scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        if digits.isdigit():
            sizes.append(int(digits) * scale)
    return max(sizes, default=32 << 20)


def available_memory_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 4 << 30
