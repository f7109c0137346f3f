"""The float64 oracle of every op, in plain NumPy, and how far from it a result may be.

Two things cost accuracy: rounding the result to its dtype, and the arithmetic before it, which runs
in float32 (float64 for float64) on numbers of some magnitude. So a result is right when

    |result - reference| <= eps(dtype) * |reference| + tolerance * eps(arithmetic) * magnitude

with the tolerance of the op table and the magnitude that the reference gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _gguf_linear_reference, _quantize_rule
from ._rope_reference import Angles, grid_angles, rotate, section_angles, table_angles

Float64 = NDArray[np.float64]


class Reference(NamedTuple):
    """What an op should give, the magnitude its arithmetic's error is proportional to, and an error
    allowed on top (a step of a quantised code). Integer and FP8 results are exact without one."""

    result: NDArray[Any]
    magnitude: NDArray[Any] | float = 0.0
    absolute: NDArray[Any] | float | None = None


def round_to(dtype: str, values: NDArray[Any]) -> Float64:
    """Float32 numbers to the nearest of a narrower format, ties to even."""
    single = np.asarray(values).astype(np.float32)
    if dtype == "f16":
        single = single.astype(np.float16)
    elif dtype == "bf16":
        bits = single.view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        single = np.where(np.isnan(single), single, rounded.view(np.float32))
    return single.astype(np.float64)


def _dtype_holding(*arrays: Float64) -> str:
    """The narrowest dtype whose numbers these are: references see values and no dtypes, and random
    float32 numbers are never all of a 16-bit format."""
    for dtype in ("bf16", "f16"):
        if all(np.array_equal(round_to(dtype, a), a, equal_nan=True) for a in arrays):
            return dtype
    return "f32"


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gemm(A: Float64, B: Float64) -> Reference:
    # K additions, each off by at most eps/2 of a partial sum, which is at most |A| |B|.
    K = A.shape[1]
    return Reference(A @ B, (np.abs(A) @ np.abs(B)) * max(1.0, K / 2))


def element_wise_mul_add(a: Float64, b: Float64, c: Float64) -> Reference:
    return Reference(a * b + c, np.abs(a * b) + np.abs(c))


def fused_add_gelu(x: Float64, bias: Float64, *, approximate: str = "none") -> Reference:
    y = x + bias
    if approximate == "tanh":
        result = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    else:
        result = 0.5 * y * _erfc(-y / math.sqrt(2))
    # The sum is rounded before GELU, whose slope is at most 1.13.
    return Reference(result, np.abs(x) + np.abs(bias))


def silu_and_mul(x: Float64) -> Reference:
    a, b = np.split(x, 2, axis=-1)
    # Stable on both sides; -inf * 0 is NaN.
    e = np.exp(-np.abs(a))
    result = a * np.where(a < 0, e, 1.0) / (1 + e) * b
    # exp's argument is rounded, which costs |a| eps in the tail; from -87 on exp(a) is denormal and
    # rounded to float32's last place before a and b multiply it.
    tail = np.clip(-a, 0, 128)
    return Reference(result, np.abs(result) * (1 + tail) + 2.0**-126 * tail * np.abs(b))


def gelu_and_mul(x: Float64, *, approximate: str = "none") -> Reference:
    a, b = np.split(x, 2, axis=-1)
    gelu = fused_add_gelu(a, np.zeros_like(a), approximate=approximate).result
    return Reference(gelu * b, np.abs(a * b))


def relu2(x: Float64) -> Reference:
    result = np.maximum(x, 0) ** 2
    return Reference(result, result)


def residual_gate(x: Float64, y: Float64, gate: Float64) -> Reference:
    return element_wise_mul_add(gate[..., None, :], y, x)


def _in_range(values: Float64) -> Float64:
    """Squares and sums leave float32's range where float64 does not notice; no other rounding."""
    single = values.astype(np.float32)
    denormal = np.abs(values) < 2.0**-126
    return np.where(np.isinf(single) | denormal, single, values)


