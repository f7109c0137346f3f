"""gemm_<fmt>_q8_1: products of raw GGUF blocks, on every CPU level and on the device under test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import ac4k
from ac4k import _gguf_linear_reference as reference
from ac4k._formats import FORMATS

FORMATS_HERE = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
# Each side of the borders between the tiles of a GPU.
TOKENS = (1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 130)


def random_blocks(fmt: str, rows: int, blocks: int, seed: int = 0) -> np.ndarray:
    """All codes, -128 among them; scales of about 1."""
    rng = np.random.default_rng(seed)
    q = rng.integers(0, 256, (rows, blocks, FORMATS[fmt].block_bytes), np.uint8)
    for at in (0, 2) if fmt in ("q4_1", "q5_1", "q8_1") else (0,):
        scale = rng.uniform(-1, 1, (rows, blocks, 1))
        q[..., at : at + 2] = scale.astype(np.float16).view(np.uint8)
    return q


def product(fmt: str, w: torch.Tensor, a: torch.Tensor, **options: object) -> torch.Tensor:
    return getattr(ac4k, f"gemm_{fmt}_q8_1")(
        w, a, w.shape[0], a.shape[0], w.shape[1] * 32, **options
    )


@pytest.mark.parametrize("fmt", FORMATS_HERE)
def test_accuracy_on_every_level(level: str, fmt: str) -> None:
    # Rows and activations left over from 16 and 8 at a time, blocks from 8, 16 and 64; the last has
    # more activations than pass by in one go.
    sizes = ((1, 1, 1), (17, 5, 3), (33, 1, 7), (40, 6, 11), (3, 4, 33), (21, 15, 67), (70, 523, 2))
    for M, N, blocks in sizes:
        w, a = random_blocks(fmt, M, blocks), random_blocks("q8_1", N, blocks, seed=1)
        expected, _ = reference.gemm_q8_1(fmt, w, a, M, N, blocks * 32)
        got = product(fmt, torch.from_numpy(w), torch.from_numpy(a)).double().numpy()
        assert ((got - expected) ** 2).sum() / (expected**2).sum() < 1e-10


def nmse(got: torch.Tensor, expected: np.ndarray) -> float:
    difference = got.cpu().double().numpy() - expected
    return float((difference**2).sum() / (expected**2).sum())


@pytest.mark.parametrize("fmt", FORMATS_HERE)
def test_every_number_of_tokens(device: str, fmt: str) -> None:
    """Rows that end within a tile; blocks that end within a step, aligned to 16 bytes or not."""
    for blocks in (45, 48, 50):
        w, a = random_blocks(fmt, 131, blocks), random_blocks("q8_1", TOKENS[-1], blocks, seed=1)
        a[..., 2:4] = np.frombuffer(np.float16(np.inf).tobytes(), np.uint8)  # not to be read
        expected, _ = reference.gemm_q8_1(fmt, w, a, 131, TOKENS[-1], blocks * 32)
        w_q, a_q = torch.from_numpy(w).to(device), torch.from_numpy(a).to(device)
        for tokens in TOKENS:
            out = torch.full((131, tokens), torch.nan, device=device)
            product(fmt, w_q, a_q[:tokens], out=out)
            assert nmse(out, expected[:, :tokens]) < 1e-10, (blocks, tokens)
            assert torch.equal(out, product(fmt, w_q, a_q[:tokens])), (blocks, tokens)


@pytest.mark.parametrize("fmt", FORMATS_HERE)
@pytest.mark.parametrize(
    ("rows", "tokens", "blocks"), [(16, 3, 448), (40, 12, 200), (64, 30, 130), (130, 140, 72)]
)
def test_few_rows_split_their_columns(
    device: str, fmt: str, rows: int, tokens: int, blocks: int
) -> None:
    w, a = random_blocks(fmt, rows, blocks), random_blocks("q8_1", tokens, blocks, seed=1)
    expected, _ = reference.gemm_q8_1(fmt, w, a, rows, tokens, blocks * 32)
    got = product(fmt, torch.from_numpy(w).to(device), torch.from_numpy(a).to(device))
    assert nmse(got, expected) < 1e-10


@pytest.mark.parametrize("offset", [1, 2, 4, 16])
@pytest.mark.parametrize("tokens", [2, 20])
def test_any_address(device: str, offset: int, tokens: int) -> None:
    w, a = random_blocks("q5_0", 40, 16), random_blocks("q8_1", tokens, 16, seed=1)
    expected, _ = reference.gemm_q8_1("q5_0", w, a, 40, tokens, 512)

    def moved(blocks: np.ndarray) -> torch.Tensor:
        place = torch.zeros(blocks.size + offset, dtype=torch.uint8, device=device)
        place[offset:] = torch.from_numpy(blocks).to(device).flatten()
        return place[offset:].view(blocks.shape)

    assert nmse(product("q5_0", moved(w), moved(a)), expected) < 1e-10


def test_tokens_do_not_meet(device: str) -> None:
    """A scale that is no number stays with its row or token."""
    w, a = random_blocks("q4_1", 20, 5), random_blocks("q8_1", 11, 5)
    clean = product("q4_1", torch.from_numpy(w).to(device), torch.from_numpy(a).to(device))
    nan = np.frombuffer(np.float16(np.nan).tobytes(), np.uint8)
    w[3, 2, :2] = a[5, 4, :2] = nan
    got = product("q4_1", torch.from_numpy(w).to(device), torch.from_numpy(a).to(device))
    assert got[3].isnan().all()
    assert got[:, 5].isnan().all()
    rows, tokens = np.arange(20) != 3, np.arange(11) != 5
    assert torch.equal(got[rows][:, tokens], clean[rows][:, tokens])


def test_capture(device: str) -> None:
    if device != "cuda":
        pytest.skip("graphs are CUDA's")
    w = torch.from_numpy(random_blocks("q8_0", 64, 64)).to(device)
    a = torch.from_numpy(random_blocks("q8_1", 40, 64)).to(device)
    expected = product("q8_0", w, a)
    out = torch.empty_like(expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product("q8_0", w, a, out=out)
    out.zero_()
    graph.replay()
    assert torch.equal(out, expected)


@pytest.mark.parametrize("fmt", FORMATS_HERE)
def test_extreme_codes_do_not_overflow(level: str, fmt: str) -> None:
    w, a = np.full_like(random_blocks(fmt, 2, 2), 0xFF), random_blocks("q8_1", 2, 2)
    w[..., :2] = a[..., :2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    if fmt in ("q4_1", "q5_1"):
        w[..., 2:4] = 0
    for code in (0x80, 0x7F):
        a[..., 4:] = code
        expected, _ = reference.gemm_q8_1(fmt, w, a, 2, 2, 64)
        got = product(fmt, torch.from_numpy(w), torch.from_numpy(a))
        assert np.array_equal(got.double().numpy(), expected)


def test_threads_out_and_empty(device: str) -> None:
    w = torch.from_numpy(random_blocks("q5_1", 70, 9)).to(device)
    a = torch.from_numpy(random_blocks("q8_1", 9, 9)).to(device)
    result = product("q5_1", w, a)
    ac4k.set_num_threads(1)
    try:
        out = torch.full((70, 9), torch.nan, device=device)
        assert product("q5_1", w, a, out=out) is out
        assert torch.equal(out, result)
    finally:
        ac4k.set_num_threads(0)
    assert product("q5_1", w[:0], a).shape == (0, 9)


@pytest.mark.parametrize("tokens", [1, 9])
def test_no_columns(device: str, tokens: int) -> None:
    """In a thread that has not multiplied before, and so has no scratch memory yet."""
    w = torch.empty(70, 0, 24, dtype=torch.uint8, device=device)
    a = torch.empty(tokens, 0, 36, dtype=torch.uint8, device=device)
    out = torch.full((70, tokens), torch.nan, device=device)
    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(product, "q5_1", w, a, out=out).result()
    assert not out.any()


def test_agrees_with_dequantised_operands_of_the_quantiser() -> None:
    """What people run: weights and activations that were quantised from numbers."""
    x, w = torch.randn(3, 96), torch.randn(5, 96)
    a_q, w_q = ac4k.quantize_q8_1(x), ac4k.quantize_q4_0(w)
    expected = ac4k.dequantize_q4_0(w_q).double() @ ac4k.dequantize_q8_1(a_q).double().T
    got = product("q4_0", w_q, a_q).double()
    assert ((got - expected) ** 2).sum() / (expected**2).sum() < 1e-10


def test_refusals() -> None:
    w = torch.zeros(2, 3, 18, dtype=torch.uint8)
    a = torch.zeros(4, 3, 36, dtype=torch.uint8)
    with pytest.raises(ValueError, match="gemm_q4_0_q8_1: argument"):
        ac4k.gemm_q4_0_q8_1(w, a, 2, 4, 64)
    with pytest.raises(ValueError, match="gemm_q4_0_q8_1: argument"):
        ac4k.gemm_q4_0_q8_1(w, a, 3, 4, 96)
    with pytest.raises(TypeError, match="gemm_q4_0_q8_1: argument 'weight_q'"):
        ac4k.gemm_q4_0_q8_1(w.float(), a, 2, 4, 96)
