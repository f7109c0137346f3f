"""The command line of `ac4k bench`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._console import Cell, Column, UsageError, print_table, progress, usage_errors
from .._formats import WEIGHT_FORMATS
from ..environment import has_torch
from ..timing import Timing
from . import llama_cpp

if TYPE_CHECKING:
    from .case import Case, Shape, Special
    from .runner import Result, Row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="cases, 'memory' for all memory-bound ones, 'gguf' and 'w4a16' for products; "
        "default: all",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        default=[],
        metavar="TYPE",
        help="f32, bf16, ...; comma list, may be repeated",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda when there is one")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="16x128x4096",
        help="instead of the case's own sizes; may be repeated",
    )
    parser.add_argument(
        "--format",
        action="append",
        default=[],
        metavar="FMT",
        help=f"gguf: formats of weights ({', '.join(WEIGHT_FORMATS)}); comma list, may be repeated",
    )
    parser.add_argument(
        "--tokens", default="", metavar="LIST", help="products: numbers of tokens, such as 1,8,512"
    )
    parser.add_argument(
        "--matrix",
        action="append",
        default=[],
        metavar="4096x14336",
        help="products: rows and columns of the weights; may be repeated",
    )
    parser.add_argument(
        "--llama-cpp",
        metavar="PATH",
        help="products: llama.cpp's test-backend-ops, to be run as a peer",
    )
    parser.add_argument(
        "--peers",
        default=None,
        metavar="LIST",
        help="comma list of eager, inductor, or of one way that the table names "
        "(products: dense, dequantise, cuBLAS, tinygemm); 'none' for no peers",
    )
    parser.add_argument(
        "--all-configs",
        action="store_true",
        help="gguf, w4a16: every config one by one, and how far the chosen one is from the best",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads of ac4k and torch")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="time for one row of the table (default 6)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few samples")
    parser.add_argument("--list", action="store_true", help="list these cases")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write JSON to FILE, or to stdout instead of the table",
    )


def run(options: argparse.Namespace) -> int:
    from .arrays import arrays_on, devices, dtype_named
    from .case import Case, Special, cases_named
    from .runner import rows_of, sizes_of
    from .session import Session
    from .settings import PEERS, Settings

    with usage_errors():
        chosen = cases_named(options.names)
    if options.list:
        return _list(chosen, options.json)
    with usage_errors():
        quick_peers = ("eager",) if options.quick else PEERS
        peers = quick_peers if options.peers is None else _peer_list(options.peers, chosen)
        settings = Settings(
            device=options.device or devices()[0],
            dtypes=tuple(dtype_named(t) for text in options.dtype for t in text.split(",")),
            shapes=tuple(parse_shape(text) for text in options.shape),
            formats=_formats(options.format),
            tokens=_token_counts(options.tokens),
            matrices=tuple(_matrix(text) for text in options.matrix),
            peers=peers,
            all_configs=options.all_configs,
            quick=options.quick,
            seconds=_seconds(options.seconds),
        )
        if options.threads is not None:
            _set_threads(options.threads)
        rows = [row for case in chosen if isinstance(case, Case) for row in rows_of(case, settings)]
        for row in rows:  # a shape that does not fit is named before anything is timed
            sizes_of(row.case, row.shape)
            _check_columns(row, "--shape" if settings.shapes else "--matrix")
    arrays = arrays_on(settings.device)
    llama_cpp_times = _llama_cpp_times(options.llama_cpp, rows, settings.device)
    session = Session(
        rows,
        [case for case in chosen if isinstance(case, Special)],
        arrays,
        settings,
        json_target=options.json,
        finish_row=lambda result: _add_llama_cpp(result, llama_cpp_times),
    )
    return session.run()


def _peer_list(text: str, cases: Sequence[Case | Special]) -> tuple[str, ...]:
    from .peers import peer_names

    known = peer_names(cases)
    lower = [name.lower() for name in known]
    names = tuple(name for name in text.split(",") if name not in ("", "none"))
    for name in names:
        if name.lower() not in lower:
            raise ValueError(f"--peers: '{name}' is not one of {', '.join(known)}, none")
    return names


def parse_shape(text: str, option: str = "--shape", example: str = "16x128x4096") -> Shape:
    parts = text.lower().replace("×", "x").split("x")
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"{option}: expected sizes such as {example}, got '{text}'")
    return tuple(map(int, parts))


def _matrix(text: str) -> Shape:
    sizes = parse_shape(text, "--matrix", "4096x14336")
    if len(sizes) != 2:
        raise ValueError(f"--matrix: expected rows and columns such as 4096x14336, got '{text}'")
    return sizes


def _check_columns(row: Row, option: str) -> None:
    columns, multiple = row.shape[-1], row.column_multiple
    if columns % multiple != 0:
        raise ValueError(
            f"{option}: expected a number of columns that is a multiple of {multiple} for "
            f"{row.title}, got {columns} in {row.shape_text}"
        )


def _formats(texts: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.lower() for text in texts for name in text.split(","))
    for name in names:
        if name not in WEIGHT_FORMATS:
            raise ValueError(f"--format: '{name}' is not one of {', '.join(WEIGHT_FORMATS)}")
    return names


def _token_counts(text: str) -> tuple[int, ...]:
    parts = [part for part in text.split(",") if part]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--tokens: expected numbers such as 1,8,512, got '{text}'")
    return tuple(map(int, parts))


def _seconds(value: float | None) -> float | None:
    """0: as few samples as there can be."""
    if value is not None and not value >= 0:  # NaN is not, either
        raise ValueError(f"--seconds: expected a time such as 0.5, got {value:g}")
    return value


def _llama_cpp_times(
    binary: str | None, rows: Sequence[Row], device: str
) -> dict[llama_cpp.Product, float] | None:
    """Before our own times: it is one process for all rows."""
    if binary is None:
        return None
    import ac4k

    products = [product for row in rows if (product := llama_cpp.product_of(row)) is not None]
    if not products:
        raise UsageError("--llama-cpp: none of the benchmarks is a product that llama.cpp has")
    with progress("llama.cpp", 1) as step:
        step("test-backend-ops perf -o MUL_MAT")
        return llama_cpp.run(binary, products, device, ac4k.get_num_threads())


def _add_llama_cpp(result: Result, times: dict[llama_cpp.Product, float] | None) -> None:
    product = llama_cpp.product_of(result.row)
    if times is None or product is None:
        return
    if product not in times:
        result.peers.absent[llama_cpp.NAME] = "test-backend-ops does not measure this product"
        return
    timing = Timing.from_samples([times[product]], result.device, "test-backend-ops")
    result.add_peer(llama_cpp.NAME, timing)


def _set_threads(count: int) -> None:
    import ac4k

    ac4k.set_num_threads(count)
    if has_torch():
        import torch

        torch.set_num_threads(max(count, 1))


def _list(cases: Sequence[Case | Special], json_target: str | None) -> int:
    from .case import Case
    from .report import write_json

    columns = [Column("case", style="bold"), Column("--shape"), Column("types"), Column("sizes")]
    rows: list[list[Cell]] = []
    for case in cases:
        if isinstance(case, Case):
            shapes = ", ".join("x".join(map(str, shape)) for shape in case.shapes[:3])
            more = " …" if len(case.shapes) > 3 else ""
            rows.append([case.name, case.shape_text, ", ".join(case.dtypes), shapes + more])
        else:
            rows.append([case.name, "—", "—", case.doc])
    if json_target is not None:
        write_json({"cases": [case.name for case in cases]}, json_target)
    else:
        print_table("ac4k bench --list", columns, rows)
    return 0
