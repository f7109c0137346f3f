"""Norms over rows: the hidden size of models, decode steps, and heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..arrays import Arrays
from ..case import Case, Shape, last_dim
from ..inputs import Sizes

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
_CPU_SHAPES = ((64, 4096), (2048, 4096), (131072, 128))
_QUICK_SHAPES = ((64, 512),)


def _rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _rms_norm_magnitude(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    return _rms_norm(x, weight, eps).abs() * _row_sums(x)


def _add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None = None) -> tuple[Tensor, ...]:
    total = x + residual
    return _rms_norm(total, weight), total


def _layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _qk_norm(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    over: str = "head_dim",
) -> tuple[Tensor, ...]:
    def norm(x: Tensor, weight: Tensor | None) -> Tensor:
        if over == "head_dim":
            return _rms_norm(x, weight, eps)
        return _rms_norm(x.flatten(-2), weight, eps).view_as(x)

    return norm(q, q_weight), norm(k, k_weight)


def _row_sums(x: Tensor) -> float:
    """As in ac4k.reference: N/16 additions in a row, halved by the root."""
    return 1 + x.shape[-1] / 256


def _layer_norm_magnitude(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    # Random rows: centred values are no larger on average than 1 after the division.
    y = _layer_norm(x, weight, None, eps).abs() + (0 if weight is None else weight.abs())
    return y * _row_sums(x) + (0 if bias is None else bias.abs())


def _qk_norm_magnitude(q: Tensor, k: Tensor, *args: Any, **options: Any) -> tuple[Tensor, ...]:
    return tuple(
        y.abs() * (1 + y.shape[-1] * y.shape[-2] / 256) for y in _qk_norm(q, k, *args, **options)
    )


def _quantised(y: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """A scale for each row, as PyTorch code writes it."""
    import torch

    amax = y.abs().amax(-1, keepdim=True).float()
    if dtype == "int8":
        scale = amax / 127
        return (y.float() / scale).round().clamp(-128, 127).to(torch.int8), scale
    scale = amax / 448
    return (y.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def _rms_norm_quant(x: Tensor, weight: Tensor, *, dtype: Any) -> tuple[Tensor, ...]:
    return _quantised(_rms_norm(x, weight), dtype)


def _add_rms_norm_quant(
    x: Tensor, residual: Tensor, weight: Tensor, *, dtype: Any
) -> tuple[Tensor, ...]:
    y, total = _add_rms_norm(x, residual, weight)
    return (*_quantised(y, dtype), total)


def _layer_norm_quant(x: Tensor, weight: Tensor, bias: Tensor, *, dtype: Any) -> tuple[Tensor, ...]:
    return _quantised(_layer_norm(x, weight, bias), dtype)


def _heads(shape: Shape) -> Sizes:
    """Tokens, heads of q, heads of k, head_dim."""
    tokens, heads, groups, dim = shape
    return {
        "...": (tokens,),
        "H": heads,
        "G": groups,
        "D": dim,
        "P": heads * dim,
        "R": groups * dim,
    }


# Weights are optional, and measured.
def _weights(*names: str) -> Callable[[Sizes, Arrays], Mapping[str, Any]]:
    return lambda _sizes, _arrays: dict.fromkeys(names)


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
        given=_weights("weight"),
    ),
    Case(
        op="fused_add_rms_norm",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=last_dim,
        shape_text="MxN",
        torch_fn=_add_rms_norm,
        torch_is_reference=False,  # the op normalises the sum as it is rounded
        given=_weights("weight"),
    ),
    Case(
        op="layer_norm",
        shapes=_SHAPES,
        cpu_shapes=_CPU_SHAPES,
        quick_shapes=_QUICK_SHAPES,
        dtypes=("f32", "bf16"),
        sizes=last_dim,
        shape_text="MxN",
        torch_fn=_layer_norm,
        magnitude=_layer_norm_magnitude,
        given=_weights("weight", "bias"),
    ),
    # Qwen3-8B, and Wan 2.1 (1.3B, 480p) across heads.
    Case(
        op="qk_norm",
        shapes=((1, 32, 8, 128), (64, 32, 8, 128), (8192, 32, 8, 128), (32760, 12, 12, 128)),
        cpu_shapes=((64, 32, 8, 128), (2048, 32, 8, 128)),
        quick_shapes=((8, 4, 2, 64),),
        dtypes=("f32", "bf16"),
        sizes=_heads,
        shape_text="tokens x q heads x k heads x head_dim",
        variants=({"over": "head_dim"}, {"over": "heads"}),
        torch_fn=_qk_norm,
        magnitude=_qk_norm_magnitude,
        given=_weights("q_weight", "k_weight"),
    ),
    *(
        Case(
            op=op,
            shapes=((2048, 4096), (16384, 8192), (1, 4096), (64, 4096)),
            cpu_shapes=((64, 4096), (2048, 4096)),
            quick_shapes=_QUICK_SHAPES,
            dtypes=("bf16",),
            sizes=last_dim,
            shape_text="MxN",
            variants=({"dtype": "float8_e4m3fn"}, {"dtype": "int8"}),
            torch_fn=torch_fn,
            given=_weights(*weights),
        )
        for op, torch_fn, weights in (
            ("rms_norm_quant", _rms_norm_quant, ("weight",)),
            ("fused_add_rms_norm_quant", _add_rms_norm_quant, ("weight",)),
            ("layer_norm_quant", _layer_norm_quant, ("weight", "bias")),
        )
    ),
)
