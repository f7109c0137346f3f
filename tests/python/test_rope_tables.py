"""Tables of angles, and the ops with them: against Transformers and Wan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers import random
from rope_helpers import positions_of, table_of

import ac4k

_SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0, "original_max_position_embeddings": 256},
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512},
    "yarn with mscale": {
        "rope_type": "yarn",
        "factor": 40.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.8,
        "beta_fast": 16,
        "beta_slow": 2,
        "truncate": False,
        "original_max_position_embeddings": 512,
    },
    "yarn with attention_factor": {
        "rope_type": "yarn",
        "factor": 8.0,
        "attention_factor": 1.25,
        "original_max_position_embeddings": 512,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "longrope": {
        "rope_type": "longrope",
        "factor": 8.0,
        "short_factor": [1.0] * 32,
        "long_factor": [1.0 + 0.5 * i for i in range(32)],
        "original_max_position_embeddings": 512,
    },
    "longrope, short": {
        "rope_type": "longrope",
        "factor": 8.0,
        "short_factor": [1.0 + 0.02 * i for i in range(32)],
        "long_factor": [64.0] * 32,
        "original_max_position_embeddings": 1024,
    },
    "partial": {"rope_type": "default", "partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize("name", _SCALINGS)
def test_rope_table_agrees_with_transformers(name: str) -> None:
    """Theirs computes frequencies and angles in float32, which costs up to position * eps of an
    angle; ours are the same numbers from float64."""
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = dict(_SCALINGS[name])
    positions, base, dim = 600, 50000.0, 64
    table = ac4k.rope_table(dim, positions, base=base, scaling=scaling, dtype="float64")
    kind = scaling.get("rope_type", "default")
    if kind == "default":
        dim = int(dim * scaling.get("partial_rotary_factor", 1.0))
        frequencies = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        factor = 1.0
    else:
        config = LlamaConfig(
            hidden_size=128,
            num_attention_heads=2,
            max_position_embeddings=scaling.get("original_max_position_embeddings", positions),
            rope_parameters={"rope_theta": base, **scaling},
        )
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, seq_len=positions)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequencies.double()
    expected = torch.cat([angles.cos(), angles.sin()], -1) * factor
    assert table.shape == expected.shape
    # Frequencies of float32: some operations of relative error 2^-24, of pow up to a few.
    allowed = np.concatenate([angles.numpy()] * 2, 1) * 16 * 2.0**-24 * factor + 1e-6
    assert np.all(np.abs(table - expected.numpy()) <= allowed)


def test_rope_agrees_with_transformers(device: str) -> None:
    """In float32 bit for bit: both multiply, negate and add."""
    pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = random((2, 9, 4, 64), "f32", device, 1), random((2, 9, 2, 64), "f32", device, 2)
    positions, table = positions_of((2, 9), 100, device), table_of(64, 100, device)
    cos, sin = table[positions].chunk(2, -1)
    expected = apply_rotary_pos_emb(
        q, k, torch.cat([cos, cos], -1), torch.cat([sin, sin], -1), unsqueeze_dim=2
    )
    results = ac4k.rope(q, positions, table, k)
    assert torch.equal(results[0], expected[0])
    assert torch.equal(results[1], expected[1])


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_mrope_agrees_with_transformers(device: str, model: str) -> None:
    pytest.importorskip("transformers")
    import importlib

    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    rotary: Any = (
        module.Qwen2VLRotaryEmbedding if model == "qwen2_vl" else module.Qwen3VLTextRotaryEmbedding
    )
    sections = [16, 24, 24] if model == "qwen2_vl" else [24, 20, 20]
    table, positions = table_of(128, 100, device), positions_of((3, 14), 100, device)
    q = random((2, 7, 4, 128), "f32", device)
    halves = []
    for half in table[positions.view(3, 2, 7)].chunk(2, -1):  # [3, 2, 7, 64]
        self = type("Rotary", (), {"mrope_section": sections})()
        halves.append(rotary.recomposition_frequencies(self, half.clone()))
    expected, _ = module.apply_rotary_pos_emb(q, q, *halves, unsqueeze_dim=2)
    result = ac4k.mrope(
        q,
        positions,
        table,
        section_t=sections[0],
        section_h=sections[1],
        section_w=sections[2],
        interleaved_sections=model == "qwen3_vl",
    )
    assert torch.equal(result, expected)


def test_rope_3d_table_is_wans() -> None:
    """Their rope_params in float64; pow, cos and sin of two libraries differ in their last bits,
    and a last bit of a frequency counts position times."""

    def rope_params(length: int, dim: int) -> torch.Tensor:
        exponents = torch.arange(0, dim, 2).to(torch.float64).div(dim)
        freqs = torch.outer(torch.arange(length), 1.0 / torch.pow(10000, exponents))
        return torch.polar(torch.ones_like(freqs), freqs)

    expected = torch.cat([rope_params(1024, dim) for dim in (44, 42, 42)], dim=1)
    table = ac4k.rope_3d_table(128)
    assert table.dtype == np.float64
    assert np.abs(table - torch.view_as_real(expected).numpy()).max() < 1024 * 2.0**-52


def test_tables_come_as_asked(device: str) -> None:
    assert isinstance(ac4k.rope_table(8, 4), np.ndarray)
    table = ac4k.rope_table(8, 4, device=device)
    assert isinstance(table, torch.Tensor)
    assert table.device.type == torch.device(device).type
    like = ac4k.rope_3d_table(8, 4, like=table)
    assert like.device == table.device
    assert like.dtype == torch.float64
    assert ac4k.rope_table(8, 4, rotary_dim=4).shape == (4, 4)
    assert isinstance(ac4k.rope_table(8, 4, like=np.zeros(1)), np.ndarray)


def test_tables_refuse() -> None:
    with pytest.raises(ValueError, match="even rotary_dim up to head_dim = 8, got 10"):
        ac4k.rope_table(8, 4, rotary_dim=10)
    with pytest.raises(ValueError, match=r"expected rope_type default, linear.*got 'none'"):
        ac4k.rope_table(8, 4, scaling={"rope_type": "none"})
    with pytest.raises(ValueError, match="rope_type 'yarn' needs 'original_max_position_embedd"):
        ac4k.rope_table(8, 4, scaling={"rope_type": "yarn", "factor": 2.0})
    longrope = {"rope_type": "longrope", "original_max_position_embeddings": 8}
    with pytest.raises(ValueError, match=r"expected 4 numbers in short_factor.*got 3"):
        ac4k.rope_table(8, 4, scaling={**longrope, "short_factor": [1, 2, 3]})
    with pytest.raises(ValueError, match="rope_type 'longrope' needs 'factor'"):
        ac4k.rope_table(8, 4, scaling={**longrope, "short_factor": [1, 2, 3, 4]})
    with pytest.raises(ValueError, match="expected max_position >= 0, got -1"):
        ac4k.rope_3d_table(8, -1)
    with pytest.raises(ValueError, match="at most 4 height_pairs and width_pairs"):
        ac4k.rope_3d_table(8, height_pairs=3, width_pairs=3)
