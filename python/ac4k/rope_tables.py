"""Tables of cosines and sines for the RoPE ops, computed in float64 with NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


def rope_table(
    head_dim: int,
    max_position: int,
    *,
    base: float = 10000.0,
    rotary_dim: int | None = None,
    scaling: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    device: Any = None,
    like: Any = None,
) -> Any:
    """Cosines and sines of positions 0 to max_position - 1, as `rope` takes them.

    Returns [max_position, rotary_dim]: rotary_dim / 2 cosines, then as many sines, of the angles
    position / base ** (2 i / rotary_dim). They are computed in float64 and rounded to `dtype` once.

    `scaling` is a model's `rope_scaling` (or `rope_parameters`) as Transformers names its entries;
    `rope_type` is "default", "linear", "dynamic", "yarn", "longrope" or "llama3". `rope_theta` and
    `partial_rotary_factor` in it take the place of `base` and `rotary_dim`. "dynamic" and
    "longrope" are the tables for sequences of max_position tokens and need
    `original_max_position_embeddings`. The attention factor of YaRN and LongRoPE is part of the
    table.

    A NumPy array, or a torch tensor where `device` is given or `like` is a tensor (its device).

    >>> ac4k.rope_table(4, 2, dtype="float64").round(4).tolist()
    [[1.0, 1.0, 0.0, 0.0], [0.5403, 1.0, 0.8415, 0.01]]
    """
    scaling = dict(scaling or {})
    base = float(scaling.get("rope_theta") or base)
    if rotary_dim is None:
        rotary_dim = int(head_dim * float(scaling.get("partial_rotary_factor") or 1.0))
    if rotary_dim < 0 or rotary_dim > head_dim or rotary_dim % 2:
        raise ValueError(
            f"rope_table: expected an even rotary_dim up to head_dim = {head_dim}, got {rotary_dim}"
        )
    if max_position < 0:
        raise ValueError(f"rope_table: expected max_position >= 0, got {max_position}")
    inverse_frequencies, factor = _scaled(rotary_dim, base, max_position, scaling)
    angles = np.arange(max_position, dtype=np.float64)[:, None] * inverse_frequencies
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * factor
    return _delivered(table.astype(dtype), device, like)


def rope_3d_table(
    head_dim: int,
    max_position: int = 1024,
    base: float = 10000.0,
    *,
    height_pairs: int = -1,
    width_pairs: int = -1,
    dtype: str = "float64",
    device: Any = None,
    like: Any = None,
) -> Any:
    """Cosines and sines of the three axes of a video, as `rope_3d` takes them.

    Returns [max_position, head_dim / 2, 2]. Pairs of frames come first, then height_pairs, then
    width_pairs (-1: a third of head_dim / 2, rounded down). Pair j of an axis with n pairs has the
    angle position / base ** (j / n).

    >>> ac4k.rope_3d_table(128).shape
    (1024, 64, 2)
    """
    pairs = head_dim // 2
    if head_dim % 2 or head_dim < 0:
        raise ValueError(f"rope_3d_table: expected an even head_dim, got {head_dim}")
    if max_position < 0:
        raise ValueError(f"rope_3d_table: expected max_position >= 0, got {max_position}")
    height = pairs // 3 if height_pairs == -1 else height_pairs
    width = pairs // 3 if width_pairs == -1 else width_pairs
    if height < 0 or width < 0 or height + width > pairs:
        raise ValueError(
            f"rope_3d_table: expected at most {pairs} height_pairs and width_pairs together, "
            f"got {height_pairs} and {width_pairs}"
        )
    axes = (pairs - height - width, height, width)
    frequencies = np.concatenate([_inverse_frequencies(2 * count, base) for count in axes])
    angles = np.arange(max_position, dtype=np.float64)[:, None] * frequencies
    table = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return _delivered(table.astype(dtype), device, like)


def _inverse_frequencies(dim: int, base: float) -> Float64:
    exponents = np.arange(0, dim, 2, dtype=np.float64) / max(dim, 1)
    return np.asarray(1.0 / np.power(base, exponents), np.float64)


def _scaled(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    """Inverse frequencies, and what cosines and sines are multiplied by."""
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in _SCALINGS:
        raise ValueError(
            f"rope_table: scaling: expected rope_type {', '.join(_SCALINGS)}, got '{kind}'"
        )
    try:
        return _SCALINGS[kind](dim, base, max_position, scaling)
    except KeyError as missing:
        raise ValueError(f"rope_table: scaling: rope_type '{kind}' needs {missing}") from None


def _default(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    return _inverse_frequencies(dim, base), 1.0


def _linear(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    return _inverse_frequencies(dim, base) / float(scaling["factor"]), 1.0


def _dynamic(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    """NTK: a larger base, so that the longest wave fits the longer context."""
    factor, original = float(scaling["factor"]), int(scaling["original_max_position_embeddings"])
    stretch = factor * max(max_position, original) / original - (factor - 1)
    return _inverse_frequencies(dim, base * stretch ** (dim / (dim - 2))), 1.0


def _yarn(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    """High frequencies stay, low ones are interpolated, a linear ramp lies between them."""
    original = int(scaling["original_max_position_embeddings"])
    factor = float(scaling.get("factor") or max_position / original)

    def magnitude(scale: float, mscale: float = 1.0) -> float:
        return 1.0 if scale <= 1 else 0.1 * mscale * math.log(scale) + 1.0

    attention_factor = scaling.get("attention_factor")
    if attention_factor is None:
        mscale, all_dim = scaling.get("mscale"), scaling.get("mscale_all_dim")
        attention_factor = (
            magnitude(factor, mscale) / magnitude(factor, all_dim)
            if mscale and all_dim
            else magnitude(factor)
        )

    def dim_of(rotations: float) -> float:
        """The dim whose wave turns this often over the original context."""
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = dim_of(float(scaling.get("beta_fast") or 32))
    high = dim_of(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(dim // 2, dtype=np.float64) - low) / (high - low), 0, 1)
    frequencies = _inverse_frequencies(dim, base)
    return frequencies / factor * ramp + frequencies * (1 - ramp), float(attention_factor)


def _longrope(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    """Every wave has a stretch of its own, and another one for texts past the original context."""
    original = int(scaling["original_max_position_embeddings"])
    name = "long_factor" if max_position > original else "short_factor"
    stretch = np.asarray(scaling[name], np.float64)
    if stretch.shape != (dim // 2,):
        raise ValueError(
            f"rope_table: scaling: expected {dim // 2} numbers in {name}, "
            f"half of rotary_dim = {dim}, got {stretch.size}"
        )
    attention_factor = scaling.get("attention_factor")
    if attention_factor is None:  # follows from the model's longest text, not from this table's
        growth = max(float(scaling["factor"]), 1.0)
        attention_factor = math.sqrt(1 + math.log(growth) / math.log(original))
    return _inverse_frequencies(dim, base) / stretch, float(attention_factor)


def _llama3(
    dim: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Float64, float]:
    """Waves longer than the original context are stretched, short ones stay, smoothly between."""
    factor = float(scaling["factor"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    original = int(scaling["original_max_position_embeddings"])
    frequencies = _inverse_frequencies(dim, base)
    waves = original * frequencies / (2 * math.pi)  # in the original context
    smooth = np.clip((waves - low) / (high - low), 0, 1)
    return (1 - smooth) * frequencies / factor + smooth * frequencies, 1.0


_SCALINGS = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}


def _delivered(table: NDArray[Any], device: Any, like: Any) -> Any:
    wants_torch = device is not None or type(like).__module__.partition(".")[0] == "torch"
    if not wants_torch:
        return table
    import torch

    return torch.from_numpy(table).to(like.device if device is None else device)
