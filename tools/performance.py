"""Writes docs/performance.md from the results in benchmarks/results, or with --check says that it
is out of date."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/performance.md"
LLAMA_CPP = "h200_llama_cpp.json"
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
    if not report.get("complete", True):
        raise ValueError(f"{name}: of a run that was stopped")
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
    runs = f" Runs: {report['runs']}." if "runs" in report else ""
    return (
        f"\n## {title}\n{text}\n`{command}` ([JSON](../benchmarks/results/{file})): {where}, "
        f"torch {environment['packages'].get('torch', '–')}, {environment['date'][:10]}."
        f"{runs}\n"
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
    matrix = tuple(load(LLAMA_CPP)["matrix"])
    rows = [
        (r["options"]["fmt"], r["shape"][0], time_of(r, "cold")) for r in of_matrix(results, matrix)
    ]
    return page + against_llama_cpp(rows)


def raw_blocks() -> str:
    file = "h200_gemm_q8_1.json"
    report = load(file)
    rows = [
        (r["op"].removeprefix("gemm_").removesuffix("_q8_1"), r["shape"][1], time_of(r, "cold"))
        for r in report["results"]
    ]
    at = {(fmt, count): microseconds(time) for fmt, count, time in rows}
    counts = sorted({count for _, count, _ in rows})
    page = section("`gemm_<fmt>_q8_1` on raw blocks, H200", report, file, "By number of tokens.")
    page += "\n" + table(
        ["format", *map(str, counts)],
        ([fmt, *(at[fmt, count] for count in counts)] for fmt in dict.fromkeys(r[0] for r in rows)),
    )
    return page + against_llama_cpp(rows)


def against_llama_cpp(rows: list[tuple[str, int, float | None]]) -> str:
    """Rows: format, number of tokens, microseconds."""
    peer = load(LLAMA_CPP)
    ours = {(fmt, count): time for fmt, count, time in rows}
    counts = sorted({int(count) for by_count in peer["us"].values() for count in by_count})

    def cell(fmt: str, count: int) -> str:
        theirs, time = peer["us"][fmt].get(str(count)), ours.get((fmt, count))
        return f"{theirs / time:.2f}×" if theirs and time else "–"

    formats = [fmt for fmt in dict.fromkeys(row[0] for row in rows) if fmt in peer["us"]]
    return (
        f"\n### Against llama.cpp, {peer['matrix'][0]}×{peer['matrix'][1]}\n\n{peer['how']} "
        f"([JSON](../benchmarks/results/{LLAMA_CPP})). Its time over ours, alone, by tokens:\n\n"
        + table(
            ["format", *map(str, counts)],
            ([fmt, *(cell(fmt, count) for count in counts)] for fmt in formats),
        )
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


def w4a16_configs() -> str:
    file = "h200_w4a16_configs.json"
    report = load(file)
    rows, logs = [], []
    for result in report["results"]:
        times = result["configs"]["cold_us"]
        fastest = min(times, key=times.get)
        logs.append(math.log(times["auto"] / times[fastest]))
        rows.append(
            [
                result["options"]["layout"],
                "×".join(map(str, result["shape"])),
                str(len(times) - 1),
                f"{fastest} {microseconds(times[fastest])}",
                microseconds(times["auto"]),
                f"{times['auto'] / times[fastest]:.3f}",
            ]
        )
    mean = math.exp(sum(logs) / len(logs))
    return (
        section(
            "W4A16: the chosen config against all others",
            report,
            file,
            "The time of the config that `best_config` names over that of the fastest one: "
            f"{mean:.3f} (geometric mean).",
        )
        + "\n"
        + table(["group", "tokens×N×K", "configs", "fastest", "chosen", "ratio"], rows)
    )


def cpu_products(file: str, title: str) -> str:
    report = load(file)
    results = report["results"]
    ((rows, columns),) = matrices_of(results)

    def name(result: Result) -> str:
        options = result["options"]
        return options["fmt"] if "fmt" in options else f"W4A16 {options['layout']}"

    def cells(result: Result) -> list[str]:
        time = time_of(result, "cold")
        assert time is not None
        peer = times(result, "cold", "dense")
        if result["shape"][0] == 1:
            stream = result["timings_us"]["roofline"]["cold"]["median"]
            return [microseconds(time), f"{100 * stream / time:.0f} %", peer]
        return [f"{time / 1000:.1f}", f"{result['flops'] / time / 1e6:.2f}", peer]

    at = {(name(r), r["shape"][0]): cells(r) for r in results}
    names = dict.fromkeys(map(name, results))
    head = ["format", "1 token, µs", "of the stream", "× torch"]
    head += ["512 tokens, ms", "TFLOP/s", "× torch"]
    return (
        section(
            title,
            report,
            file,
            f"Weights of {rows}×{columns}, rotated past the last cache; the stream reads the same "
            "bytes in the same run; torch multiplies bf16 weights.",
        )
        + "\n"
        + table(head, ([key, *at[key, 1], *at[key, 512]] for key in names))
        + llama_cpp_on_cpu((name(r), r["shape"][0], r) for r in results)
    )


def llama_cpp_on_cpu(rows: Iterable[tuple[str, int, Result]]) -> str:
    """Rows: format, number of tokens, result. Nothing where llama.cpp was no peer."""
    at = {
        (fmt, count): times(result, "hot", "llama.cpp")
        for fmt, count, result in rows
        if "llama.cpp" in result["speedup_over"]
    }
    if not at:
        return ""
    counts = sorted({count for _, count in at})
    return (
        "\nTimes faster than llama.cpp's `test-backend-ops`, which ran before, on as many cores. "
        "It multiplies by the same weights each time, so our time is that with the same weights, "
        "too. By tokens:\n\n"
        + table(
            ["format", *map(str, counts)],
            ([fmt, *(at[fmt, n] for n in counts)] for fmt in dict.fromkeys(fmt for fmt, _ in at)),
        )
    )


def cpu_raw_blocks(file: str, title: str) -> str:
    report = load(file)
    rows = [
        (r["op"].removeprefix("gemm_").removesuffix("_q8_1"), r["shape"][1], r)
        for r in report["results"]
    ]
    ((rows_of_weights, columns),) = {(r["shape"][0], r["shape"][2]) for r in report["results"]}
    at = {(fmt, count): microseconds(time_of(result, "cold")) for fmt, count, result in rows}
    counts = sorted({count for _, count, _ in rows})
    page = section(
        title,
        report,
        file,
        f"Weights of {rows_of_weights}×{columns}, rotated past the last cache; µs by tokens.",
    )
    page += "\n" + table(
        ["format", *map(str, counts)],
        ([fmt, *(at[fmt, n] for n in counts)] for fmt in dict.fromkeys(fmt for fmt, _, _ in rows)),
    )
    return page + llama_cpp_on_cpu(rows)


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
    page = INTRO + gguf() + raw_blocks() + w4a16() + w4a16_configs()
    page += memory("h200_memory.json", "Memory-bound ops, H200", on_gpu=True)
    page += memory("h200_stream.json", "Plain streams, H200", on_gpu=True)
    page += cpu_products("cpu_products.json", "Products on a CPU with AMX, two threads")
    page += cpu_products(
        "cpu_products_avx512.json", "Products on the same CPU without AMX, two threads"
    )
    page += cpu_products("cpu_products_zen5.json", "Products on a Zen 5 CPU, two threads")
    page += cpu_raw_blocks(
        "cpu_gemm_q8_1_zen5.json", "`gemm_<fmt>_q8_1` on raw blocks, Zen 5 CPU, two threads"
    )
    page += memory("cpu_memory.json", "Memory-bound ops on a CPU, two threads", on_gpu=False)
    page += memory(
        "cpu_memory_zen5.json", "Memory-bound ops on a Zen 5 CPU, two threads", on_gpu=False
    )
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == page:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is out of date: run `make generate`", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
