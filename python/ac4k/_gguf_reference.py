"""What `quantize` and `dequantize` compute, in plain NumPy float32: bit by bit what kernels give.

Arrays hold many blocks, one a row. Sums inside a block run from its first number to its last, one
rounded addition after the other, which is why they are loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._formats import FORMATS

Array = NDArray[Any]
Float32 = NDArray[Any]  # of float32
Bytes = NDArray[Any]  # of uint8

F = np.float32
_TINY = F(1e-15)  # groups below this count as zeros
IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
FP4_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


# ---- Small things ---------------------------------------------------------------------------


def _half(values: Array) -> Bytes:
    """float16 as two bytes in a new last dim; NaN is 0x7e00."""
    halves = values.astype(np.float16).view(np.uint16)
    halves = np.where(np.isnan(values), np.uint16(0x7E00), halves)
    return np.ascontiguousarray(halves)[..., None].view(np.uint8)


def _from_half(pair: Bytes) -> Float32:
    return np.ascontiguousarray(pair).view(np.float16)[..., 0].astype(np.float32)


def _clip(values: Float32, low: float, high: float) -> Float32:
    """NaN gives the lower bound."""
    raised = np.where(values > F(low), values, F(low))
    return np.where(raised < F(high), raised, F(high)).astype(np.float32)


def _nearest(values: Float32, low: float, high: float) -> Float32:
    return np.rint(_clip(values, low, high))


def _integer(values: Float32) -> NDArray[np.int32]:
    return _nearest(values, -4194303, 4194303).astype(np.int32)


def _divided(a: Any, b: Float32) -> Float32:
    """a / b, and 0 where b is 0."""
    return np.where(b == 0, F(0), F(1) * a / b).astype(np.float32)


def _extreme(x: Float32) -> Float32:
    """The number of largest magnitude, the first of several."""
    return np.asarray(np.take_along_axis(x, np.abs(x).argmax(-1)[:, None], -1))


def _largest_scale(scales: Float32) -> Float32:
    """By magnitude, without those that are NaN because sums overflowed."""
    return _extreme(np.where(np.isnan(scales), F(0), scales))


def _first_minimum(x: Float32) -> Float32:
    return np.asarray(np.take_along_axis(x, x.argmin(-1)[:, None], -1))


def _nibbles(codes: Array) -> Bytes:
    """Two halves of the last dim, one in the low and one in the high nibbles."""
    low, high = np.split(codes.astype(np.uint8), 2, axis=-1)
    return np.asarray(low | high << 4)


def _bits(codes: Array, bit: int) -> Bytes:
    return np.packbits(codes.astype(np.uint8) >> bit & 1, axis=-1, bitorder="little")


# ---- Blocks of 32 ---------------------------------------------------------------------------


def _quantize_extreme(x: Float32, bits: int) -> Bytes:
    middle = 2 ** (bits - 1)
    d = _extreme(x) / F(-middle)
    codes = np.trunc(_clip(x * _divided(1, d) + F(middle + 0.5), 0, 2 * middle - 1))
    codes = codes.astype(np.uint8)
    fifth = [_bits(codes, 4)] if bits == 5 else []
    return np.concatenate([_half(d[:, 0]), *fifth, _nibbles(codes & 15)], -1)


def _quantize_ranged(x: Float32, bits: int) -> Bytes:
    top = 2**bits - 1
    low = _first_minimum(x)
    d = (x.max(-1, keepdims=True) - low + F(0)) / F(top)
    codes = np.trunc(_clip((x - low) * _divided(1, d) + F(0.5), 0, top)).astype(np.uint8)
    fifth = [_bits(codes, 4)] if bits == 5 else []
    parts = [_half(d[:, 0]), _half(low[:, 0]), *fifth, _nibbles(codes & 15)]
    return np.concatenate(parts, -1)


def _quantize_bytes(x: Float32, with_sum: bool) -> Bytes:
    d = np.abs(x).max(-1, keepdims=True) / F(127)
    scaled = x * _divided(1, d)
    size = _clip(np.abs(scaled), 0, 127)
    codes = np.copysign(np.floor(size) + (size - np.floor(size) >= F(0.5)), scaled)
    parts = [_half(d[:, 0]), codes.astype(np.int8).view(np.uint8)]
    if with_sum:
        parts.insert(1, _half(codes.sum(-1).astype(np.float32) * d[:, 0]))
    return np.concatenate(parts, -1)


def _fp4_codes(x: Float32, d: Float32) -> Bytes:
    errors = np.abs(FP4_VALUES * d[..., None] - x[..., None])
    return np.asarray(errors.argmin(-1).astype(np.uint8))


def half_of_e8m0(e: Array) -> Float32:
    return np.ldexp(F(1), e.astype(np.int32) - 128).astype(np.float32)


def half_of_ue4m3(code: Array) -> Float32:
    exponent, mantissa = (code >> 3 & 15).astype(np.int32), (code & 7).astype(np.float32)
    normal = np.ldexp(F(1) + mantissa / F(8), exponent - 8)
    value = np.where(exponent == 0, mantissa * F(2.0**-10), normal)
    return np.where(code == 0x7F, F(0), value).astype(np.float32)


def _quantize_mxfp4(x: Float32) -> Bytes:
    amax = np.abs(x).max(-1, keepdims=True)
    # The logarithm is rounded to float32 before it is floored.
    log = np.log2(np.where(amax > 0, amax, 1).astype(np.float64)).astype(np.float32)
    e = np.where(amax > 0, np.maximum(np.floor(log) - 2 + 127, 0), 0).astype(np.uint8)
    return np.concatenate([e, _nibbles(_fp4_codes(x, half_of_e8m0(e)))], -1)


def _ue4m3(values: Float32) -> Bytes:
    """Half up; from 256 on all numbers become 448."""
    exponent = np.maximum(np.frexp(values)[1] - 1, -7)
    normal = np.floor(np.ldexp(values.astype(np.float64), 3 - exponent) + 0.5) - 8
    code = (exponent + 7) * 8 + normal
    denormal = np.minimum(np.trunc(values * F(512) + F(0.5)), 7)
    code = np.where((exponent < -6) | (values == 0), denormal, code)
    return np.where((exponent >= 8) | (code >= 120), 0x7E, code).astype(np.uint8)


def _quantize_nvfp4(x: Float32) -> Bytes:
    parts = x.reshape(-1, 4, 16)
    scales = _ue4m3(np.abs(parts).max(-1) / F(6))
    codes = _fp4_codes(parts, half_of_ue4m3(scales)[..., None])
    return np.concatenate([scales, _nibbles(codes).reshape(-1, 32)], -1)


# ---- Searches; x is [groups, numbers of a group] --------------------------------------------


def _sum(terms: Float32) -> Float32:
    total = np.zeros(terms.shape[0], np.float32)
    for i in range(terms.shape[1]):
        total = total + terms[:, i]
    return total


def _fit_affine(
    x: Float32, weights: Float32, top: int, first: float, tries: int, absolute: bool
) -> tuple[Float32, Float32, Float32]:
    """Scales, minimums (positive) and codes of x ~ scale * code - minimum."""

    def error_of(scale: Float32, codes: Float32, low: Float32) -> Float32:
        error = scale[:, None] * codes + low[:, None] - x
        return _sum(weights * (np.abs(error) if absolute else error * error))

    low, high = np.minimum(x.min(-1), F(0)), x.max(-1)
    flat = high == low
    start = low
    sum_w, sum_x = _sum(weights), _sum(weights * x)
    factor = F(top) / (high - low)
    scale = F(1) / factor
    codes = _nearest(factor[:, None] * (x - low[:, None]), 0, top)
    best = error_of(scale, codes, low)
    for i in range(tries):
        factor = (F(first) + F(0.1) * F(i) + F(top)) / (high - low)
        its_codes = _nearest(factor[:, None] * (x - low[:, None]), 0, top)
        weighted = weights * its_codes
        sum_l, sum_l2, sum_xl = _sum(weighted), _sum(weighted * its_codes), _sum(weighted * x)
        determinant = sum_w * sum_l2 - sum_l * sum_l
        its_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant
        its_low = (sum_l2 * sum_x - sum_l * sum_xl) / determinant
        above = its_low > 0
        its_scale = np.where(above, sum_xl / sum_l2, its_scale)
        its_low = np.where(above, F(0), its_low)
        error = error_of(its_scale, its_codes, its_low)
        better = (determinant > 0) & (error < best)
        best = np.where(better, error, best)
        scale, low = np.where(better, its_scale, scale), np.where(better, its_low, low)
        codes = np.where(better[:, None], its_codes, codes)
    codes = np.where(flat[:, None], F(0), codes)
    return np.where(flat, F(0), scale), -np.where(flat, start, low), codes


def _fit_symmetric(x: Float32) -> tuple[Float32, Float32]:
    """Scales and codes from 0 on of x ~ scale * (code - 32)."""
    extreme, nothing = _extreme(x), np.abs(x).max(-1) < _TINY
    weights = x * x
    scale = best = np.zeros(len(x), np.float32)
    codes = np.zeros_like(x)
    for i in (0, *range(-9, 0), *range(1, 10)):
        its_codes = _nearest(-(F(32) + F(0.1) * F(i)) / extreme * x, -32, 31)
        sum_lx, sum_l2 = _sum(weights * x * its_codes), _sum(weights * its_codes * its_codes)
        better = (sum_l2 > 0) & (sum_lx * sum_lx > best * sum_l2)
        its_scale = _divided(sum_lx, sum_l2)
        if i == 0:
            better = np.ones_like(better)
        scale = np.where(better, its_scale, scale)
        best = np.where(better, its_scale * sum_lx, best)
        codes = np.where(better[:, None], its_codes + F(32), codes)
    return np.where(nothing, F(0), scale), np.where(nothing[:, None], F(0), codes)


def _fit_q3(x: Float32) -> tuple[Float32, Float32]:
    """Scales and codes from 0 on of x ~ scale * (code - 4)."""
    extreme, nothing = _extreme(x), np.abs(x).max(-1) < _TINY
    weights = x * x
    codes = _nearest(F(-4) / extreme * x, -4, 3)
    sum_lx, sum_l2 = _sum(weights * x * codes), _sum(weights * codes * codes)
    for _ in range(5):
        for i in range(16):
            w, wx, old = weights[:, i], weights[:, i] * x[:, i], codes[:, i]
            rest_lx, rest_l2 = sum_lx - wx * old, sum_l2 - w * old * old
            new = _nearest(x[:, i] * rest_l2 / rest_lx, -4, 3)
            new_lx, new_l2 = rest_lx + wx * new, rest_l2 + w * new * new
            better = (rest_lx > 0) & (new != old) & (new_l2 > 0)
            better &= new_lx * new_lx * sum_l2 > sum_lx * sum_lx * new_l2
            codes[:, i] = np.where(better, new, old)
            sum_lx, sum_l2 = np.where(better, new_lx, sum_lx), np.where(better, new_l2, sum_l2)
    scale = np.where(nothing | ~(sum_l2 > 0), F(0), sum_lx / sum_l2)
    return scale, np.where(nothing[:, None], F(0), codes + F(4))


def _iq4_codes(values: Float32) -> Bytes:
    """The nearest of the table, the upper one of two; NaN gives the first."""
    halfway = (IQ4_VALUES[1:] + IQ4_VALUES[:-1]) / F(2)
    return np.asarray((values[..., None] >= halfway).sum(-1).astype(np.uint8))


def _fit_iq4(x: Float32) -> Float32:
    extreme, nothing = _extreme(x), np.abs(x).max(-1) < _TINY
    weights = x * x
    scale = best = np.zeros(len(x), np.float32)
    for i in range(-8, 8):
        factor = F(1) / (-extreme / F(-127)) if i == -8 else F(i - 127) / extreme
        values = IQ4_VALUES[_iq4_codes(factor * x)]
        sum_qx, sum_q2 = _sum(weights * values * x), _sum(weights * values * values)
        better = (sum_q2 > 0) & ((sum_qx * sum_qx > best * sum_q2) | (i == -8))
        its_scale = sum_qx / sum_q2
        scale = np.where(better, its_scale, scale)
        best = np.where(better, its_scale * sum_qx, best)
    return np.where(nothing, F(0), scale)


# ---- Super-blocks of 256 --------------------------------------------------------------------


def _pairs(codes: Array) -> Bytes:
    """Two bits each of the four quarters of 128 numbers."""
    quarters = codes.astype(np.uint8).reshape(len(codes), 2, 4, 32) & 3
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return np.asarray(np.bitwise_or.reduce(quarters << shifts, axis=2)).reshape(len(codes), 64)


def _bits_of_eight(codes: Array, bit: int) -> Bytes:
    return _bits(codes.reshape(len(codes), 8, 32).swapaxes(1, 2), bit)[..., 0]


def _affine_super(
    x: Float32, weights: Float32, top: int, first: float, tries: int, levels: int
) -> tuple[Bytes, Bytes, Bytes, Bytes, Bytes]:
    blocks, groups, size = x.shape
    flat = x.reshape(-1, size)
    fit = _fit_affine(flat, weights.reshape(-1, size), top, first, tries, absolute=levels == 15)
    scales, mins = fit[0].reshape(blocks, groups), fit[1].reshape(blocks, groups)
    stored, shared = [], []
    for values in (scales, mins):
        largest = np.fmax(values.max(-1), F(0))
        inverse = np.where(largest > 0, F(levels) / largest, F(0)).astype(np.float32)
        code = np.where((largest > 0)[:, None], _integer(inverse[:, None] * values) & 255, 0)
        stored.append(np.minimum(code, 63) if levels == 63 else code)
        shared.append(_half(largest / F(levels)))
    kept_scale, kept_min = stored
    if levels == 15:
        both = (stored[0] | stored[1] << 4) & 255
        kept_scale, kept_min = both & 15, both >> 4
    step = _from_half(shared[0])[:, None] * kept_scale.astype(np.float32)
    offset = _from_half(shared[1])[:, None] * kept_min.astype(np.float32)
    codes = _nearest((x + offset[..., None]) / step[..., None], 0, top)
    codes = np.where((step == 0)[..., None], fit[2].reshape(x.shape), codes)
    packed = codes.astype(np.uint8).reshape(blocks, 256)
    return (
        packed,
        stored[0].astype(np.uint8),
        (stored[1] & 255).astype(np.uint8),
        shared[0],
        shared[1],
    )


def _quantize_q2_k(x: Float32) -> Bytes:
    parts = x.reshape(-1, 16, 16)
    codes, scales, mins, d, dmin = _affine_super(parts, np.abs(parts), 3, -0.5, 16, 15)
    return np.concatenate([scales | mins << 4, _pairs(codes), d, dmin], -1)


def _six_bits(scales: Bytes, mins: Bytes) -> Bytes:
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = mins[:, :4] | mins[:, 4:] >> 4 << 6
    return np.concatenate([first, second, scales[:, 4:] & 15 | (mins[:, 4:] & 15) << 4], -1)


def _quantize_q45_k(x: Float32, bits: int) -> Bytes:
    parts = x.reshape(-1, 8, 32)
    flat = parts.reshape(-1, 32)
    mean = np.sqrt(_sum(flat * flat) / F(32)).reshape(-1, 8, 1)
    first, tries = (-1.0, 21) if bits == 4 else (-0.5, 16)
    found = _affine_super(parts, mean + np.abs(parts), 2**bits - 1, first, tries, 63)
    codes, scales, mins, d, dmin = found
    fifth = [_bits_of_eight(codes, 4)] if bits == 5 else []
    nibbles = _nibbles((codes & 15).reshape(len(codes), 4, 64)).reshape(len(codes), 128)
    return np.concatenate([d, dmin, _six_bits(scales, mins), *fifth, nibbles], -1)


def _quantize_q3_k(x: Float32) -> Bytes:
    parts = x.reshape(-1, 16, 16)
    scales, fitted = _fit_q3(x.reshape(-1, 16))
    scales = scales.reshape(-1, 16)
    largest = _largest_scale(scales)
    inverse = F(-32) / largest
    d = _half(np.where(largest == 0, F(0), F(1) / inverse)[:, 0])
    levels = np.where(largest == 0, F(-32), _nearest(inverse * scales, -32, 31))
    step = (_from_half(d)[:, None] * levels)[..., None]
    codes = np.where(step == 0, fitted.reshape(parts.shape), _nearest(parts / step, -4, 3) + F(4))
    codes = codes.astype(np.uint8).reshape(-1, 256)
    s = (levels + 32).astype(np.uint8)
    high = s.reshape(-1, 4, 4) >> 4 << np.array([0, 2, 4, 6], np.uint8)[:, None]
    packed = [s[:, :8] & 15 | (s[:, 8:] & 15) << 4, np.bitwise_or.reduce(high, axis=1)]
    return np.concatenate([_bits_of_eight(codes, 2), _pairs(codes), *packed, d], -1)


def _quantize_q6_k(x: Float32) -> Bytes:
    parts = x.reshape(-1, 16, 16)
    scales, fitted = _fit_symmetric(x.reshape(-1, 16))
    scales = scales.reshape(-1, 16)
    largest = _largest_scale(scales)
    nothing = np.abs(largest) < _TINY
    inverse = F(-128) / largest
    d = _half(np.where(nothing, F(0), F(1) / inverse)[:, 0])
    levels = np.where(nothing, F(0), _nearest(inverse * scales, -128, 127))
    step = (_from_half(d)[:, None] * levels)[..., None]
    codes: Array = _nearest(parts / step, -32, 31) + F(32)
    codes = np.where(step == 0, fitted.reshape(parts.shape), codes)
    codes = np.where(nothing[..., None], F(0), codes).astype(np.uint8).reshape(-1, 256)
    low = _nibbles((codes & 15).reshape(-1, 2, 128)).reshape(-1, 128)
    return np.concatenate([low, _pairs(codes >> 4), levels.astype(np.int8).view(np.uint8), d], -1)


def _quantize_iq4_nl(x: Float32) -> Bytes:
    d = _fit_iq4(x)
    codes = _iq4_codes(_divided(1, d)[:, None] * x)
    return np.concatenate([_half(d), _nibbles(codes)], -1)


def _quantize_iq4_xs(x: Float32) -> Bytes:
    parts = x.reshape(-1, 8, 32)
    scales = _fit_iq4(x.reshape(-1, 32)).reshape(-1, 8)
    d = -_largest_scale(scales) / F(32)
    levels = _nearest(_divided(1, d) * scales, -32, 31)
    codes = _iq4_codes(_divided(1, d * levels)[..., None] * parts)
    s = (levels + 32).astype(np.uint8)
    low = s[:, ::2] & 15 | (s[:, 1::2] & 15) << 4
    high = s.reshape(-1, 2, 4) >> 4 << np.array([0, 2, 4, 6], np.uint8)
    packed = [np.bitwise_or.reduce(high, axis=2), low, _nibbles(codes).reshape(-1, 128)]
    return np.concatenate([_half(d[:, 0]), *packed], -1)


_QUANTIZE: dict[str, Callable[[Float32], Bytes]] = {
    "q4_0": lambda x: _quantize_extreme(x, 4),
    "q4_1": lambda x: _quantize_ranged(x, 4),
    "q5_0": lambda x: _quantize_extreme(x, 5),
    "q5_1": lambda x: _quantize_ranged(x, 5),
    "q8_0": lambda x: _quantize_bytes(x, with_sum=False),
    "q8_1": lambda x: _quantize_bytes(x, with_sum=True),
    "q2_k": _quantize_q2_k,
    "q3_k": _quantize_q3_k,
    "q4_k": lambda x: _quantize_q45_k(x, 4),
    "q5_k": lambda x: _quantize_q45_k(x, 5),
    "q6_k": _quantize_q6_k,
    "iq4_nl": _quantize_iq4_nl,
    "iq4_xs": _quantize_iq4_xs,
    "mxfp4": _quantize_mxfp4,
    "nvfp4": _quantize_nvfp4,
}


def quantize(x: Array, fmt: str) -> Bytes:
    values, size = FORMATS[fmt]
    with np.errstate(all="ignore"):
        numbers = np.asarray(x).astype(np.float32)
        largest = np.finfo(np.float32).max
        numbers = np.where(np.isnan(numbers), F(0), np.clip(numbers, -largest, largest))
        blocks = _QUANTIZE[fmt](numbers.reshape(-1, values))
    return blocks.reshape(*x.shape[:-1], x.shape[-1] // values, size)


def quantize_rule(fmt: str) -> Callable[[Array], Bytes]:
    """What quantize_<fmt> computes."""
    return lambda x: quantize(x, fmt)


# ---- Back: value number i of a block, straight from the layout -------------------------------


def _dequantize_k(b: NDArray[np.int32], fmt: str, i: NDArray[np.int64]) -> tuple[Any, ...]:
    """(half of d, factor of the sub-block, code, half of dmin, its factor) of every number."""
    if fmt == "q2_k":
        both = b[:, i // 16]
        code = b[:, 16 + i // 128 * 32 + i % 32] >> (i % 128 // 32 * 2) & 3
        return 80, both & 15, code, 82, both >> 4
    if fmt == "q3_k":
        s = i // 16
        low = b[:, 96 + s % 8] >> (s // 8 * 4) & 15
        scale = (low | (b[:, 104 + s % 4] >> (s // 4 * 2) & 3) << 4) - 32
        code = b[:, 32 + i // 128 * 32 + i % 32] >> (i % 128 // 32 * 2) & 3
        return 108, scale, code - 4 + 4 * (b[:, i % 32] >> (i // 32) & 1), None, None
    if fmt in ("q4_k", "q5_k"):
        s = i // 32
        j = s % 4
        scale = np.where(s < 4, b[:, 4 + j] & 63, b[:, 12 + j] & 15 | b[:, 4 + j] >> 6 << 4)
        low = np.where(s < 4, b[:, 8 + j] & 63, b[:, 12 + j] >> 4 | b[:, 8 + j] >> 6 << 4)
        at = 16 if fmt == "q4_k" else 48
        code = b[:, at + i // 64 * 32 + i % 32] >> (i % 64 // 32 * 4) & 15
        if fmt == "q5_k":
            code = code | (b[:, 16 + i % 32] >> s & 1) << 4
        return 0, scale, code, 2, low
    if fmt == "q6_k":
        quarter = i % 128 // 32
        code = b[:, i // 128 * 64 + quarter % 2 * 32 + i % 32] >> (quarter // 2 * 4) & 15
        code = code | (b[:, 128 + i // 128 * 32 + i % 32] >> (quarter * 2) & 3) << 4
        return 208, b[:, 192 + i // 16].astype(np.int8), code - 32, None, None
    s = i // 32
    scale = (b[:, 4 + s // 2] >> (s % 2 * 4) & 15 | (b[:, 2 + s // 4] >> (s % 4 * 2) & 3) << 4) - 32
    nibble = b[:, 8 + s * 16 + i % 16] >> (i % 32 // 16 * 4) & 15
    return 0, scale, IQ4_VALUES[nibble], None, None


def _dequantize_32(blocks: Bytes, b: NDArray[np.int32], fmt: str, i: NDArray[np.int64]) -> Float32:
    if fmt == "nvfp4":
        nibble = b[:, 4 + i // 16 * 8 + i % 8] >> (i % 16 // 8 * 4) & 15
        return np.asarray(half_of_ue4m3(b[:, i // 16]) * FP4_VALUES[nibble])
    if fmt == "mxfp4":
        nibble = b[:, 1 + i % 16] >> (i // 16 * 4) & 15
        return np.asarray(half_of_e8m0(b[:, :1]) * FP4_VALUES[nibble])
    d = _from_half(blocks[:, None, :2])
    if fmt in ("q8_0", "q8_1"):
        at = 2 if fmt == "q8_0" else 4
        return np.asarray(d * b[:, at + i].astype(np.int8).astype(np.float32))
    at = FORMATS[fmt].block_bytes - 16
    code = b[:, at + i % 16] >> (i // 16 * 4) & 15
    if fmt == "iq4_nl":
        return np.asarray(d * IQ4_VALUES[code])
    if fmt.startswith("q5"):
        code = code | (b[:, at - 4 + i // 8] >> (i % 8) & 1) << 4
    if fmt.endswith("_0"):
        return np.asarray(d * (code - (8 if fmt == "q4_0" else 16)).astype(np.float32))
    return np.asarray(d * code.astype(np.float32) + _from_half(blocks[:, None, 2:4]))


def dequantize(q: Array, fmt: str, dtype: Any = "float32") -> Float32:
    values, size = FORMATS[fmt]
    blocks = np.ascontiguousarray(q).reshape(-1, size)
    b, i = blocks.astype(np.int32), np.arange(values)
    with np.errstate(all="ignore"):
        if values == 256:
            at, scale, code, at_min, low = _dequantize_k(b, fmt, i)
            step = _from_half(blocks[:, None, at : at + 2]) * scale.astype(np.float32)
            numbers = step * code.astype(np.float32)
            if low is not None:
                minimum = _from_half(blocks[:, None, at_min : at_min + 2])
                numbers = numbers - minimum * low.astype(np.float32)
        else:
            numbers = _dequantize_32(blocks, b, fmt, i)
    return np.asarray(numbers, np.float32).reshape(*q.shape[:-2], q.shape[-2] * values)


def dequantize_rule(fmt: str) -> Callable[..., Float32]:
    """What dequantize_<fmt> computes."""
    return lambda q, dtype="float32": dequantize(q, fmt, dtype)


# The ops and what they compute.
RULES: dict[str, Callable[..., Array]] = {"quantize": quantize, "dequantize": dequantize}
for _fmt in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1"):
    RULES[f"quantize_{_fmt}"] = quantize_rule(_fmt)
    RULES[f"dequantize_{_fmt}"] = dequantize_rule(_fmt)
