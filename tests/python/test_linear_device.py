"""linear on the device under test: token counts and sizes that choose each of its kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from test_linear import NMSE, nmse, packed_and_dense

import ac4k
from ac4k import _gguf_linear_reference as reference
from ac4k._formats import FORMATS, WEIGHT_FORMATS
from ac4k.packed_linear import packed_block_shape

DTYPES = tuple(NMSE)
# Each side of the borders between kernels, their tiles and the splits of K.
TOKENS = (1, 3, 8, 9, 16, 17, 33, 65, 129, 300)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def limit_of(limit: float, count: int) -> float:
    """For the mean of `count` squared errors: three standard deviations, sqrt(2 / count) each."""
    return float(limit * (1 + 3 * math.sqrt(2 / count)))


def columns_of(fmt: str, blocks: int) -> int:
    return FORMATS[fmt].block_values * blocks


@pytest.mark.parametrize("fmt", WEIGHT_FORMATS)
def test_accuracy(device: str, fmt: str) -> None:
    """A row tile and a few rows, columns that end within a tile and a split."""
    columns = columns_of(fmt, 9 if FORMATS[fmt].block_values > 64 else 45)
    w, dense = packed_and_dense(fmt, 77, columns, device)
    for dtype, limit in NMSE.items():
        for tokens in TOKENS:
            x = (torch.randn(tokens, columns) / 16).to(dtype)  # sums stay within float16
            expected = x.double().numpy() @ dense.T
            bias = None
            if tokens % 2:
                bias = torch.randn(77).to(dtype)
                expected = expected + bias.double().numpy()
                bias = bias.to(device)
            out = torch.full((tokens, 77), torch.nan, dtype=dtype, device=device)
            ac4k.linear(x.to(device), w, bias, out=out)
            assert nmse(out, expected) < limit_of(limit, out.numel()), (dtype, tokens)
            again = ac4k.linear(x.to(device), w, bias)
            assert torch.equal(out, again), (dtype, tokens)


@pytest.mark.parametrize("fmt", ["q4_0", "q4_k"])
@pytest.mark.parametrize(
    ("rows", "columns", "tokens"), [(8448, 256, 1024), (256, 14336, 5), (64, 8192, 40)]
)
def test_sizes_of_models(device: str, fmt: str, rows: int, columns: int, tokens: int) -> None:
    """The largest tile, K in many splits."""
    w, dense = packed_and_dense(fmt, rows, columns, device)
    x = torch.randn(tokens, columns).to(torch.bfloat16)
    expected = (x.double() @ torch.from_numpy(dense).double().T).numpy()
    assert nmse(ac4k.linear(x.to(device), w), expected) < NMSE[torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_weights_of_few_bits_are_exact(device: str, fmt: str, dtype: torch.dtype) -> None:
    """Code times scale has six bits at most, whatever the scale: products with 1 show them all."""
    columns = 320
    w, dense = packed_and_dense(fmt, 77, columns, device)
    expected = torch.from_numpy(dense).T.to(dtype)
    for tokens in (1, 8, 16, 32, 64, columns):
        x = torch.eye(columns, dtype=dtype, device=device)[columns - tokens :]
        assert torch.equal(ac4k.linear(x, w).cpu(), expected[columns - tokens :]), tokens


# Where scale and minimum, or their scales, stand in a block.
SCALES = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q2_k": (80, 82)}


@pytest.mark.parametrize("values", [(0, 0.01, -0.017), (0, -0.0, 6e-8, 1e-5, -0.02, 1, 300)])
@pytest.mark.parametrize("fmt", SCALES)
def test_scales_of_neighbours_may_be_anything(
    device: str, fmt: str, values: tuple[float, ...]
) -> None:
    """Those of a block may be 0, of another sign, or larger than its neighbour's by powers of ten,
    and so may one of them beside the other."""
    generator = np.random.default_rng(5)
    rows, columns = 77, 1536
    blocks = columns // FORMATS[fmt].block_values
    q = generator.integers(0, 256, (rows, blocks, FORMATS[fmt].block_bytes), dtype=np.uint8)
    for at in SCALES[fmt]:
        scales = generator.choice(np.array(values, np.float16), (rows, blocks))
        q[..., at : at + 2] = scales.view(np.uint8).reshape(rows, blocks, 2)
    dense = reference.dequantize(q, fmt).astype(np.float64)
    w = ac4k.pack(torch.from_numpy(q), fmt).to(device)
    for tokens in (1, 8, 16, 32, 64, 300):
        x = torch.randn(tokens, columns).to(torch.bfloat16)
        wide = x.double().numpy()
        result = ac4k.linear(x.to(device), w).double().cpu().numpy()
        # Weights, their scales and results are rounded to eight bits, by 2^-9 at most each; that
        # all of it is at its largest and of one sign does not happen among so many.
        limit = 2**-9 * (np.abs(wide) @ np.abs(dense).T)
        assert (np.abs(result - wide @ dense.T) <= limit).all(), tokens


@pytest.mark.parametrize("fmt", ["q4_0", "q4_1", "q2_k", "q4_k", "q6_k"])
def test_every_config_multiplies(device: str, fmt: Any) -> None:
    """Kernels for few tokens and for many, each tile and split; "auto" is one of them.

    So many rows that the mean of the errors hardly depends on the numbers drawn."""
    columns = 1536
    w, dense = packed_and_dense(fmt, 525, columns, device)
    weight = w.raw.reshape(9, *packed_block_shape(fmt, columns))
    for tokens in (1, 9, 30, 70, 600):
        names = ac4k.quant_linear_configs(fmt, tokens, 525, columns, device)
        assert names[0] == "auto"
        assert (len(names) > 1) == (device == "cuda")
        x = torch.randn(tokens, columns).to(torch.bfloat16)
        expected = x.double().numpy() @ dense.T
        for config, name in enumerate(names):
            out = torch.full((tokens, 525), torch.nan, dtype=x.dtype, device=device)
            ac4k.quant_linear(x.to(device), weight, N=525, fmt=fmt, config=config, out=out)
            assert nmse(out, expected) < NMSE[torch.bfloat16], name
        with pytest.raises(ValueError, match="quant_linear: argument 'config': expected"):
            ac4k.quant_linear(x.to(device), weight, N=525, fmt=fmt, config=len(names))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [2, 20])
def test_tokens_do_not_meet(device: str, tokens: int, dtype: torch.dtype) -> None:
    """NaN and infinities stay with their token, also in the columns behind an odd K."""
    w, _ = packed_and_dense("q5_0", 66, 32 * 3, device)
    x = torch.randn(tokens, 96).to(dtype).to(device)
    clean = ac4k.linear(x, w)
    x[0] = torch.nan
    result = ac4k.linear(x, w)
    assert result[0].isnan().all()
    assert torch.allclose(result[1:].float(), clean[1:].float(), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_over_each_other(device: str, dtype: torch.dtype) -> None:
    """Which tensor copies do not take."""
    w, _ = packed_and_dense("q8_0", 96, 128, device)
    numbers = torch.randn(1024, device=device).to(dtype)
    for stride in (0, 32, 8, 160):
        x = numbers.as_strided((5, 128), (stride, 1))
        # Exact products and float32 sums in another order, rounded to the dtype.
        expected, rounding = ac4k.linear(x.clone(), w), torch.finfo(dtype).eps
        assert torch.allclose(ac4k.linear(x, w), expected, rtol=2 * rounding, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [0, 64])
def test_no_columns(device: str, dtype: torch.dtype, stride: int) -> None:
    """Sums of nothing, wherever the rows are."""
    bias = torch.randn(96, device=device).to(dtype)
    weight = torch.empty(2, 0, 64 * 68, dtype=torch.uint8, device=device)
    for tokens in (1, 4, 40):
        x = torch.zeros(tokens, 64, device=device).to(dtype).as_strided((tokens, 0), (stride, 1))
        out = ac4k.quant_linear(x, weight, bias, N=96, fmt="q8_0")
        assert torch.equal(out, bias.expand(tokens, 96))


def test_capture(device: str) -> None:
    if device != "cuda":
        pytest.skip("graphs are CUDA's")
    w, _ = packed_and_dense("q4_0", 128, 256, device)
    x = torch.randn(4, 256, device=device).to(torch.bfloat16)
    expected = ac4k.linear(x, w)
    out = torch.empty_like(expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ac4k.linear(x, w, out=out)
    out.zero_()
    graph.replay()
    assert torch.equal(out, expected)


def test_a_chain_of_products_in_two_parts(device: str) -> None:
    """A product in two launches is done when both are, for the next one that starts early."""
    if device != "cuda":
        pytest.skip("launches are CUDA's")
    tokens, size = 600, 8448
    w, _ = packed_and_dense("q4_0", size, size, device)
    weight = w.raw.reshape(-1, *packed_block_shape("q4_0", size))
    names = ac4k.quant_linear_configs("q4_0", tokens, size, size, device)
    config = next(i for i, name in enumerate(names) if name.endswith("rest1"))
    x = torch.randn(tokens, size, device=device).to(torch.bfloat16)

    def chain() -> torch.Tensor:
        y = x
        for _ in range(4):
            y = ac4k.rms_norm(y, None)
            y = ac4k.quant_linear(y, weight, N=size, fmt="q4_0", config=config)
        return y

    expected = chain()
    assert expected.isfinite().all()
    with ac4k.dependent_launch():
        for _ in range(5):
            assert torch.equal(chain(), expected)
