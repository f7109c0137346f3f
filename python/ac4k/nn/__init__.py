"""PyTorch modules over AC4K's kernels: drop-in for layers of Transformers' models.

Each takes `use_custom_kernels`; without it, or where the kernels cannot run (autograd, another
dtype), the same arithmetic is done in plain PyTorch. State dicts are those of the layers replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ac4k.nn.gated_mlp import GatedMLP
    from ac4k.nn.rms_norm import RMSNorm
    from ac4k.nn.rotary_embedding import RotaryEmbedding
    from ac4k.nn.rotary_embedding_3d import RotaryEmbedding3D

__all__ = ["GatedMLP", "RMSNorm", "RotaryEmbedding", "RotaryEmbedding3D"]

# Imported when first asked for: they need torch.
_LAZY = {
    "GatedMLP": "ac4k.nn.gated_mlp",
    "RMSNorm": "ac4k.nn.rms_norm",
    "RotaryEmbedding": "ac4k.nn.rotary_embedding",
    "RotaryEmbedding3D": "ac4k.nn.rotary_embedding_3d",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'ac4k.nn' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