def rms_norm(
    x: Float64, weight: Float64 | None = None, eps: float = 1e-6, *, cast_first: bool = False
) -> Reference:
    N = x.shape[-1]
    w = np.ones(1) if weight is None else weight
    mean = _in_range(np.sum(_in_range(x * x), axis=-1, keepdims=True)) / max(N, 1)
    result = x / np.sqrt(mean + eps) * w
    # A rounding to the dtype before the weight comes in fits into what the last rounding leaves of
    # eps, but for float16's denormals.
    absolute = 2.0**-25 * np.abs(w) if cast_first else None
    # At least 16 partial sums, so N/16 additions of positive numbers, each off by half of eps; the
    # root halves what comes of it: N/64 eps.
    return Reference(result, np.abs(result) * (1 + N / 256), absolute)


def _rotated(
    q: Float64, k: Float64 | None, angles: Angles, style: str, inside: Any = None
) -> tuple[Reference | None, ...]:
    # Two products and a sum, all relative to |a cos| + |b sin|.
    return tuple(
        None if x is None else Reference(*rotate(x, angles, style, inside)) for x in (q, k)
    )


def rope(
    q: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k: Float64 | None = None,
    *,
    style: str = "neox",
) -> References:
    return _rotated(q, k, table_angles(positions, cos_sin), style)


def mrope(
    q: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k: Float64 | None = None,
    *,
    section_t: int,
    section_h: int,
    section_w: int,
    interleaved_sections: bool = False,
    style: str = "neox",
) -> References:
    sections = (section_t, section_h, section_w)
    cos, sin = section_angles(positions, cos_sin, sections, interleaved_sections)
    shape = (*q.shape[:-2], cos.shape[-1])
    return _rotated(q, k, (cos.reshape(shape), sin.reshape(shape)), style)


def rope_3d(
    q: Float64,
    grid_sizes: NDArray[Any],
    table: Float64,
    k: Float64 | None = None,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: str = "exact",
) -> References:
    angles, inside = grid_angles(grid_sizes, table, q.shape[1], height_pairs, width_pairs)
    return _rotated(q, k, angles, "interleaved", inside)


def _quantised_activation(
    y: Float64, scale: Float64 | None, granularity: str, dtype: Any
) -> tuple[Reference, Reference]:
    """Codes of y and their scales. y is rounded to a dtype that cannot be seen here, so both are
    known to an eps of bfloat16; that they are those of the two ops is for tests to show."""
    eps = 2.0**-7
    name = getattr(dtype, "__name__", str(dtype))
    largest, step, smallest = (
        (448.0, 2.0**-4, 2.0**-10)
        if "e4m3" in name
        else (57344.0, 2.0**-3, 2.0**-17)
        if "e5m2" in name
        else (127.0, 0.0, 0.5)
    )
    width = 128 if granularity == "group128" else y.shape[-1]
    groups = 1 if granularity != "group128" else -(-y.shape[-1] // 128)
    shape = (*y.shape[:-1], groups)
    if scale is None:
        magnitude = np.minimum(np.abs(y), np.finfo(np.float32).max)
        parts = [magnitude[..., i * width : (i + 1) * width] for i in range(groups)]
        amax = [np.fmax.reduce(part, axis=-1, initial=0.0) for part in parts]
        found = np.stack(amax, axis=-1) if groups else np.zeros(shape)
        scales = np.maximum(found / largest, 2.0**-120)
    else:
        scales = np.asarray(scale)
    inverse = (1 / scales.astype(np.float32)).astype(np.float64)
    spread = np.repeat(np.broadcast_to(inverse, shape), max(width, 1), axis=-1)
    v = y * spread[..., : y.shape[-1]]
    if "int8" in name:
        codes = np.clip(np.nan_to_num(v, nan=0.0, posinf=127, neginf=-128), -128, 127)
    else:
        codes = np.clip(v, -largest, largest)
    # Half a step of float16's denormals on top.
    rounding = 2.0**-25
    allowed = np.abs(codes) * (step + 2 * eps) + smallest
    allowed += rounding * np.abs(np.nan_to_num(spread[..., : y.shape[-1]]))
    error = 0.0 if scale is not None else eps * scales + rounding / largest
    return Reference(codes, absolute=allowed), Reference(scales, absolute=error)


def silu_and_mul_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
) -> References:
    return _quantised_activation(silu_and_mul(x).result, scale, granularity, dtype)


def gelu_and_mul_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    approximate: str = "none",
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
) -> References:
    y = gelu_and_mul(x, approximate=approximate).result
    return _quantised_activation(y, scale, granularity, dtype)


def relu2_quant(
    x: Float64,
    scale: Float64 | None = None,
    *,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
) -> References:
    return _quantised_activation(relu2(x).result, scale, granularity, dtype)


