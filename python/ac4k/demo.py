"""`ac4k demo`: walks the op table and shows, for each op, that it is right and how fast it is.

Sizes and PyTorch's version of an op come from its benchmark case; an op without one gets sizes
from its dimensions alone, so a new op appears here by being declared.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ._console import Cell, Column, note, print_table, progress, say
from ._signature import all_dims, dim_names, parse_dim
from .bench.arrays import Arrays, DType, arrays_on, devices
from .bench.case import Case, arguments_of, case_of
from .bench.check import Check, check
from .bench.engine import Candidate, measure
from .bench.inputs import Arguments, Sizes, dtypes_of, why_not
from .bench.report import ratio_cell
from .bench.settings import Settings
from .timing import format_us

_NARROW = ("bf16", "f16")  # shown beside float32: the first that the op and the arrays have
_SMALL = (7, 33, 65, 129)  # odd, so that edges of tiles and vectors are met
_REAL, _REAL_LEADING = 4096, (4, 128)


@dataclass(frozen=True)
class Trial:
    """One op at one size."""

    op: str
    size: str  # "small" or "real"
    shape: str
    dtype: str
    device: str
    error: float | None = None  # as a share of the allowed one
    ok: bool = False
    time_us: float | None = None
    over_torch: float | None = None  # how many times faster
    failure: str = ""


def run(*, as_json: bool = False) -> int:
    """Prints the demo; 1 when any op is wrong or fails."""
    import ac4k

    begin = time.perf_counter()
    table = ac4k.op_table()
    plan = [
        (op, size, dtype, arrays)
        for arrays in map(arrays_on, devices())
        for op in table
        if arrays.device == "cpu" or op["cuda"]
        for size in ("small", "real")
        for dtype in _dtypes(op, size, arrays)
    ]
    planned = {op["name"] for op, *_ in plan}
    cpu = arrays_on("cpu")
    skipped = {op["name"]: what_lacks(op, cpu) for op in table if op["name"] not in planned}
    if not as_json:
        _print_heading()
    trials = []
    with progress("demo", len(plan)) as step:
        for op, size, dtype, arrays in plan:
            step(f"{op['name']} {dtype.name} {size} on {arrays.device}")
            trials.append(_try(op, size, dtype, arrays))
    seconds = time.perf_counter() - begin
    failed = [trial for trial in trials if not trial.ok]
    if as_json:
        block = {
            "info": ac4k.info(),
            "seconds": seconds,
            "trials": [asdict(trial) for trial in trials],
            "skipped": skipped,
        }
        print(json.dumps(block, indent=1))
    else:
        _print_trials(trials)
        if limit := os.environ.get("ONEDNN_MAX_CPU_ISA"):
            say(f"PyTorch's own 16-bit CPU products are limited to {limit} here", style="dim")
        verdict = f"{len(failed)} of {len(trials)} FAILED" if failed else "all within tolerance"
        say(
            f"{len(trials)} checks, {verdict}, {seconds:.1f} s",
            style="bold red" if failed else "bold green",
        )
    for name, reason in skipped.items():
        note(f"ac4k demo: skipped {name}: {reason}")
    for trial in failed:
        why = trial.failure or f"{trial.error:.3g} times the allowed error"
        note(f"ac4k demo: {trial.op} {trial.shape} {trial.dtype} on {trial.device}: {why}")
    return 1 if failed else 0


def _dtypes(op: Mapping[str, Any], size: str, arrays: Arrays) -> list[DType]:
    """float32 and a narrow type; the narrow one alone at the size of a model, as models have it."""
    known = {d.name: d for d in dtypes_here(op, arrays)}
    narrow = next((name for name in _NARROW if name in known), "f32")
    wanted = (narrow,) if size == "real" else ("f32", narrow)
    return [known[name] for name in wanted if name in known] or list(known.values())[:1]


def dtypes_here(op: Mapping[str, Any], arrays: Arrays) -> list[DType]:
    """Those of the op for which `arrays` have every tensor's type."""
    return [dtype for dtype in dtypes_of(op) if demo_options(op, dtype, arrays) is not None]


def what_lacks(op: Mapping[str, Any], arrays: Arrays) -> str | None:
    """Why dtypes_here() are none."""
    return why_not(op, dtypes_of(op)[0], arrays, _variants(op)[0])


def demo_options(op: Mapping[str, Any], dtype: DType, arrays: Arrays) -> Mapping[str, Any] | None:
    """Those of the case's first variant for which `arrays` have every type: it has the choices that
    the op requires, too."""
    fit = (each for each in _variants(op) if why_not(op, dtype, arrays, each) is None)
    return next(fit, None)


