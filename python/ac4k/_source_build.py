"""Builds the compiled part of a plain source checkout, once, into AC4K's cache.

What is built depends on contents alone: the key is a hash over every source and the Python that
asks. Other processes wait for the one that builds; a build appears whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("CMakeLists.txt", "cmake", "include", "src")


def is_source_checkout() -> bool:
    return all((_ROOT / name).exists() for name in _SOURCES)


def ensure_built() -> Path:
    """The folder that holds `_C` for this checkout, built if need be."""
    cache = _cache_root() / "build"
    target = cache / _key()
    if (target / "_C.abi3.so").exists():
        return target
    _require_tools()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "_C.abi3.so").exists():
            _build(target)
    return target


def _build(target: Path) -> None:
    work = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    print("ac4k: building the library (once, about a minute) ", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(_ROOT), "-B", str(work / "build"), *generator]
    configure += ["-DAC4K_TESTS=OFF", "-DAC4K_WERROR=OFF", f"-DPython_EXECUTABLE={sys.executable}"]
    prefix = work / "install"
    try:
        for command in (
            configure,
            ["cmake", "--build", str(work / "build"), "--parallel", str(os.cpu_count() or 1)],
            [
                "cmake",
                "--install",
                str(work / "build"),
                "--component",
                "python",
                "--prefix",
                str(prefix),
            ],
        ):
            _run_with_dots(command, work.with_suffix(".log"))
        shutil.rmtree(target, ignore_errors=True)
        (prefix / "ac4k").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f" done in {time.monotonic() - start:.0f} s", file=sys.stderr)


def _run_with_dots(command: list[str], log: Path) -> None:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(timeout=2)
                break
            except subprocess.TimeoutExpired:
                print(".", end="", file=sys.stderr, flush=True)
    if code != 0:
        tail = "\n".join(log.read_text().splitlines()[-30:])
        raise ImportError(f"ac4k could not be built ({' '.join(command[:3])} ...):\n{tail}")
    log.unlink()


def _require_tools() -> None:
    missing = [name for name in ("cmake", "c++") if shutil.which(name) is None]
    if missing:
        raise ImportError(
            f"ac4k is a source checkout without its compiled part, and building it needs "
            f"{' and '.join(missing)}; install them, or `pip install` the checkout"
        )


def _cache_root() -> Path:
    if chosen := os.environ.get("AC4K_CACHE_DIR"):
        return Path(chosen.split(":")[0])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ac4k"


def _key() -> str:
    digest = hashlib.sha256()
    names = ("AC4K_BACKEND", "AC4K_CUDA_ARCH", "AC4K_ROCM_ARCH")
    digest.update(repr([os.environ.get(name) for name in names]).encode())
    digest.update(f"{sys.version_info[:2]} {_torch_version()}".encode())
    for top in _SOURCES:
        root = _ROOT / top
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file():
                digest.update(str(path.relative_to(_ROOT)).encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _torch_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
