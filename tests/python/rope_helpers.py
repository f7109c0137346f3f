"""What the tests of the RoPE ops share: tables, and PyTorch's and Wan's own arithmetic."""

from __future__ import annotations

from typing import Any

import torch
from helpers import OPS, SHORT, wide

import ac4k
from ac4k.reference import error_ratio, references_of

STYLES = ("neox", "interleaved")


def positions_of(shape: tuple[int, ...], limit: int, device: str, seed: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, limit, shape, generator=generator).to(device)


def table_of(dim: int, positions: int, device: str) -> torch.Tensor:
    return torch.from_numpy(ac4k.rope_table(dim, positions)).to(device)


def assert_right(name: str, results: Any, *args: Any, **options: Any) -> None:
    expected = references_of(
        name, *map(wide, args), **{key: wide(value) for key, value in options.items()}
    )
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert tuple(result.shape) == reference.result.shape
        ratio = error_ratio(SHORT[result.dtype], OPS[name]["tolerance"], wide(result), reference)
        assert ratio <= 1


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(
        torch.nan_to_num(a, nan=0.0), torch.nan_to_num(b, nan=0.0)
    )


def eager(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str) -> torch.Tensor:
    """PyTorch's operators in float32, rounded once. cos, sin: [tokens..., pairs]."""
    cos, sin = cos[..., None, :], sin[..., None, :]
    pairs = cos.shape[-1]
    result = x.clone()
    first, second = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if style == "neox"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    a, b = x[..., first].float(), x[..., second].float()
    result[..., first] = (a * cos - b * sin).to(x.dtype)
    result[..., second] = (b * cos + a * sin).to(x.dtype)
    return result


def wan(x: torch.Tensor, grid_sizes: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Wan 2.1's definition: complex128, then float32, then the type of x."""
    n, c = x.size(2), x.size(3) // 2
    freqs = torch.view_as_complex(table).split([c - 2 * (c // 3), c // 3, c // 3], dim=1)
    output = []
    for i, (f, h, w) in enumerate(grid_sizes.tolist()):
        length = f * h * w
        x_i = torch.view_as_complex(x[i, :length].to(torch.float64).reshape(length, n, -1, 2))
        freqs_i = torch.cat(
            [
                freqs[0][:f].view(f, 1, 1, -1).expand(f, h, w, -1),
                freqs[1][:h].view(1, h, 1, -1).expand(f, h, w, -1),
                freqs[2][:w].view(1, 1, w, -1).expand(f, h, w, -1),
            ],
            dim=-1,
        ).reshape(length, 1, -1)
        x_i = torch.view_as_real(x_i * freqs_i).flatten(2)
        output.append(torch.cat([x_i, x[i, length:].to(torch.float64)]))
    return torch.stack(output).float().to(x.dtype)
