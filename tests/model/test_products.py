"""Products with packed weights on the model: what random weights do not reach."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gpu import Gpu
from test_linear import packed_and_dense

import ac4k
from ac4k import _gguf_linear_reference as reference
from ac4k._formats import FORMATS

ROWS = 77  # a row tile and some of another
TOKENS = (1, 8, 16, 32, 64, 300)


def linear(gpu: Gpu, x: torch.Tensor, weight: ac4k.QuantTensor) -> torch.Tensor:
    out = torch.full((x.shape[0], ROWS), torch.nan, dtype=x.dtype)
    placed = [gpu.place(each, writable=each is out) for each in (x, weight.raw, out)]
    ac4k.quant_linear(placed[0], placed[1], N=ROWS, fmt=weight.format, out=placed[2])
    gpu.forget()
    return out


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_weights_of_few_bits_are_exact(gpu: Gpu, fmt: str, dtype: torch.dtype) -> None:
    columns = 320
    weight, dense = packed_and_dense(fmt, ROWS, columns)
    expected = torch.from_numpy(dense).T.to(dtype)
    for tokens in (*TOKENS, columns):
        x = torch.eye(columns, dtype=dtype)[columns - tokens :].contiguous()
        assert torch.equal(linear(gpu, x, weight), expected[columns - tokens :]), tokens


# Where scale and minimum, or their scales, stand in a block.
SCALES = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q2_k": (80, 82)}


@pytest.mark.parametrize("values", [(0, 0.01, -0.017), (0, -0.0, 6e-8, 1e-5, -0.02, 1, 300)])
@pytest.mark.parametrize("fmt", SCALES)
def test_scales_of_neighbours_may_be_anything(
    gpu: Gpu, fmt: str, values: tuple[float, ...]
) -> None:
    """Those of a block may be 0, of another sign, or larger than its neighbour's by powers of ten,
    and so may one of them beside the other."""
    generator = np.random.default_rng(5)
    columns = 1536
    blocks = columns // FORMATS[fmt].block_values
    shape = (ROWS, blocks, FORMATS[fmt].block_bytes)
    q = generator.integers(0, 256, shape, dtype=np.uint8)
    for at in SCALES[fmt]:
        scales = generator.choice(np.array(values, np.float16), (ROWS, blocks))
        q[..., at : at + 2] = scales.view(np.uint8).reshape(ROWS, blocks, 2)
    dense = reference.dequantize(q, fmt).astype(np.float64)
    weight = ac4k.pack(torch.from_numpy(q), fmt)
    for tokens in TOKENS:
        x = torch.randn(tokens, columns).to(torch.bfloat16)
        wide = x.double().numpy()
        error = np.abs(linear(gpu, x, weight).double().numpy() - wide @ dense.T)
        # Weights and results are rounded to eight bits.
        assert (error <= 2**-8 * (np.abs(wide) @ np.abs(dense).T)).all(), tokens
