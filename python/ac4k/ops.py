"""The ops, as Python functions. Made from the op table by tools/generate.py; do not edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from ac4k._native import C as _C

__all__ = [
    "dequantize",
    "dequantize_fp8",
    "dequantize_int8",
    "dequantize_mxfp4",
    "dequantize_mxfp8",
    "dequantize_nvfp4",
    "dequantize_q4_0",
    "dequantize_q4_1",
    "dequantize_q5_0",
    "dequantize_q5_1",
    "dequantize_q8_0",
    "dequantize_q8_1",
    "element_wise_mul_add",
    "fused_add_gelu",
    "fused_add_gelu_quant",
    "fused_add_rms_norm",
    "fused_add_rms_norm_quant",
    "gather_kvcache",
    "gelu_and_mul",
    "gelu_and_mul_quant",
    "gemm",
    "gemm_q4_0_q8_1",
    "gemm_q4_1_q8_1",
    "gemm_q5_0_q8_1",
    "gemm_q5_1_q8_1",
    "gemm_q8_0_q8_1",
    "layer_norm",
    "layer_norm_quant",
    "mrope",
    "pack_weight",
    "qk_norm",
    "qk_norm_rope",
    "qk_norm_rope_3d",
    "quant_linear",
    "quantize",
    "quantize_fp8",
    "quantize_int8",
    "quantize_mxfp4",
    "quantize_mxfp8",
    "quantize_nvfp4",
    "quantize_q4_0",
    "quantize_q4_1",
    "quantize_q5_0",
    "quantize_q5_1",
    "quantize_q8_0",
    "quantize_q8_1",
    "relu2",
    "relu2_quant",
    "residual_gate",
    "rms_norm",
    "rms_norm_quant",
    "rope",
    "rope_3d",
    "rope_store_kvcache",
    "silu_and_mul",
    "silu_and_mul_quant",
    "store_kvcache",
    "stream_bytes",
    "unpack_weight",
    "w4a16_gemm",
    "w4a16_pack_weight",
    "w4a16_unpack_weight",
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


def dequantize(
    q: Array,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q8_1",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from GGUF blocks of a format.

    What the blocks of the format stand for (docs/gguf_formats.md), in float32, rounded once to
    the dtype. A scale that is NaN gives NaN.

    q: [..., K/32, 18] (q4_0), [..., K/32, 20] (q4_1), [..., K/32, 22] (q5_0), [..., K/32, 24]
        (q5_1), [..., K/32, 34] (q8_0), [..., K/32, 36] (q8_1), [..., K/256, 84] (q2_k), [...,
        K/256, 110] (q3_k), [..., K/256, 144] (q4_k), [..., K/256, 176] (q5_k), [..., K/256,
        210] (q6_k), [..., K/32, 18] (iq4_nl), [..., K/256, 136] (iq4_xs), [..., K/32, 17]
        (mxfp4), [..., K/64, 36] (nvfp4) of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize(np.arange(32, dtype=np.float32)[None], "q8_0")
    >>> ac4k.dequantize(q, "q8_0")[0, ::10].round(1).tolist()
    [0.0, 10.0, 20.0, 30.0]
    """
    if _is_tracing():
        traced: Array = _route("dequantize", (q, fmt, dtype), out)
        return traced
    return _C.dequantize(q, fmt, dtype, out)


def dequantize_fp8(
    q: Array,
    scale: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from FP8 codes and their scales.

    out = float32(q) * scale, rounded once to the dtype.

    q: [..., N] of float8_e4m3fn, float8_e5m2; contiguous
    scale: [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128) of float32; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., N], dtype.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_fp8(np.array([[1, -2, 3]], np.float32))
    >>> ac4k.dequantize_fp8(q, scale).astype(float).round(2).tolist()
    [[0.96, -1.93, 3.0]]
    """
    if _is_tracing():
        traced: Array = _route("dequantize_fp8", (q, scale, granularity, dtype), out)
        return traced
    return _C.dequantize_fp8(q, scale, granularity, dtype, out)


def dequantize_int8(
    q: Array,
    scale: Array,
    zero: Array | None = None,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from int8 codes, their scales and zero points.

    out = float32(q - zero) * scale, rounded once to the dtype.

    q: [..., N] of int8; contiguous
    scale: [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128) of float32; contiguous
    zero: [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128) of int32; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., N], dtype.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_int8(np.array([[1, -2, 127]], np.float32))
    >>> ac4k.dequantize_int8(q, scale).tolist()
    [[1.0, -2.0, 127.0]]
    """
    if _is_tracing():
        traced: Array = _route("dequantize_int8", (q, scale, zero, granularity, dtype), out)
        return traced
    return _C.dequantize_int8(q, scale, zero, granularity, dtype, out)


def dequantize_mxfp4(
    q: Array,
    scale: Array,
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from MXFP4 codes and their scales.

    out = float32(q) * 2^(scale - 127), rounded once to the dtype; scale 255 is NaN.

    q: [..., N/2] of uint8; contiguous
    scale: [..., N/32] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., N], dtype.

    >>> import numpy as np
    >>> q, scale = np.full((1, 16), 0x71, np.uint8), np.array([[128]], np.uint8)
    >>> ac4k.dequantize_mxfp4(q, scale)[0, :2].tolist()
    [1.0, 12.0]
    """
    if _is_tracing():
        traced: Array = _route("dequantize_mxfp4", (q, scale, dtype), out)
        return traced
    return _C.dequantize_mxfp4(q, scale, dtype, out)


def dequantize_mxfp8(
    q: Array,
    scale: Array,
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from MXFP8 codes and their scales.

    out = float32(q) * 2^(scale - 127), rounded once to the dtype; scale 255 is NaN.

    q: [..., N] of float8_e4m3fn, float8_e5m2; contiguous
    scale: [..., N/32] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., N], dtype.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_mxfp8(np.full((1, 32), 3, np.float32))
    >>> ac4k.dequantize_mxfp8(q, scale)[0, :2].tolist()
    [3.0, 3.0]
    """
    if _is_tracing():
        traced: Array = _route("dequantize_mxfp8", (q, scale, dtype), out)
        return traced
    return _C.dequantize_mxfp8(q, scale, dtype, out)


def dequantize_nvfp4(
    q: Array,
    scale: Array,
    global_scale: Array,
    layout: Literal["plain", "tiled"] = "plain",
    dtype: Any = "float32",
    *,
    out: Array | None = None,
) -> Array:
    """Numbers from NVFP4 codes and their scales.

    out = float32(q) * (float32(scale) / global_scale), rounded once to the dtype.

    q: [..., N/2] of uint8; contiguous
    scale: [..., N/16] (plain), [ceil(rows/128)*128, ceil(N/64)*4] (tiled) of float8_e4m3fn;
        contiguous
    global_scale: [1] of float32; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., N], dtype.

    >>> import numpy as np
    >>> x = np.arange(16, dtype=np.float32)[None] / 2.5
    >>> ac4k.dequantize_nvfp4(*ac4k.quantize_nvfp4(x)).tolist()[0][:6]
    [0.0, 0.5, 1.0, 1.0, 1.5, 2.0]
    """
    if _is_tracing():
        traced: Array = _route("dequantize_nvfp4", (q, scale, global_scale, layout, dtype), out)
        return traced
    return _C.dequantize_nvfp4(q, scale, global_scale, layout, dtype, out)


