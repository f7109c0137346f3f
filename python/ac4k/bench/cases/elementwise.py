"""Memory-bound ops that treat each element alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..case import Case, all_dims, last_dim

if TYPE_CHECKING:
    from torch import Tensor

# Activations of a 7B model: 2048 tokens, 32768 tokens of a large batch, and decode steps.
_SHAPES = ((16, 128, 4096), (64, 512, 4096), (1, 1, 4096), (1, 64, 4096))
_CPU_SHAPES = ((1, 64, 4096), (16, 128, 4096))
_QUICK_SHAPES = ((4, 32, 512),)


def _add_gelu(x: Tensor, bias: Tensor, *, approximate: str = "none") -> Tensor:
    import torch

    return torch.nn.functional.gelu(x + bias, approximate=approximate)


def _mul_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


CASES = (
    Case(
        op="fused_add_gelu",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=last_dim,
        variants=({"approximate": "none"}, {"approximate": "tanh"}),
        torch_fn=_add_gelu,
        magnitude=lambda x, bias, **_: x.abs() + bias.abs(),
    ),
    Case(
        op="element_wise_mul_add",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=all_dims,
        torch_fn=_mul_add,
        magnitude=lambda a, b, c: (a * b).abs() + c.abs(),
    ),
)
