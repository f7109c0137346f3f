"""The gated feed-forward layer of Llama-like models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import ac4k
from ac4k.nn._kernels import kernels_take


def _join_after_loading(module: GatedMLP, _incompatible: object) -> None:
    module.join_weights()


class GatedMLP(nn.Module):
    """y = down_proj(silu(gate_proj(x)) * up_proj(x)) for `x`, [..., hidden_size].

    State dict and attributes are those of Qwen3MLP (LlamaMLP without biases): gate_proj.weight,
    up_proj.weight, down_proj.weight. The first two lie behind each other in one piece of memory, so
    that one matrix product makes gate and up, which `silu_and_mul` then reads; they stay parameters
    of their own. `.to()`, `.half()`, `load_state_dict()` keep them joined. Where something else
    moved them (`copy.deepcopy`), two products do the same; `join_weights()` joins them again. Two
    it is also where gate_proj or up_proj has a hook, which then sees its layer called.

    silu(gate) * up is computed in float32 and rounded once, by the kernel and by plain PyTorch
    alike; Transformers also rounds silu(gate), so results differ by that rounding. Inside
    torch.compile the plain formula is used, which Inductor fuses.

    >>> import torch
    >>> mlp = ac4k.nn.GatedMLP(4, 8).requires_grad_(False)
    >>> mlp(torch.ones(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, use_custom_kernels: bool = True
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.use_custom_kernels = use_custom_kernels
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.register_load_state_dict_post_hook(_join_after_loading)  # type: ignore[no-untyped-call]
        self.join_weights()

    def join_weights(self) -> None:
        """Puts the weights of gate_proj and up_proj behind each other, where they are not yet."""
        gate, up = self.gate_proj.weight, self.up_proj.weight
        if gate.is_meta or up.is_meta or gate.dtype != up.dtype or gate.device != up.device:
            return
        if not gate.is_floating_point():  # packed weights have no rows to lie behind each other
            return
        if self._joined_weight() is not None:
            return
        with torch.no_grad():
            joined = torch.cat([gate.detach(), up.detach()])
        gate.data, up.data = joined.split([gate.shape[0], up.shape[0]])

    def _joined_weight(self) -> Tensor | None:
        """Both weights as one, [2 * intermediate_size, hidden_size], when they lie like that."""
        gate, up = self.gate_proj.weight.detach(), self.up_proj.weight.detach()
        together = (
            gate.dtype == up.dtype
            and gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()
            and gate.storage_offset() + gate.numel() == up.storage_offset()
            and gate.is_contiguous()
            and up.is_contiguous()
        )
        if not together:
            return None
        return gate.as_strided((gate.shape[0] + up.shape[0], gate.shape[1]), gate.stride())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.join_weights()
        return self

    def _uses_kernels(self, x: Tensor) -> bool:
        plain = all(
            type(layer) is nn.Linear and layer.bias is None
            for layer in (self.gate_proj, self.up_proj)
        )
        return (
            self.use_custom_kernels
            and plain
            and not torch.compiler.is_compiling()
            and kernels_take(x, self.gate_proj.weight, self.up_proj.weight)
        )

    def _is_watched(self) -> bool:
        """Whether a hook (calibration, pruning, offloading) waits for gate_proj or up_proj."""
        return any(
            layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
            for layer in (self.gate_proj, self.up_proj)
        )

    def forward(self, x: Tensor) -> Tensor:
        if self._uses_kernels(x):
            joined = None if self._is_watched() else self._joined_weight()
            if joined is not None:
                gate_up = functional.linear(x, joined)
            else:
                gate_up = torch.cat([self.gate_proj(x), self.up_proj(x)], -1)
            return self._down(ac4k.silu_and_mul(gate_up))
        gate, up = self.gate_proj(x), self.up_proj(x)
        wide = torch.promote_types(gate.dtype, torch.float32)
        return self._down((functional.silu(gate.to(wide)) * up.to(wide)).to(gate.dtype))

    def _down(self, y: Tensor) -> Tensor:
        result: Tensor = self.down_proj(y)
        return result