def fused_add_gelu_quant(
    x: Float64,
    bias: Float64,
    scale: Float64 | None = None,
    *,
    approximate: str = "none",
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
) -> References:
    y = fused_add_gelu(x, bias, approximate=approximate).result
    return _quantised_activation(y, scale, granularity, dtype)


def _slot_places(cache: Float64, slots: Any, layout: str) -> tuple[Any, Any, Any]:
    """Which tokens have a slot in the cache, and the block and place of each of those."""
    size = cache.shape[1 if layout == "NHD" else 2]
    there = np.flatnonzero((slots >= 0) & (slots < cache.shape[0] * size))
    block, place = np.divmod(np.asarray(slots)[there].astype(np.int64), max(size, 1))
    return there, block, place


def store_kvcache(
    key: Float64,
    value: Float64,
    k_cache: Float64,
    v_cache: Float64,
    slot_mapping: Any,
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    layout: str = "NHD",
) -> tuple[Reference, ...]:
    results = []
    for tokens, cache, scale in ((key, k_cache, k_scale), (value, v_cache, v_scale)):
        there, block, place = _slot_places(cache, slot_mapping, layout)
        at = (block, place) if layout == "NHD" else (block, slice(None), place)
        inverse = np.ones(1) if scale is None else 1 / scale.astype(np.float32)
        stored = tokens[there] * inverse.astype(np.float64)[:, None]
        result, allowed = cache.copy(), np.full(cache.shape, 1e-300)
        result[at] = stored
        # The cache's dtype cannot be seen here: half a step of e5m2 is an eighth, e4m3 has the
        # larger denormals and saturates first. Tests of its own know better.
        magnitude = np.abs(stored)
        allowed[at] = magnitude / 8 + 2.0**-10 + np.maximum(magnitude - 448, 0)
        results.append(Reference(result, absolute=allowed))
    return tuple(results)


def gather_kvcache(
    k_cache: Float64,
    v_cache: Float64,
    slots: Any,
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    layout: str = "NHD",
    dtype: str = "bfloat16",
) -> tuple[Reference, ...]:
    results = []
    for cache, scale in ((k_cache, k_scale), (v_cache, v_scale)):
        there, block, place = _slot_places(cache, slots, layout)
        heads = cache.shape[2 if layout == "NHD" else 1]
        result = np.zeros((len(slots), heads, cache.shape[3]))
        rows = cache[block, place] if layout == "NHD" else cache[block, :, place]
        result[there] = rows if scale is None else rows * scale[:, None]
        results.append(Reference(result, np.abs(result)))
    return tuple(results)


def fused_add_rms_norm(
    x: Float64,
    residual: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    cast_first: bool = False,
) -> tuple[Reference, Reference]:
    total = round_to(
        _dtype_holding(x, residual), x.astype(np.float32) + residual.astype(np.float32)
    )
    return rms_norm(total, weight, eps, cast_first=cast_first), Reference(total)


def layer_norm(
    x: Float64, weight: Float64 | None = None, bias: Float64 | None = None, eps: float = 1e-5
) -> Reference:
    N = max(x.shape[-1], 1)
    w = np.ones(1) if weight is None else np.abs(weight)
    mean = _in_range(np.sum(x, axis=-1, keepdims=True)) / N
    centred = _in_range(x - mean)
    variance = _in_range(np.sum(_in_range(centred * centred), axis=-1, keepdims=True)) / N
    result = centred / np.sqrt(variance + eps) * (1 if weight is None else weight)
    if bias is not None:
        result = result + bias
    # Sums of N/16 additions as in rms_norm and 8 of partial sums. The first one gives a pivot that
    # is off from the mean, the second one takes that off again and is itself off by half as many
    # eps of the mean |x - pivot|.
    additions = N / 16 + 8
    off = additions / 2 * 2.0**-23 * np.sum(np.abs(x), axis=-1, keepdims=True) / N
    spread = np.sum(np.abs(centred), axis=-1, keepdims=True) / N + off
    size = np.abs(centred) * (1 + additions / 16) + off + spread * (additions / 8)
    return Reference(
        result, size / np.sqrt(variance + eps) * w + (0 if bias is None else np.abs(bias))
    )


