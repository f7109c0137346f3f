"""RotaryEmbedding and RotaryEmbedding3D: kernels and plain PyTorch alike; in a model's place."""

from __future__ import annotations

import math
from types import SimpleNamespace
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


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own, in jvp
def test_forward_mode_goes_through_plain_pytorch(device: str) -> None:
    """A rotation is linear: its derivative along x is the rotation of x."""
    x = random(1, 3, 2, 8, dtype=torch.float32, device=device)
    rotary = ac4k.nn.RotaryEmbedding(8, 40).to(device)
    positions = torch.arange(3, device=device)[None]
    result, tangent = torch.func.jvp(lambda q: rotary(positions, q), (x,), (x,))
    assert torch.equal(result, tangent)
    grid = ac4k.nn.RotaryEmbedding3D(8).to(device)
    sizes = torch.tensor([[1, 1, 3]], device=device)
    result, tangent = torch.func.jvp(lambda q: grid(q, sizes), (x,), (x,))
    assert torch.equal(result, tangent)


def test_tables_outlive_to_empty(device: str) -> None:
    """No state dict brings them back; what to_empty() left was memory as it came."""
    rotary, grid = ac4k.nn.RotaryEmbedding(64, 40), ac4k.nn.RotaryEmbedding3D(64)
    tables = rotary.cos_sin.clone(), grid.table.clone()
    assert torch.equal(rotary.to_empty(device=device).cos_sin.cpu(), tables[0])
    assert torch.equal(grid.to_empty(device=device).table.cpu(), tables[1])


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


@pytest.mark.parametrize("name", ["Qwen3", "Llama"])
@pytest.mark.parametrize(
    "scaling",
    [{}, {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0}],
)
def test_in_the_place_of_transformers_module(
    device: str, name: str, scaling: dict[str, Any]
) -> None:
    """Small random models: the same logits but for angles that theirs rounds to float32."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(
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
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval().to(device)
    tokens = torch.randint(0, 97, (2, 21), device=device)
    with torch.no_grad():
        expected = model(tokens).logits
        model.model.rotary_emb = ac4k.nn.RotaryEmbedding.from_config(config).to(device)
        result = model(tokens).logits
    assert (result - expected).abs().max() <= 1e-4 * expected.abs().max()


def test_configurations_before_transformers_5() -> None:
    config = SimpleNamespace(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=40,
        rope_theta=1e6,
        partial_rotary_factor=0.5,
        rope_scaling={"type": "linear", "factor": 2.0},
    )
    rotary = ac4k.nn.RotaryEmbedding.from_config(config)
    table = ac4k.rope_table(16, 40, base=1e6, rotary_dim=8, scaling=config.rope_scaling)
    assert torch.equal(rotary.cos_sin, torch.from_numpy(table))
    config.rope_scaling = None
    rotary = ac4k.nn.RotaryEmbedding.from_config(config, max_position=7)
    table = ac4k.rope_table(16, 7, base=1e6, rotary_dim=8)
    assert torch.equal(rotary.cos_sin, torch.from_numpy(table))


@pytest.mark.parametrize("max_position", [512, 64])
def test_longrope_of_a_configuration(max_position: int) -> None:
    """Short tables have short factors and the attention factor of the longest text."""
    pytest.importorskip("transformers")
    from transformers import Phi3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = Phi3Config(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=512,
        original_max_position_embeddings=128,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0 + 0.1 * i for i in range(8)],
            "long_factor": [2.0 + i for i in range(8)],
        },
    )
    rotary = ac4k.nn.RotaryEmbedding.from_config(config, max_position=max_position)
    frequencies, factor = ROPE_INIT_FUNCTIONS["longrope"](config, seq_len=max_position)
    assert factor > 1
    angles = torch.arange(max_position)[:, None] * frequencies
    expected = torch.cat([angles.cos(), angles.sin()], -1) * factor
    torch.testing.assert_close(rotary.cos_sin, expected, rtol=1e-4, atol=1e-4)


def test_a_configuration_with_several_kinds_of_layers() -> None:
    """As Gemma 3 has: no table would be right for all of them."""
    kinds = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    config = SimpleNamespace(head_dim=16, max_position_embeddings=40, rope_parameters=kinds)
    with pytest.raises(ValueError, match="one for each of full_attention, sliding_attention"):
        ac4k.nn.RotaryEmbedding.from_config(config)
