"""Activations, and the gated residual of diffusion transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


CASES = (
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
