"""GGUF blocks: quantise and dequantise. The peers are what PyTorch users write by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..._formats import FORMATS
from ..case import Case, Shape
from ..inputs import Sizes
from ..weights import gguf_blocks

if TYPE_CHECKING:
    from torch import Tensor

    from ..arrays import Arrays, DType

# Weights of an 8B model.
_SHAPES = ((4096, 4096), (4096, 14336))
_CPU_SHAPES = ((1024, 4096),)
_QUICK_SHAPES = ((7, 512),)
_NAMED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1")
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def _columns(shape: Shape) -> Sizes:
    return {"...": shape[:-1], "K": shape[-1]}


# ---- PyTorch's way to quantise --------------------------------------------------------------


def _halves(values: Tensor) -> Tensor:
    import torch

    return values.half().view(torch.uint8)


def _pack_nibbles(codes: Tensor) -> Tensor:
    return codes[..., :16] & 15 | codes[..., 16:] << 4


def _pack_bits(codes: Tensor) -> Tensor:
    import torch

    bits = (codes >> 4).unflatten(-1, (4, 8))
    places = torch.arange(8, dtype=torch.uint8, device=codes.device)
    packed: Tensor = (bits << places).sum(-1, dtype=torch.uint8)
    return packed


def _torch_quantize(x: Tensor, fmt: str) -> Tensor:
    import torch

    parts = x.float().unflatten(-1, (-1, 32))
    if fmt.startswith("q8"):
        d = parts.abs().amax(-1, keepdim=True) / 127
        codes = (parts / d).round().to(torch.int8)
        fields = [_halves(d)]
        if fmt == "q8_1":
            fields.append(_halves(codes.sum(-1, keepdim=True) * d))
        return torch.cat([*fields, codes.view(torch.uint8)], -1)
    bits = int(fmt[1])
    if fmt.endswith("_0"):
        middle = 2 ** (bits - 1)
        d = parts.gather(-1, parts.abs().argmax(-1, keepdim=True)) / -middle
        codes = (parts / d + middle + 0.5).clamp(0, 2 * middle - 1).to(torch.uint8)
        fields = [_halves(d)]
    else:
        low, high = parts.aminmax(dim=-1, keepdim=True)
        d = (high - low) / (2**bits - 1)
        codes = ((parts - low) / d + 0.5).clamp(0, 2**bits - 1).to(torch.uint8)
        fields = [_halves(d), _halves(low)]
    if bits == 5:
        fields.append(_pack_bits(codes))
    return torch.cat([*fields, _pack_nibbles(codes)], -1)


# ---- and back -------------------------------------------------------------------------------


def _number(q: Tensor, at: int) -> Tensor:
    import torch

    return q[..., at : at + 2].contiguous().view(torch.float16).float()


def _fields(bytes_: Tensor, width: int, run: int) -> Any:
    """Fields of `width` bits of `run` bytes at a time: [..., runs, fields, run]."""
    import torch

    shifts = torch.arange(0, 8, width, dtype=torch.uint8, device=bytes_.device)[:, None]
    return bytes_.unflatten(-1, (-1, 1, run)) >> shifts & 2**width - 1


def _looked_up(codes: Tensor, values: tuple[int, ...]) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.float32, device=codes.device)[codes.int()]


def _six_bits(b: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    first, second, rest = b[..., :4], b[..., 4:8], b[..., 8:]
    scales = torch.cat([first & 63, rest & 15 | first >> 6 << 4], -1)
    mins = torch.cat([second & 63, rest >> 4 | second >> 6 << 4], -1)
    return scales, mins


def _torch_super_block(q: Tensor, fmt: str) -> Any:
    """[..., sub-blocks, numbers] of formats of 256."""
    import torch

    if fmt == "q2_k":
        codes = _fields(q[..., 16:80], 2, 32).flatten(-3).unflatten(-1, (16, 16))
        scales, mins = q[..., :16] & 15, q[..., :16] >> 4
        step, low = _number(q, 80) * scales, _number(q, 82) * mins
        return step[..., None] * codes - low[..., None]
    if fmt == "q3_k":
        pairs = _fields(q[..., 32:96], 2, 32).flatten(-3)
        codes = pairs + 4 * _fields(q[..., :32], 1, 32).flatten(-3) - 4.0
        low = _fields(q[..., 96:104], 4, 8).flatten(-3)
        scales = (low | _fields(q[..., 104:108], 2, 4).flatten(-3) << 4) - 32.0
        return (_number(q, 108) * scales)[..., None] * codes.unflatten(-1, (16, 16))
    if fmt in ("q4_k", "q5_k"):
        scales, mins = _six_bits(q[..., 4:16])
        step, low = _number(q, 0) * scales, _number(q, 2) * mins
        codes = _fields(q[..., -128:], 4, 32).flatten(-3, -2)
        if fmt == "q5_k":
            codes = codes | _fields(q[..., 16:48], 1, 32).flatten(-3, -2) << 4
        return step[..., None] * codes - low[..., None]
    if fmt == "q6_k":
        low = _fields(q[..., :128], 4, 64).flatten(-3)
        codes = (low | _fields(q[..., 128:192], 2, 32).flatten(-3) << 4) - 32.0
        step = _number(q, 208) * q[..., 192:208].contiguous().view(torch.int8)
        return step[..., None] * codes.unflatten(-1, (16, 16))
    low = torch.stack([q[..., 4:8] & 15, q[..., 4:8] >> 4], -1).flatten(-2)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=q.device)
    high = (q[..., 2:4, None] >> shifts & 3).flatten(-2)
    step = _number(q, 0) * ((low | high << 4) - 32.0)
    return step[..., None] * _looked_up(_fields(q[..., 8:], 4, 16).flatten(-2), _IQ4)


def _torch_block(q: Tensor, fmt: str) -> Any:
    """[..., numbers] of formats of 32 and 64."""
    import torch

    if fmt == "nvfp4":
        scales = q[..., :4].contiguous().view(torch.float8_e4m3fn).float() / 2
        codes = _looked_up(_fields(q[..., 4:], 4, 8).flatten(-2), _FP4)
        return scales[..., None] * codes
    if fmt == "mxfp4":
        scale = torch.exp2(q[..., :1].float() - 128)
        return scale * _looked_up(_fields(q[..., 1:], 4, 16).flatten(-3), _FP4)
    if fmt.startswith("q8"):
        return _number(q, 0) * q[..., -32:].contiguous().view(torch.int8)
    codes = _fields(q[..., -16:], 4, 16).flatten(-3)
    if fmt == "iq4_nl":
        return _number(q, 0) * _looked_up(codes, _IQ4)
    if fmt.startswith("q5"):
        bits = torch.arange(8, dtype=torch.uint8, device=q.device)
        codes = codes | (q[..., -20:-16, None] >> bits & 1).flatten(-2) << 4
    if fmt.endswith("_0"):
        return _number(q, 0) * (codes - (8.0 if fmt == "q4_0" else 16.0))
    return _number(q, 0) * codes + _number(q, 2)


def _torch_dequantize(q: Tensor, fmt: str, dtype: str) -> Any:
    import torch

    blocks = _torch_super_block if FORMATS[fmt].block_values == 256 else _torch_block
    leading = q.dim() - 2
    return blocks(q, fmt).flatten(leading).to(getattr(torch, dtype))


# ---- The cases ------------------------------------------------------------------------------


def _blocks(fmt: str | None) -> Any:
    """Of this format, or of the one that the option `fmt` names."""

    def blocks(
        sizes: Sizes, dtype: DType, choices: Mapping[str, Any], arrays: Arrays
    ) -> Mapping[str, Any]:
        chosen = fmt or choices["fmt"]
        return {"q": lambda shape, kind: gguf_blocks(chosen, shape, arrays)}

    return blocks


def _case(op: str, torch_fn: Any, *variants: dict[str, Any], weights: Any = None) -> Case:
    return Case(
        op=op,
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("bf16",),
        sizes=_columns,
        shape_text="ROWSxK",
        variants=variants or ({},),
        torch_fn=torch_fn,
        torch_is_reference=False,
        compile=torch_fn is not None,
        weights=weights,
    )


def _quantizer(fmt: str) -> Any:
    return lambda x: _torch_quantize(x, fmt)


def _dequantizer(fmt: str) -> Any:
    return lambda q, dtype="bfloat16": _torch_dequantize(q, fmt, dtype)


CASES = (
    *(_case(f"quantize_{fmt}", _quantizer(fmt)) for fmt in _NAMED),
    *(
        _case(f"dequantize_{fmt}", _dequantizer(fmt), {"dtype": "bfloat16"}, weights=_blocks(fmt))
        for fmt in _NAMED
    ),
    _case("quantize", None, *({"fmt": fmt} for fmt in FORMATS)),
    _case(
        "dequantize",
        _torch_dequantize,
        *({"fmt": fmt, "dtype": "bfloat16"} for fmt in FORMATS),
        weights=_blocks(None),
    ),
)
