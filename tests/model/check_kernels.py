"""Every op's kernels on the model of a GPU, against float64 references: each variant, each dtype,
sizes that lead to other kernels, and for products all configs.

    python tests/model/check_kernels.py [--arch sm89] [--variant fmt=q4_k] [--seed 7] [NAME ...]

Prints a line for each call that is wrong, and ends with 1 if there was one. `python tools/check.py
model` builds the model and calls this.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/gpu"), str(ROOT / "tests/model")]

import torch  # noqa: E402
from every_kernel import ALL_CONFIGS, shapes_of  # noqa: E402
from gpu import CAPABILITIES, Gpu  # noqa: E402

import ac4k  # noqa: E402
from ac4k.bench.arrays import DType, TorchArrays, dtype_named  # noqa: E402
from ac4k.bench.case import Case, arguments_of, case_of  # noqa: E402
from ac4k.bench.check import check  # noqa: E402
from ac4k.bench.inputs import Arguments, dtypes_of  # noqa: E402

# Ops without kernels for a GPU, and those that have some for sm90a alone.
CPU_ONLY = ("pack_weight", "unpack_weight", "w4a16_pack_weight", "w4a16_unpack_weight")
SM90A_ONLY = ("quant_linear", "w4a16_gemm")

gpu: Gpu


@dataclass
class OnModel(Arguments):
    """A call that goes to the model."""

    def call(self, fn: Callable[..., Any]) -> Any:
        return gpu.call(fn, Arguments(**vars(self)))


class Work(NamedTuple):
    """What one process does at a time."""

    op: str
    variant: int
    seconds: float  # about


@dataclass
class Outcome:
    calls: int = 0
    wrong: list[str] = field(default_factory=list)


def calls_of(
    case: Case, op: dict[str, Any], variant: int
) -> Iterator[tuple[str, Arguments, DType]]:
    """What to call each, its arguments and dtype."""
    arrays = TorchArrays("cpu")
    options = case.variants[variant]
    for dtype in dtypes_of(op):
        for shape in shapes_of(case):
            try:
                made = arguments_of(op, case, case.sizes(shape), dtype, arrays, options=options)
            except ValueError:
                continue  # not this size
            yield f"{options} {dtype.name} {shape}", made, dtype
    if case.configs is None:
        return
    dtype = dtype_named("bf16")
    for shape in ALL_CONFIGS:
        made = arguments_of(op, case, case.sizes(shape), dtype, arrays, options=options)
        for config, name in enumerate(case.configs(shape, dtype, options, "cuda").names):
            made.options["config"] = config
            yield f"{options} {dtype.name} {shape} {name}", made.clone(arrays), dtype


def do(work: Work) -> Outcome:
    op = next(op for op in ac4k.op_table() if op["name"] == work.op)
    case = case_of(work.op)
    assert case is not None
    outcome = Outcome()
    for text, made, dtype in calls_of(case, op, work.variant):
        try:
            found = check(op, case, OnModel(**vars(made)), TorchArrays("cpu"), dtype)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, ValueError) and is_refused_by_cpu(op, made):
                continue  # not this size
            outcome.wrong.append(f"{work.op} {text}: {error}")
        else:
            if not found.ok:
                outcome.wrong.append(f"{work.op} {text}: {found.error:.3g} of the allowed error")
        outcome.calls += 1
    return outcome


def is_refused_by_cpu(op: dict[str, Any], made: Arguments) -> bool:
    try:
        made.call(getattr(ac4k, op["name"]))
    except ValueError:
        return True
    return False


def start(arch: str, seed: int) -> None:
    """In each process. Kernels stay compiled: the cache knows them by their contents."""
    global gpu
    torch.set_num_threads(1)
    ac4k.set_num_threads(1)
    gpu = Gpu(ROOT / "build/dev/model", ROOT / "build/model", arch, seed)


def work_for(names: list[str], wanted: dict[str, str], arch: str) -> list[Work]:
    """The longest first."""
    found = []
    without = CPU_ONLY if arch == "sm90a" else CPU_ONLY + SM90A_ONLY
    for name in names or [op["name"] for op in ac4k.op_table() if op["name"] not in without]:
        case = case_of(name)
        for i, options in enumerate(case.variants if case is not None else ()):
            if all(str(options.get(key, value)) == value for key, value in wanted.items()):
                assert case is not None
                found.append(Work(name, i, 10 if case.configs is not None else 1))
    return sorted(found, key=lambda work: -work.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--arch", choices=CAPABILITIES, default="sm90a")
    parser.add_argument("--variant", action="append", default=[], metavar="option=value")
    parser.add_argument("--seed", type=int, default=1, help="of the order of threads and copies")
    options = parser.parse_args()
    begin = time.monotonic()
    wanted = dict(each.split("=") for each in options.variant)
    work = work_for(options.names, wanted, options.arch)
    calls = wrong = 0
    with ProcessPoolExecutor(
        os.cpu_count(), multiprocessing.get_context("spawn"), start, (options.arch, options.seed)
    ) as pool:
        for done in as_completed([pool.submit(do, each) for each in work]):
            outcome = done.result()
            calls += outcome.calls
            wrong += len(outcome.wrong)
            print("".join(f"{line}\n" for line in outcome.wrong), end="", flush=True)
    seconds = time.monotonic() - begin
    print(f"{options.arch}: {calls} calls of {len(work)} variants, {wrong} wrong, {seconds:.0f} s")
    return int(wrong > 0 or calls == 0)


if __name__ == "__main__":
    sys.exit(main())
