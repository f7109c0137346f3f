"""What the machine itself allows, measured in the same run and in the same way as the op.

Memory: `stream_bytes`, a plain streaming kernel, reading and writing the same number of bytes over
buffers rotated alike. Arithmetic: the rate of a large matrix product through the vendor's library.
The slower of the two is the roofline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from .arrays import DTYPES, Arrays, DType, arrays_on
from .engine import Candidate, measure, set_count
from .inputs import Arguments, make_arguments, op_named
from .settings import Settings

_VECTOR_BYTES = 16
# Reads and writes that `stream_bytes` has a tuned kernel for, from few reads to many.
_RATIOS = ((1, 4), (1, 2), (1, 1), (2, 1), (3, 1), (4, 1), (8, 1))
_MATMUL_SIZE = {"cuda": 8192, "cpu": 2048, "quick": 512}
_SMALL_MATMUL = 256


def stream_sizes(bytes_read: int, bytes_written: int) -> tuple[int, int]:
    """The same traffic at a ratio of reads to writes that `stream_bytes` is tuned for.

    A ratio in between takes the next one with more reads, which are the cheaper half: the roofline
    is then too fast rather than too slow. A small rest (a bias, scales) counts as part of the rest.
    """
    total = bytes_read + bytes_written
    ratio = bytes_read / max(bytes_written, 1)
    reads, writes = next(
        ((reads, writes) for reads, writes in _RATIOS if ratio <= (reads + 0.02) / writes),
        _RATIOS[-1],
    )
    unit = max(_VECTOR_BYTES, total // (reads + writes) // _VECTOR_BYTES * _VECTOR_BYTES)
    return reads * unit, writes * unit


@lru_cache(maxsize=2)  # variants of an op come back to the same sizes
def stream_calls(
    bytes_read: int, bytes_written: int, arrays: Arrays, settings: Settings
) -> list[Callable[[], Any]]:
    """Calls of `stream_bytes` over rotating buffers."""
    import ac4k

    op = op_named("stream_bytes")
    first = make_arguments(op, {"R": bytes_read, "W": bytes_written}, DTYPES["u8"], arrays, seed=1)
    count = set_count(bytes_read + bytes_written, settings.rotation_bytes)

    def call_with(arguments: Arguments) -> Callable[[], Any]:
        return lambda: ac4k.stream_bytes(*arguments.args, out=arguments.out)

    return [call_with(first)] + [call_with(first.clone(arrays)) for _ in range(count - 1)]


def matmul_flops_per_us(dtype: DType, settings: Settings) -> float | None:
    """Floating-point operations a microsecond of the library's matrix product, large and square.

    Numbers of 16 bits may be widened before they are multiplied: where a CPU has no instructions
    for them, the library's product is hundreds of times slower than that, and a small one shows it
    in less than minutes. None where the library has no product.
    """
    n = _MATMUL_SIZE["quick" if settings.quick else settings.device]
    widened = None
    if settings.device == "cpu" and dtype.is_float and dtype.bytes == 2:
        widened = _matmul_rate(DTYPES["f32"], n, settings)
        small = _matmul_rate(dtype, _SMALL_MATMUL, settings)
        if widened is not None and (small is None or small < widened / 4):
            return widened
    rates = [rate for rate in (_matmul_rate(dtype, n, settings), widened) if rate is not None]
    return max(rates, default=None)


@cache
def _matmul_rate(dtype: DType, n: int, settings: Settings) -> float | None:
    arrays = arrays_on(settings.device)
    a, b = (arrays.random((n, n), dtype, seed) for seed in (1, 2))
    try:
        timing = measure({"matmul": Candidate([lambda: a @ b])}, settings)["matmul"]
    except RuntimeError:
        return None
    return 2.0 * n**3 / timing.median