def _quantised(
    dtype: str,
    y: Reference,
    granularity: str,
    code_dtype: Any,
    scale: Float64 | None,
) -> tuple[Reference, Reference]:
    """Codes and scales of numbers that are rounded to a dtype first. They may be off by two steps
    of that dtype (rounded to the other side, with cast_first twice) and by the arithmetic before;
    so may the largest of them, and with it the scale. A code may then be its other neighbour."""
    rounded = round_to(dtype, y.result)
    is_int8 = "int8" in getattr(code_dtype, "__name__", str(code_dtype))
    if is_int8:
        codes, scales = _quantize_rule.quantize_int8(rounded, granularity, True, scale)
    else:
        codes, scales = _quantize_rule.quantize_fp8(rounded, granularity, code_dtype, scale)
    off = 2 * _EPS[dtype] * np.abs(rounded) + 8 * 2.0**-23 * np.abs(y.magnitude)
    off = np.broadcast_to(off, rounded.shape).astype(np.float32)
    regions = _quantize_rule.Regions(rounded.shape, granularity)
    inverse = regions.spread(1 / np.abs(scales.astype(np.float64)))
    numbers = np.abs(rounded) * inverse
    if is_int8:
        largest, step = 127.0, np.ones(rounded.shape)
    else:
        form = _quantize_rule.fp8_format(code_dtype)
        largest = form.largest
        exponent = np.frexp(np.nan_to_num(np.minimum(numbers + off * inverse, largest)))[1] - 1
        step = np.exp2(np.maximum(exponent, form.first_exponent) - float(form.mantissa_bits))
    scale_off = regions.reduce(off, np.maximum).astype(np.float64).reshape(scales.shape) / largest
    shift = numbers * regions.spread(scale_off / np.abs(scales)) if scale is None else 0.0
    allowed = np.nan_to_num(step + off * inverse + shift, nan=1.0, posinf=1e300)
    return (
        Reference(codes, absolute=allowed),
        Reference(scales, absolute=np.nan_to_num(scale_off) if scale is None else None),
    )


def rms_norm_quant(
    x: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
) -> tuple[Reference, ...]:
    y = rms_norm(x, weight, eps, cast_first=cast_first)
    return _quantised(_dtype_holding(x), y, granularity, dtype, scale)


def fused_add_rms_norm_quant(
    x: Float64,
    residual: Float64,
    weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    cast_first: bool = False,
) -> tuple[Reference, ...]:
    y, total = fused_add_rms_norm(x, residual, weight, eps, cast_first=cast_first)
    return (*_quantised(_dtype_holding(x, residual), y, granularity, dtype, scale), total)


def layer_norm_quant(
    x: Float64,
    weight: Float64 | None = None,
    bias: Float64 | None = None,
    eps: float = 1e-5,
    *,
    scale: Float64 | None = None,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
) -> tuple[Reference, ...]:
    y = layer_norm(x, weight, bias, eps)
    return _quantised(_dtype_holding(x), y, granularity, dtype, scale)


def qk_norm(
    q: Float64,
    k: Float64,
    q_weight: Float64 | None = None,
    k_weight: Float64 | None = None,
    eps: float = 1e-6,
    *,
    over: str = "head_dim",
    cast_first: bool = False,
) -> tuple[Reference, Reference]:
    def norm(x: Float64, weight: Float64 | None) -> Reference:
        rows = x.reshape(*x.shape[:-2], -1) if over == "heads" else x
        found = rms_norm(rows, weight, eps, cast_first=cast_first)
        magnitude = np.reshape(found.magnitude, x.shape)
        absolute = found.absolute
        if absolute is not None:
            absolute = np.broadcast_to(absolute, rows.shape).reshape(x.shape)
        return Reference(found.result.reshape(x.shape), magnitude, absolute)

    return norm(q, q_weight), norm(k, k_weight)


