"""When a module may use the kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def kernels_take(*tensors: Tensor) -> bool:
    """One dtype that the kernels have, on a CPU or a GPU, and nothing for autograd to record."""
    first = tensors[0]
    if first.dtype not in _DTYPES or first.device.type not in ("cpu", "cuda"):
        return False
    if any(t.dtype != first.dtype or t.device != first.device for t in tensors):
        return False
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False
    # Tangents of forward mode (torch.func.jvp) do not show in requires_grad.
    return all(forward_ad.unpack_dual(t).tangent is None for t in tensors)
