"""Quantise and dequantise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..case import Case, last_dim
from ..inputs import Arguments, Sizes

if TYPE_CHECKING:
    from torch import Tensor

    from ..arrays import Arrays

# Decoding, then 8192 and 32768 tokens of a 7B model.
_SHAPES = ((1, 4096), (16, 4096), (64, 4096), (8192, 4096), (32768, 4096))
_CPU_SHAPES = ((64, 4096), (2048, 4096))
_QUICK_SHAPES = ((64, 512),)
_GRANULARITIES = ("per_token", "per_tensor", "per_channel", "group128", "block128")
_L2_BYTES = 60_000_000  # of an H200
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def _regions(x: Tensor, granularity: str) -> tuple[Tensor, tuple[int, ...]]:
    """x such that the dims behind share a scale. Sizes of the cases are whole blocks."""
    if granularity == "per_token":
        return x, (-1,)
    if granularity == "per_tensor":
        return x, tuple(range(x.dim()))
    if granularity == "per_channel":
        return x, tuple(range(x.dim() - 1))
    if granularity == "group128" or x.shape[0] % 128:
        return x.unflatten(-1, (-1, 128)), (-1,)
    return x.unflatten(-1, (-1, 128)).unflatten(0, (-1, 128)), (1, 3)


def _quantize_fp8(x: Tensor, granularity: str = "per_token") -> tuple[Tensor, Tensor]:
    import torch

    parts, dims = _regions(x, granularity)
    amax = parts.abs().amax(dims, keepdim=True).float()
    scale = (amax / 448).clamp_min(2.0**-120)
    q = (parts.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return q.reshape(x.shape), scale


def _quantize_int8(
    x: Tensor, granularity: str = "per_token", symmetric: bool = True
) -> tuple[Tensor, ...]:
    import torch

    parts, dims = _regions(x, granularity)
    if symmetric:
        scale = (parts.abs().amax(dims, keepdim=True).float() / 127).clamp_min(2.0**-120)
        q = (parts.float() / scale).round().clamp(-128, 127).to(torch.int8)
        return q.reshape(x.shape), scale
    low = parts.amin(dims, keepdim=True).float().clamp_max(0)
    high = parts.amax(dims, keepdim=True).float().clamp_min(0)
    scale = ((high - low) / 255).clamp_min(2.0**-120)
    zero = (-128 - low / scale).round().clamp(-128, 127)
    q = ((parts.float() / scale).round() + zero).clamp(-128, 127).to(torch.int8)
    return q.reshape(x.shape), scale, zero.int()


def _rounded(x: Tensor, dtype: str) -> Tensor:
    import torch

    return x.to(getattr(torch, dtype))


def _dequantize(q: Tensor, scale: Tensor, dtype: str) -> Tensor:
    return _rounded(q.float() * scale, dtype)


_constants: dict[tuple[tuple[float, ...], str], Tensor] = {}


def _constant(numbers: tuple[float, ...], device: Any) -> Tensor:
    """Copied to the device once: a graph that is captured cannot copy."""
    import torch

    key = (numbers, str(device))
    if key not in _constants:
        _constants[key] = torch.tensor(numbers, device=device)
    return _constants[key]


def _pack_e2m1(x: Tensor) -> Tensor:
    import torch

    codes = torch.bucketize(x.abs(), _constant(_MIDPOINTS, x.device)).to(torch.uint8)
    codes = codes | (x < 0).to(torch.uint8) << 3
    return codes[..., ::2] | codes[..., 1::2] << 4


def _unpack_e2m1(q: Tensor) -> Tensor:
    import torch

    numbers = _constant((*_E2M1, *(-number for number in _E2M1)), q.device)
    return torch.take(numbers, torch.stack((q & 15, q >> 4), -1).flatten(-2).long())


def _quantize_nvfp4(x: Tensor) -> tuple[Tensor, ...]:
    import torch

    blocks = x.float().unflatten(-1, (-1, 16))
    amax = blocks.abs().amax(-1, keepdim=True)
    g = 448 * 6 / amax.amax()
    scale = (g * amax / 6).to(torch.float8_e4m3fn)
    return _pack_e2m1((blocks * (g / scale.float())).reshape(x.shape)), scale.squeeze(-1), g


def _dequantize_nvfp4(q: Tensor, scale: Tensor, global_scale: Tensor, dtype: str) -> Tensor:
    values = _unpack_e2m1(q).unflatten(-1, (-1, 16))
    factor = scale.float() / global_scale.float()
    return _rounded((values * factor[..., None]).flatten(-2), dtype)


def _mx_scale(blocks: Tensor, exponent: int) -> Tensor:
    amax = blocks.abs().amax(-1, keepdim=True)
    return (amax.log2().floor() - exponent).clamp(-127, 127)


def _quantize_mxfp4(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    blocks = x.float().unflatten(-1, (-1, 32))
    exponent = _mx_scale(blocks, 2)
    q = _pack_e2m1((blocks * torch.exp2(-exponent)).reshape(x.shape))
    return q, (exponent + 127).to(torch.uint8)


def _quantize_mxfp8(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    blocks = x.float().unflatten(-1, (-1, 32))
    exponent = _mx_scale(blocks, 8)
    scaled = (blocks * torch.exp2(-exponent)).clamp(-448, 448)
    return scaled.to(torch.float8_e4m3fn).reshape(x.shape), (exponent + 127).to(torch.uint8)


def _dequantize_mx(values: Tensor, scale: Tensor, dtype: str) -> Tensor:
    import torch

    factor = torch.exp2(scale.float() - 127)
    return _rounded((values.unflatten(-1, (-1, 32)) * factor[..., None]).flatten(-2), dtype)


def _dequantize_mxfp4(q: Tensor, scale: Tensor, dtype: str) -> Tensor:
    return _dequantize_mx(_unpack_e2m1(q), scale, dtype)


def _dequantize_mxfp8(q: Tensor, scale: Tensor, dtype: str) -> Tensor:
    return _dequantize_mx(q.float(), scale, dtype)


def _moderate_scales(_: Sizes, arrays: Arrays) -> dict[str, Any]:
    """e8m0 from 2^-15 to 2^16."""
    return {"scale": lambda shape, kind: arrays.random(shape, kind, 1) % 32 + 112}


def _traffic_of_one_scale(arguments: Arguments) -> tuple[int, int]:
    """The first code waits for the last number: what is larger than L2 has to be read twice."""
    reads = 2 if arguments.bytes_read > _L2_BYTES else 1
    return arguments.bytes_read * reads, arguments.bytes_written


def _traffic(arguments: Arguments) -> tuple[int, int]:
    if arguments.options.get("granularity") == "per_tensor":
        return _traffic_of_one_scale(arguments)
    return arguments.bytes_read, arguments.bytes_written


def _case(op: str, torch_fn: Any, *variants: dict[str, Any]) -> Case:
    return Case(
        op=op,
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16",),
        sizes=last_dim,
        shape_text="ROWSxN",
        variants=variants or ({},),
        torch_fn=torch_fn,
        given=_moderate_scales if op.startswith("dequantize_mx") else None,
        traffic=_traffic_of_one_scale if op == "quantize_nvfp4" else _traffic,
    )


CASES = (
    _case("quantize_fp8", _quantize_fp8, *({"granularity": name} for name in _GRANULARITIES)),
    _case(
        "quantize_int8",
        _quantize_int8,
        *({"granularity": name} for name in _GRANULARITIES),
        {"symmetric": False},
    ),
    _case("quantize_nvfp4", _quantize_nvfp4),
    _case("quantize_mxfp4", _quantize_mxfp4),
    _case("quantize_mxfp8", _quantize_mxfp8),
    _case("dequantize_fp8", _dequantize, {"dtype": "bfloat16"}),
    _case("dequantize_int8", _dequantize, {"dtype": "bfloat16"}),
    _case("dequantize_nvfp4", _dequantize_nvfp4, {"dtype": "bfloat16"}),
    _case("dequantize_mxfp4", _dequantize_mxfp4, {"dtype": "bfloat16"}),
    _case("dequantize_mxfp8", _dequantize_mxfp8, {"dtype": "bfloat16"}),
)