def _variants(op: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The case's, without the dtype that is varied here."""
    case = case_of(op["name"])
    varied = next(iter(op["types"]), None)
    fixed = {p["name"] for p in op["params"] if p["kind"] == "dtype" and p["variable"] == varied}
    variants = case.variants if case is not None else ({},)
    return [{k: v for k, v in each.items() if k not in fixed} for each in variants]


def demo_sizes(op: Mapping[str, Any], size: str, device: str) -> tuple[Sizes, str]:
    """A size for every dimension of the op, and how to write it."""
    case = case_of(op["name"])
    if case is not None:
        shapes = {"small": case.quick_shapes[0], "cpu": case.cpu_shapes[0], "cuda": case.shapes[0]}
        shape = shapes["small" if size == "small" else device]
        return case.sizes(shape), "x".join(map(str, shape))
    sizes: dict[str, int | tuple[int, ...]] = {}
    for number, name in enumerate(dim_names(op)):
        if name == "...":
            sizes[name] = (3, 5) if size == "small" else _REAL_LEADING
        else:
            value = _SMALL[number % len(_SMALL)] if size == "small" else _REAL
            sizes[name] = _multiple_of(value, _divisor(op, name))
    text = "x".join(
        str(part)
        for value in sizes.values()
        for part in (value if isinstance(value, tuple) else (value,))
    )
    return sizes, text


def _divisor(op: Mapping[str, Any], name: str) -> int:
    """What the dimension must be a multiple of: 32 where the signature says K/32."""
    tensors = [tensor for tensor in (*op["params"], *op["outputs"]) if "dims" in tensor]
    texts = [text for tensor in tensors for text in all_dims(tensor) if text != "..."]
    dims = [dim for dim in map(parse_dim, texts) if dim.symbol == name and not dim.round_up]
    return math.lcm(*(dim.divide for dim in dims))


def _multiple_of(value: int, divisor: int) -> int:
    return math.ceil(value / divisor) * divisor


def _try(op: Mapping[str, Any], size: str, dtype: DType, arrays: Arrays) -> Trial:
    sizes, shape = demo_sizes(op, size, arrays.device)
    trial = Trial(op["name"], size, shape, dtype.name, arrays.device)
    try:
        case = case_of(op["name"])
        options = demo_options(op, dtype, arrays)
        arguments = arguments_of(op, case, sizes, dtype, arrays, options=options, seed=11)
        checked = check(op, case, arguments, arrays, dtype)
        time_us, over_torch = _time(op, case, arguments, arrays)
    except (RuntimeError, ValueError, TypeError, KeyError, ImportError) as error:
        return Trial(**{**asdict(trial), "failure": f"{type(error).__name__}: {error}"})
    return Trial(
        **{
            **asdict(trial),
            **_outcome(checked),
            "time_us": time_us,
            "over_torch": over_torch,
        }
    )


def _outcome(checked: Check) -> dict[str, Any]:
    return {"error": checked.error, "ok": checked.ok}


def _time(
    op: Mapping[str, Any], case: Case | None, arguments: Arguments, arrays: Arrays
) -> tuple[float, float | None]:
    """Both allocate their result, as in a user's first program."""
    import ac4k

    fn = getattr(ac4k, op["name"])
    candidates = {"ac4k": Candidate([lambda: fn(*arguments.args, **arguments.options)])}
    if arrays.framework == "torch" and case is not None and case.torch_fn is not None:
        torch_fn: Callable[..., Any] = case.torch_fn
        if _works(torch_fn, arguments):
            candidates["torch"] = Candidate(
                [lambda: torch_fn(*arguments.args, **arguments.options)]
            )
    timings = measure(candidates, Settings(device=arrays.device, quick=True))
    # The best of several: a newcomer's machine is seldom idle, and a median of few would show it.
    ours = timings["ac4k"].min
    return ours, timings["torch"].min / ours if "torch" in timings else None


def _works(torch_fn: Callable[..., Any], arguments: Arguments) -> bool:
    try:
        return torch_fn(*arguments.args, **arguments.options) is not None
    except RuntimeError:  # e.g. no bfloat16 product for this CPU
        return False


def _print_heading() -> None:
    import ac4k

    info = ac4k.info()
    cpu, gpus = info["cpu"], info["cuda"]["devices"]
    say(f"AC4K {ac4k.__version__}", style="bold")
    say(
        f"  back end {ac4k.get_backend()} · architecture {ac4k.get_arch()} · "
        f"CPU ISA {cpu['isa']}, {cpu['threads']} threads"
    )
    for gpu in gpus:
        say(f"  GPU {gpu['id']}: {gpu['name']}, {gpu['arch']}, {gpu['sms']} SMs")
    say("")


def _print_trials(trials: list[Trial]) -> None:
    columns = [
        Column("op", style="bold"),
        Column("shape"),
        Column("type"),
        Column("device"),
        Column("error", right=True),
        Column(""),
        Column("time", right=True),
        Column("vs PyTorch", right=True),
    ]
    rows = list(_rows(trials))
    sections = [
        i
        for i in range(len(trials) - 1)
        if (trials[i].op, trials[i].device) != (trials[i + 1].op, trials[i + 1].device)
    ]
    print_table(
        "every op of the table, small and at the size of a real model",
        columns,
        rows,
        sections=sections,
        caption="error: against float64, as a share of what is allowed   "
        "vs PyTorch: how many times faster than eager, same run",
    )


def _rows(trials: list[Trial]) -> Iterator[list[Cell]]:
    last = ""
    for trial in trials:
        name = trial.op if trial.op != last else ""
        last = trial.op
        mark: Cell = ("✓", "bold green") if trial.ok else ("✗", "bold red")
        yield [
            name,
            trial.shape,
            trial.dtype,
            trial.device,
            "—" if trial.error is None else f"{trial.error:.0%}",
            mark,
            "—" if trial.time_us is None else format_us(trial.time_us),
            ratio_cell(trial.over_torch),
        ]