def rope_store_kvcache(
    q: Float64,
    k: Float64,
    v: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    k_cache: Float64,
    v_cache: Float64,
    slot_mapping: NDArray[Any],
    k_scale: Float64 | None = None,
    v_scale: Float64 | None = None,
    *,
    style: str = "neox",
    layout: str = "NHD",
) -> References:
    query, key = _rotated(q, k, table_angles(positions, cos_sin), style)
    assert key is not None
    scales = (k_scale, v_scale)
    stored = store_kvcache(key.result, v, k_cache, v_cache, slot_mapping, *scales, layout=layout)
    # Rounded before it is encoded, and rotated in float32: a step of the cache's dtype more.
    there, block, place = _slot_places(k_cache, slot_mapping, layout)
    at = (block, place) if layout == "NHD" else (block, slice(None), place)
    inverse = np.ones(1) if k_scale is None else 1 / k_scale
    assert isinstance(stored[0].absolute, np.ndarray)
    stored[0].absolute[at] += (np.asarray(key.magnitude)[there] * np.abs(inverse)[:, None]) / 8
    return query, *stored


def _rotated_norm(
    x: Float64,
    weight: Float64,
    eps: float,
    cast_first: bool,
    all_heads: bool,
    angles: Angles,
    style: str,
    inside: Any = None,
) -> Reference:
    rows = x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1]) if all_heads else x
    norm = rms_norm(rows, weight, eps, cast_first=cast_first)
    y = norm.result.reshape(x.shape)
    result, magnitude = rotate(y, angles, style, inside)
    # Rounded once or twice in between.
    dtype = _dtype_holding(x, weight)
    relative, absolute = _EPS[dtype], _SMALLEST[dtype]
    roundings = 2 if cast_first else 1
    between = 0.5 * relative * magnitude * roundings
    wide = 1 + np.max(np.abs(weight), initial=0, where=np.isfinite(weight))
    turns = max((np.max(np.abs(a), initial=0, where=np.isfinite(a)) for a in angles), default=0)
    between = between + absolute * wide * (1 + 2 * turns)
    return Reference(result, magnitude * (1 + rows.shape[-1] / 256), between)


def qk_norm_rope(
    q: Float64,
    k: Float64,
    q_weight: Float64,
    k_weight: Float64,
    positions: NDArray[Any],
    cos_sin: Float64,
    eps: float = 1e-6,
    *,
    style: str = "neox",
    cast_first: bool = False,
) -> References:
    angles = table_angles(positions, cos_sin)
    return tuple(
        _rotated_norm(x, weight, eps, cast_first, False, angles, style)
        for x, weight in ((q, q_weight), (k, k_weight))
    )


def qk_norm_rope_3d(
    q: Float64,
    k: Float64,
    q_weight: Float64,
    k_weight: Float64,
    grid_sizes: NDArray[Any],
    table: Float64,
    eps: float = 1e-6,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    precision: str = "exact",
    cast_first: bool = False,
) -> References:
    angles, inside = grid_angles(grid_sizes, table, q.shape[1], height_pairs, width_pairs)
    return tuple(
        _rotated_norm(x, weight, eps, cast_first, True, angles, "interleaved", inside)
        for x, weight in ((q, q_weight), (k, k_weight))
    )


def stream_bytes(src: NDArray[np.uint8], W: int) -> Reference:
    R, W = src.size, int(W)
    if W > R:
        result = np.resize(src, W) if R else np.zeros(W, np.uint8)
    else:
        padded = np.concatenate([src, np.zeros(-R % W if W else 0, np.uint8)])
        result = np.bitwise_xor.reduce(padded.reshape(-1, W), axis=0) if W else padded[:0]
    return Reference(result, np.zeros(W))


def _exactly(rule: Callable[..., Any]) -> Callable[..., References]:
    """What a rule gives, with no error allowed but the rounding to a float output's dtype."""

    def reference(*args: Any, **options: Any) -> References:
        found = rule(*args, **options)
        return tuple(map(Reference, found)) if isinstance(found, tuple) else Reference(found)

    return reference


