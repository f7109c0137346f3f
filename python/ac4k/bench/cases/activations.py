"""Activations, and the gated residual of diffusion transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..case import Case, Shape, last_dim
from ..inputs import Sizes

if TYPE_CHECKING:
    from torch import Tensor

# Decoding, 2048 tokens, 32768 tokens of a large batch.
_SHAPES = ((1, 1, 4096), (1, 64, 4096), (16, 128, 4096), (64, 512, 4096))
_CPU_SHAPES = ((1, 64, 4096), (16, 128, 4096))
_QUICK_SHAPES = ((4, 32, 512),)


def _half_of_last_dim(shape: Shape) -> Sizes:
    return {"...": shape[:-1], "D": shape[-1]}


def _tokens(shape: Shape) -> Sizes:
    return {"...": shape[:-2], "S": shape[-2], "N": shape[-1]}


def _silu_and_mul(x: Tensor) -> Tensor:
    import torch

    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def _gelu_and_mul(x: Tensor, *, approximate: str = "none") -> Tensor:
    import torch

    a, b = x.chunk(2, -1)
    return torch.nn.functional.gelu(a, approximate=approximate) * b


def _gated_magnitude(x: Tensor, **_: str) -> Tensor:
    a, b = x.chunk(2, -1)
    return (a * b).abs()


def _relu2(x: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.relu(x).square()


def _residual_gate(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    return x + gate.unsqueeze(-2) * y


def _quantised(
    y: Tensor, granularity: str = "per_token", dtype: str = "float8_e4m3fn"
) -> tuple[Tensor, Tensor]:
    import torch

    parts = y.unflatten(-1, (-1, 128)) if granularity == "group128" else y
    largest = 127.0 if dtype == "int8" else 448.0
    scale = (parts.abs().amax(-1, keepdim=True).float() / largest).clamp_min(2.0**-120)
    q = (parts.float() / scale).clamp(-largest, largest)
    codes = q.round() if dtype == "int8" else q
    return codes.to(getattr(torch, dtype)).reshape(y.shape), scale.reshape(*y.shape[:-1], -1)


def _silu_and_mul_quant(x: Tensor, **options: str) -> tuple[Tensor, Tensor]:
    return _quantised(_silu_and_mul(x), **options)


def _gelu_and_mul_quant(x: Tensor, **options: str) -> tuple[Tensor, Tensor]:
    return _quantised(_gelu_and_mul(x), **options)


def _relu2_quant(x: Tensor, **options: str) -> tuple[Tensor, Tensor]:
    return _quantised(_relu2(x), **options)


def _add_gelu_quant(x: Tensor, bias: Tensor, **options: str) -> tuple[Tensor, Tensor]:
    import torch

    return _quantised(torch.nn.functional.gelu(x + bias), **options)


_QUANT_VARIANTS = (
    {"granularity": "per_token", "dtype": "float8_e4m3fn"},
    {"granularity": "group128", "dtype": "float8_e4m3fn"},
    {"granularity": "per_token", "dtype": "int8"},
)


def _quant_case(op: str, torch_fn: Callable[..., Any]) -> Case:
    return Case(
        op=op,
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=_half_of_last_dim,
        variants=_QUANT_VARIANTS,
        torch_fn=torch_fn,
    )


CASES = (
    _quant_case("silu_and_mul_quant", _silu_and_mul_quant),
    _quant_case("gelu_and_mul_quant", _gelu_and_mul_quant),
    _quant_case("relu2_quant", _relu2_quant),
    _quant_case("fused_add_gelu_quant", _add_gelu_quant),
    Case(
        op="silu_and_mul",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=_half_of_last_dim,
        torch_fn=_silu_and_mul,
        magnitude=_gated_magnitude,
    ),
    Case(
        op="gelu_and_mul",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=_half_of_last_dim,
        variants=({"approximate": "none"}, {"approximate": "tanh"}),
        torch_fn=_gelu_and_mul,
        magnitude=_gated_magnitude,
    ),
    Case(
        op="relu2",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=last_dim,
        torch_fn=_relu2,
    ),
    Case(
        op="residual_gate",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=_tokens,
        torch_fn=_residual_gate,
        magnitude=lambda x, y, gate: x.abs() + (gate.unsqueeze(-2) * y).abs(),
    ),
)
