"""Rotary position embedding of video tokens as a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

import ac4k
from ac4k.nn._kernels import kernels_take


class RotaryEmbedding3D(nn.Module):
    """Rotates queries and keys by their place in a video, as Wan 2.1 does.

    `rotary(q, grid_sizes, k)` for q and k of [samples, tokens, heads, head_dim] and grid_sizes of
    [samples, 3]: frames, rows and columns. Tokens past a sample's grid stay as they are.

    precision="exact" multiplies complex128, rounds to float32 and then to q's dtype, "fast" works
    in float32, both by the kernel and in plain PyTorch: the results are the same bits, but where a
    last bit of float64 decides (an odd number of pairs on the CPU). The table stays float64,
    whatever `.to()` is told.

    >>> import torch
    >>> rotary = ac4k.nn.RotaryEmbedding3D(head_dim=12)
    >>> rotary(torch.ones(1, 24, 2, 12), torch.tensor([[2, 3, 4]])).shape
    torch.Size([1, 24, 2, 12])
    """

    table: Tensor

    def __init__(
        self,
        head_dim: int,
        max_position: int = 1024,
        base: float = 10000.0,
        *,
        height_pairs: int = -1,
        width_pairs: int = -1,
        precision: Literal["exact", "fast"] = "exact",
        use_custom_kernels: bool = True,
    ) -> None:
        super().__init__()
        self.height_pairs, self.width_pairs = height_pairs, width_pairs
        self.precision: Literal["exact", "fast"] = precision
        self.use_custom_kernels = use_custom_kernels
        table = ac4k.rope_3d_table(
            head_dim, max_position, base, height_pairs=height_pairs, width_pairs=width_pairs
        )
        self.register_buffer("table", torch.from_numpy(table), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        table = self.table
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.table.dtype != table.dtype:
            self.table = table.to(self.table.device)
        elif self.table is not table and not table.is_meta:
            self.table.copy_(table)  # to_empty() has not: no state dict brings the table back
        return self

    def forward(self, q: Tensor, grid_sizes: Tensor, k: Tensor | None = None) -> Any:
        given = (q,) if k is None else (q, k)
        if self.use_custom_kernels and kernels_take(*given):
            rows = [x if x.stride(-1) == 1 else x.contiguous() for x in given]
            return ac4k.rope_3d(
                rows[0],
                grid_sizes.contiguous(),
                self.table,
                *rows[1:],
                height_pairs=self.height_pairs,
                width_pairs=self.width_pairs,
                precision=self.precision,
            )
        turns, inside = self._turns(grid_sizes, q.shape[1])
        rotated = tuple(self._rotated(x, turns, inside) for x in given)
        return rotated[0] if k is None else rotated

    def _turns(self, grid_sizes: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every pair, [samples, tokens, 1, pairs, 2], NaN where the table ends;
        and which tokens are in the grid."""
        positions, pairs, _ = self.table.shape
        height = pairs // 3 if self.height_pairs == -1 else self.height_pairs
        width = pairs // 3 if self.width_pairs == -1 else self.width_pairs
        token = torch.arange(tokens, device=grid_sizes.device)
        frames, rows, columns = grid_sizes.long().clamp(0, tokens).unbind(-1)
        area = (rows * columns).clamp(max=tokens)[:, None]
        inside = token < frames[:, None] * area
        area, columns = area.clamp(min=1), columns.clamp(min=1)[:, None]
        places = (token // area, token % area // columns, token % columns)
        parts = self.table.split((pairs - height - width, height, width), 1)
        turns = [
            torch.where(
                (place < positions)[..., None, None],
                part[place.clamp(max=positions - 1)],
                torch.nan,
            )
            for part, place in zip(parts, places, strict=True)
        ]
        return torch.cat(turns, 2).unsqueeze(2), inside

    def _rotated(self, x: Tensor, turns: Tensor, inside: Tensor) -> Tensor:
        if self.precision == "exact":
            pairs = torch.view_as_complex(x.to(torch.float64).unflatten(-1, (-1, 2)))
            turned = torch.view_as_real(pairs * torch.view_as_complex(turns)).flatten(-2)
        else:
            a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
            cos, sin = turns.float().unbind(-1)
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        return torch.where(inside[..., None, None], turned.float().to(x.dtype), x)

    def extra_repr(self) -> str:
        positions, pairs, _ = self.table.shape
        return f"max_position={positions}, head_dim={2 * pairs}, precision={self.precision!r}"
