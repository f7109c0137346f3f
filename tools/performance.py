"""Writes docs/performance.md from the results in benchmarks/results, or with --check says that it
is out of date."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/performance.md"
Result = dict[str, Any]

INTRO = """\
# Measured

Made from [benchmarks/results](../benchmarks/results) by tools/performance.py; do not edit.

Medians in microseconds. **Alone**: buffers rotated past the last cache, CUDA graphs of many calls.
**Chain**: the same with programmatic dependent launch between the calls. **%**: of the roofline,
which is a streaming kernel with the same bytes read and written or the library's best matmul rate,
whichever takes longer, timed in the same run. **×**: how many times faster than a peer of the same
run. [How times are taken](../benchmarks/README.md).
"""


def load(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return report


def time_of(result: Result, mode: str) -> float | None:
    timing = result["timings_us"]["ac4k"].get(mode)
    return timing["median"] if timing else None


def microseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def times(result: Result, mode: str, peer: str) -> str:
    ratio = result["speedup_over"].get(peer, {}).get(mode)
    return "–" if ratio is None else f"{ratio:.2f}×"


def percent(result: Result, mode: str) -> str:
    share = result["roofline"].get("percent", {}).get(mode)
    return "–" if share is None else f"{share:.0f} %"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def section(title: str, report: dict[str, Any], file: str, *lines: str) -> str:
    text = "".join(f"\n{line}\n" for line in lines)
    environment = report["environment"]
    on_gpu = report["results"][0]["device"] == "cuda"
    where = environment["gpus"][0]["name"] if on_gpu else environment["cpu"]
    command = " ".join(report["command"])
    return (
        f"\n## {title}\n{text}\n`{command}` ([JSON](../benchmarks/results/{file})): {where}, "
        f"torch {environment['packages'].get('torch', '–')}, {environment['date'][:10]}.\n"
    )


def matrices_of(results: list[Result]) -> list[tuple[int, int]]:
    return sorted({(r["shape"][1], r["shape"][2]) for r in results}, key=lambda m: (m[0] * m[1], m))


def of_matrix(results: list[Result], matrix: tuple[int, int]) -> list[Result]:
    return [r for r in results if (r["shape"][1], r["shape"][2]) == matrix]


def grid(
    results: list[Result],
    row_of: Callable[[Result], str],
    cell: Callable[[Result], str],
    corner: str,
) -> str:
    """Rows in the order of the results, a column for each number of tokens."""
    tokens = sorted({r["shape"][0] for r in results})
    names = list(dict.fromkeys(map(row_of, results)))
    at = {(row_of(r), r["shape"][0]): cell(r) for r in results}
    rows = ([name, *(at.get((name, count), "–") for count in tokens)] for name in names)
    return table([corner, *map(str, tokens)], rows)


def gguf() -> str:
    file = "h200_gguf.json"
    report = load(file)
    results = report["results"]

    def cell(result: Result) -> str:
        both = f"{microseconds(time_of(result, 'cold'))} / {microseconds(time_of(result, 'chain'))}"
        return f"{both} ({percent(result, 'cold')}, {times(result, 'cold', 'dense')})"

    page = section(
        "`linear` with GGUF weights, H200",
        report,
        file,
        "bf16 activations and results. By number of tokens: alone / chain (% of the roofline, "
        "× a bf16 matmul by cuBLAS).",
    )
    for matrix in matrices_of(results):
        rows, columns = matrix
        page += f"\n### Weights of {rows}×{columns}\n\n"
        page += grid(of_matrix(results, matrix), lambda r: r["options"]["fmt"], cell, "format")
    return page + against_llama_cpp(results)


def against_llama_cpp(results: list[Result]) -> str:
    file = "h200_llama_cpp.json"
    peer = load(file)
    matrix = tuple(peer["matrix"])

    def cell(result: Result) -> str:
        theirs = peer["us"].get(result["options"]["fmt"], {}).get(str(result["shape"][0]))
        ours = time_of(result, "cold")
        return f"{theirs / ours:.2f}×" if theirs and ours else "–"

    rows = [r for r in of_matrix(results, matrix) if r["options"]["fmt"] in peer["us"]]
    counts = {int(count) for by_count in peer["us"].values() for count in by_count}
    rows = [r for r in rows if r["shape"][0] in counts]
    return (
        f"\n### Against llama.cpp, {matrix[0]}×{matrix[1]}\n\n{peer['how']} "
        f"([JSON](../benchmarks/results/{file})). Its time over ours, alone, by tokens:\n\n"
        + grid(rows, lambda r: r["options"]["fmt"], cell, "format")
    )


def w4a16() -> str:
    file = "h200_w4a16.json"
    report = load(file)
    results = report["results"]

    def cell(result: Result) -> str:
        both = f"{microseconds(time_of(result, 'cold'))} / {microseconds(time_of(result, 'chain'))}"
        shares = f"{percent(result, 'cold')}, {percent(result, 'chain')}"
        return f"{both} ({shares}, {times(result, 'cold', 'cuBLAS')})"

    page = section(
        "W4A16, H200",
        report,
        file,
        "By tokens and group size: alone / chain (% of the roofline alone and in a chain, "
        "× cuBLAS with weights of 16 bits).",
    )
    for matrix in matrices_of(results):
        rows = of_matrix(results, matrix)
        kinds = list(dict.fromkeys((r["options"]["layout"], r["dtype"]) for r in rows))
        at = {(r["options"]["layout"], r["dtype"], r["shape"][0]): cell(r) for r in rows}
        page += f"\n### Weights of {matrix[0]}×{matrix[1]}\n\n"
        page += table(
            ["tokens", *(f"{layout}, {dtype}" for layout, dtype in kinds)],
            (
                [str(count), *(at.get((*kind, count), "–") for kind in kinds)]
                for count in sorted({r["shape"][0] for r in rows})
            ),
        )
    return page


def op_and_options(result: Result) -> str:
    return " ".join([result["op"], *map(str, result["options"].values())])


def memory(file: str, title: str, *, on_gpu: bool) -> str:
    report = load(file)
    columns: list[tuple[str, Callable[[Result], str]]] = [
        ("op", op_and_options),
        ("shape", lambda r: "×".join(map(str, r["shape"]))),
        ("type", lambda r: r["dtype"]),
        ("alone", lambda r: microseconds(time_of(r, "cold"))),
        ("%", lambda r: percent(r, "cold")),
    ]
    if on_gpu:
        columns += [
            ("chain", lambda r: microseconds(time_of(r, "chain"))),
            ("%", lambda r: percent(r, "chain")),
        ]
    columns.append(("× eager", lambda r: times(r, "cold", "eager")))
    if on_gpu:
        columns.append(("× Inductor", lambda r: times(r, "cold", "inductor")))
    rows = ([cell(r) for _, cell in columns] for r in report["results"])
    return section(title, report, file) + "\n" + table((name for name, _ in columns), rows)


def main() -> int:
    page = INTRO + gguf() + w4a16()
    page += memory("h200_memory.json", "Quantisers and norms, H200", on_gpu=True)
    page += memory("h200_memory_bound.json", "Element-wise ops, H200", on_gpu=True)
    page += memory("cpu_memory.json", "Memory-bound ops on a CPU, two threads", on_gpu=False)
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == page:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is out of date: run `make generate`", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
