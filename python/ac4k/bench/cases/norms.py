"""Norms over rows: the hidden size of models, decode steps, and heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..case import Case, last_dim

if TYPE_CHECKING:
    from torch import Tensor

# Prefill of an 8B model, a batch whose traffic is past any cache, the heads of a long prompt, and
# decode steps.
_SHAPES = (
    (2048, 4096),
    (16384, 8192),
    (131072, 128),
    (524288, 128),
    (1, 4096),
    (8, 4096),
    (64, 4096),
)
_CPU_SHAPES = ((2048, 4096), (131072, 128))
_QUICK_SHAPES = ((64, 512),)


def _rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _rms_norm_magnitude(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    # As in reference.py: N/16 additions in a row, halved by the root.
    return _rms_norm(x, weight, eps).abs() * (1 + x.shape[-1] / 256)


CASES = (
    Case(
        op="rms_norm",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=last_dim,
        shape_text="MxN",
        torch_fn=_rms_norm,
        magnitude=_rms_norm_magnitude,
    ),
)
