"""llama.cpp as a peer: runs its `test-backend-ops` and reads the table that it prints.

Its perf mode knows few sizes (weights of 4096x14336, 1 to 5, 8 and 512 tokens) and multiplies by
the same weights each time, so its times are compared with our hot ones.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runner import Row

NAME = "llama.cpp"
_TIMEOUT_S = 3600
_BACKENDS = {"cpu": "CPU", "cuda": "CUDA0"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"^\s*MUL_MAT\((?P<parameters>.*)\):\s+\d+ runs -\s+(?P<us>[0-9.]+) us/run")
_PARAMETER = re.compile(r"(\w+)=(\[[^\]]*\]|[^,]*)")


@dataclass(frozen=True)
class Product:
    """A product of weights [rows, columns] of a format with float32 tokens."""

    fmt: str
    tokens: int
    rows: int
    columns: int


def product_of(row: Row) -> Product | None:
    """What the row computes, in llama.cpp's terms; None when it has no such thing."""
    at = row.case.tokens_at
    if at is None or row.fmt is None:
        return None
    rows, columns = row.shape[:at] + row.shape[at + 1 :]
    return Product(row.fmt, row.shape[at], rows, columns)


def parse_times(text: str) -> dict[Product, float]:
    """Microseconds by product, from what `test-backend-ops perf -o MUL_MAT` prints.

    Batches, permuted or strided operands and activations other than float32 are left out.
    """
    times: dict[Product, float] = {}
    for line in text.splitlines():
        found = _LINE.match(_COLOURS.sub("", line))
        if found is None:
            continue
        values = dict(_PARAMETER.findall(found["parameters"]))
        plain = (
            values.get("type_b") == "f32"
            and values.get("bs", "[1,1]") == values.get("nr", "[1,1]") == "[1,1]"
            and values.get("per", "[0,1,2,3]") == "[0,1,2,3]"
            and values.get("k_v", "0") in ("0", values.get("k"))
            and values.get("o", "1") == "1"
        )
        if plain and {"type_a", "m", "n", "k"} <= values.keys():
            sizes = (int(values[name]) for name in "nmk")
            times[Product(values["type_a"].lower(), *sizes)] = float(found["us"])
    return times


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """A program that is started here takes a thread for each core it may use. OpenMP may have bound
    this one to a single core, which the program would inherit.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(
    binary: str, products: Iterable[Product], device: str, threads: int
) -> dict[Product, float]:
    """Times of those of the products that the program knows, with as many threads as we have."""
    command = [binary, "perf", "-o", "MUL_MAT", "-b", _BACKENDS[device], "-p", _filter(products)]
    try:
        with _on_cores(threads):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(
            f"--llama-cpp: expected a test-backend-ops that runs, got {error}"
        ) from None
    times = parse_times(done.stdout)
    if not times:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise ValueError(
            f"--llama-cpp: expected times of MUL_MAT on {_BACKENDS[device]} for some of the sizes "
            f"asked for from {binary} (exit code {done.returncode}), got: {lines[-1][:200]}"
        )
    return times


def _filter(products: Iterable[Product]) -> str:
    """A regular expression for its `-p`: the cases asked for, and some more."""

    def one_of(values: Iterable[str | int]) -> str:
        return "(" + "|".join(map(str, dict.fromkeys(values))) + ")"

    chosen = list(products)
    # Its names have a capital K at the end: q4_K.
    names = (re.sub("_k$", "_K", product.fmt) for product in chosen)
    return (
        f"type_a={one_of(names)},type_b=f32,m={one_of(p.rows for p in chosen)},"
        f"n={one_of(p.tokens for p in chosen)},k={one_of(p.columns for p in chosen)},"
    )
