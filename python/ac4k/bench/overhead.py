"""What a call costs before any kernel runs: nanoseconds a call above an empty lambda.

With tensors of no elements nothing is launched, so what remains is the binding: reading the
tensors, checks, device, stream. With one element the kernel (on CUDA its launch) comes on top.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from .._console import Cell, Column, print_table, progress
from .._native import C
from ..environment import has_torch
from ..timing import Timing
from .pybind_peer import build_peer
from .report import ratio_cell
from .settings import Settings

EMPTY = "empty lambda"
DIRECT = "ac4k._C"
PYBIND = "pybind11 extension"


def _loop_ns(call: Callable[[], Any], number: int) -> float:
    begin = perf_counter_ns()
    for _ in repeat(None, number):
        call()
    return (perf_counter_ns() - begin) / number


def measure_paths(
    paths: dict[str, Callable[[], Any]], settings: Settings, finish: Callable[[], None]
) -> dict[str, Timing]:
    """ns a call of each path, taking turns; `finish` waits for the device between the loops."""
    # A loop on a GPU stays below what its queue holds: a full queue would time the GPU.
    number = 500 if settings.device == "cuda" else 2_000
    rounds = 5 if settings.quick else 101
    samples: dict[str, list[float]] = {name: [] for name in paths}
    for call in paths.values():
        _loop_ns(call, number // 10)
    for _ in range(rounds):
        for name, call in paths.items():
            finish()
            samples[name].append(_loop_ns(call, number))
    finish()
    return {name: Timing.from_samples(v, settings.device) for name, v in samples.items()}


def _three_tensors(torch: Any, elements: int, peer: Any, device: str) -> dict[str, Any]:
    import ac4k

    x, out = (torch.ones(elements, 1, device=device) for _ in range(2))
    bias = torch.ones(1, device=device)
    direct, public = C.fused_add_gelu, ac4k.fused_add_gelu
    overload = torch.ops.ac4k.fused_add_gelu.out
    gelu = torch.nn.functional.gelu
    return {
        DIRECT: lambda: direct(x, bias, "none", out),
        "ac4k.fused_add_gelu": lambda: public(x, bias, out=out),
        "torch.ops.ac4k.fused_add_gelu.out": lambda: overload(x, bias, out=out),
        PYBIND: peer and (lambda: peer.add_gelu(x, bias, out)),
        "eager gelu(x + bias)": lambda: gelu(x + bias),
    }


def _four_tensors(torch: Any, elements: int, peer: Any, device: str) -> dict[str, Any]:
    import ac4k

    a, b, c, out = (torch.ones(elements, device=device) for _ in range(4))
    direct, public = C.element_wise_mul_add, ac4k.element_wise_mul_add
    overload = torch.ops.ac4k.element_wise_mul_add.out
    addcmul = torch.addcmul
    return {
        DIRECT: lambda: direct(a, b, c, out),
        "ac4k.element_wise_mul_add": lambda: public(a, b, c, out=out),
        "torch.ops.ac4k.element_wise_mul_add.out": lambda: overload(a, b, c, out=out),
        PYBIND: peer and (lambda: peer.mul_add(a, b, c, out)),
        "torch.addcmul(out=)": lambda: addcmul(c, a, b, out=out),
    }


def run(settings: Settings) -> dict[str, Any]:
    """Measures every path for three and four tensors, without and with a kernel."""
    if not has_torch():
        return {"groups": [], "absent": {"call_overhead": "torch is not installed"}}
    import torch

    peer, why_not = (
        (None, "left out by --peers") if not settings.peers else (build_peer(settings.device))
    )
    finish = torch.cuda.synchronize if settings.device == "cuda" else lambda: None
    groups = []
    with progress("call_overhead", 4) as step:
        for tensors, make in ((3, _three_tensors), (4, _four_tensors)):
            for elements in (0, 1):
                step(f"{tensors} tensors, {elements} elements")
                calls = make(torch, elements, peer, settings.device)
                paths = {EMPTY: _nothing, **{k: v for k, v in calls.items() if v is not None}}
                timings = measure_paths(paths, settings, finish)
                groups.append(_group(tensors, elements, timings))
    absent = {PYBIND: why_not} if peer is None else {}
    return {"device": settings.device, "groups": groups, "absent": absent}


def _nothing() -> None:
    return None


def _group(tensors: int, elements: int, timings: dict[str, Timing]) -> dict[str, Any]:
    empty = timings[EMPTY].median
    paths = {
        name: {
            "ns": timing.median - empty,
            "p20": timing.p20 - empty,
            "p80": timing.p80 - empty,
        }
        for name, timing in timings.items()
        if name != EMPTY
    }
    return {"tensors": tensors, "elements": elements, "empty_lambda_ns": empty, "paths": paths}


def show(report: dict[str, Any]) -> None:
    columns = [
        Column("call", style="bold"),
        Column("binding only", right=True),
        Column("p20–p80", right=True),
        Column("with the kernel", right=True),
        Column("p20–p80", right=True),
        Column("binding vs pybind11", right=True),
    ]
    groups = report["groups"]
    for empty, one in zip(groups[::2], groups[1::2], strict=True):
        pybind = empty["paths"].get(PYBIND, {}).get("ns")
        rows: list[list[Cell]] = []
        for name, cost in empty["paths"].items():
            kernel = one["paths"][name]
            rows.append(
                [
                    name,
                    f"{cost['ns']:.0f} ns",
                    f"{cost['p20']:.0f}–{cost['p80']:.0f}",
                    f"{kernel['ns']:.0f} ns",
                    f"{kernel['p20']:.0f}–{kernel['p80']:.0f}",
                    ratio_cell(pybind / cost["ns"] if pybind else None),
                ]
            )
        print_table(
            f"call overhead, {empty['tensors']} torch tensors on {report['device']}",
            columns,
            rows,
            caption="nanoseconds a call above an empty lambda\n"
            "binding only: tensors of no elements, no launch   with the kernel: one element",
        )
    for name, why in report["absent"].items():
        print(f"absent: {name} ({why})")