def dequantize_q4_0(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q4_0 blocks.

    out = d * (q - 8), in float32, rounded once to the dtype.

    q: [..., K/32, 18] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q4_0(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q4_0(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q4_0", (q, dtype), out)
        return traced
    return _C.dequantize_q4_0(q, dtype, out)


def dequantize_q4_1(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q4_1 blocks.

    out = d * q + m, in float32, rounded once to the dtype.

    q: [..., K/32, 20] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q4_1(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q4_1(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q4_1", (q, dtype), out)
        return traced
    return _C.dequantize_q4_1(q, dtype, out)


def dequantize_q5_0(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q5_0 blocks.

    out = d * (q - 16), in float32, rounded once to the dtype.

    q: [..., K/32, 22] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q5_0(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q5_0(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q5_0", (q, dtype), out)
        return traced
    return _C.dequantize_q5_0(q, dtype, out)


def dequantize_q5_1(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q5_1 blocks.

    out = d * q + m, in float32, rounded once to the dtype.

    q: [..., K/32, 24] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q5_1(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q5_1(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q5_1", (q, dtype), out)
        return traced
    return _C.dequantize_q5_1(q, dtype, out)


def dequantize_q8_0(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q8_0 blocks.

    out = d * q, in float32, rounded once to the dtype.

    q: [..., K/32, 34] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q8_0(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q8_0(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q8_0", (q, dtype), out)
        return traced
    return _C.dequantize_q8_0(q, dtype, out)


def dequantize_q8_1(q: Array, dtype: Any = "float32", *, out: Array | None = None) -> Array:
    """Numbers from q8_1 blocks.

    out = d * q, in float32, rounded once to the dtype.

    q: [..., K/32, 36] of uint8; contiguous
    dtype: float32, float16, bfloat16
    Returns [..., K], dtype.

    >>> import numpy as np
    >>> q = ac4k.quantize_q8_1(np.full((1, 32), -8, np.float32))
    >>> float(ac4k.dequantize_q8_1(q)[0, 0].round(2))
    -8.0
    """
    if _is_tracing():
        traced: Array = _route("dequantize_q8_1", (q, dtype), out)
        return traced
    return _C.dequantize_q8_1(q, dtype, out)


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


def fused_add_gelu_quant(
    x: Array,
    bias: Array,
    scale: Array | None = None,
    *,
    approximate: Literal["none", "tanh"] = "none",
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """fused_add_gelu with a quantised result: codes and their scales.

    y = fused_add_gelu(x, bias, approximate=approximate). y is computed in float32 and rounded
    to x's dtype; then scale = max(max |y| / qmax, 2^-120) over a row or 128 columns of it, qmax
    448 (e4m3), 57344 (e5m2), 127 (int8), or the scale given (per_tensor needs one); q = y * (1
    / scale), nearest even, saturating: the codes that the activation and quantize_fp8 or
    quantize_int8 give one after the other. NaN stays NaN (0 in int8) and does not count for the
    scale; infinities count as the largest float32.

    x: [..., D] of float32, float16, bfloat16; any strides, the last dim contiguous
    bias: [D] of float32, float16, bfloat16; contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., D], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128), float32.

    >>> import numpy as np
    >>> x, bias = np.array([[0, 1]], np.float32), np.ones(2, np.float32)
    >>> ac4k.fused_add_gelu_quant(x, bias, dtype="int8")[0].tolist()
    [[55, 127]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "fused_add_gelu_quant", (x, bias, scale, approximate, granularity, dtype), out
        )
        return traced
    return _C.fused_add_gelu_quant(x, bias, scale, approximate, granularity, dtype, out)


def fused_add_rms_norm(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    *,
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Add a residual and divide each row by its root mean square, in one pass.

    new_residual = x + residual, rounded to the dtype; y = rms_norm(new_residual, weight, eps,
    cast_first=cast_first), bit by bit. Returns (y, new_residual); out=(x, residual) works in
    place.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    residual: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    Returns [..., N], same dtype.
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> x, residual = np.array([[3, -1]], np.float32), np.array([[-1, 3]], np.float32)
    >>> y, new_residual = ac4k.fused_add_rms_norm(x, residual, eps=0.0)
    >>> y.tolist(), new_residual.tolist()
    ([[1.0, 1.0]], [[2.0, 2.0]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "fused_add_rms_norm", (x, residual, weight, eps, cast_first), out
        )
        return traced
    return _C.fused_add_rms_norm(x, residual, weight, eps, cast_first, out)


def fused_add_rms_norm_quant(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    *,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """fused_add_rms_norm with an FP8 or INT8 result and its scales.

    new_residual = x + residual, rounded; y = rms_norm(new_residual, weight, eps,
    cast_first=cast_first), rounded to x's dtype. Then codes and scales as quantize_fp8 and
    quantize_int8 give them: a scale for each row (per_token), each 128 columns of a row
    (group128), or the one given (per_tensor); scale takes the place of the largest number.
    Results are those of the two ops run one after the other. Returns (q, scale, new_residual),
    the last of which may be x or residual.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    residual: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., N], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128), float32.
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> x = np.array([[1, -1, 0, 0]], np.float32)
    >>> q, scale, total = ac4k.fused_add_rms_norm_quant(x, x, dtype="int8")
    >>> q.tolist(), total.tolist()
    ([[127, -127, 0, 0]], [[2.0, -2.0, 0.0, 0.0]])
    """
    if _is_tracing():
        traced: tuple[Array, Array, Array] = _route(
            "fused_add_rms_norm_quant",
            (x, residual, weight, eps, scale, granularity, dtype, cast_first),
            out,
        )
        return traced
    return _C.fused_add_rms_norm_quant(
        x, residual, weight, eps, scale, granularity, dtype, cast_first, out
    )


def gather_kvcache(
    k_cache: Array,
    v_cache: Array,
    slots: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    *,
    layout: Literal["NHD", "HND"] = "NHD",
    dtype: Any = "bfloat16",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Read keys and values of slots from a paged cache.

    Row i is place s % S of block s // S, s = slots[i]; zeros where s is negative or past the
    cache. dtype is the cache's; an fp8 cache gives float(code) * scale, rounded once to dtype.
    scale is one number or one for each head, 1 when left out.

    k_cache: [B, S, H, D] (NHD), [B, H, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous
    v_cache: [B, S, H, D] (NHD), [B, H, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous
    slots: [n] of int64, int32; contiguous
    k_scale: [P] of float32; contiguous
    v_scale: [R] of float32; contiguous
    dtype: bfloat16, float16, float32
    Returns [n, H, D], dtype.
    Returns [n, H, D], dtype.

    >>> import numpy as np
    >>> k_cache = np.arange(8, dtype=np.float32).reshape(2, 2, 1, 2)
    >>> key, value = ac4k.gather_kvcache(k_cache, -k_cache, np.array([3, -1]), dtype="float32")
    >>> key.tolist()
    [[[6.0, 7.0]], [[0.0, 0.0]]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "gather_kvcache", (k_cache, v_cache, slots, k_scale, v_scale, layout, dtype), out
        )
        return traced
    return _C.gather_kvcache(k_cache, v_cache, slots, k_scale, v_scale, layout, dtype, out)


def gelu_and_mul(
    x: Array,
    *,
    approximate: Literal["none", "tanh"] = "none",
    out: Array | None = None,
) -> Array:
    """GELU of the first half of the last dim, times the second half.

    a, b = x[..., :D], x[..., D:]; out = a * Phi(a) * b, or with approximate="tanh" 0.5 a (1 +
    tanh(sqrt(2/pi) (a + 0.044715 a^3))) * b, in float32 and rounded once. a = +inf gives inf *
    b; a = -inf and NaN give NaN.

    x: [..., D*2] of float32, float16, bfloat16; any strides
    Returns [..., D], same dtype.

    >>> import numpy as np
    >>> x = np.array([[-1, 0, 1, 2, 2, 2]], np.float32)
    >>> ac4k.gelu_and_mul(x).astype(float).round(3).tolist()
    [[-0.317, 0.0, 1.683]]
    """
    if _is_tracing():
        traced: Array = _route("gelu_and_mul", (x, approximate), out)
        return traced
    return _C.gelu_and_mul(x, approximate, out)


def gelu_and_mul_quant(
    x: Array,
    scale: Array | None = None,
    *,
    approximate: Literal["none", "tanh"] = "none",
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """gelu_and_mul with a quantised result: codes and their scales.

    y = gelu_and_mul(x, approximate=approximate). y is computed in float32 and rounded to x's
    dtype; then scale = max(max |y| / qmax, 2^-120) over a row or 128 columns of it, qmax 448
    (e4m3), 57344 (e5m2), 127 (int8), or the scale given (per_tensor needs one); q = y * (1 /
    scale), nearest even, saturating: the codes that the activation and quantize_fp8 or
    quantize_int8 give one after the other. NaN stays NaN (0 in int8) and does not count for the
    scale; infinities count as the largest float32.

    x: [..., D*2] of float32, float16, bfloat16; any strides, the last dim contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., D], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128), float32.

    >>> import numpy as np
    >>> x = np.array([[1, 2, 1, 1]], np.float32)
    >>> ac4k.gelu_and_mul_quant(x, dtype="int8")[0].tolist()
    [[55, 127]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "gelu_and_mul_quant", (x, scale, approximate, granularity, dtype), out
        )
        return traced
    return _C.gelu_and_mul_quant(x, scale, approximate, granularity, dtype, out)


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


def gemm_q4_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    *,
    out: Array | None = None,
) -> Array:
    """Product of raw q4_0 weights and q8_1 activations.

    out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],
    activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1
    blocks keep as the sum of their codes is computed from the codes instead, being exact then.

    weight_q: [M, K/32, 18] of uint8; contiguous
    activation_q: [N, K/32, 36] of uint8; contiguous
    Returns [M, N], float32.

    >>> import numpy as np
    >>> w, a = np.zeros((2, 1, 18), np.uint8), np.zeros((3, 1, 36), np.uint8)
    >>> ac4k.gemm_q4_0_q8_1(w, a, 2, 3, 32).shape
    (2, 3)
    """
    if _is_tracing():
        traced: Array = _route("gemm_q4_0_q8_1", (weight_q, activation_q, M, N, K), out)
        return traced
    return _C.gemm_q4_0_q8_1(weight_q, activation_q, M, N, K, out)


def gemm_q4_1_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    *,
    out: Array | None = None,
) -> Array:
    """Product of raw q4_1 weights and q8_1 activations.

    out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],
    activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1
    blocks keep as the sum of their codes is computed from the codes instead, being exact then.

    weight_q: [M, K/32, 20] of uint8; contiguous
    activation_q: [N, K/32, 36] of uint8; contiguous
    Returns [M, N], float32.

    >>> import numpy as np
    >>> w, a = np.zeros((2, 1, 20), np.uint8), np.zeros((3, 1, 36), np.uint8)
    >>> ac4k.gemm_q4_1_q8_1(w, a, 2, 3, 32).shape
    (2, 3)
    """
    if _is_tracing():
        traced: Array = _route("gemm_q4_1_q8_1", (weight_q, activation_q, M, N, K), out)
        return traced
    return _C.gemm_q4_1_q8_1(weight_q, activation_q, M, N, K, out)


def gemm_q5_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    *,
    out: Array | None = None,
) -> Array:
    """Product of raw q5_0 weights and q8_1 activations.

    out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],
    activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1
    blocks keep as the sum of their codes is computed from the codes instead, being exact then.

    weight_q: [M, K/32, 22] of uint8; contiguous
    activation_q: [N, K/32, 36] of uint8; contiguous
    Returns [M, N], float32.

    >>> import numpy as np
    >>> w, a = np.zeros((2, 1, 22), np.uint8), np.zeros((3, 1, 36), np.uint8)
    >>> ac4k.gemm_q5_0_q8_1(w, a, 2, 3, 32).shape
    (2, 3)
    """
    if _is_tracing():
        traced: Array = _route("gemm_q5_0_q8_1", (weight_q, activation_q, M, N, K), out)
        return traced
    return _C.gemm_q5_0_q8_1(weight_q, activation_q, M, N, K, out)


def gemm_q5_1_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    *,
    out: Array | None = None,
) -> Array:
    """Product of raw q5_1 weights and q8_1 activations.

    out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],
    activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1
    blocks keep as the sum of their codes is computed from the codes instead, being exact then.

    weight_q: [M, K/32, 24] of uint8; contiguous
    activation_q: [N, K/32, 36] of uint8; contiguous
    Returns [M, N], float32.

    >>> import numpy as np
    >>> w, a = np.zeros((2, 1, 24), np.uint8), np.zeros((3, 1, 36), np.uint8)
    >>> ac4k.gemm_q5_1_q8_1(w, a, 2, 3, 32).shape
    (2, 3)
    """
    if _is_tracing():
        traced: Array = _route("gemm_q5_1_q8_1", (weight_q, activation_q, M, N, K), out)
        return traced
    return _C.gemm_q5_1_q8_1(weight_q, activation_q, M, N, K, out)


def gemm_q8_0_q8_1(
    weight_q: Array,
    activation_q: Array,
    M: int,
    N: int,
    K: int,
    *,
    out: Array | None = None,
) -> Array:
    """Product of raw q8_0 weights and q8_1 activations.

    out[m, n] = sum over k of W[m, k] A[n, k], with the values of the blocks: weights [M, K],
    activations [N, K]. Products of codes are exact, blocks are summed in float32. What q8_1
    blocks keep as the sum of their codes is computed from the codes instead, being exact then.

    weight_q: [M, K/32, 34] of uint8; contiguous
    activation_q: [N, K/32, 36] of uint8; contiguous
    Returns [M, N], float32.

    >>> import numpy as np
    >>> w, a = np.zeros((2, 1, 34), np.uint8), np.zeros((3, 1, 36), np.uint8)
    >>> ac4k.gemm_q8_0_q8_1(w, a, 2, 3, 32).shape
    (2, 3)
    """
    if _is_tracing():
        traced: Array = _route("gemm_q8_0_q8_1", (weight_q, activation_q, M, N, K), out)
        return traced
    return _C.gemm_q8_0_q8_1(weight_q, activation_q, M, N, K, out)


def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    *,
    out: Array | None = None,
) -> Array:
    """Take off each row's mean, divide by its standard deviation, apply weight and bias.

    out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last dim, var being the
    mean of squares, in float32, rounded once. The variance comes from centred values, so that a
    large mean costs no digits. A row with a NaN or an infinity, or whose sum passes the range
    of float32, is NaN; where only squares do, all numbers are the bias.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    bias: [N] of float32, float16, bfloat16; contiguous
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> x = np.array([[1, 3]], np.float32)
    >>> ac4k.layer_norm(x, bias=np.array([5, 5], np.float32), eps=0.0).tolist()
    [[4.0, 6.0]]
    """
    if _is_tracing():
        traced: Array = _route("layer_norm", (x, weight, bias, eps), out)
        return traced
    return _C.layer_norm(x, weight, bias, eps, out)


def layer_norm_quant(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    *,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """layer_norm with an FP8 or INT8 result and its scales.

    y = layer_norm(x, weight, bias, eps), rounded to x's dtype. Then codes and scales as
    quantize_fp8 and quantize_int8 give them: a scale for each row (per_token), each 128 columns
    of a row (group128), or the one given (per_tensor); scale takes the place of the largest
    number. Results are those of the two ops run one after the other.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    bias: [N] of float32, float16, bfloat16; contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., N], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128), float32.

    >>> import numpy as np
    >>> q, scale = ac4k.layer_norm_quant(np.array([[1, 3]], np.float32), dtype="int8")
    >>> q.tolist()
    [[-127, 127]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "layer_norm_quant", (x, weight, bias, eps, scale, granularity, dtype), out
        )
        return traced
    return _C.layer_norm_quant(x, weight, bias, eps, scale, granularity, dtype, out)


def mrope(
    q: Array,
    positions: Array,
    cos_sin: Array,
    k: Array | None = None,
    *,
    section_t: int,
    section_h: int,
    section_w: int,
    interleaved_sections: bool = False,
    style: Literal["neox", "interleaved"] = "neox",
    out: Any | None = None,
) -> Any:
    """Rotary position embedding with a time, a height and a width position for every token.

    As rope, where pair i takes its cosine and sine from the position of its section: the first
    section_t pairs time, the next section_h height, the last section_w width (Qwen2-VL); or,
    with interleaved_sections, time, height, width in turn, height for i < 3 section_h, width
    for i < 3 section_w, otherwise time (Qwen3-VL). The sections have R/2 pairs together; rows
    is the number of tokens.

    q: [..., H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    positions: [3, rows] of int32, int64; contiguous
    cos_sin: [P, R] of float32; contiguous
    k: [..., G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., H, D], same dtype.
    Returns [..., G, D], same dtype, with k.

    >>> import numpy as np
    >>> q = np.array([[[1, 1, 1, 0, 0, 0]]], np.float32)
    >>> turns = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], np.float32)
    >>> positions = np.array([[0], [1], [0]])
    >>> ac4k.mrope(q, positions, turns, section_t=1, section_h=1, section_w=1).tolist()
    [[[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]]]
    """
    if _is_tracing():
        traced: Any = _route(
            "mrope",
            (
                q,
                positions,
                cos_sin,
                k,
                section_t,
                section_h,
                section_w,
                interleaved_sections,
                style,
            ),
            out,
        )
        return traced
    return _C.mrope(
        q, positions, cos_sin, k, section_t, section_h, section_w, interleaved_sections, style, out
    )


def pack_weight(
    q: Array,
    N: int,
    K: int,
    *,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    out: Array | None = None,
) -> Array:
    """Blocks of a GGUF matrix in the order that `quant_linear` reads; see `pack`.

    q are the blocks of an [N, K] matrix. Tiles of 64 rows, padded with zeros;
    docs/packed_weights.md has the layout.

    q: [N, K/32, 18] (q4_0), [N, K/32, 20] (q4_1), [N, K/32, 22] (q5_0), [N, K/32, 24] (q5_1),
        [N, K/32, 34] (q8_0), [N, K/256, 84] (q2_k), [N, K/256, 110] (q3_k), [N, K/256, 144]
        (q4_k), [N, K/256, 176] (q5_k), [N, K/256, 210] (q6_k), [N, K/32, 18] (iq4_nl), [N,
        K/256, 136] (iq4_xs), [N, K/32, 17] (mxfp4), [N, K/64, 36] (nvfp4) of uint8; contiguous
    Returns [ceil(N/64), ceil(K/64), 2304] (q4_0), [ceil(N/64), ceil(K/64), 2560] (q4_1),
        [ceil(N/64), ceil(K/64), 2816] (q5_0), [ceil(N/64), ceil(K/64), 3072] (q5_1),
        [ceil(N/64), ceil(K/64), 4352] (q8_0), [ceil(N/64), K/256, 5376] (q2_k), [ceil(N/64),
        K/256, 7040] (q3_k), [ceil(N/64), K/256, 9216] (q4_k), [ceil(N/64), K/256, 11264]
        (q5_k), [ceil(N/64), K/256, 13440] (q6_k), [ceil(N/64), ceil(K/64), 2304] (iq4_nl),
        [ceil(N/64), K/256, 8704] (iq4_xs), [ceil(N/64), ceil(K/64), 2176] (mxfp4), [ceil(N/64),
        K/64, 2304] (nvfp4), uint8.

    >>> import numpy as np
    >>> q = np.zeros((128, 2, 18), np.uint8)
    >>> ac4k.pack_weight(q, 128, 64, fmt="q4_0").shape
    (2, 1, 2304)
    """
    if _is_tracing():
        traced: Array = _route("pack_weight", (q, N, K, fmt), out)
        return traced
    return _C.pack_weight(q, N, K, fmt, out)


def qk_norm(
    q: Array,
    k: Array,
    q_weight: Array | None = None,
    k_weight: Array | None = None,
    eps: float = 1e-06,
    *,
    over: Literal["head_dim", "heads"] = "head_dim",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Divide queries and keys by their root mean square, each head or all heads together.

    rms_norm of q and of k in one launch: over the last dim (over="head_dim", weights [D], as
    Qwen3 does), or over the last two (over="heads", weights [H*D] and [G*D], as Wan does),
    whose heads must then be contiguous.

    q: [..., H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    k: [..., G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    q_weight: [D] (head_dim), [P] (heads) of float32, float16, bfloat16; contiguous
    k_weight: [D] (head_dim), [R] (heads) of float32, float16, bfloat16; contiguous
    Returns [..., H, D], same dtype.
    Returns [..., G, D], same dtype.

    >>> import numpy as np
    >>> q = np.array([[[2, -2], [1, 1]]], np.float32)
    >>> [y.tolist() for y in ac4k.qk_norm(q, q[:, :1], eps=0.0)]
    [[[[1.0, -1.0], [1.0, 1.0]]], [[[1.0, -1.0]]]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "qk_norm", (q, k, q_weight, k_weight, eps, over, cast_first), out
        )
        return traced
    return _C.qk_norm(q, k, q_weight, k_weight, eps, over, cast_first, out)


def qk_norm_rope(
    q: Array,
    k: Array,
    q_weight: Array,
    k_weight: Array,
    positions: Array,
    cos_sin: Array,
    eps: float = 1e-06,
    *,
    style: Literal["neox", "interleaved"] = "neox",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """RMS norm of each head of q and k, then rotary position embedding, in one pass.

    rope(rms_norm(q, q_weight, eps), positions, cos_sin), and the same for k: the norm is over
    head_dim, its result is rounded to T before it is rotated. style as in rope, cast_first as
    in rms_norm.

    q: [..., H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    k: [..., G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    q_weight: [D] of float32, float16, bfloat16; contiguous
    k_weight: [D] of float32, float16, bfloat16; contiguous
    positions: [...] of int32, int64; contiguous
    cos_sin: [P, R] of float32; contiguous
    Returns [..., H, D], same dtype.
    Returns [..., G, D], same dtype.

    >>> import numpy as np
    >>> q, ones = np.array([[[2, -2]]], np.float32), np.ones(2, np.float32)
    >>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)
    >>> q, k = ac4k.qk_norm_rope(q, q, ones, ones, np.array([1]), quarter_turns, eps=0.0)
    >>> q.tolist()
    [[[1.0, 1.0]]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "qk_norm_rope",
            (q, k, q_weight, k_weight, positions, cos_sin, eps, style, cast_first),
            out,
        )
        return traced
    return _C.qk_norm_rope(
        q, k, q_weight, k_weight, positions, cos_sin, eps, style, cast_first, out
    )


def qk_norm_rope_3d(
    q: Array,
    k: Array,
    q_weight: Array,
    k_weight: Array,
    grid_sizes: Array,
    table: Array,
    eps: float = 1e-06,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: Literal["exact", "fast"] = "exact",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """RMS norm of q and k over all heads, then rotary position embedding of video tokens.

    rope_3d of rms_norm(q, q_weight, eps), and the same for k: the norm is over the H*D numbers
    of a token, which lie in a row, and is rounded to T before it is rotated; q_weight and
    k_weight have one number for each. Tokens past the grid are normalised only. cast_first as
    in rms_norm (Wan's norm), the rest as in rope_3d.

    q: [B, L, H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    k: [B, L, G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    q_weight: [M] of float32, float16, bfloat16; contiguous
    k_weight: [N] of float32, float16, bfloat16; contiguous
    grid_sizes: [B, 3] of int32, int64; contiguous
    table: [P, D/2, 2] of float64, float32; contiguous
    Returns [B, L, H, D], same dtype.
    Returns [B, L, G, D], same dtype.

    >>> import numpy as np
    >>> q, ones = np.full((1, 2, 1, 2), 3, np.float32), np.ones(2, np.float32)
    >>> quarter_turns = np.array([[[1, 0]], [[0, 1]]], np.float64)
    >>> q, k = ac4k.qk_norm_rope_3d(q, q, ones, ones, np.array([[2, 1, 1]]), quarter_turns, eps=0.0)
    >>> q.tolist()
    [[[[1.0, 1.0]], [[-1.0, 1.0]]]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "qk_norm_rope_3d",
            (
                q,
                k,
                q_weight,
                k_weight,
                grid_sizes,
                table,
                eps,
                height_pairs,
                width_pairs,
                precision,
                cast_first,
            ),
            out,
        )
        return traced
    return _C.qk_norm_rope_3d(
        q,
        k,
        q_weight,
        k_weight,
        grid_sizes,
        table,
        eps,
        height_pairs,
        width_pairs,
        precision,
        cast_first,
        out,
    )


def quant_linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    N: int,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    config: int = 0,
    out: Array | None = None,
) -> Array:
    """Linear layer with packed block-quantised weights; see `linear`.

    out = x W^T + bias with the values W [N, K] of the blocks that `pack_weight` was given.
    Activations are not quantised: as exact as the product of 16-bit numbers with sums in
    float32, rounded once; a GPU may round W to the type of x, so that with float16 it has to
    lie within its range. config chooses a kernel as `quant_linear_configs` numbers them; 0
    leaves it to the library.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [ceil(N/64), ceil(K/64), 2304] (q4_0), [ceil(N/64), ceil(K/64), 2560] (q4_1),
        [ceil(N/64), ceil(K/64), 2816] (q5_0), [ceil(N/64), ceil(K/64), 3072] (q5_1),
        [ceil(N/64), ceil(K/64), 4352] (q8_0), [ceil(N/64), K/256, 5376] (q2_k), [ceil(N/64),
        K/256, 7040] (q3_k), [ceil(N/64), K/256, 9216] (q4_k), [ceil(N/64), K/256, 11264]
        (q5_k), [ceil(N/64), K/256, 13440] (q6_k), [ceil(N/64), ceil(K/64), 2304] (iq4_nl),
        [ceil(N/64), K/256, 8704] (iq4_xs), [ceil(N/64), ceil(K/64), 2176] (mxfp4), [ceil(N/64),
        K/64, 2304] (nvfp4) of uint8; contiguous
    bias: [N] of float32, float16, bfloat16; contiguous
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> q = np.zeros((2, 1, 18), np.uint8)
    >>> q[..., :2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)
    >>> w = ac4k.pack_weight(q, 2, 32, fmt="q4_0")  # all values 0.5 * (0 - 8)
    >>> ac4k.quant_linear(np.ones((1, 32), np.float32), w, N=2, fmt="q4_0").tolist()
    [[-128.0, -128.0]]
    """
    if _is_tracing():
        traced: Array = _route("quant_linear", (x, weight, bias, N, fmt, config), out)
        return traced
    return _C.quant_linear(x, weight, bias, N, fmt, config, out)


def quantize(
    x: Array,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q8_1",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    *,
    out: Array | None = None,
) -> Array:
    """Quantise rows to GGUF blocks of a format: the bytes of a GGUF file.

    The rules of the format without an importance matrix (docs/gguf_formats.md) in float32, each
    operation rounded to nearest even; the bytes are the same on every CPU and GPU. NaN counts
    as 0, an infinity as the largest float32 of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 18] (q4_0), [..., K/32, 20] (q4_1), [..., K/32, 22] (q5_0), [..., K/32,
        24] (q5_1), [..., K/32, 34] (q8_0), [..., K/32, 36] (q8_1), [..., K/256, 84] (q2_k),
        [..., K/256, 110] (q3_k), [..., K/256, 144] (q4_k), [..., K/256, 176] (q5_k), [...,
        K/256, 210] (q6_k), [..., K/32, 18] (iq4_nl), [..., K/256, 136] (iq4_xs), [..., K/32,
        17] (mxfp4), [..., K/64, 36] (nvfp4), uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize(np.full((2, 256), 0.5, np.float32), "q6_k")
    >>> q.shape, float(ac4k.dequantize(q, "q6_k")[0, 0])
    ((2, 1, 210), 0.5)
    """
    if _is_tracing():
        traced: Array = _route("quantize", (x, fmt), out)
        return traced
    return _C.quantize(x, fmt, out)


def quantize_fp8(
    x: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    dtype: Any = "float8_e4m3fn",
    scale: Array | None = None,
    pow2_scale: bool = False,
    *,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Quantise to FP8 with a scale for the tensor, each row, column, group or block.

    scale = max(max |x| / qmax, 2^-120), qmax 448 (e4m3) or 57344 (e5m2), rounded up to a power
    of two with pow2_scale; or the scale given. q = x * (1 / scale) in float32, rounded to
    nearest even, saturating; x ~ q * scale. NaN stays NaN and does not count in the maximum; an
    infinity counts as the largest float32.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    dtype: float8_e4m3fn, float8_e5m2
    scale: [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128) of float32; contiguous
    Returns [..., N], dtype.
    Returns [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128), float32.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_fp8(np.array([[1, -2, 448]], np.float32))
    >>> q.astype(np.float32).tolist(), scale.tolist()
    ([[1.0, -2.0, 448.0]], [[1.0]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "quantize_fp8", (x, granularity, dtype, scale, pow2_scale), out
        )
        return traced
    return _C.quantize_fp8(x, granularity, dtype, scale, pow2_scale, out)


def quantize_int8(
    x: Array,
    granularity: Literal[
        "per_tensor", "per_token", "per_channel", "group128", "block128"
    ] = "per_token",
    symmetric: bool = True,
    scale: Array | None = None,
    *,
    out: Any | None = None,
) -> Any:
    """Quantise to int8 with a scale, and a zero point unless symmetric.

    Symmetric: scale = max(max |x| / 127, 2^-120), or the scale given; q = round(x * (1 /
    scale)). Otherwise lo = min(x, 0), hi = max(x, 0), scale = max(hi / 255 - lo / 255, 2^-120),
    zero = round(-128 - lo * (1 / scale)), q = round(x * (1 / scale)) + zero; x ~ (q - zero) *
    scale. float32, to nearest even, saturating to [-128, 127]; NaN gives the zero point and
    does not count in the extremes, infinities count as the largest float32.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    scale: [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128) of float32; contiguous
    Returns [..., N], int8.
    Returns [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128), float32.
    Returns [1] (per_tensor), [..., 1] (per_token), [N] (per_channel), [..., ceil(N/128)]
        (group128), [ceil(rows/128), ceil(N/128)] (block128), int32, without symmetric.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_int8(np.array([[1, -2, 127]], np.float32))
    >>> q.tolist(), scale.tolist()
    ([[1, -2, 127]], [[1.0]])
    """
    if _is_tracing():
        traced: Any = _route("quantize_int8", (x, granularity, symmetric, scale), out)
        return traced
    return _C.quantize_int8(x, granularity, symmetric, scale, out)


def quantize_mxfp4(x: Array, *, out: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
    """Quantise to MXFP4: e2m1 codes, two in a byte, an e8m0 scale for 32 of them.

    For each block of 32 s = 2^(floor(log2(max |x|)) - e), e the exponent of the format's
    largest number (2, 8 or 15 for e2m1, e4m3, e5m2), at least 2^-127 and that for zeros; the
    scale is s as e8m0 (its exponent plus 127). q = x / s to nearest even, saturating; x ~ q *
    s. NaN does not count in the maximum, infinities count as the largest float32; NaN stays NaN
    in FP8 and gives 0 in FP4.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., N/2], uint8.
    Returns [..., N/32], uint8.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_mxfp4(np.full((1, 32), 6, np.float32))
    >>> q[0, :2].tolist(), scale.tolist()
    ([119, 119], [[127]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route("quantize_mxfp4", (x,), out)
        return traced
    return _C.quantize_mxfp4(x, out)


def quantize_mxfp8(
    x: Array,
    dtype: Any = "float8_e4m3fn",
    *,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Quantise to MXFP8: e4m3 or e5m2 codes, an e8m0 scale for 32 of them.

    For each block of 32 s = 2^(floor(log2(max |x|)) - e), e the exponent of the format's
    largest number (2, 8 or 15 for e2m1, e4m3, e5m2), at least 2^-127 and that for zeros; the
    scale is s as e8m0 (its exponent plus 127). q = x / s to nearest even, saturating; x ~ q *
    s. NaN does not count in the maximum, infinities count as the largest float32; NaN stays NaN
    in FP8 and gives 0 in FP4.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    dtype: float8_e4m3fn, float8_e5m2
    Returns [..., N], dtype.
    Returns [..., N/32], uint8.

    >>> import numpy as np
    >>> q, scale = ac4k.quantize_mxfp8(np.full((1, 32), 3, np.float32))
    >>> float(q[0, 0]), scale.tolist()
    (384.0, [[120]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route("quantize_mxfp8", (x, dtype), out)
        return traced
    return _C.quantize_mxfp8(x, dtype, out)


def quantize_nvfp4(
    x: Array,
    global_scale: Array | None = None,
    layout: Literal["plain", "tiled"] = "plain",
    *,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Quantise to NVFP4: e2m1 codes, an e4m3 scale for 16 of them, a global scale.

    g = 448 * 6 / max |x| (1 for zeros, at most the largest float32), or the global scale given;
    for each block of 16 s = e4m3(g * (max |x| / 6)) and q = e2m1(x * (g / s)), 0 where s is 0;
    x ~ q * s / g. float32, to nearest even, saturating; NaN gives 0 and does not count in the
    maxima, infinities count as the largest float32. Byte i holds codes 2i (low half) and 2i +
    1. Tiled: the scale of row r and block k lies in tile (r / 128, k / 4) of 512 bytes at r %
    32 * 16 + r / 32 % 4 * 4 + k % 4, the rest is 0.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    global_scale: [1] of float32; contiguous
    Returns [..., N/2], uint8.
    Returns [..., N/16] (plain), [ceil(rows/128)*128, ceil(N/64)*4] (tiled), float8_e4m3fn.
    Returns [1], float32.

    >>> import numpy as np
    >>> x = np.linspace(0, 6, 16, dtype=np.float32)[None]
    >>> q, scale, g = ac4k.quantize_nvfp4(x)
    >>> q.shape, scale.astype(np.float32).tolist(), g.tolist()
    ((1, 8), [[448.0]], [448.0])
    """
    if _is_tracing():
        traced: tuple[Array, Array, Array] = _route(
            "quantize_nvfp4", (x, global_scale, layout), out
        )
        return traced
    return _C.quantize_nvfp4(x, global_scale, layout, out)


def quantize_q4_0(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q4_0 blocks of 32: 18 bytes each, as in GGUF.

    With m the number of largest magnitude (the first of several): d = m / -8, q = min(15,
    trunc(x * (1 / d) + 8.5)). Codes follow from d before it is rounded to float16. NaN counts
    as 0, an infinity as the largest float32 of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 18], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q4_0(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 18), [0, 60, 0, 0])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q4_0", (x,), out)
        return traced
    return _C.quantize_q4_0(x, out)


def quantize_q4_1(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q4_1 blocks of 32: 20 bytes each, as in GGUF.

    m = min x, d = (max x - m) / 15, q = min(15, trunc((x - m) * (1 / d) + 0.5)). Codes follow
    from d before it is rounded to float16. NaN counts as 0, an infinity as the largest float32
    of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 20], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q4_1(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 20), [0, 0, 0, 200])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q4_1", (x,), out)
        return traced
    return _C.quantize_q4_1(x, out)


def quantize_q5_0(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q5_0 blocks of 32: 22 bytes each, as in GGUF.

    With m the number of largest magnitude (the first of several): d = m / -16, q = min(31,
    trunc(x * (1 / d) + 16.5)). Codes follow from d before it is rounded to float16. NaN counts
    as 0, an infinity as the largest float32 of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 22], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q5_0(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 22), [0, 56, 0, 0])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q5_0", (x,), out)
        return traced
    return _C.quantize_q5_0(x, out)


def quantize_q5_1(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q5_1 blocks of 32: 24 bytes each, as in GGUF.

    m = min x, d = (max x - m) / 31, q = min(31, trunc((x - m) * (1 / d) + 0.5)). Codes follow
    from d before it is rounded to float16. NaN counts as 0, an infinity as the largest float32
    of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 24], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q5_1(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 24), [0, 0, 0, 200])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q5_1", (x,), out)
        return traced
    return _C.quantize_q5_1(x, out)


def quantize_q8_0(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q8_0 blocks of 32: 34 bytes each, as in GGUF.

    d = max |x| / 127, q = x * (1 / d) to the nearest, halves away from 0. Codes follow from d
    before it is rounded to float16. NaN counts as 0, an infinity as the largest float32 of its
    sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 34], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q8_0(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 34), [8, 44, 129, 129])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q8_0", (x,), out)
        return traced
    return _C.quantize_q8_0(x, out)


def quantize_q8_1(x: Array, *, out: Array | None = None) -> Array:
    """Quantise rows to q8_1 blocks of 32: 36 bytes each, as in GGUF.

    d = max |x| / 127, q = x * (1 / d) to the nearest, halves away from 0; s = d times the sum
    of q. Codes follow from d before it is rounded to float16. NaN counts as 0, an infinity as
    the largest float32 of its sign.

    x: [..., K] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., K/32, 36], uint8.

    >>> import numpy as np
    >>> q = ac4k.quantize_q8_1(np.full((1, 32), -8, np.float32))
    >>> q.shape, q[0, 0, :4].tolist()
    ((1, 1, 36), [8, 44, 0, 220])
    """
    if _is_tracing():
        traced: Array = _route("quantize_q8_1", (x,), out)
        return traced
    return _C.quantize_q8_1(x, out)


def relu2(x: Array, *, out: Array | None = None) -> Array:
    """The square of ReLU.

    out = max(x, 0)^2, in float32 and rounded once. +inf gives +inf, -inf gives 0, NaN stays
    NaN.

    x: [..., N] of float32, float16, bfloat16; any strides
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> ac4k.relu2(np.array([-2, 0, 3], np.float32)).tolist()
    [0.0, 0.0, 9.0]
    """
    if _is_tracing():
        traced: Array = _route("relu2", (x,), out)
        return traced
    return _C.relu2(x, out)


def relu2_quant(
    x: Array,
    scale: Array | None = None,
    *,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """relu2 with a quantised result: codes and their scales.

    y = relu2(x). y is computed in float32 and rounded to x's dtype; then scale = max(max |y| /
    qmax, 2^-120) over a row or 128 columns of it, qmax 448 (e4m3), 57344 (e5m2), 127 (int8), or
    the scale given (per_tensor needs one); q = y * (1 / scale), nearest even, saturating: the
    codes that the activation and quantize_fp8 or quantize_int8 give one after the other. NaN
    stays NaN (0 in int8) and does not count for the scale; infinities count as the largest
    float32.

    x: [..., D] of float32, float16, bfloat16; any strides, the last dim contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., D], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128), float32.

    >>> import numpy as np
    >>> q, scale = ac4k.relu2_quant(np.array([[-3, 1, 2]], np.float32), dtype="int8")
    >>> q.tolist()
    [[0, 32, 127]]
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route("relu2_quant", (x, scale, granularity, dtype), out)
        return traced
    return _C.relu2_quant(x, scale, granularity, dtype, out)


def residual_gate(x: Array, y: Array, gate: Array, *, out: Array | None = None) -> Array:
    """Add y, gated, to the residual x; one gate for all S tokens.

    out = x + gate * y, fused in float32 and rounded once. gate has the shape of x without the
    tokens: [B, N] for x [B, S, N], [N] for [S, N]. A gate [B, 1, N] is passed as gate[:, 0],
    one gate [N] for a batch as gate.expand(B, N): any strides will do. A gate for each token is
    element_wise_mul_add(gate, y, x).

    x: [..., S, N] of float32, float16, bfloat16; any strides
    y: [..., S, N] of float32, float16, bfloat16; any strides
    gate: [..., N] of float32, float16, bfloat16; any strides
    Returns [..., S, N], same dtype.

    >>> import numpy as np
    >>> x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    >>> ac4k.residual_gate(x, y, np.array([0, 1, -1], np.float32)).tolist()
    [[1.0, 3.0, -1.0], [1.0, 3.0, -1.0]]
    """
    if _is_tracing():
        traced: Array = _route("residual_gate", (x, y, gate), out)
        return traced
    return _C.residual_gate(x, y, gate, out)


def rms_norm(
    x: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    *,
    cast_first: bool = False,
    out: Array | None = None,
) -> Array:
    """Divide each row by its root mean square and multiply it with a weight.

    out = x / sqrt(mean(x^2) + eps) * weight over the last dim, in float32, rounded once.
    cast_first rounds to x's dtype before the weight comes in, as Transformers' Qwen3 and Llama
    layers do. A row with a NaN is NaN; one with an infinity is NaN there and 0 elsewhere; one
    whose squares pass the range of float32 is 0.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> x = np.array([[2, -2]], np.float32)
    >>> ac4k.rms_norm(x, np.array([1, 3], np.float32), eps=0.0).tolist()
    [[1.0, -3.0]]
    """
    if _is_tracing():
        traced: Array = _route("rms_norm", (x, weight, eps, cast_first), out)
        return traced
    return _C.rms_norm(x, weight, eps, cast_first, out)


def rms_norm_quant(
    x: Array,
    weight: Array | None = None,
    eps: float = 1e-06,
    *,
    scale: Array | None = None,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """rms_norm with an FP8 or INT8 result and its scales.

    y = rms_norm(x, weight, eps, cast_first=cast_first), rounded to x's dtype. Then codes and
    scales as quantize_fp8 and quantize_int8 give them: a scale for each row (per_token), each
    128 columns of a row (group128), or the one given (per_tensor); scale takes the place of the
    largest number. Results are those of the two ops run one after the other.

    x: [..., N] of float32, float16, bfloat16; any strides, the last dim contiguous
    weight: [N] of float32, float16, bfloat16; contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., N], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(N/128)] (group128), float32.

    >>> import numpy as np
    >>> x = np.array([[2, -2, 0, 0]], np.float32)
    >>> q, scale = ac4k.rms_norm_quant(x, dtype="int8")
    >>> q.tolist(), (q * scale).round(3).tolist()
    ([[127, -127, 0, 0]], [[1.4140000343322754, -1.4140000343322754, 0.0, 0.0]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "rms_norm_quant", (x, weight, eps, scale, granularity, dtype, cast_first), out
        )
        return traced
    return _C.rms_norm_quant(x, weight, eps, scale, granularity, dtype, cast_first, out)


def rope(
    q: Array,
    positions: Array,
    cos_sin: Array,
    k: Array | None = None,
    *,
    style: Literal["neox", "interleaved"] = "neox",
    out: Any | None = None,
) -> Any:
    """Rotary position embedding of q, or of q and k, in one pass.

    With cos, sin = cos_sin[position][:R/2], cos_sin[position][R/2:] (ac4k.rope_table), pairs
    (a, b) become (a cos - b sin, b cos + a sin). Pairs are elements i and i + R/2 of a head
    (neox) or 2i and 2i + 1 (interleaved), i < R/2; elements from R on pass through. float32,
    each operation rounded as PyTorch's are, then rounded to T. A position outside [0, P) gives
    NaN in the rotated elements.

    q: [..., H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    positions: [...] of int32, int64; contiguous
    cos_sin: [P, R] of float32; contiguous
    k: [..., G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [..., H, D], same dtype.
    Returns [..., G, D], same dtype, with k.

    >>> import numpy as np
    >>> q = np.array([[[1, 0]]], np.float32)
    >>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)
    >>> ac4k.rope(q, np.array([1]), quarter_turns).tolist()
    [[[0.0, 1.0]]]
    """
    if _is_tracing():
        traced: Any = _route("rope", (q, positions, cos_sin, k, style), out)
        return traced
    return _C.rope(q, positions, cos_sin, k, style, out)


def rope_3d(
    q: Array,
    grid_sizes: Array,
    table: Array,
    k: Array | None = None,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: Literal["exact", "fast"] = "exact",
    out: Any | None = None,
) -> Any:
    """Rotary position embedding of video tokens, as Wan 2.1 has it.

    grid_sizes[b] = frames, rows, columns; token ((f * rows + r) * columns + c) of sample b has
    the positions f, r, c. Of the D/2 pairs (2i, 2i + 1) the last width_pairs turn by c, the
    height_pairs before them by r, the first by f; -1 is a third, rounded down. (a, b) becomes
    (a cos - b sin, b cos + a sin) with cos, sin = table[position][i] (ac4k.rope_3d_table).
    Tokens past the grid pass through; a grid of more than L tokens is cut; a position from P on
    gives NaN. precision="exact" computes in float64, as PyTorch multiplies complex128, rounds
    to float32 and then to T; "fast" computes in float32.

    q: [B, L, H, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    grid_sizes: [B, 3] of int32, int64; contiguous
    table: [P, D/2, 2] of float64, float32; contiguous
    k: [B, L, G, D] of float32, float16, bfloat16; any strides, the last dim contiguous
    Returns [B, L, H, D], same dtype.
    Returns [B, L, G, D], same dtype, with k.

    >>> import numpy as np
    >>> q = np.ones((1, 2, 1, 2), np.float32)
    >>> quarter_turns = np.array([[[1, 0]], [[0, 1]]], np.float64)
    >>> ac4k.rope_3d(q, np.array([[2, 1, 1]]), quarter_turns).tolist()
    [[[[1.0, 1.0]], [[-1.0, 1.0]]]]
    """
    if _is_tracing():
        traced: Any = _route(
            "rope_3d", (q, grid_sizes, table, k, height_pairs, width_pairs, precision), out
        )
        return traced
    return _C.rope_3d(q, grid_sizes, table, k, height_pairs, width_pairs, precision, out)


def rope_store_kvcache(
    q: Array,
    k: Array,
    v: Array,
    positions: Array,
    cos_sin: Array,
    k_cache: Array,
    v_cache: Array,
    slot_mapping: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    *,
    style: Literal["neox", "interleaved"] = "neox",
    layout: Literal["NHD", "HND"] = "NHD",
    out: Array | None = None,
) -> Array:
    """Rotary position embedding of q and k, and k and v stored into a paged cache.

    q is rotated as by rope and returned; k is rotated as by rope, rounded to T and stored, with
    v, as by store_kvcache, all in one pass. k and v stay as they are. Tokens without a slot (a
    negative one, one past the cache, none in slot_mapping) are not stored.

    q: [N, H, D] of bfloat16, float16, float32; any strides, the last dim contiguous
    k: [N, G, D] of bfloat16, float16, float32; any strides, the last dim contiguous
    v: [N, G, D] of bfloat16, float16, float32; any strides, the last dim contiguous
    positions: [N] of int32, int64; contiguous
    cos_sin: [P, R] of float32; contiguous
    k_cache: [B, S, G, D] (NHD), [B, G, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous; written into
    v_cache: [B, S, G, D] (NHD), [B, G, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous; written into
    slot_mapping: [n] of int64, int32; contiguous
    k_scale: [M] of float32; contiguous
    v_scale: [W] of float32; contiguous
    Returns [N, H, D], same dtype.

    >>> import numpy as np
    >>> q = np.array([[[1, 0]]], np.float32)
    >>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)
    >>> k_cache, v_cache = caches = np.zeros((2, 1, 2, 1, 2), np.float32)
    >>> one = np.array([1])
    >>> ac4k.rope_store_kvcache(q, q, q, one, quarter_turns, *caches, one).tolist()
    [[[0.0, 1.0]]]
    >>> k_cache.tolist()
    [[[[0.0, 0.0]], [[0.0, 1.0]]]]
    """
    if _is_tracing():
        traced: Array = _route(
            "rope_store_kvcache",
            (
                q,
                k,
                v,
                positions,
                cos_sin,
                k_cache,
                v_cache,
                slot_mapping,
                k_scale,
                v_scale,
                style,
                layout,
            ),
            out,
        )
        return traced
    return _C.rope_store_kvcache(
        q,
        k,
        v,
        positions,
        cos_sin,
        k_cache,
        v_cache,
        slot_mapping,
        k_scale,
        v_scale,
        style,
        layout,
        out,
    )


def silu_and_mul(x: Array, *, out: Array | None = None) -> Array:
    """SiLU of the first half of the last dim, times the second half.

    a, b = x[..., :D], x[..., D:]; out = a / (1 + exp(-a)) * b, in float32 and rounded once. a =
    +inf gives inf * b; a = -inf and NaN give NaN, as in PyTorch.

    x: [..., D*2] of float32, float16, bfloat16; any strides
    Returns [..., D], same dtype.

    >>> import numpy as np
    >>> x = np.array([[0, 1, -1, 3, 2, 4]], np.float32)
    >>> ac4k.silu_and_mul(x).round(4).tolist()
    [[0.0, 1.4621000289916992, -1.0757999420166016]]
    """
    if _is_tracing():
        traced: Array = _route("silu_and_mul", (x,), out)
        return traced
    return _C.silu_and_mul(x, out)


def silu_and_mul_quant(
    x: Array,
    scale: Array | None = None,
    *,
    granularity: Literal["per_token", "per_tensor", "group128"] = "per_token",
    dtype: Any = "float8_e4m3fn",
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """silu_and_mul with a quantised result: codes and their scales.

    y = silu_and_mul(x). y is computed in float32 and rounded to x's dtype; then scale = max(max
    |y| / qmax, 2^-120) over a row or 128 columns of it, qmax 448 (e4m3), 57344 (e5m2), 127
    (int8), or the scale given (per_tensor needs one); q = y * (1 / scale), nearest even,
    saturating: the codes that the activation and quantize_fp8 or quantize_int8 give one after
    the other. NaN stays NaN (0 in int8) and does not count for the scale; infinities count as
    the largest float32.

    x: [..., D*2] of float32, float16, bfloat16; any strides, the last dim contiguous
    scale: [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128) of float32;
        contiguous
    dtype: float8_e4m3fn, float8_e5m2, int8
    Returns [..., D], dtype.
    Returns [..., 1] (per_token), [1] (per_tensor), [..., ceil(D/128)] (group128), float32.

    >>> import numpy as np
    >>> x = np.array([[1, 2, 1, 1]], np.float32)
    >>> q, scale = ac4k.silu_and_mul_quant(x, dtype="int8")
    >>> q.tolist(), scale.round(5).tolist()
    ([[53, 127]], [[0.013869999907910824]])
    """
    if _is_tracing():
        traced: tuple[Array, Array] = _route(
            "silu_and_mul_quant", (x, scale, granularity, dtype), out
        )
        return traced
    return _C.silu_and_mul_quant(x, scale, granularity, dtype, out)


def store_kvcache(
    key: Array,
    value: Array,
    k_cache: Array,
    v_cache: Array,
    slot_mapping: Array,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    *,
    layout: Literal["NHD", "HND"] = "NHD",
) -> None:
    """Write keys and values of tokens into the slots of a paged cache.

    Token i goes to place s % S of block s // S, s = slot_mapping[i]. Tokens with a negative
    slot, or one past the cache, are skipped, and so are keys past the end of slot_mapping. The
    slots of a call must differ from each other. The cache has the dtype of the keys, or is fp8
    and holds encode(x * (1 / scale)), nearest even and saturating; scale is one number or one
    for each head, 1 when left out.

    key: [K, H, D] of bfloat16, float16, float32; any strides, the last dim contiguous
    value: [K, H, D] of bfloat16, float16, float32; any strides, the last dim contiguous
    k_cache: [B, S, H, D] (NHD), [B, H, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous; written into
    v_cache: [B, S, H, D] (NHD), [B, H, S, D] (HND) of bfloat16, float16, float32,
        float8_e4m3fn, float8_e5m2; any strides, the last dim contiguous; written into
    slot_mapping: [n] of int64, int32; contiguous
    k_scale: [P] of float32; contiguous
    v_scale: [R] of float32; contiguous

    >>> import numpy as np
    >>> key = np.arange(1, 5, dtype=np.float32).reshape(2, 1, 2)
    >>> k_cache, v_cache = np.zeros((2, 2, 2, 1, 2), np.float32)
    >>> ac4k.store_kvcache(key, -key, k_cache, v_cache, np.array([3, -1]))
    >>> k_cache.reshape(4, 2).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    """
    if _is_tracing():
        _route(
            "store_kvcache",
            (key, value, k_cache, v_cache, slot_mapping, k_scale, v_scale, layout),
            None,
        )
    else:
        _C.store_kvcache(key, value, k_cache, v_cache, slot_mapping, k_scale, v_scale, layout)


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


def unpack_weight(
    packed: Array,
    N: int,
    K: int,
    *,
    fmt: Literal[
        "q4_0",
        "q4_1",
        "q5_0",
        "q5_1",
        "q8_0",
        "q2_k",
        "q3_k",
        "q4_k",
        "q5_k",
        "q6_k",
        "iq4_nl",
        "iq4_xs",
        "mxfp4",
        "nvfp4",
    ],
    out: Array | None = None,
) -> Array:
    """The GGUF blocks that `pack_weight` was given, bit by bit.

    The inverse of `pack_weight`; padding is left out.

    packed: [ceil(N/64), ceil(K/64), 2304] (q4_0), [ceil(N/64), ceil(K/64), 2560] (q4_1),
        [ceil(N/64), ceil(K/64), 2816] (q5_0), [ceil(N/64), ceil(K/64), 3072] (q5_1),
        [ceil(N/64), ceil(K/64), 4352] (q8_0), [ceil(N/64), K/256, 5376] (q2_k), [ceil(N/64),
        K/256, 7040] (q3_k), [ceil(N/64), K/256, 9216] (q4_k), [ceil(N/64), K/256, 11264]
        (q5_k), [ceil(N/64), K/256, 13440] (q6_k), [ceil(N/64), ceil(K/64), 2304] (iq4_nl),
        [ceil(N/64), K/256, 8704] (iq4_xs), [ceil(N/64), ceil(K/64), 2176] (mxfp4), [ceil(N/64),
        K/64, 2304] (nvfp4) of uint8; contiguous
    Returns [N, K/32, 18] (q4_0), [N, K/32, 20] (q4_1), [N, K/32, 22] (q5_0), [N, K/32, 24]
        (q5_1), [N, K/32, 34] (q8_0), [N, K/256, 84] (q2_k), [N, K/256, 110] (q3_k), [N, K/256,
        144] (q4_k), [N, K/256, 176] (q5_k), [N, K/256, 210] (q6_k), [N, K/32, 18] (iq4_nl), [N,
        K/256, 136] (iq4_xs), [N, K/32, 17] (mxfp4), [N, K/64, 36] (nvfp4), uint8.

    >>> import numpy as np
    >>> q = np.arange(72, dtype=np.uint8).reshape(2, 2, 18)
    >>> packed = ac4k.pack_weight(q, 2, 64, fmt="q4_0")
    >>> bool((ac4k.unpack_weight(packed, 2, 64, fmt="q4_0") == q).all())
    True
    """
    if _is_tracing():
        traced: Array = _route("unpack_weight", (packed, N, K, fmt), out)
        return traced
    return _C.unpack_weight(packed, N, K, fmt, out)


def w4a16_gemm(
    x: Array,
    packed: Array,
    bias: Array | None = None,
    alpha: float = 1,
    residual: Array | None = None,
    *,
    N: int,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    activation: Literal["none", "silu", "gelu", "gelu_tanh"] = "none",
    config: int = 0,
    out: Array | None = None,
) -> Array:
    """Linear layer with packed 4-bit weights and 16-bit activations; see `w4a16_linear`.

    out = activation(alpha * x W^T + bias) + residual with the weights W [N, K] that
    `w4a16_pack_weight` was given, whose scales have x's dtype. Sums in float32, rounded once.
    config chooses a kernel as `W4A16Runner.configs` numbers them; 0 leaves it to the library.
    `out` may be `residual`.

    x: [..., K] of float16, bfloat16; any strides, the last dim contiguous
    packed: [ceil(N/64), ceil(K/64), 2304] (g32), [ceil(N/64), ceil(K/64), 2176] (g64),
        [ceil(N/64), ceil(K/128), 4224] (g128), [ceil(N/64), ceil(K/64), 2560] (g32z),
        [ceil(N/64), ceil(K/64), 2304] (g64z), [ceil(N/64), ceil(K/128), 4352] (g128z) of uint8;
        contiguous
    bias: [N] of float16, bfloat16; contiguous
    residual: [..., N] of float16, bfloat16; contiguous
    Returns [..., N], same dtype.

    >>> import numpy as np
    >>> q, scales = np.full((2, 128), 9, np.uint8), np.full((2, 1), 0.5, np.float16)
    >>> w = ac4k.w4a16_pack_weight(q, scales)  # all values 0.5 * (9 - 8)
    >>> ac4k.w4a16_gemm(np.ones((1, 128), np.float16), w, N=2).tolist()
    [[64.0, 64.0]]
    """
    if _is_tracing():
        traced: Array = _route(
            "w4a16_gemm", (x, packed, bias, alpha, residual, N, layout, activation, config), out
        )
        return traced
    return _C.w4a16_gemm(x, packed, bias, alpha, residual, N, layout, activation, config, out)


def w4a16_pack_weight(
    q: Array,
    scales: Array,
    zeros: Array | None = None,
    *,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    out: Array | None = None,
) -> Array:
    """4-bit codes and scales in the order that `w4a16_gemm` reads; see `w4a16_pack`.

    The low four bits of q are the codes of an [N, K] matrix in G groups of K / G columns.
    weight = scale * (q - 8), or scale * (q - zero) in a layout with zero points. Tiles of 64
    rows, padded with zeros; docs/packed_weights.md has the layout.

    q: [N, K] of uint8; contiguous
    scales: [N, G] of float16, bfloat16; contiguous
    zeros: [N, G] of float16, bfloat16; contiguous
    Returns [ceil(N/64), ceil(K/64), 2304] (g32), [ceil(N/64), ceil(K/64), 2176] (g64),
        [ceil(N/64), ceil(K/128), 4224] (g128), [ceil(N/64), ceil(K/64), 2560] (g32z),
        [ceil(N/64), ceil(K/64), 2304] (g64z), [ceil(N/64), ceil(K/128), 4352] (g128z), uint8.

    >>> import numpy as np
    >>> q, scales = np.zeros((128, 256), np.uint8), np.ones((128, 2), np.float16)
    >>> ac4k.w4a16_pack_weight(q, scales, layout="g128").shape
    (2, 2, 4224)
    """
    if _is_tracing():
        traced: Array = _route("w4a16_pack_weight", (q, scales, zeros, layout), out)
        return traced
    return _C.w4a16_pack_weight(q, scales, zeros, layout, out)


def w4a16_unpack_weight(
    packed: Array,
    N: int,
    K: int,
    G: int,
    *,
    layout: Literal["g32", "g64", "g128", "g32z", "g64z", "g128z"] = "g128",
    dtype: Any = "float16",
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """The codes, scales and zero points that `w4a16_pack_weight` was given.

    The inverse of `w4a16_pack_weight`; padding is left out. Zero points are 8 in a layout
    without them. dtype is that of the scales.

    packed: [ceil(N/64), ceil(K/64), 2304] (g32), [ceil(N/64), ceil(K/64), 2176] (g64),
        [ceil(N/64), ceil(K/128), 4224] (g128), [ceil(N/64), ceil(K/64), 2560] (g32z),
        [ceil(N/64), ceil(K/64), 2304] (g64z), [ceil(N/64), ceil(K/128), 4352] (g128z) of uint8;
        contiguous
    dtype: float16, bfloat16
    Returns [N, K], uint8.
    Returns [N, G], dtype.
    Returns [N, G], dtype.

    >>> import numpy as np
    >>> q, scales = np.full((2, 64), 7, np.uint8), np.ones((2, 2), np.float16)
    >>> packed = ac4k.w4a16_pack_weight(q, scales, layout="g32")
    >>> codes, scales, zeros = ac4k.w4a16_unpack_weight(packed, 2, 64, 2, layout="g32")
    >>> bool((codes == q).all()), scales[0].tolist(), zeros[0].tolist()
    (True, [1.0, 1.0], [8.0, 8.0])
    """
    if _is_tracing():
        traced: tuple[Array, Array, Array] = _route(
            "w4a16_unpack_weight", (packed, N, K, G, layout, dtype), out
        )
        return traced
    return _C.w4a16_unpack_weight(packed, N, K, G, layout, dtype, out)
