"""RotaryEmbedding and RotaryEmbedding3D: kernels and plain PyTorch alike; in a model's place."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ac4k.nn

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def random(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("style", ["neox", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [64, 32])
def test_rotary_embedding(device: str, dtype: torch.dtype, style: Any, rotary_dim: int) -> None:
    rotary = ac4k.nn.RotaryEmbedding(64, 40, rotary_dim=rotary_dim, style=style)
    rotary = rotary.to(device).to(dtype)
    assert rotary.cos_sin.dtype == torch.float32
    assert not rotary.state_dict()
    q = random(2, 7, 4, 64, dtype=dtype, device=device)
    k = random(2, 2, 7, 64, dtype=dtype, device=device, seed=1).transpose(1, 2)
    positions = torch.arange(14, device=device).view(2, 7)
    positions[0, 3], positions[1, 2] = 40, -1
    results = rotary(positions, q, k)
    alone = rotary(positions.t().contiguous().t(), q)
    assert same_bits(alone, results[0])
    rotary.use_custom_kernels = False
    plain = rotary(positions, q, k)
    assert same_bits(results[0], plain[0])
    assert same_bits(results[1], plain[1])
    assert bool(results[0][0, 3, :, :rotary_dim].isnan().all())


def test_gradients_go_through_plain_pytorch(device: str) -> None:
    rotary = ac4k.nn.RotaryEmbedding(8, 40).to(device)
    q = random(3, 2, 8, dtype=torch.float32, device=device).requires_grad_()
    rotary(torch.arange(3, device=device), q).sum().backward()
    assert q.grad is not None
    grid = ac4k.nn.RotaryEmbedding3D(8).to(device)
    x = random(1, 4, 2, 8, dtype=torch.float32, device=device).requires_grad_()
    grid(x, torch.tensor([[1, 2, 2]], device=device)).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("split", [(-1, -1), (2, 10)])
def test_rotary_embedding_3d(
    device: str, dtype: torch.dtype, precision: Any, split: tuple[int, int]
) -> None:
    rotary = ac4k.nn.RotaryEmbedding3D(
        32, 16, height_pairs=split[0], width_pairs=split[1], precision=precision
    )
    rotary = rotary.to(device).to(dtype)
    assert rotary.table.dtype == torch.float64
    q = random(4, 20, 3, 32, dtype=dtype, device=device)
    k = random(4, 20, 2, 32, dtype=dtype, device=device, seed=1)
    q[0, -1, 0, 0] = math.inf  # past the grid
    sizes = torch.tensor([[2, 3, 3], [1, 1, 20], [0, 3, 3], [5, 5, 5]], device=device)
    results = rotary(q, sizes, k)
    assert same_bits(rotary(q, sizes), results[0])
    rotary.use_custom_kernels = False
    plain = rotary(q, sizes, k)
    assert same_bits(results[0], plain[0])
    assert same_bits(results[1], plain[1])


@pytest.mark.parametrize("scaling", [{}, {"rope_type": "linear", "factor": 2.0}])
def test_in_the_place_of_transformers_module(device: str, scaling: dict[str, Any]) -> None:
    """A small random Qwen3: the same logits but for angles that theirs rounds to float32."""
    pytest.importorskip("transformers")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default", **scaling},
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).eval().to(device)
    tokens = torch.randint(0, 97, (2, 21), device=device)
    with torch.no_grad():
        expected = model(tokens).logits
        model.model.rotary_emb = ac4k.nn.RotaryEmbedding.from_config(config).to(device)
        result = model(tokens).logits
    assert (result - expected).abs().max() <= 1e-4 * expected.abs().max()
