"""RMSNorm as Transformers' models have it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import ac4k
from ac4k.nn._kernels import kernels_take


class RMSNorm(nn.Module):
    """y = weight * (x / sqrt(mean(x^2) + eps)) over the last dim of `x`, [..., hidden_size].

    The quotient is computed in float32 and rounded to x's dtype before the weight comes in: what
    Qwen3RMSNorm (and LlamaRMSNorm) does, whose state dict and attributes this module has. Kernel
    and plain PyTorch round at the same two places and so differ in rare last bits only.

    >>> import torch
    >>> norm = ac4k.nn.RMSNorm(2, eps=0.0).requires_grad_(False)
    >>> norm(torch.tensor([[2.0, -2.0]])).tolist()
    [[1.0, -1.0]]
    """

    def __init__(
        self, hidden_size: int, eps: float = 1e-6, use_custom_kernels: bool = True
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps
        self.use_custom_kernels = use_custom_kernels

    def forward(self, hidden_states: Tensor) -> Tensor:
        x = hidden_states
        if self.use_custom_kernels and kernels_take(x, self.weight):
            rows = x if x.stride(-1) == 1 else x.contiguous()
            return ac4k.rms_norm(rows, self.weight, self.variance_epsilon, cast_first=True)
        wide = x.to(torch.float32)
        mean_square = wide.pow(2).mean(-1, keepdim=True)
        return self.weight * (wide * torch.rsqrt(mean_square + self.variance_epsilon)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}"