# One reference, or one for each output (None where it is not there) and then one for each tensor
# that is written into.
References = Reference | tuple[Reference | None, ...]
REFERENCES: dict[str, Callable[..., References]] = {
    "gemm": gemm,
    "element_wise_mul_add": element_wise_mul_add,
    "fused_add_gelu": fused_add_gelu,
    "fused_add_gelu_quant": fused_add_gelu_quant,
    "gather_kvcache": gather_kvcache,
    "gelu_and_mul": gelu_and_mul,
    "gelu_and_mul_quant": gelu_and_mul_quant,
    "mrope": mrope,
    "qk_norm_rope": qk_norm_rope,
    "qk_norm_rope_3d": qk_norm_rope_3d,
    "relu2": relu2,
    "relu2_quant": relu2_quant,
    "residual_gate": residual_gate,
    "rope": rope,
    "rope_3d": rope_3d,
    "rope_store_kvcache": rope_store_kvcache,
    "silu_and_mul": silu_and_mul,
    "fused_add_rms_norm": fused_add_rms_norm,
    "fused_add_rms_norm_quant": fused_add_rms_norm_quant,
    "layer_norm": layer_norm,
    "layer_norm_quant": layer_norm_quant,
    "qk_norm": qk_norm,
    "silu_and_mul_quant": silu_and_mul_quant,
    "rms_norm": rms_norm,
    "rms_norm_quant": rms_norm_quant,
    "store_kvcache": store_kvcache,
    "stream_bytes": stream_bytes,
}
REFERENCES.update(
    (name, _exactly(getattr(_gguf_linear_reference, name)))
    for name in ("pack_weight", "unpack_weight")
)
REFERENCES.update(
    (name, _exactly(getattr(_quantize_rule, name)))
    for name in (
        "quantize_fp8",
        "dequantize_fp8",
        "quantize_int8",
        "dequantize_int8",
        "quantize_nvfp4",
        "dequantize_nvfp4",
        "quantize_mxfp4",
        "dequantize_mxfp4",
        "quantize_mxfp8",
        "dequantize_mxfp8",
    )
)


def references_of(name: str, *args: Any, **options: Any) -> tuple[Reference, ...]:
    """What a call should give, for each output that is there and each tensor written into."""
    with np.errstate(all="ignore"):
        found = REFERENCES[name](*args, **options)
    found = (found,) if isinstance(found, Reference) else found
    return tuple(reference for reference in found if reference is not None)


_EPS = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}
# Below this the spacing of a format no longer shrinks.
_SMALLEST = {"f32": 2.0**-149, "f64": 2.0**-1074, "f16": 2.0**-24, "bf16": 2.0**-133}


def allowed_error(dtype: str, tolerance: float, expected: Any, magnitude: Any) -> Any:
    """The largest error each element may have; `expected` and `magnitude` are NumPy or torch."""
    arithmetic = _EPS["f64" if dtype == "f64" else "f32"]
    return _EPS[dtype] * abs(expected) + tolerance * arithmetic * magnitude + _SMALLEST[dtype]


def error_ratio(dtype: str, tolerance: float, result: NDArray[Any], reference: Reference) -> float:
    """The largest error as a share of the allowed one: at most 1 is right. NaN and infinities must
    stand where the reference has them (a float64 value past the format's range counts as one)."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = reference.result
        got = result.astype(expected.dtype)
        finite = np.isfinite(expected) & np.isfinite(got)
        special = ~finite
        if special.any() and not _specials_agree(dtype, expected[special], got[special]):
            return math.inf
        error = np.abs(got[finite].astype(np.float64) - expected[finite].astype(np.float64))
        if reference.absolute is None and dtype not in _EPS:
            return 0.0 if not error.any() else math.inf
        absolute = np.broadcast_to(
            0.0 if reference.absolute is None else reference.absolute, expected.shape
        )[finite]
        if dtype not in _EPS:
            return float(np.max(error / absolute)) if error.any() else 0.0
        magnitude = np.broadcast_to(reference.magnitude, expected.shape)[finite]
        allowed = allowed_error(dtype, tolerance, expected[finite], magnitude) + absolute
    # An infinite magnitude allows anything; an infinite input that leaves no trace is no error.
    return float(np.max(error / allowed)) if error.size else 0.0


_LARGEST = {
    "f32": 3.4028235e38,
    "f64": 1.7976931348623157e308,
    "f16": 65504.0,
    "bf16": 3.3895314e38,
    "f8e4m3": 448.0,
    "f8e5m2": 57344.0,
}


def _specials_agree(dtype: str, expected: NDArray[Any], got: NDArray[Any]) -> bool:
    """Infinities and NaN agree, or a finite number has rounded to infinity at the edge."""
    edge = _LARGEST.get(dtype, math.inf) * 0.99
    same = (np.isnan(expected) & np.isnan(got)) | (expected == got)
    overflow = np.isinf(got) & (np.sign(got) == np.sign(expected)) & (np.abs(expected) > edge)
    rounded_down = np.isinf(expected) & (np.abs(got) > edge) & (np.sign(got) == np.sign(expected))
    return bool(np.all(same | overflow | rounded_down))
