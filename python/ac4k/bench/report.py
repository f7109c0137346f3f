"""The table of results on the screen and the JSON beside it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._console import Cell, Column, print_table
from ..environment import cpu_model
from ..timing import Timing, format_us
from .runner import OURS, Result

SCHEMA = "ac4k-bench-1"
_GOOD, _FAIR = 92.0, 75.0


def _spread(timing: Timing | None) -> Cell:
    """Median, and half the distance from p20 to p80 as a percentage of it."""
    if timing is None:
        return "—"
    half = 50.0 * (timing.p80 - timing.p20) / timing.median
    return f"{format_us(timing.median)} ±{half:.0f}%"


def _percent(value: float | None) -> Cell:
    if value is None:
        return "—"
    style = "green" if value >= _GOOD else "yellow" if value >= _FAIR else "red"
    return f"{value:.0f}%", style


def ratio_cell(value: float | None) -> Cell:
    """How many times faster than a peer: '1.35x'."""
    if value is None:
        return "—"
    style = "green" if value >= 1.0 else "red"
    return (f"{value:.2f}x" if value < 99.5 else f"{value:.0f}x"), style


def _rate(result: Result) -> Cell:
    cold = result.timings[OURS]["cold"].median
    if result.flops and result.bound != "memory":
        giga = result.flops / cold * 1e-3
        return f"{giga * 1e-3:.3g} TFLOP/s" if giga >= 1e3 else f"{giga:.3g} GFLOP/s"
    return f"{sum(result.arguments_bytes) / cold * 1e-3:.0f} GB/s"


def print_results(results: Sequence[Result]) -> None:
    """One row a result; columns for chains and peers only where some result has them."""
    if not results:
        return
    on_gpu = any("chain" in result.timings[OURS] for result in results)
    peers = list(dict.fromkeys(peer for result in results for peer in result.all_peers))
    columns = [
        Column("op", style="bold"),
        Column("shape"),
        Column("type"),
        Column("cold", right=True),
        Column("rate", right=True),
        Column("of roofline", right=True),
    ]
    if on_gpu:
        columns += [Column("in a chain", right=True), Column("of roofline", right=True)]
    columns += [Column("hot", right=True), Column("of roofline", right=True)]
    columns += [Column(f"vs {peer}", right=True) for peer in peers]
    rows: list[list[Cell]] = []
    for result in results:
        ours = result.timings[OURS]
        row: list[Cell] = [
            result.row.title,
            result.row.shape_text,
            result.row.dtype.name,
            _spread(ours["cold"]),
            _rate(result),
            _percent(result.percent_of_roofline("cold")),
        ]
        if on_gpu:
            row += [_spread(ours.get("chain")), _percent(result.percent_of_roofline("chain"))]
        row += [_spread(ours["hot"]), _percent(result.percent_of_roofline("hot"))]
        row += [ratio_cell(result.speedup(peer)) for peer in peers]
        rows.append(row)
    groups = [(result.row.case.op, result.row.fmt) for result in results]
    sections = [i for i in range(len(groups) - 1) if groups[i] != groups[i + 1]]
    device = results[0].timings[OURS]["cold"].device
    print_table(
        f"ac4k bench on {cpu_model() if device == 'cpu' else device}",
        columns,
        rows,
        sections=sections,
        caption=_caption(results),
    )


def print_configs(results: Sequence[Result]) -> None:
    """Where --all-configs was given: the fastest config of each row and the one chosen."""
    results = [result for result in results if result.configs is not None]
    if not results:
        return
    rows: list[list[Cell]] = []
    overs: list[float] = []
    for result in results:
        assert result.configs is not None
        names, best = result.configs
        times = result.config_us()
        fastest = times.index(min(times))
        overs.append(times[best] / times[fastest])
        rows.append(
            [
                f"{result.row.title} {result.row.dtype.name}",
                result.row.shape_text,
                str(len(names)),
                f"{names[fastest]} {format_us(times[fastest])}",
                f"{names[best]} {format_us(times[best])}",
                (f"{overs[-1]:.3f}", "green" if overs[-1] <= 1.05 else "red"),
            ]
        )
    mean = math.exp(sum(map(math.log, overs)) / len(overs))
    columns = [
        Column("op", style="bold"),
        Column("shape"),
        Column("configs", right=True),
        Column("fastest"),
        Column("chosen"),
        Column("over the fastest", right=True),
    ]
    caption = (
        f"the chosen config takes {mean:.3f} times the fastest one's time (geometric mean), cold"
    )
    print_table("configs", columns, rows, caption=caption)


def _caption(results: Sequence[Result]) -> str:
    lines = [
        "cold: buffers rotated past the last cache   hot: the same buffers   ±: half of p20..p80",
        "roofline: a streaming kernel with the same bytes or the library's matmul rate, the slower",
        "vs: how many times faster than the peer, cold; everything timed in turn in this run",
    ]
    outside = dict.fromkeys(name for result in results for name in result.outside)
    lines += [f"{name}: timed by its own program, hot, beside our hot time" for name in outside]
    absent: dict[str, list[str]] = {}
    for result in results:
        for peer, why in result.peers.absent.items():
            absent.setdefault(f"{peer}: {why}", []).append(result.row.text)
    for what, where in absent.items():
        count = len(where)
        place = where[0] if count == 1 else f"{count} rows" if count < len(results) else "all rows"
        lines.append(f"absent in {place}: {what}")
    return "\n".join(lines)


def json_report(
    results: Sequence[Result],
    specials: dict[str, Any],
    environment: dict[str, Any],
    command: Sequence[str],
    *,
    rows_asked: int,
    complete: bool,
    failures: Sequence[str],
    stopped_by: str | None,
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "command": list(command),
        "complete": complete,
        "rows": {"measured": len(results), "of": rows_asked},
        "stopped_by": stopped_by,
        "failures": list(failures),
        "environment": environment,
        "results": [result.to_dict() for result in results],
        "specials": specials,
    }


def write_json(report: dict[str, Any], target: str) -> None:
    """To a file, or to stdout when it is '-'. The file is there whole or not at all."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    if target == "-":
        print(text, end="")
        return
    path = Path(target).resolve()  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():  # /dev/null, a pipe
        path.write_text(text)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
