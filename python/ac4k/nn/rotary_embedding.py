"""Rotary position embedding as a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

import ac4k
from ac4k.nn._kernels import kernels_take


class RotaryEmbedding(nn.Module):
    """Rotates queries and keys by their tokens' positions; the table of angles is made once.

    `rotary(positions, q, k)` gives q and k rotated, in one launch: q and k are [..., heads,
    head_dim], positions [...]. `rotary(positions, q)` gives q alone.

    `rotary(x, position_ids)` gives cosines and sines of x's dtype, [..., rotary_dim], as the rotary
    modules of Transformers' models do, whose place this module can take (`from_config`).

    Kernel and plain PyTorch compute in float32 and round once: their results are the same bits. A
    position outside the table gives NaN. The table stays float32 whatever `.to()` is told.

    >>> import torch
    >>> rotary = ac4k.nn.RotaryEmbedding(head_dim=4, max_position=8)
    >>> rotary(torch.tensor([0, 1]), torch.ones(2, 1, 4))[0].tolist()
    [[1.0, 1.0, 1.0, 1.0]]
    """

    cos_sin: Tensor

    def __init__(
        self,
        head_dim: int,
        max_position: int,
        base: float = 10000.0,
        *,
        rotary_dim: int | None = None,
        scaling: Mapping[str, Any] | None = None,
        style: Literal["neox", "interleaved"] = "neox",
        use_custom_kernels: bool = True,
    ) -> None:
        super().__init__()
        self.style: Literal["neox", "interleaved"] = style
        self.use_custom_kernels = use_custom_kernels
        table = ac4k.rope_table(
            head_dim, max_position, base=base, rotary_dim=rotary_dim, scaling=scaling
        )
        self.register_buffer("cos_sin", torch.from_numpy(table), persistent=False)

    @classmethod
    def from_config(cls, config: Any, **options: Any) -> RotaryEmbedding:
        """For a configuration of Transformers: head_dim, max_position_embeddings (`max_position=`
        takes its place), rope_parameters, or before Transformers 5 rope_theta and rope_scaling.

        In Transformers "dynamic" and "longrope" choose angles by a sequence's length; here they are
        those of max_position tokens.
        """
        head_dim = getattr(config, "head_dim", None)
        head_dim = head_dim or config.hidden_size // config.num_attention_heads
        scaling = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
        scaling = dict(scaling or {})
        kinds = [name for name, value in scaling.items() if isinstance(value, Mapping)]
        if kinds:
            raise ValueError(
                f"RotaryEmbedding: expected one set of rope_parameters, got one for each of "
                f"{', '.join(kinds)}: pass it as RotaryEmbedding(..., "
                f"scaling=config.rope_parameters['{kinds[0]}'])"
            )
        for name in ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings"):
            if scaling.get(name) is None:
                scaling[name] = getattr(config, name, None)
        longest = config.max_position_embeddings
        original = scaling["original_max_position_embeddings"] or longest
        scaling["original_max_position_embeddings"] = original
        if scaling.get("factor") is None:
            scaling["factor"] = longest / original
        return cls(head_dim, scaling=scaling, **{"max_position": longest, **options})

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        table = self.cos_sin
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.cos_sin.dtype != table.dtype:
            self.cos_sin = table.to(self.cos_sin.device)
        elif self.cos_sin is not table and not table.is_meta:
            self.cos_sin.copy_(table)  # to_empty() has not: no state dict brings the table back
        return self

    def forward(self, *args: Tensor, position_ids: Tensor | None = None) -> Any:
        if position_ids is not None:  # as Transformers' Llama names it
            args = (*args, position_ids)
        positions = args[0]
        if positions.is_floating_point():  # Transformers' (x, position_ids)
            x, positions = args
            cos, sin = self._rows(positions).to(x.dtype).chunk(2, -1)
            return self._for_both(cos), self._for_both(sin)
        q, k = args[1], args[2] if len(args) > 2 else None
        given = (q,) if k is None else (q, k)
        if self.use_custom_kernels and kernels_take(*given):
            rows = [x if x.stride(-1) == 1 else x.contiguous() for x in given]
            return ac4k.rope(
                rows[0], positions.contiguous(), self.cos_sin, *rows[1:], style=self.style
            )
        cos, sin = self._rows(positions).unsqueeze(-2).chunk(2, -1)
        rotated = tuple(self._rotated(x, cos, sin) for x in given)
        return rotated[0] if k is None else rotated

    def _rows(self, positions: Tensor) -> Tensor:
        """Cosines and sines of each position; NaN where the table has none."""
        last = self.cos_sin.shape[0] - 1
        known = (positions >= 0) & (positions <= last)
        rows = self.cos_sin[positions.clamp(0, last).long()]
        return torch.where(known.unsqueeze(-1), rows, torch.nan)

    def _for_both(self, half: Tensor) -> Tensor:
        """Of both elements of each pair."""
        if self.style == "neox":
            return torch.cat((half, half), -1)
        return half.repeat_interleave(2, -1)

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rotary_dim = 2 * cos.shape[-1]
        wide = x[..., :rotary_dim].to(torch.promote_types(x.dtype, torch.float32))
        if self.style == "neox":
            a, b = wide.chunk(2, -1)
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        else:
            a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        return torch.cat((turned.to(x.dtype), x[..., rotary_dim:]), -1)

    def extra_repr(self) -> str:
        positions, rotary_dim = self.cos_sin.shape
        return f"max_position={positions}, rotary_dim={rotary_dim}, style={self.style!r}"
