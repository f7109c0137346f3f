"""What a benchmark declares, and where benchmarks are found.

A file of `cases/` holds a tuple `CASES`. Most are a `Case`: an op, the sizes worth measuring and
PyTorch's way of computing the same; inputs, bytes, checks, roofline and peers follow from it and
from the op table. A `Special` brings its own measurement (`call_overhead`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .._signature import value_of
from .inputs import Arguments, Sizes, make_arguments

if TYPE_CHECKING:
    from .arrays import Arrays, DType
    from .settings import Settings

Shape = tuple[int, ...]


def last_dim(shape: Shape) -> Sizes:
    """For tensors of [..., N]."""
    return {"...": shape[:-1], "N": shape[-1]}


def all_dims(shape: Shape) -> Sizes:
    """For tensors of [...]."""
    return {"...": shape}


class Configs(NamedTuple):
    """Kernels that an op can be told to use by its option `config`, and the one it recommends."""

    names: list[str]
    best: int


ROWS = ("...",)


@dataclass(frozen=True)
class Case:
    """An op to measure."""

    op: str
    shapes: tuple[Shape, ...]  # sizes of real models, measured on a GPU
    cpu_shapes: tuple[Shape, ...]
    quick_shapes: tuple[Shape, ...]  # milliseconds on any machine
    dtypes: tuple[str, ...]
    sizes: Callable[[Shape], Sizes]  # from a --shape to the op's dimensions
    shape_text: str = "AxBxN"  # what --shape means
    variants: tuple[Mapping[str, Any], ...] = field(default=({},))  # options to measure
    # PyTorch's way: takes the op's arguments, works in any dtype. Eager peer, Inductor's input and
    # (on float64 inputs) the reference of large sizes.
    torch_fn: Callable[..., Any] | None = None
    torch_is_reference: bool = True  # False: it rounds elsewhere than the op does
    torch_name: str = "eager"  # what that peer is on a GPU, e.g. "cuBLAS"
    cpu_torch_name: str = "eager"
    # Other ways that people go in PyTorch, by name; called as the op is.
    torch_peers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    # The size of what rounding errors are relative to, from the op's arguments (or a tuple, one for
    # each output); |result| when not given.
    magnitude: Callable[..., Any] | None = None
    # Dimensions along which results have nothing to do with each other: NumPy checks large calls
    # at some of them. Without effect where the op has them not.
    independent: tuple[str, ...] = ROWS
    flops: Callable[[Shape], float] | None = None  # None: memory-bound
    compile: bool = True  # False: Inductor would only call torch_fn's library
    # Tensors that cannot be random (indices, tables) and optional ones to pass, by name.
    given: Callable[[Sizes, Arrays], Mapping[str, Any]] | None = None
    # Quantised weights by name, from a dtype and the op's choices, which name a format, too.
    weights: Callable[[Sizes, DType, Mapping[str, Any], Arrays], Mapping[str, Any]] | None = None
    # Bytes read and written, where they are not those of the inputs and outputs.
    traffic: Callable[[Arguments], tuple[int, int]] | None = None
    # So many calls on memory of their own, the first of them given, where a call uses a small part
    # of a tensor and copies of all of it would fill the machine.
    sets: Callable[[Arguments, int, Arrays], list[Arguments]] | None = None
    # Products with weights: which size of a shape is the number of tokens (the others are the
    # weights' rows and columns), and the weights' format where no option `fmt` says it.
    tokens_at: int | None = None
    fmt: str | None = None
    # For --all-configs: from a shape, a dtype, options and a device.
    configs: Callable[[Shape, DType, Mapping[str, Any], str], Configs] | None = None

    @property
    def name(self) -> str:
        return self.op


@dataclass(frozen=True)
class Special:
    """A benchmark that measures in its own way: `run` returns its JSON, `show` prints that."""

    name: str
    doc: str
    run: Callable[[Settings], dict[str, Any]]
    show: Callable[[dict[str, Any]], None]


@cache
def all_cases() -> dict[str, Case | Special]:
    """Every benchmark by name, in alphabetical order of files."""
    from . import cases

    found: dict[str, Case | Special] = {}
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda m: m.name):
        loaded = importlib.import_module(f"{cases.__name__}.{module.name}")
        for case in loaded.CASES:
            if case.name in found:
                raise RuntimeError(f"{loaded.__name__}: there are two cases '{case.name}'")
            found[case.name] = case
    return found


def cases_named(names: Sequence[str]) -> list[Case | Special]:
    """The cases of these names; all of them when there is none. "memory": every op that is bound by
    memory, but for the roofline itself. "gguf" and "w4a16": products with such weights."""
    known = all_cases()
    memory = [
        case.name
        for case in known.values()
        if isinstance(case, Case) and case.flops is None and case.op != "stream_bytes"
    ]
    gguf = ("quant_linear", "gemm_q")  # what `ac4k bench gguf` measures
    groups = {
        "memory": memory,
        "gguf": [name for name in known if name.startswith(gguf)],
        "w4a16": ["w4a16_gemm"],
    }
    found: dict[str, Case | Special] = {}
    for name in names or known:
        if name not in known and name not in groups:
            raise ValueError(f"no benchmark '{name}'; known: {', '.join([*groups, *known])}")
        found |= {each: known[each] for each in groups.get(name, [name])}
    return list(found.values())


def case_of(op: str) -> Case | None:
    case = all_cases().get(op)
    return case if isinstance(case, Case) else None


def arguments_of(
    op: Mapping[str, Any],
    case: Case | None,
    sizes: Sizes,
    dtype: DType,
    arrays: Arrays,
    *,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Arguments:
    """As make_arguments, with what the case gives."""
    given: dict[str, Any] = {}
    if case is not None and case.given is not None:
        given |= case.given(sizes, arrays)
    if case is not None and case.weights is not None:
        names = [param["name"] for param in op["params"] if param["kind"] == "choice"]
        choices = {name: value_of(op, name, options or {}) for name in names}
        given |= case.weights(sizes, dtype, choices, arrays)
    return make_arguments(op, sizes, dtype, arrays, options=options, given=given, seed=seed)


def sets_of(case: Case, first: Arguments, count: int, arrays: Arrays) -> list[Arguments]:
    """`count` calls that each touch memory of their own."""
    if case.sets is not None:
        return case.sets(first, count, arrays)
    return [first] + [first.clone(arrays) for _ in range(count - 1)]


def traffic_of(case: Case, arguments: Arguments) -> tuple[int, int]:
    """Bytes read and written."""
    if case.traffic is not None:
        return case.traffic(arguments)
    return arguments.bytes_read, arguments.bytes_written
