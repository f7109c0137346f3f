"""Measures one op at one size: check, then op, roofline and peers side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._formats import FORMATS
from ..timing import Timing
from .arrays import Arrays, DType
from .case import Case, Configs, Shape, arguments_of, sets_of, traffic_of
from .check import Check, WrongResultError, check
from .engine import Candidate, measure, set_count
from .inputs import Arguments, Sizes, op_named
from .peers import Peers, find_peers
from .roofline import matmul_flops_per_us, stream_calls, stream_sizes
from .settings import Settings
from .weights import w4_group

# Candidates that are not peers. On the CPU a result's first touch costs more than many kernels,
# so peers, which allocate their result, are compared with the op allocating its own.
OURS, OURS_ALLOCATING, ROOFLINE = "ac4k", "ac4k+alloc", "roofline"


@dataclass(frozen=True)
class Row:
    """One size of one op: what to measure."""

    case: Case
    variant: Mapping[str, Any]
    shape: Shape
    dtype: DType

    @property
    def title(self) -> str:
        words = [v if isinstance(v, str) else f"{k}={v}" for k, v in self.variant.items()]
        return " ".join([self.case.op, *words])

    @property
    def shape_text(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def fmt(self) -> str | None:
        """The format of the weights that it multiplies by."""
        return self.variant.get("fmt", self.case.fmt) if self.case.tokens_at is not None else None

    @property
    def column_multiple(self) -> int:
        """What the columns of its weights are a multiple of: their blocks are whole."""
        if self.fmt is not None:
            return FORMATS[self.fmt].block_values
        layout = self.variant.get("layout") if self.case.tokens_at is not None else None
        group = w4_group(layout) if layout else 1
        return group if group in (32, 64) else 1  # the last of the larger ones may be short

    @property
    def text(self) -> str:
        return f"{self.title} {self.shape_text} {self.dtype.name}"


@dataclass
class Result:
    """What was measured; `timings` by candidate and then by mode (cold, chain, hot)."""

    row: Row
    device: str
    arguments_bytes: tuple[int, int]  # read, written
    flops: float
    check: Check
    sets: int
    peers: Peers
    timings: dict[str, dict[str, Timing]] = field(default_factory=dict)
    roofline_us: dict[str, float] = field(default_factory=dict)
    bound: str | None = None  # "memory" or "matmul"
    outside: list[str] = field(default_factory=list)  # peers that time themselves
    configs: Configs | None = None  # whose timings are by config_name()

    @property
    def all_peers(self) -> list[str]:
        return [name for name in self.timings if name in (*self.peers.present, *self.outside)]

    def percent_of_roofline(self, mode: str) -> float | None:
        ours = self.timings[OURS].get(mode)
        if ours is None or mode not in self.roofline_us:
            return None
        return 100.0 * self.roofline_us[mode] / ours.median

    def speedup(self, peer: str, mode: str | None = None) -> float | None:
        """Cold where the peer was timed cold."""
        ours = self.timings.get(OURS_ALLOCATING, self.timings[OURS])
        theirs = self.timings.get(peer)
        if theirs is None:
            return None
        mode = mode or ("cold" if "cold" in theirs else "hot")
        return theirs[mode].median / ours[mode].median

    def config_us(self) -> list[float]:
        """Cold time of every config."""
        count = len(self.configs.names) if self.configs is not None else 0
        return [self.timings[config_name(i)]["cold"].median for i in range(count)]

    def add_peer(self, name: str, timing: Timing) -> None:
        """One that was timed elsewhere, with the same buffers each time."""
        self.timings[name] = {"hot": timing}
        self.outside.append(name)

    def to_dict(self) -> dict[str, Any]:
        read, written = self.arguments_bytes
        modes = list(self.timings[OURS])
        return {
            "op": self.row.case.op,
            "options": dict(self.row.variant),
            "shape": list(self.row.shape),
            "dtype": self.row.dtype.name,
            "device": self.device,
            "bytes_read": read,
            "bytes_written": written,
            "flops": self.flops,
            "buffer_sets": self.sets,
            "rotated_bytes": self.sets * (read + written),
            "check": {
                "error": self.check.error,
                "reference": self.check.reference,
                "compared": self.check.compared,
            },
            "timings_us": {
                name: {mode: timing.to_dict() for mode, timing in by_mode.items()}
                for name, by_mode in self.timings.items()
            },
            "roofline": {
                "bound": self.bound,
                "us": self.roofline_us,
                "stream_bytes": list(stream_sizes(read, written)),
                "percent": {mode: self.percent_of_roofline(mode) for mode in modes},
            },
            "speedup_over": {
                peer: {mode: self.speedup(peer, mode) for mode in by_mode}
                for peer in self.all_peers
                for by_mode in (self.timings[peer],)
            },
            "absent": self.peers.absent,
            **self._configs_dict(),
        }

    def _configs_dict(self) -> dict[str, Any]:
        if self.configs is None:
            return {}
        times = self.config_us()
        names, best = self.configs
        return {
            "configs": {
                "cold_us": dict(zip(names, times, strict=True)),
                "recommended": names[best],
                "over_the_fastest": times[best] / min(times),
            }
        }


def config_name(number: int) -> str:
    return f"config {number}"


def rows_of(case: Case, settings: Settings) -> list[Row]:
    """Every variant, shape and dtype asked for that the op takes."""
    from .arrays import dtype_named

    op = op_named(case.op)
    known = {name for types in op["types"].values() for name in types}
    known |= {param["dtype"] for param in op["params"] if param["kind"] == "tensor"}
    dtypes = [d for d in settings.dtypes or map(dtype_named, case.dtypes) if d.name in known]
    rows = [
        Row(case, variant, shape, dtype)
        for variant in case.variants
        for shape in settings.shapes_of(case)
        for dtype in dtypes
    ]
    wanted = settings.formats
    return [row for row in rows if not wanted or row.fmt is None or row.fmt in wanted]


def run_row(row: Row, arrays: Arrays, settings: Settings) -> Result:
    """Checks and times one row; raises WrongResultError when the op is out of tolerance."""
    case = row.case
    op = op_named(case.op)
    sizes = sizes_of(case, row.shape)
    first = arguments_of(op, case, sizes, row.dtype, arrays, options=row.variant, seed=7)
    checked = check(op, case, first, arrays, row.dtype)
    if not checked.ok:
        raise WrongResultError(
            f"{row.text} on {settings.device}: error "
            f"{checked.error:.3g} times the allowed error against {checked.reference} "
            f"({checked.compared}); not timed"
        )
    read, written = traffic_of(case, first)
    count = set_count(read + written, settings.rotation_bytes)
    sets = sets_of(case, first, count, arrays)
    result = Result(
        row=row,
        device=settings.device,
        arguments_bytes=(read, written),
        flops=case.flops(row.shape) if case.flops else 0.0,
        check=checked,
        sets=count,
        peers=find_peers(case, first, settings),
    )
    if settings.all_configs and case.configs is not None:
        result.configs = case.configs(row.shape, row.dtype, row.variant, settings.device)
    candidates = _candidates(op["name"], sets, result, arrays, settings)
    for name, timing in measure(candidates, settings).items():
        who, mode = name.rsplit("/", 1)
        result.timings.setdefault(who, {})[mode] = timing
    _find_roofline(result, settings)
    return result


def sizes_of(case: Case, shape: Shape) -> Sizes:
    try:
        return case.sizes(shape)
    except (ValueError, IndexError):
        text = "x".join(map(str, shape))
        raise ValueError(f"{case.op}: --shape is {case.shape_text}, got {text}") from None


def _candidates(
    op_name: str, sets: list[Arguments], result: Result, arrays: Arrays, settings: Settings
) -> dict[str, Candidate]:
    import ac4k

    fn = getattr(ac4k, op_name)

    def with_out(arguments: Arguments) -> Callable[[], Any]:
        return lambda: arguments.call(fn)

    def allocating(arguments: Arguments) -> Callable[[], Any]:
        return lambda: fn(*arguments.args, **arguments.options)

    def with_config(arguments: Arguments, number: int) -> Callable[[], Any]:
        return lambda: fn(*arguments.args, **arguments.options, config=number, out=arguments.out)

    def peer_call(peer: Callable[..., Any], arguments: Arguments) -> Callable[[], Any]:
        return lambda: peer(*arguments.args, **arguments.options)

    on_gpu = settings.device == "cuda"
    found: dict[str, Candidate] = {}

    def add(name: str, calls: list[Callable[[], Any]], *, ours: bool) -> None:
        found[f"{name}/cold"] = Candidate(calls)
        if on_gpu and ours:
            found[f"{name}/chain"] = Candidate(calls, dependent=True)
        found[f"{name}/hot"] = Candidate(calls[:1])

    add(OURS, [with_out(arguments) for arguments in sets], ours=True)
    if op_name != "stream_bytes":
        traffic = stream_sizes(*result.arguments_bytes)
        add(ROOFLINE, stream_calls(*traffic, arrays, settings), ours=True)
    if not on_gpu and result.peers.present:
        add(OURS_ALLOCATING, [allocating(arguments) for arguments in sets], ours=False)
    for number in range(len(result.configs.names) if result.configs is not None else 0):
        calls = [with_config(arguments, number) for arguments in sets]
        found[f"{config_name(number)}/cold"] = Candidate(calls)
    for name, peer in result.peers.present.items():
        add(name, [peer_call(peer, arguments) for arguments in sets], ours=False)
    return found


def _find_roofline(result: Result, settings: Settings) -> None:
    stream = result.timings.get(ROOFLINE, {})
    result.roofline_us = {mode: timing.median for mode, timing in stream.items()}
    result.bound = "memory" if stream else None
    if not result.flops:
        return
    rate = matmul_flops_per_us(result.row.dtype, settings)
    if rate is None:
        result.bound, result.roofline_us = None, {}
        result.peers.absent["matmul rate"] = f"the library has no {result.row.dtype.name} product"
        return
    arithmetic_us = result.flops / rate
    if arithmetic_us > result.roofline_us.get("cold", 0.0):
        result.bound = "matmul"
    for mode, memory_us in result.roofline_us.items():
        result.roofline_us[mode] = max(memory_us, arithmetic_us)
