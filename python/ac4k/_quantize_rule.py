"""What the quantise ops compute, in plain NumPy float32: bit by bit what every kernel gives.

FP8 codes come as the numbers they stand for, in float64; int8 codes and packed bytes as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Float32 = NDArray[np.float32]

_LARGEST_FLOAT = np.finfo(np.float32).max
_SMALLEST_SCALE = np.float32(2.0**-120)


class Format(NamedTuple):
    """A format of a sign, an exponent and a mantissa."""

    mantissa_bits: int
    first_exponent: int  # of the smallest normal number
    largest: float
    largest_exponent: int


E4M3 = Format(3, -6, 448.0, 8)
E5M2 = Format(2, -14, 57344.0, 15)
E2M1 = Format(1, 0, 6.0, 2)


def fp8_format(dtype: Any) -> Format:
    """'float8_e5m2', torch.float8_e5m2 and ml_dtypes.float8_e5m2 are the same."""
    name = getattr(dtype, "__name__", str(dtype))
    return E5M2 if "e5m2" in name else E4M3


def round_to(form: Format, x: Array) -> NDArray[np.float64]:
    """The nearest number of the format, ties to even, saturating; NaN stays."""
    magnitude = np.minimum(np.abs(x.astype(np.float64)), form.largest)
    exponent = np.maximum(np.frexp(np.nan_to_num(magnitude))[1] - 1, form.first_exponent)
    place = np.exp2(exponent.astype(np.float64) - form.mantissa_bits)
    return np.asarray(np.copysign(np.rint(magnitude / place) * place, x))


_E2M1_NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def pack_e2m1(x: Array) -> NDArray[np.uint8]:
    """Codes of float32 numbers, two in a byte, the first in the low half; NaN gives 0."""
    values = round_to(E2M1, x)
    codes = np.searchsorted(_E2M1_NUMBERS, np.abs(np.nan_to_num(values))) + 8 * np.signbit(values)
    codes = np.where(np.isnan(values), 0, codes).astype(np.uint8)
    return np.asarray(codes[..., ::2] | codes[..., 1::2] << 4)


def unpack_e2m1(codes: Array) -> Float32:
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1)
    values = np.concatenate([_E2M1_NUMBERS, -_E2M1_NUMBERS])[nibbles].astype(np.float32)
    return np.asarray(values.reshape(*codes.shape[:-1], codes.shape[-1] * 2))


def decode_e8m0(codes: Array) -> Float32:
    scales = np.exp2(codes.astype(np.float64) - 127)
    return np.asarray(np.where(codes == 255, np.nan, scales).astype(np.float32))


class Regions:
    """Which numbers share a scale: x as rows, cut into rectangles of `height` by `width`."""

    def __init__(self, shape: tuple[int, ...], granularity: str) -> None:
        self.shape, N = shape, shape[-1]
        self.rows = int(np.prod(shape[:-1], dtype=np.int64))
        self.height, self.width = {
            "per_tensor": (self.rows, N),
            "per_token": (1, N),
            "per_channel": (self.rows, 1),
            "group128": (1, 128),
            "block128": (128, 128),
        }[granularity]
        down, across = -(-self.rows // max(self.height, 1)), -(-N // max(self.width, 1))
        self.counts = {
            "per_tensor": (1, 1),
            "per_token": (self.rows, 1),
            "per_channel": (1, N),
        }.get(granularity, (down, across))
        self.scale_shape = {
            "per_tensor": (1,),
            "per_token": (*shape[:-1], 1),
            "per_channel": (N,),
            "group128": (*shape[:-1], across),
        }.get(granularity, (down, across))

    def reduce(self, x: Array, function: np.ufunc) -> Float32:
        """Of each region, with 0; NaN left out."""
        rows = np.where(np.isnan(x), np.float32(0), x).reshape(self.rows, self.shape[-1])
        height, width = max(self.height, 1), max(self.width, 1)
        down, across = self.counts
        padded = np.zeros((down * height, across * width), np.float32)
        padded[: rows.shape[0], : rows.shape[1]] = rows
        blocks = padded.reshape(down, height, across, width)
        return np.asarray(function.reduce(blocks, axis=(1, 3), initial=np.float32(0)))

    def spread(self, values: Array) -> Array:
        """A value for each region, as one for each number."""
        values = values.reshape(self.counts)
        down = values.repeat(max(self.height, 1), axis=0)[: self.rows]
        return np.asarray(down.repeat(max(self.width, 1), axis=1)[:, : self.shape[-1]]).reshape(
            self.shape
        )


def scale_of(amax: Float32, largest: float, pow2_scale: bool = False) -> Float32:
    amax = np.minimum(amax, _LARGEST_FLOAT)
    scale = np.maximum(amax / np.float32(largest), _SMALLEST_SCALE)
    if pow2_scale:
        scale = ((scale.view(np.uint32) + 0x7FFFFF) & 0x7F800000).view(np.float32)
    return np.asarray(scale)


def _symmetric(
    x: Array, granularity: str, largest: float, scale: Array | None, pow2_scale: bool
) -> tuple[Float32, Float32]:
    """x divided by its scales, and the scales."""
    x32, regions = x.astype(np.float32), Regions(x.shape, granularity)
    if scale is None:
        scale = scale_of(regions.reduce(np.abs(x32), np.maximum), largest, pow2_scale)
    scale = scale.astype(np.float32).reshape(regions.scale_shape)
    return x32 * regions.spread(np.float32(1) / scale), scale


def quantize_fp8(
    x: Array,
    granularity: str = "per_token",
    dtype: Any = "float8_e4m3fn",
    scale: Array | None = None,
    pow2_scale: bool = False,
) -> tuple[Array, ...]:
    form = fp8_format(dtype)
    scaled, scale = _symmetric(x, granularity, form.largest, scale, pow2_scale)
    return round_to(form, scaled), scale


def dequantize_fp8(
    q: Array, scale: Array, granularity: str = "per_token", dtype: Any = "float32"
) -> Array:
    regions = Regions(q.shape, granularity)
    return np.asarray(q.astype(np.float32) * regions.spread(scale.astype(np.float32)))


def quantize_int8(
    x: Array,
    granularity: str = "per_token",
    symmetric: bool = True,
    scale: Array | None = None,
) -> tuple[Array, ...]:
    if symmetric:
        scaled, scale = _symmetric(x, granularity, 127.0, scale, False)
        return _clamp(np.rint(np.nan_to_num(scaled, nan=0.0))), scale
    x32, regions = x.astype(np.float32), Regions(x.shape, granularity)
    low = np.maximum(regions.reduce(x32, np.minimum), -_LARGEST_FLOAT)
    high = np.minimum(regions.reduce(x32, np.maximum), _LARGEST_FLOAT)
    scale = np.maximum(high / np.float32(255) - low / np.float32(255), _SMALLEST_SCALE)
    inverse = np.float32(1) / scale
    zero = _clamp(np.rint(np.float32(-128) - low * inverse)).astype(np.int32)
    scaled = x32 * regions.spread(inverse)
    steps = np.rint(np.where(np.isnan(scaled), 0, scaled)).astype(np.float64)
    codes = _clamp(steps + regions.spread(zero))
    return codes, scale.reshape(regions.scale_shape), zero.reshape(regions.scale_shape)


def _clamp(x: Array) -> NDArray[np.int8]:
    return np.asarray(np.clip(x, -128, 127).astype(np.int8))


def dequantize_int8(
    q: Array,
    scale: Array,
    zero: Array | None = None,
    granularity: str = "per_token",
    dtype: Any = "float32",
) -> Array:
    regions = Regions(q.shape, granularity)
    steps = q.astype(np.int64) - (0 if zero is None else regions.spread(zero))
    return np.asarray(steps.astype(np.float32) * regions.spread(scale.astype(np.float32)))


def _blocks(x: Array, size: int) -> Float32:
    return np.asarray(x.astype(np.float32).reshape(*x.shape[:-1], x.shape[-1] // size, size))


def _block_amax(blocks: Float32) -> Float32:
    amax = np.max(np.where(np.isnan(blocks), 0, np.abs(blocks)), axis=-1, initial=0)
    return np.asarray(np.minimum(amax, _LARGEST_FLOAT).astype(np.float32))


def tiled_offsets(rows: int, blocks: int) -> NDArray[np.int64]:
    """Where the scale of row r and block k lies in the "tiled" layout."""
    r, k = np.arange(rows)[:, None], np.arange(blocks)[None, :]
    tile = r // 128 * -(-blocks // 4) + k // 4
    return np.asarray(tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + k % 4)


def quantize_nvfp4(
    x: Array, global_scale: Array | None = None, layout: str = "plain"
) -> tuple[Array, ...]:
    blocks = _blocks(x, 16)
    amax = _block_amax(blocks)
    if global_scale is None:
        largest = np.max(amax, initial=np.float32(0))
        g = np.minimum(np.float32(448 * 6) / largest, _LARGEST_FLOAT) if largest else np.float32(1)
    else:
        g = np.float32(global_scale[0])
    scale = round_to(E4M3, g * (amax / np.float32(6))).astype(np.float32)
    factor = np.where(scale == 0, np.float32(0), g / scale).astype(np.float32)
    scaled = np.where((scale == 0)[..., None], np.float32(0), blocks * factor[..., None])
    codes = pack_e2m1(scaled.reshape(x.shape))
    if layout == "tiled":
        count = x.shape[-1] // 16
        rows = int(np.prod(x.shape[:-1], dtype=np.int64))
        tiled = np.zeros((-(-rows // 128) * 128, -(-count // 4) * 4), np.float32)
        tiled.reshape(-1)[tiled_offsets(rows, count)] = scale.reshape(rows, count)
        scale = tiled
    return codes, scale.astype(np.float64), np.array([g], np.float32)


def dequantize_nvfp4(
    q: Array, scale: Array, global_scale: Array, layout: str = "plain", dtype: Any = "float32"
) -> Array:
    values = unpack_e2m1(q)
    count = values.shape[-1] // 16
    if layout == "tiled":
        rows = int(np.prod(q.shape[:-1], dtype=np.int64))
        scale = scale.reshape(-1)[tiled_offsets(rows, count)]
    factor = scale.astype(np.float32) / np.float32(global_scale[0])
    factor = factor.reshape(*values.shape[:-1], count)
    return values * factor.repeat(16, axis=-1)


def _mx(x: Array, form: Format) -> tuple[Float32, NDArray[np.uint8]]:
    """x divided by its scales, and their codes."""
    blocks = _blocks(x, 32)
    exponent = (_block_amax(blocks).view(np.uint32) >> 23).astype(np.int64)
    code = np.maximum(exponent - form.largest_exponent, 0)
    inverse = ((254 - code) << 23).astype(np.uint32).view(np.float32)
    return (blocks * inverse[..., None]).reshape(x.shape), code.astype(np.uint8)


def quantize_mxfp4(x: Array) -> tuple[Array, ...]:
    scaled, code = _mx(x, E2M1)
    return pack_e2m1(scaled), code


def quantize_mxfp8(x: Array, dtype: Any = "float8_e4m3fn") -> tuple[Array, ...]:
    form = fp8_format(dtype)
    scaled, code = _mx(x, form)
    return round_to(form, scaled), code


def dequantize_mxfp4(q: Array, scale: Array, dtype: Any = "float32") -> Array:
    return unpack_e2m1(q) * decode_e8m0(scale).repeat(32, axis=-1)


def dequantize_mxfp8(q: Array, scale: Array, dtype: Any = "float32") -> Array:
    return np.asarray(q.astype(np.float32) * decode_e8m0(scale).repeat(32, axis=-1))
