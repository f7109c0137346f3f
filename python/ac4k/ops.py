"""The ops, as Python functions. Made from the op table by tools/generate.py; do not edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from ac4k._native import C as _C

__all__ = [
    "element_wise_mul_add",
    "fused_add_gelu",
    "gemm",
    "stream_bytes",
]

# A torch tensor, a NumPy, CuPy or JAX array, or anything with DLPack; results are of the same kind.
Array = TypeVar("Array")


def _is_tracing() -> bool:
    """Whether torch.compile is looking; torch's own function takes its place once it is there."""
    return False


def _route(name: str, params: tuple[Any, ...], out: Any) -> Any:
    raise NotImplementedError  # replaced together with _is_tracing


def _use_torch_tracing_check(
    is_tracing: Callable[[], bool], route: Callable[[str, tuple[Any, ...], Any], Any]
) -> None:
    globals().update(_is_tracing=is_tracing, _route=route)


def element_wise_mul_add(a: Array, b: Array, c: Array, *, out: Array | None = None) -> Array:
    """Multiply and add, element by element.

    out = a * b + c, rounded once (16-bit types: fused in float32, then rounded).

    a: [...] of float32, float64, float16, bfloat16; any strides
    b: [...] of float32, float64, float16, bfloat16; any strides
    c: [...] of float32, float64, float16, bfloat16; any strides
    Returns [...], same dtype.

    >>> import numpy as np
    >>> a = np.array([1, 2, 3], np.float32)
    >>> ac4k.element_wise_mul_add(a, a, a).tolist()
    [2.0, 6.0, 12.0]
    """
    if _is_tracing():
        traced: Array = _route("element_wise_mul_add", (a, b, c), out)
        return traced
    return _C.element_wise_mul_add(a, b, c, out)


def fused_add_gelu(
    x: Array,
    bias: Array,
    *,
    approximate: Literal["none", "tanh"] = "none",
    out: Array | None = None,
) -> Array:
    """Add a bias to the last dim and apply GELU, in one pass.

    y = x + bias; out = y * Phi(y), or with approximate="tanh" 0.5 y (1 + tanh(sqrt(2/pi) (y +
    0.044715 y^3))). 16-bit types compute in float32 and round once; +inf gives +inf, -inf and
    NaN give NaN.

    x: [..., N] of float32, float64, float16, bfloat16; any strides
    bias: [N] of float32, float64, float16, bfloat16; any strides
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> x = np.array([[-1, 0, 1]], np.float64)
    >>> ac4k.fused_add_gelu(x, np.zeros(3)).round(4).tolist()
    [[-0.1587, 0.0, 0.8413]]
    """
    if _is_tracing():
        traced: Array = _route("fused_add_gelu", (x, bias, approximate), out)
        return traced
    return _C.fused_add_gelu(x, bias, approximate, out)


def gemm(A: Array, B: Array, *, out: Array | None = None) -> Array:
    """Matrix product.

    out = A B. Sums are kept in float32 (float64 for float64) and rounded once; A and B may be
    transposed or otherwise strided views.

    A: [M, K] of float32, float64, float16, bfloat16; any strides
    B: [K, N] of float32, float64, float16, bfloat16; any strides
    Returns [M, N], same dtype.

    >>> import numpy as np
    >>> ac4k.gemm(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if _is_tracing():
        traced: Array = _route("gemm", (A, B), out)
        return traced
    return _C.gemm(A, B, out)


def stream_bytes(src: Array, W: int, *, out: Array | None = None) -> Array:
    """Read every byte of src and write W bytes: the roofline of memory-bound ops.

    out[i] = src[i] ^ src[i + W] ^ src[i + 2W] ^ ...; when W > R, out[i] = src[i % R].

    src: [R] of uint8; contiguous
    Returns [W], uint8.

    >>> import numpy as np
    >>> ac4k.stream_bytes(np.array([1, 2, 4, 8], np.uint8), 2).tolist()
    [5, 10]
    """
    if _is_tracing():
        traced: Array = _route("stream_bytes", (src, W), out)
        return traced
    return _C.stream_bytes(src, W, out)
